/*
 * The occupancy probe: measures how much of the L2 cache a section replaced, without a PMU, rights
 * or help by the kernel.
 *
 *   prime:   load W lines of each of some cache sets, W being the number of ways: the sets are full of the probe's lines
 *   section: lines that it loads into these sets displace probe lines
 *   count:   load them again, each timed; a slow one was displaced (if the clock is too coarse for that: four lines of each set, by
 *            chains of four loads; see struct split_probe_chains)
 *
 * Which pages fill a set cannot be computed from addresses (virtual machines, hashed indices), but
 * it can be timed. The analyzer finds the pages at its start (probe_discover_colours.c) and
 * publishes them as a file that every process maps: L2 is indexed by physical addresses, so the
 * sets are the same for all processes. docs/design/place.md, 3: accuracy and traps.
 *
 *   probe.segment
 *   +--------------------+ 0
 *   | split_probe_header |  geometry, thresholds, calibration; which of the pages make which sets
 *   +--------------------+ 4096
 *   | pages              |  `pages` pages of 4 KB, all zero; unused ones are holes
 *   +--------------------+  a line of each page of a colour: a set
 *
 * A published file is never changed: new sets are published as a new file with the old name and a
 * higher generation.
 *
 * Pitfalls found by measurement: no value that looks like a pointer to a line may be in memory,
 * since a prefetcher of Intel's follows it (addresses are computed from 32-bit offsets); one line
 * per page and set, never two lines of a page in order of address; no other line of a page may be
 * loaded to warm its TLB entry.
 */
#ifndef SPLIT_PROBE_H
#define SPLIT_PROBE_H

#include "segment.h"

#include <stdbool.h>
#include <stddef.h>

#define SPLIT_PROBE_MAGIC UINT64_C(0x3165626f72706d68) /* "hmprobe1" */
#define SPLIT_PROBE_VERSION 3 /* 1: at most 8 colours; 2: clocks that resolve each load */
#define SPLIT_PROBE_HEADER_SIZE 4096
#define SPLIT_PROBE_PAGE 4096
#define SPLIT_PROBE_COLOURS_MAX 16
#define SPLIT_PROBE_WAYS_MAX 32
#define SPLIT_PROBE_SETS_MAX 64
#define SPLIT_PROBE_PAGES_MAX 65535
#define SPLIT_PROBE_POINTS 8

/* A synthetic section of known size, and the share of lines that it displaced: calibrates shares
 * for this machine in its present state. */
struct split_probe_point {
  uint32_t kilobytes;
  uint32_t shots;
  float displaced_median;
  float displaced_p10;
  float displaced_p90;
};

/* How the time of a load is interpreted. */
struct split_probe_timing {
  uint32_t limit; /* slower loads missed L2; with chains: `most` */
  /* 0: the clock resolves single loads. Otherwise its steps are too long for that: chains of 4
   * are timed, cut off at this value, and summed; on average, a chain of hits takes `hit` longer
   * than one that stays in L1, a chain of misses `miss`. */
  uint32_t most;
  float hit, miss;
};

struct split_probe_header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_size;
  uint64_t generation; /* even, never 0; increases whenever new sets are found */
  uint64_t made_ns;
  char boot_id[40];
  uint32_t pages; /* in the file, after the header */
  uint32_t ways;
  uint32_t colours;
  uint32_t lines_per_set; /* number of ways that are primed: ways, or fewer for a coarser probe */
  uint32_t
      sets; /* sets that a probe uses: sets * lines_per_set lines (16 * 16; with chains 32 * 8) */
  uint32_t l2_kilobytes; /* as the processor reports it; virtual machines may report wrong sizes */
  uint32_t cost_cycles;  /* of a prime and a count, median */
  uint32_t
      random_lines; /* 1: no full sets were found; arbitrary pages, one line each (coarser: 2 MB and more) */
  struct split_probe_timing timing;
  uint32_t points;
  struct split_probe_point point[SPLIT_PROBE_POINTS]; /* by size, ascending */
  /* For each colour the pages of its ways, and [ways]: one page too many, which
   * split_probe_verify uses to check that sets are full. */
  uint16_t page[SPLIT_PROBE_COLOURS_MAX][SPLIT_PROBE_WAYS_MAX + 1];
  /* Line l of a page is in the set of line l ^ `line` of its colour: 0 if L2 does not mix the
   * page's address into the index of its lines (Intel), any value if it does (AMD). */
  uint8_t line[SPLIT_PROBE_COLOURS_MAX][SPLIT_PROBE_WAYS_MAX + 1];
};

_Static_assert(sizeof(struct split_probe_header) <= SPLIT_PROBE_HEADER_SIZE, "pages lie behind");

/* A process's view of the published sets. */
struct split_probe;

/* Maps `directory`/probe.segment; NULL (and a reason, if wanted) if there is none that can be
 * used. Checks every field. This and all functions below preserve errno. Not for signal
 * handlers. */
struct split_probe *split_probe_open(const char *directory, const char **reason);
void split_probe_close(struct split_probe *probe);
uint64_t split_probe_generation(const struct split_probe *probe);
uint32_t split_probe_cost_cycles(const struct split_probe *probe);
/* The published header, as it was checked: for views. */
const struct split_probe_header *split_probe_published(const struct split_probe *probe);

/* Loads the lines of this turn's sets. A thread takes another turn each time, so that other
 * lines of the pages are used. */
void split_probe_prime(const struct split_probe *probe, uint32_t turn);
/* Loads them again, or four of each set: returns how many of `*lines` were displaced. */
uint32_t split_probe_count(const struct split_probe *probe, uint32_t turn, uint32_t *lines);

/* The size in kilobytes of a fresh section that displaces this share (0 to 1) of the lines, by
 * calibration. Saturates at both ends. */
double split_probe_kilobytes(const struct split_probe *probe, double displaced);
/* The share that best separates sections of `small` from those of `large` kilobytes, both
 * calibrated sizes; -1: they are not. */
double split_probe_threshold(const struct split_probe *probe, uint32_t small, uint32_t large);

/* ---- for the analyzer ---- */

struct split_probe_options {
  uint32_t ways;    /* 0: use CPUID */
  uint32_t colours; /* desired number; fewer are possible */
  uint32_t seconds; /* time limit */
  uint64_t seed;
};
enum split_probe_outcome {
  SPLIT_PROBE_FULL_SETS = 0,
  SPLIT_PROBE_RANDOM_LINES =
      1, /* no sets were found in time: random lines were published, for very large sections only */
  SPLIT_PROBE_IMPOSSIBLE =
      2 /* no time stamp counter, no memory, no file, or timing is impossible; *reason says which */
};
/* Finds, calibrates and publishes the sets: writes a new file and renames it. Takes seconds;
 * runs on the calling thread's CPU (pinned meanwhile). Afterwards *reason is never NULL: ""
 * without a problem, otherwise the error or limitation. */
enum split_probe_outcome split_probe_publish(const char *directory,
                                             const struct split_probe_options *options,
                                             const char **reason);
/* The share of the published sets that are still full sets, 0 to 1; random lines: always 1.
 * Takes milliseconds. */
double split_probe_verify(const struct split_probe *probe);
#endif
