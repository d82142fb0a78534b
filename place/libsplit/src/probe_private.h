/*
 * How lines of the probe are addressed, loaded and timed: shared by counting and by the search for
 * sets.
 */
#ifndef SPLIT_PROBE_PRIVATE_H
#define SPLIT_PROBE_PRIVATE_H

#include "probe.h"

#define SPLIT_PROBE_FILE "probe.segment"
#define SPLIT_PROBE_LINES 64 /* of a page */

/* If the clock's steps are as long as the difference of a miss and a hit (10 ns on AMD EPYC),
 * the time of a single load is meaningless. Then chains of dependent loads are timed and their
 * times summed: they begin anywhere within a step. The time of the measurement itself varies by
 * 12 cycles from one moment to the next, a tenth of the extra time of a chain of misses: it is
 * measured with each chain, by one that never leaves L1. */
#define SPLIT_PROBE_CHAIN 4
struct split_probe_chains {
  uint32_t count, cycles, itself;
};
/* Cycles of a chain, including the measurement. */
uint32_t split_probe_timed_chain(const unsigned char *const line[SPLIT_PROBE_CHAIN]);
/* The same for a chain that stays in L1. */
uint32_t split_probe_timed_nothing(void);
/* Times a chain, and the measurement itself. Sums have room for millions. */
static inline void split_probe_chains_time(struct split_probe_chains *chains,
                                           const struct split_probe_timing *timing,
                                           const unsigned char *const line[SPLIT_PROBE_CHAIN]) {
  const uint32_t cycles = split_probe_timed_chain(line), itself = split_probe_timed_nothing();
  chains->count++;
  chains->cycles += cycles < timing->most ? cycles : timing->most;
  chains->itself += itself < cycles ? itself : cycles; /* longer times include an interrupt */
}
/* Number of their loads that missed L2. */
uint32_t split_probe_chains_gone(const struct split_probe_chains *chains,
                                 const struct split_probe_timing *timing);

struct split_probe {
  const unsigned char *pages; /* the first page of the file after the header */
  void *mapped;
  size_t mapped_size;
  struct split_probe_header header; /* a copy, which cannot change after it was checked */
  /* Of `page` and `line`, in bytes: see split_probe_line. */
  uint32_t offset[SPLIT_PROBE_COLOURS_MAX][SPLIT_PROBE_WAYS_MAX + 1];
};

/* NULL if this processor can time differences of a few nanoseconds; otherwise the reason why
 * not. */
const char *split_probe_clock_problem(void);

/* Checks that this header fits a file of this size: NULL, or the reason why not. */
const char *split_probe_header_problem(const struct split_probe_header *header, uint64_t file_size);
/* A view of pages that are mapped already; `header` was checked. */
void split_probe_view(struct split_probe *probe, const struct split_probe_header *header,
                      const unsigned char *pages);
/* "" if it cannot be read. */
void split_probe_boot_id(char boot_id[40]);

/* The line of this way in the set of line `line`. */
static inline const unsigned char *split_probe_line(const unsigned char *pages, uint32_t offset,
                                                    uint32_t line) {
  return pages + (offset ^ line * SPLIT_LINE);
}

static inline void split_probe_load(const unsigned char *line) {
  (void)*(const volatile uint32_t *)line;
}

/* Cycles of one load, including the measurement. */
uint32_t split_probe_timed_load(const unsigned char *line);
/* The same for a single load: code that has not run for a while is slow by as much as half a
 * miss, so it is run on another line first. */
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
