/*
 * How lines of the probe are addressed, loaded and timed: for those who count, and those who find the sets.
 */
#ifndef SPLIT_PROBE_PRIVATE_H
#define SPLIT_PROBE_PRIVATE_H

#include "probe.h"

#define SPLIT_PROBE_FILE "probe.segment"
#define SPLIT_PROBE_LINES 64 /* of a page */

struct split_probe {
  const unsigned char *pages; /* the first page of the file behind the header */
  void *mapped;
  size_t mapped_size;
  struct split_probe_header header; /* a copy: what was checked cannot change any more */
  uint32_t offset[SPLIT_PROBE_COLOURS_MAX][SPLIT_PROBE_WAYS_MAX + 1]; /* of `page`, in bytes */
};

/* Can this processor tell times that differ by a few nanoseconds? NULL if so, else why not. */
const char *split_probe_clock_problem(void);

/* Is this header one that can be used with a file of so many bytes? NULL if so, else why not. */
const char *split_probe_header_problem(const struct split_probe_header *header, uint64_t file_size);
/* A view of pages that are mapped already; `header` was checked. */
void split_probe_view(struct split_probe *probe, const struct split_probe_header *header,
                      const unsigned char *pages);
/* "" if it cannot be read. */
void split_probe_boot_id(char boot_id[40]);

static inline void split_probe_load(const unsigned char *line) {
  (void)*(const volatile uint32_t *)line;
}

/* Cycles of one load, those of the measurement included. */
uint32_t split_probe_timed_load(const unsigned char *line);
/* The same where it is not one of many: code that has not run for a while is slow itself, by as much as half a miss, so that it is run
 * on another line before. */
static inline uint32_t split_probe_timed_load_alone(const unsigned char *line) {
  const unsigned char warm[4] = {0};
  (void)split_probe_timed_load(warm);
  return split_probe_timed_load(line);
}

#if defined(__x86_64__)
static inline void split_probe_fence(void) { __asm__ volatile("lfence" ::: "memory"); }
static inline uint64_t split_probe_cycles(void) {
  uint32_t low, high;
  __asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high)::"memory");
  return (uint64_t)high << 32 | low;
}
#else /* never called: split_probe_clock_problem refuses such machines */
static inline void split_probe_fence(void) {}
static inline uint64_t split_probe_cycles(void) { return 0; }
#endif

#endif
