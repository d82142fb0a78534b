/*
 * Costs of operations on this machine: nanoseconds, measured by ccopt_calibrate(), and their
 * conversion to the planner's units.
 *
 * Costs of core's own paths are never changed; ccopt's costs use the same scale. In core's cost for
 * the same work, the disk's share stays unchanged, and the processor's share is reduced in
 * proportion to the nanoseconds:
 *
 *     cost(BatchScan) = pages(SeqScan) + rows(SeqScan)  * ns(row, batch)  / ns(row, stock)
 *                                      + quals(SeqScan) * ns(qual, batch) / ns(qual, stock)
 *
 * if that is below core's cost by the margin; otherwise the cost is set above core's.
 *
 * Differences of nanoseconds are not used: core's processor costs are too low for numerics and wide
 * rows, so a difference can exceed core's whole cost. The scan of a whole table would then only
 * cost its pages, and beat a bitmap scan of a twentieth of its rows.
 */
#ifndef CCOPT_COSTS_H
#define CCOPT_COSTS_H

#include "costs_in_force.h"

#include "nodes/pathnodes.h"

/*
 * Cost of a BatchScan over `rel` in the planner's units: `walked` attributes (up to the last one
 * needed), quals run on batches (and those of text among them), decimals decoded per row, quals
 * left to rows. What comes from the column cache is neither a page nor a row to walk.
 */
typedef struct ScanWork {
  int walked;
  int number_quals;
  int text_quals;
  int decimals;
  double cached; /* share of the table that the column cache has */
} ScanWork;
/*
 * The divisor of rows and their work among this many processes, as core computes it: 1 without
 * workers.
 */
extern double process_divisor(int workers);
extern void cost_batch_scan(PlannerInfo *root, RelOptInfo *rel, const ScanWork *work,
                            List *row_quals, bool emits_rows, double divisor, Cost *startup,
                            Cost *total);

typedef enum AggStep {
  AGG_STEP_WHOLE,
  AGG_STEP_PARTIAL,    /* in a worker: transition states, without results and HAVING */
  AGG_STEP_KEYS,       /* no aggregates: distinct rows, each once */
  AGG_STEP_OF_DISTINCT /* input of distinct rows: DISTINCT in the aggregates is done */
} AggStep;
typedef struct AggWork {
  int transitions; /* of by-value types, and counts */
  int decimals;    /* columns decoded */
  int keys;        /* grouping columns; 0: one group */
  Size state;      /* bytes of a group */
  AggStep step;
} AggWork;
/* Cost of a BatchAgg on top of an input of given cost. */
extern void cost_batch_agg(PlannerInfo *root, const Path *input, const AggWork *work, double groups,
                           Cost *startup, Cost *total);
/*
 * The same in competition with a plan of core's that groups rows in their order, without a table.
 * Core's costs of its two methods are equal, so they have no part for the cache misses of a table;
 * against a plan without a table, the misses are counted in full.
 */
extern Cost cost_batch_agg_beside_streams(PlannerInfo *root, const Path *input, const AggWork *work,
                                          double groups);

/*
 * Cost of aggregates with DISTINCT in two steps: `pairs` distinct rows, of `keys`, and `groups` of
 * these. Core's plans sort the rows of each group, but core's cost does not include this.
 */
extern void cost_batch_distinct(PlannerInfo *root, const Path *input, const AggWork *keys,
                                double pairs, const AggWork *work, double groups, Cost *startup,
                                Cost *total);

typedef struct WindowWork {
  bool stock_sorts; /* core's plan over this input has a Sort */
  int columns;      /* kept of each row */
  int keys;         /* that rows are sorted by */
  int windows;
  int functions; /* of all windows */
  int numerics;  /* those that add or return numeric */
} WindowWork;
/* Cost of a BatchWindow in place of work that costs `core` in core's plan. */
extern void cost_batch_window(const Path *input, const WindowWork *work, Cost core, Cost *startup,
                              Cost *total);

/* Minimum cost of a batch operator before its first row. */
extern Cost batch_setup_cost(void);

typedef struct JoinWork {
  Size entry; /* bytes of an inner row in the hash table */
  int keys;
  int row_quals; /* join quals left to rows */
} JoinWork;
/*
 * ns of one access to a structure of this size beyond an access to one that fits L2: interpolates
 * probe_plain or probe_prefetched.
 */
extern double memory_ns(const double probe[12], double bytes);

/* Cost of a BatchHashJoin. */
extern void cost_batch_join(PlannerInfo *root, const Path *outer, const Path *inner,
                            const JoinWork *work, double rows, bool emits_rows, Cost *startup,
                            Cost *total);

#endif
