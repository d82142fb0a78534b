/*
 * ccopt_stats: counts of each node's runs and work. A node counts in its own NodeCounts while it
 * runs, and adds them here once, in EndCustomScan:
 *
 *     static void batch_scan_end(CustomScanState *node) {
 *       ...
 *       stats_add(STATS_BATCH_SCAN, &state->counts);
 *     }
 *
 * A node that never ran (EXPLAIN without ANALYZE) has only zeros and is not counted. Statements
 * that failed are not counted, because EndCustomScan is not called then.
 */
#ifndef CCOPT_STATS_H
#define CCOPT_STATS_H

#include "compat.h"

/* Each is one row of the view, in this order; stats.c has their names. */
typedef enum StatsNode {
  STATS_BATCH_SCAN,
  STATS_BATCH_AGG,
  STATS_BATCH_JOIN,
  STATS_BATCH_WINDOW,
  STATS_BUFFER,
  STATS_ADAPTIVE_JOIN,
  STATS_NODES /* number of nodes */
} StatsNode;

typedef struct NodeCounts {
  uint64 batches;     /* batches, refills of a buffer, hash tables of an adaptive join */
  uint64 rows_in;     /* rows read: a scan's visible ones, both sides of a join, an adaptive join's
                       outer side */
  uint64 rows_out;    /* rows returned */
  uint64 odd_rows;    /* rows evaluated by core's functions alone, because a value did not fit */
  uint64 fallbacks;   /* times the node stopped its method and passed rows through until its end */
  uint64 spills;      /* times it wrote to temporary files */
  uint64 cache_hits;  /* columns of pages that came from the column cache */
  uint64 cache_fills; /* columns of pages that were put into it */
} NodeCounts;

extern void stats_add(StatsNode node, const NodeCounts *counts);

#endif
