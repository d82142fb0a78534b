/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Reuse distances: how many other lines are accessed between two accesses to a
 * line.  A fully associative LRU cache of more lines than the distance holds the
 * line, so that the distribution of distances is the miss ratio of every size.
 *
 * Exact stack distances (Mattson et al. 1970) among a sample of the lines: SHARDS
 * (Waldspurger et al. 2015) with a fixed rate follows the lines whose hash is
 * small, and each line followed stands for HM_REUSE_ONE_LINE_IN.
 *
 *   time slot     0   1   2   3   4   5   6        every line followed is marked in the
 *   line          .   a   .   c   .   b   d        slot of its latest access; the distance
 *   marked        0   1   0   1   0   1   1        of `a` is the marks after its own: 3
 *
 * Marks are counted by a Fenwick tree.  When the slots are used up, the marked ones
 * move to the front; should there be more lines than half the slots, the oldest are
 * forgotten, and their next access counts as cold: with the numbers below that
 * concerns distances of more than 8 million lines (512 MiB).
 */
#ifndef HM_REUSE_H
#define HM_REUSE_H

#include <stdint.h>

#include "segment.h"

#define HM_REUSE_SLOTS (1u << 18)
#define HM_REUSE_TABLE (2 * HM_REUSE_SLOTS) /* of the hash table of lines */

/* In the shared segment, one for each core, guarded by the core. */
struct hm_reuse {
  uint32_t busy; /* an update is in progress; its process may be killed meanwhile */
  uint32_t now;  /* next free slot */
  uint32_t marked;
  uint32_t reserved;
  uint32_t line[HM_REUSE_SLOTS];      /* line of a marked slot, or 0 */
  uint32_t marks[HM_REUSE_SLOTS + 1]; /* Fenwick tree over the marked slots */
  uint32_t slot[HM_REUSE_TABLE];      /* slot + 1 of a line, by hash; 0: free */
};

/* Whether distances of this line are measured. */
static inline int hm_reuse_follows(uint32_t line) {
  return ((line ^ line >> 15) * 2654435761u) < UINT32_MAX / HM_REUSE_ONE_LINE_IN + 1;
}

/* Other lines followed since the latest access to `line`, or HM_REUSE_COLD. */
#define HM_REUSE_COLD UINT32_MAX
uint32_t hm_reuse_distance(struct hm_reuse *reuse, uint32_t line);

/* One access to a followed line; each stands for `scale` lines. */
void hm_reuse_count(struct hm_reuse *reuse, struct hm_reuse_counts *counts, uint32_t line,
                    uint32_t scale);

#endif
