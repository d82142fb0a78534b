/*
 * The occupancy probe: how much of the L2 cache did a section replace? Without a PMU, rights or a kernel's help.
 *
 *   prime:   load W lines of each of some cache sets, W being the number of ways: the sets are full of our lines
 *   section: lines that it loads into these sets push probe lines out
 *   count:   load them again, each timed; a slow one had gone (where the clock is too blunt for that: four lines of each set, by
 *            chains of four loads; see struct split_probe_chains)
 *
 * Which pages fill a set cannot be known from addresses (virtual machines, hashed indices), but can be timed: the analyzer finds
 * them at its start (probe_discover_colours.c) and publishes the pages themselves, as a file that every process maps: L2 is indexed by
 * physical addresses, so that the sets are the same for all processes. docs/design/place.md, 3: accuracy and traps.
 *
 *   probe.segment
 *   +--------------------+ 0
 *   | split_probe_header |  geometry, thresholds, calibration; which of the pages make which sets
 *   +--------------------+ 4096
 *   | pages              |  `pages` pages of 4 KB, all zero; those that are of no use are holes
 *   +--------------------+  a line of each page of a colour: a set
 *
 * A published file is never changed: new sets are a new file under the old name, with a higher generation.
 *
 * Traps that were measured: nothing that looks like a pointer to a line may lie in memory, else a prefetcher of Intel's follows it
 * (addresses are computed from 32-bit offsets); a line per page and set, never two lines of a page in order of address; no other line of a page may
 * be touched to warm its TLB entry.
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

/* A synthetic section of known size, and the share of lines that it displaced: the meaning of a
 * share on this machine, today. */
struct split_probe_point {
  uint32_t kilobytes;
  uint32_t shots;
  float displaced_median;
  float displaced_p10;
  float displaced_p90;
};

/* What the time of a load says. */
struct split_probe_timing {
  uint32_t limit; /* loads slower than this had to leave L2; of chains: `most` */
  /* 0: the clock tells single loads. Else its steps are too long for that: chains of 4 are timed, cut off at this, and summed; one of
   * hits takes `hit` longer than one that stays in L1, on average, one of misses `miss`. */
  uint32_t most;
  float hit, miss;
};

struct split_probe_header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_size;
  uint64_t generation; /* even, never 0. Increases whenever sets are found again */
  uint64_t made_ns;
  char boot_id[40];
  uint32_t pages; /* in the file, behind the header */
  uint32_t ways;
  uint32_t colours;
  uint32_t lines_per_set; /* how many of the ways are primed: ways, or fewer for a blunter probe */
  uint32_t
      sets; /* how many sets a probe uses: sets * lines_per_set lines (16 * 16; by chains 32 * 8) */
  uint32_t l2_kilobytes; /* as the processor says; virtual machines lie */
  uint32_t cost_cycles;  /* of a prime and a count, median */
  uint32_t
      random_lines; /* 1: no full sets were found; pages are any pages, one line each (blunter: 2 MB and more) */
  struct split_probe_timing timing;
  uint32_t points;
  struct split_probe_point point[SPLIT_PROBE_POINTS]; /* by size, ascending */
  /* Of each colour the pages of its ways, and [ways]: one page too many, by which split_probe_verify knows that sets are full. */
  uint16_t page[SPLIT_PROBE_COLOURS_MAX][SPLIT_PROBE_WAYS_MAX + 1];
  /* Line l of a page is in the set of line l ^ `line` of its colour: 0 where the index of L2 takes no part of the page's address into
   * that of its lines (Intel), anything where it does (AMD). */
  uint8_t line[SPLIT_PROBE_COLOURS_MAX][SPLIT_PROBE_WAYS_MAX + 1];
};

_Static_assert(sizeof(struct split_probe_header) <= SPLIT_PROBE_HEADER_SIZE, "pages lie behind");

/* A process's view of the published sets. */
struct split_probe;

/* Maps `directory`/probe.segment; NULL (and a reason, if asked for) if there is none that can be used. Checks every field. errno is
 * left as it was, by this and all below. Not for signal handlers. */
struct split_probe *split_probe_open(const char *directory, const char **reason);
void split_probe_close(struct split_probe *probe);
uint64_t split_probe_generation(const struct split_probe *probe);
uint32_t split_probe_cost_cycles(const struct split_probe *probe);
/* What was published, as it was checked: for views. */
const struct split_probe_header *split_probe_published(const struct split_probe *probe);

/* Loads the lines of the sets of this turn (a thread takes another turn each time, so that other
 * lines of the pages are used). */
void split_probe_prime(const struct split_probe *probe, uint32_t turn);
/* Loads them again, or four of each set: how many of `*lines` were gone. */
uint32_t split_probe_count(const struct split_probe *probe, uint32_t turn, uint32_t *lines);

/* A fresh section of how many kilobytes displaces this share (0 to 1) of the lines, by calibration? Saturates at both ends. */
double split_probe_kilobytes(const struct split_probe *probe, double displaced);
/* The share that tells sections of `small` from `large` kilobytes best, both of them calibrated sizes; -1: they are not. */
double split_probe_threshold(const struct split_probe *probe, uint32_t small, uint32_t large);

/* ---- the analyzer's side ---- */

struct split_probe_options {
  uint32_t ways;    /* 0: ask CPUID */
  uint32_t colours; /* wanted; fewer will do */
  uint32_t seconds; /* time limit */
  uint64_t seed;
};
enum split_probe_outcome {
  SPLIT_PROBE_FULL_SETS = 0,
  SPLIT_PROBE_RANDOM_LINES =
      1, /* no sets were found in time: published are random lines, which tell very large sections only */
  SPLIT_PROBE_IMPOSSIBLE =
      2 /* no time stamp counter, no memory, no file, or timing makes no sense here; *reason says which */
};
/* Finds, calibrates and publishes: writes beside and renames. Takes seconds; runs on the calling thread's CPU (pinned meanwhile).
 * *reason is never NULL afterwards: "" if all is well, else what is wrong or blunter. */
enum split_probe_outcome split_probe_publish(const char *directory,
                                             const struct split_probe_options *options,
                                             const char **reason);
/* Are the published sets still full sets? The share of sets that are, 0 to 1; random lines: always 1. Milliseconds. */
double split_probe_verify(const struct split_probe *probe);
/* Keeps the published pages where they are, as far as the kernel grants it (mlock): for the process that serves them. 0, or -1: not granted. */
int split_probe_hold(const struct split_probe *probe);

#endif
