/*
 * ccopt_stats: how often each node ran, and on how much. Counted by the node itself in a NodeCounts
 * of its own while it runs, and added here once, in EndCustomScan:
 *
 *     static void batch_scan_end(CustomScanState *node) {
 *       ...
 *       stats_add(STATS_BATCH_SCAN, &state->counts);
 *     }
 *
 * A node that never ran (EXPLAIN without ANALYZE) has zeros throughout and is not counted. What a
 * statement that failed did is not counted, as EndCustomScan is not called then.
 */
#ifndef CCOPT_STATS_H
#define CCOPT_STATS_H

#include "compat.h"

/* One row of the view each, in this order; stats.c has their names. */
typedef enum StatsNode {
  STATS_BATCH_SCAN,
  STATS_BATCH_AGG,
  STATS_BATCH_JOIN,
  STATS_BUFFER,
  STATS_ADAPTIVE_JOIN,
  STATS_NODES /* how many there are */
} StatsNode;

typedef struct NodeCounts {
  uint64 batches;   /* batches, refills of a buffer, hash tables of an adaptive join */
  uint64 rows_in;   /* rows looked at: visible ones of a scan, both sides' of a join, the
                       outer side's of an adaptive one */
  uint64 rows_out;  /* rows handed on */
  uint64 odd_rows;  /* rows that went through core's functions alone, because a value did not fit */
  uint64 fallbacks; /* times the node gave up its way and passed rows through, until its end */
  uint64 spills;    /* times it wrote to temporary files */
} NodeCounts;

extern void stats_add(StatsNode node, const NodeCounts *counts);

#endif
