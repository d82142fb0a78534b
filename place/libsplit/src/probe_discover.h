/*
 * How the analyzer finds full sets, in files: time (what is a hit?), blurred (the same where the clock goes in steps), the colours (which
 * pages share sets?), pages (the same there), calibrate (what does a share mean?),
 * neighbours (who else displaces what is there?), publish (the file). Not part of what servers load.
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
/* Context switches of this thread so far: what was measured across one is worth nothing. */
uint64_t split_discover_switches(void);

/* What CPUID says of L2, or a guess where it says nothing. Only a beginning: sizes are bounded, ways get measured. */
struct split_geometry {
  uint32_t ways;
  uint32_t kilobytes;
};
struct split_geometry split_discover_geometry(void);

/* Pages among which sets are looked for. */
struct split_pool {
  const unsigned char *pages; /* all zero, mapped, each its own */
  uint32_t count;
  uint32_t ways; /* expected */
  struct split_probe_timing timing;
  uint32_t line; /* the line of pages that is used */
  /* Cycles that the clock goes on by, if they are too many to tell single loads: then all is done by chains; else 0. */
  uint32_t step;
  const unsigned char *elsewhere; /* then: other pages, see split_discover_elsewhere */
  uint64_t deadline_ns;
  struct split_random random;
};

/* Sets `step` of the pool. And: which step has a clock by which hits took these times, from the shortest to the longest? 0: none. */
void split_discover_find_step(struct split_pool *pool);
uint32_t split_discover_clock_step(const uint32_t *sorted, uint32_t count);

/* What tells L2 hits from misses; limit 0: these cannot be told apart, or the pages fit into the cache. */
struct split_probe_timing split_discover_timing(struct split_pool *pool);

/* How often loads took so many cycles, of a few lines that must hit, and of more than fit into the cache. */
#define SPLIT_CYCLES_MOST 512
struct split_spectrum {
  uint32_t few[SPLIT_CYCLES_MOST], many[SPLIT_CYCLES_MOST];
  uint32_t few_count, many_count;
  uint32_t step; /* of a clock that goes in steps; then these are times of chains */
  double few_itself, many_itself; /* of chains: what the measurement took, on average */
};
/* The middle of the emptiest span between hits and misses. */
uint32_t split_discover_valley(const struct split_spectrum *spectrum);
uint32_t split_discover_median(const uint32_t *often, uint32_t count);
void split_discover_add_times(uint32_t *often, uint32_t *count, const uint32_t *times,
                              uint32_t more);

/* Where the clock goes in steps too long to tell single loads: what to tell chains by, of their spectrum. limit 0: too few of `many`
 * missed. The same with a spectrum of the pool's lines, for which `room` is used. And split_discover_quiet by chains. */
struct split_probe_timing split_discover_means(const struct split_spectrum *spectrum);
struct split_probe_timing split_discover_blurred_timing(struct split_pool *pool,
                                                        struct split_spectrum *room);
bool split_discover_blurred_quiet(struct split_pool *pool);

/* Do lines that must be hits miss now, at more than 1 % of loads (10 % by chains)? Then others work on this core, and tests would go wrong. */
bool split_discover_quiet(struct split_pool *pool);

/* How many lines are missed when the line `line` of `count` pages is loaded in turns, in SPLIT_MISS_PASSES passes: the median of
 * several tries, since what else runs here spoils one or two of them, and a set that overflows does not do so at each pass. */
#define SPLIT_MISS_PASSES 8
uint32_t split_discover_misses(const unsigned char *pages, const uint32_t *offsets, uint32_t count,
                               uint32_t line, uint32_t limit);
/* Lines that fit into their set, and such that do not: between is neither. */
static inline bool split_discover_fits(uint32_t misses) { return misses < SPLIT_MISS_PASSES / 2; }
static inline bool split_discover_overflows(uint32_t misses) { return misses >= SPLIT_MISS_PASSES; }

/* Pages that were seen to share sets: `ways` of them fit, one more does not. */
struct split_colour {
  uint32_t ways;
  uint16_t page[SPLIT_PROBE_WAYS_MAX + 1];
  uint8_t line[SPLIT_PROBE_WAYS_MAX + 1]; /* as in the header */
};
/* Finds up to `wanted` colours, all with the same number of ways. Returns how many. */
uint32_t split_discover_colours(struct split_pool *pool, uint32_t wanted,
                                struct split_colour *found);

/* The same questions asked of whole pages. Of how many pages they are asked; do the lines of `set` push those of `target` out; and
 * which lines of the colour's pages are of one set? */
uint32_t split_discover_pages_enough(const struct split_pool *pool);
bool split_discover_pages_evict(const struct split_pool *pool, const uint16_t *set, uint32_t count,
                                uint16_t target);
bool split_discover_pages_lines(const struct split_pool *pool, struct split_colour *colour);
/* Are the sets of these pages' lines full: do `ways` of them fit, and does one more, offsets[ways], not? */
bool split_discover_pages_full(const unsigned char *pages, const uint32_t *offsets, uint32_t ways,
                               uint32_t salt, const unsigned char *elsewhere,
                               const struct split_probe_timing *timing);
/* Pages by which the first TLB is made to forget all others; NULL: no memory. */
const unsigned char *split_discover_elsewhere(void);
void split_discover_free_elsewhere(const unsigned char *elsewhere);

/* Does nothing for so long, and says which share of the lines is gone: is it only us who use this core's cache now? The other thread of a
 * core, which in a virtual machine may be a stranger's, works in phases of some ten milliseconds; no counter of ours tells of it. Negative if
 * this thread was switched meanwhile: nothing is known. `cycles`, unless NULL: how long it was. Calm: at most one line in eight, in 50 to 200 us. */
#define SPLIT_CALM_SHARE 0.125
double split_discover_gone_meanwhile(const struct split_probe *probe, uint32_t turn,
                                     uint64_t nanoseconds, uint64_t *cycles);
bool split_discover_calm(const struct split_probe *probe, uint32_t turn, uint64_t nanoseconds);

/* Binds this thread to one processor; false: it may not run there. */
bool split_discover_stay_on(uint32_t cpu);

/* Which shares of its L2's lines go on `cpu`, in 200 us each, while `others` rest, and while they stream; in turns, `looks` of each, less those
 * across a context switch, and beside one that did not stream. Rest is ours alone: what else runs on the others goes on. Without others, only
 * the first. On threads of its own, 0.3 ms a look. False: they could not be made, or one may not run where it should. */
#define SPLIT_LOOKS_MAX 32
struct split_looks {
  uint32_t resting, streaming; /* how many there are */
  float while_resting[SPLIT_LOOKS_MAX], while_streaming[SPLIT_LOOKS_MAX];
};
_Static_assert(sizeof(struct split_looks) == 264, "as the analyzer's neighbours.rs has it");
bool split_discover_look(const struct split_probe *probe, uint32_t cpu, const uint32_t *others,
                         uint32_t count, uint32_t looks, struct split_looks *found);

/* Fills in the points and the cost of `header`, by synthetic sections between prime and count of `probe`. Goes on until `patience` for
 * better points, and until the deadline for points of calm shots at all. Without them, points are of whatever shots there were, and
 * not `undisturbed`: too high. False: no memory. */
bool split_discover_calibrate(const struct split_probe *probe, struct split_probe_header *header,
                              struct split_random *random, uint64_t patience_ns,
                              uint64_t deadline_ns, bool *undisturbed);

#endif
