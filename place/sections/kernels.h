/*
 * Synthetic sections: work with a known footprint, to calibrate the occupancy probe, and to build test servers of.
 *
 * What they are not for: they allocate nothing while they run, keep no statistics, and know nothing of libsplit.
 *
 * A pass visits each 64-byte line of its memory once. The order of random passes is a permutation that is computed, not stored:
 * nothing but the data itself takes room in a cache, no pointer lies in memory for a prefetcher to follow, and any piece of memory
 * will do without being prepared. Thread-safe: several threads may pass over the same memory (STREAM_WRITE too: all write the same).
 */
#ifndef SECTION_KERNELS_H
#define SECTION_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECTION_LINE 64

enum section_shape {
  SECTION_CHASE =
      0,          /* each load's address depends on the load before: random order, latency bound */
  SECTION_GATHER, /* independent loads, random order */
  SECTION_STREAM, /* reads from front to end */
  SECTION_STREAM_WRITE, /* writes from front to end */
};
#define SECTION_SHAPES 4

/* Returns "chase", "gather", "stream" or "write"; NULL if there is no such shape. */
const char *section_shape_name(enum section_shape shape);
/* Makes one pass over `bytes` of `memory`. The first word of each line must be 0 and stays so:
 * it is added to addresses to make them depend on it. Returns a sum that is always 0, which the
 * compiler cannot know. */
uint64_t section_pass(enum section_shape shape, void *memory, size_t bytes, uint64_t seed);

/* Memory for passes: zeroed, touched, in 4 KB pages if the kernel allows the choice (as the
 * heaps of most servers are). */
struct section_arena {
  char *memory;
  size_t bytes;
  size_t next;
};
bool section_arena_open(struct section_arena *arena, size_t bytes);
void section_arena_close(struct section_arena *arena);
/* Returns the next `bytes` of the arena, from the front again after its end: data that a cache
 * smaller than the arena no longer holds. NULL: the arena is smaller than that. */
void *section_arena_fresh(struct section_arena *arena, size_t bytes);

/* A shape with memory of its own, which stays in the cache if it fits. NULL: no memory. */
struct section_kernel;
struct section_kernel *section_kernel_open(enum section_shape shape, size_t bytes, uint64_t seed);
uint64_t section_kernel_run(const struct section_kernel *kernel, unsigned passes);
void section_kernel_close(struct section_kernel *kernel);

#endif
