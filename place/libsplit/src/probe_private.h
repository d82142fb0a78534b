/*
 * How lines of the probe are addressed, loaded and timed: for those who count, and those who find the sets.
 */
#ifndef SPLIT_PROBE_PRIVATE_H
#define SPLIT_PROBE_PRIVATE_H

#include "probe.h"

#define SPLIT_PROBE_FILE "probe.segment"
#define SPLIT_PROBE_LINES 64 /* of a page */

/* Where the clock goes in steps as long as a miss is longer than a hit (10 ns on AMD EPYC), the time of a load says nothing. Chains of
 * loads, each of which waits for the one before, are timed there, and their times summed up: they begin anywhere within a step. What
 * the measurement itself takes changes from one moment to the next by 12 cycles, a tenth of what a chain of misses takes longer: it is
 * measured beside each chain, by one that never leaves L1. */
#define SPLIT_PROBE_CHAIN 4
struct split_probe_chains {
  uint32_t count, cycles, itself;
};
/* Cycles of a chain, those of the measurement included. */
uint32_t split_probe_timed_chain(const unsigned char *const line[SPLIT_PROBE_CHAIN]);
/* The same of a chain that stays in L1. */
uint32_t split_probe_timed_nothing(void);
/* Times a chain, and nothing. Sums have room for millions. */
static inline void split_probe_chains_time(struct split_probe_chains *chains,
                                           const struct split_probe_timing *timing,
                                           const unsigned char *const line[SPLIT_PROBE_CHAIN]) {
  const uint32_t cycles = split_probe_timed_chain(line), itself = split_probe_timed_nothing();
  chains->count++;
  chains->cycles += cycles < timing->most ? cycles : timing->most;
  chains->itself += itself < cycles ? itself : cycles; /* an interrupt is not what it takes */
}
/* How many of their loads left L2. */
uint32_t split_probe_chains_gone(const struct split_probe_chains *chains,
                                 const struct split_probe_timing *timing);

struct split_probe {
  const unsigned char *pages; /* the first page of the file behind the header */
  void *mapped;
  size_t mapped_size;
  struct split_probe_header header; /* a copy: what was checked cannot change any more */
  /* Of `page` and `line`, in bytes: see split_probe_line. */
  uint32_t offset[SPLIT_PROBE_COLOURS_MAX][SPLIT_PROBE_WAYS_MAX + 1];
};

/* Can this processor tell times that differ by a few nanoseconds? NULL if so, else why not. */
const char *split_probe_clock_problem(void);

/* Checks that this header fits a file of this size: NULL, or the reason why not. */
const char *split_probe_header_problem(const struct split_probe_header *header, uint64_t file_size);
/* A view of pages that are mapped already; `header` was checked. */
void split_probe_view(struct split_probe *probe, const struct split_probe_header *header,
                      const unsigned char *pages);
/* "" if it cannot be read. */
void split_probe_boot_id(char boot_id[40]);

/* The line of this way that belongs to the set of line `line`. */
static inline const unsigned char *split_probe_line(const unsigned char *pages, uint32_t offset,
                                                    uint32_t line) {
  return pages + (offset ^ line * SPLIT_LINE);
}

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
