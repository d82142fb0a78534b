/*
 * Are the processors' L2 caches ours at the moment, and each another one? In a virtual machine the other thread of a core may be a
 * stranger's, or our own next processor. What placement keeps in a cache is then gone before it is used, or there is but one cache to
 * keep it in, whoever decides and whatever the kernel knows: libsplit/src/probe_discover_neighbours.c.
 */
#ifndef SECTION_CALM_H
#define SECTION_CALM_H

struct split_probe;

/* Shares of the lines of L2 that went in 200 us, 0 to 1: the median of three looks at a cache, of the caches the largest. Looked at is
 * a processor of each L2 (as the kernel has them) that this thread may use, of 16 at most. 1 if there was none. */
struct section_calm {
  double by_strangers; /* while no processor of ours did anything */
  double by_ours; /* while those of the other caches streamed: what strangers do comes on top */
};
struct section_calm section_calm(const struct split_probe *probe);

#endif
