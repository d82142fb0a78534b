/*
 * How the analyzer finds full sets, by file: time (times of hits and misses), blurred (the same if
 * the clock advances in steps), colours (which pages share sets), pages (the same if the clock
 * advances in steps), calibrate (the meaning of a share), neighbours (who else displaces lines),
 * publish (the file). Not part of what servers load.
 */
#ifndef SPLIT_PROBE_DISCOVER_H
#define SPLIT_PROBE_DISCOVER_H

#include "probe_private.h"

struct split_random {
  uint64_t state; /* never 0 */
};
uint64_t split_random_next(struct split_random *random);
void split_random_shuffle(struct split_random *random, uint16_t *numbers, uint32_t count);

uint64_t split_discover_now_ns(void);
/* Context switches of this thread so far: measurements across one are discarded. */
uint64_t split_discover_switches(void);

/* L2's geometry by CPUID, or a guess without it. Only a starting point: sizes are bounded, ways
 * are measured. */
struct split_geometry {
  uint32_t ways;
  uint32_t kilobytes;
};
struct split_geometry split_discover_geometry(void);

/* Pages among which sets are searched. */
struct split_pool {
  const unsigned char *pages; /* all zero, mapped, each with its own memory */
  uint32_t count;
  uint32_t ways; /* expected */
  struct split_probe_timing timing;
  uint32_t line; /* the line of pages that is used */
  /* Cycles of one step of the clock, if they are too many to time single loads: then chains are
   * timed; else 0. */
  uint32_t step;
  const unsigned char *elsewhere; /* with chains: other pages, see split_discover_elsewhere */
  uint64_t deadline_ns;
  struct split_random random;
};

/* Sets `step` of the pool. The second function: the step of a clock that measured these times of
 * hits, from the shortest to the longest; 0: none. */
void split_discover_find_step(struct split_pool *pool);
uint32_t split_discover_clock_step(const uint32_t *sorted, uint32_t count);

/* Finds the limit between L2 hits and misses; limit 0: they cannot be separated, or the pages
 * fit into the cache. */
struct split_probe_timing split_discover_timing(struct split_pool *pool);

/* A histogram of the cycles of loads: of a few lines that must hit, and of more lines than fit
 * into the cache. */
#define SPLIT_CYCLES_MOST 512
struct split_spectrum {
  uint32_t few[SPLIT_CYCLES_MOST], many[SPLIT_CYCLES_MOST];
  uint32_t few_count, many_count;
  uint32_t step; /* of a clock that advances in steps; then these are times of chains */
  double few_itself, many_itself; /* for chains: average time of the measurement itself */
};
/* The middle of the emptiest range between hits and misses. */
uint32_t split_discover_valley(const struct split_spectrum *spectrum);
uint32_t split_discover_median(const uint32_t *often, uint32_t count);
void split_discover_add_times(uint32_t *often, uint32_t *count, const uint32_t *times,
                              uint32_t more);

/* For a clock whose steps are too long to time single loads: how to interpret chains, from their
 * spectrum. limit 0: too few of `many` missed. The same with a spectrum of the pool's lines,
 * using `room`. And split_discover_quiet with chains. */
struct split_probe_timing split_discover_means(const struct split_spectrum *spectrum);
struct split_probe_timing split_discover_blurred_timing(struct split_pool *pool,
                                                        struct split_spectrum *room);
bool split_discover_blurred_quiet(struct split_pool *pool);

/* False if lines that must be hits miss now, at more than 1 % of loads (10 % with chains): then
 * other threads use this core, and tests would fail. */
bool split_discover_quiet(struct split_pool *pool);

/* The number of misses when the line `line` of `count` pages is loaded in turns, in
 * SPLIT_MISS_PASSES passes: the median of several tries, since other load spoils one or two of
 * them, and a set that overflows does not do so in each pass. */
#define SPLIT_MISS_PASSES 8
uint32_t split_discover_misses(const unsigned char *pages, const uint32_t *offsets, uint32_t count,
                               uint32_t line, uint32_t limit);
/* Lines that fit into their set, and lines that do not: values between are neither. */
static inline bool split_discover_fits(uint32_t misses) { return misses < SPLIT_MISS_PASSES / 2; }
static inline bool split_discover_overflows(uint32_t misses) { return misses >= SPLIT_MISS_PASSES; }

/* Pages that were found to share sets: `ways` of them fit, one more does not. */
struct split_colour {
  uint32_t ways;
  uint16_t page[SPLIT_PROBE_WAYS_MAX + 1];
  uint8_t line[SPLIT_PROBE_WAYS_MAX + 1]; /* as in the header */
};
/* Finds up to `wanted` colours, all with the same number of ways. Returns their number. */
uint32_t split_discover_colours(struct split_pool *pool, uint32_t wanted,
                                struct split_colour *found);

/* The same tests with whole pages: the number of pages to use; whether the lines of `set`
 * displace those of `target`; and which lines of the colour's pages are in one set. */
uint32_t split_discover_pages_enough(const struct split_pool *pool);
bool split_discover_pages_evict(const struct split_pool *pool, const uint16_t *set, uint32_t count,
                                uint16_t target);
bool split_discover_pages_lines(const struct split_pool *pool, struct split_colour *colour);
/* True if the sets of these pages' lines are full: `ways` of them fit, and one more,
 * offsets[ways], does not. */
bool split_discover_pages_full(const unsigned char *pages, const uint32_t *offsets, uint32_t ways,
                               uint32_t salt, const unsigned char *elsewhere,
                               const struct split_probe_timing *timing);
/* Pages that displace all other entries of the first TLB; NULL: no memory. */
const unsigned char *split_discover_elsewhere(void);
void split_discover_free_elsewhere(const unsigned char *elsewhere);

/* Waits for a time, and returns the share of the lines that is gone: a test whether other
 * threads use this core's cache now. The core's second thread, which in a virtual machine may
 * belong to another guest, works in phases of some ten milliseconds, which no counter of this
 * process shows. Negative if this thread was switched meanwhile: the result is unknown.
 * `cycles`, unless NULL: the waiting time. Calm: at most one line in eight, in 50 to 200 us. */
#define SPLIT_CALM_SHARE 0.125
double split_discover_gone_meanwhile(const struct split_probe *probe, uint32_t turn,
                                     uint64_t nanoseconds, uint64_t *cycles);
bool split_discover_calm(const struct split_probe *probe, uint32_t turn, uint64_t nanoseconds);

/* Binds this thread to one processor; false: it may not run there. */
bool split_discover_stay_on(uint32_t cpu);

/* Shares of the L2 lines on `cpu` that are displaced in 200 us, while the `others` rest, and
 * while they stream; in turns, `looks` of each, without those across a context switch, and those
 * during which one did not stream. Only this process's threads rest: other programs continue.
 * With no others, only the first. Uses its own threads, 0.3 ms a measurement. False: they could
 * not be created, or one may not run where it should. */
#define SPLIT_LOOKS_MAX 32
struct split_looks {
  uint32_t resting, streaming; /* number of measurements */
  float while_resting[SPLIT_LOOKS_MAX], while_streaming[SPLIT_LOOKS_MAX];
};
_Static_assert(sizeof(struct split_looks) == 264, "as the analyzer's neighbours.rs has it");
bool split_discover_look(const struct split_probe *probe, uint32_t cpu, const uint32_t *others,
                         uint32_t count, uint32_t looks, struct split_looks *found);

/* Fills in the points and the cost of `header`, by synthetic sections between prime and count of
 * `probe`. Continues until `patience` for better points, and until the deadline for points of
 * calm shots at all. Without those, points are of any shots, too high, and `undisturbed` is
 * false. False: no memory. */
bool split_discover_calibrate(const struct split_probe *probe, struct split_probe_header *header,
                              struct split_random *random, uint64_t patience_ns,
                              uint64_t deadline_ns, bool *undisturbed);

#endif
