/*
 * Measures whether the processors' L2 caches are separate and undisturbed at the moment. In a virtual machine the other thread of a core may
 * run another guest, or be this guest's next processor. Then lines that placement keeps in a cache are evicted before they are used, or there
 * is only one cache, under every placement and whatever the kernel reports: libsplit/src/probe_discover_neighbours.c.
 */
#ifndef SECTION_CALM_H
#define SECTION_CALM_H

struct split_probe;

/* Shares of the lines of L2 that were evicted in 200 us, 0 to 1: the median of three measurements of a cache, the largest over the caches.
 * One processor of each L2 (as the kernel reports them) that this thread may use is measured, at most 16. 1 if there was none. */
struct section_calm {
  double by_strangers; /* while no processor of this program ran */
  double
      by_ours; /* while those of the other caches streamed, including disturbance by other programs */
};
struct section_calm section_calm(const struct split_probe *probe);

#endif
