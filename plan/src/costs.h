/*
 * What things cost on this machine: nanoseconds, measured by ccopt_calibrate(), and how they turn
 * into the planner's units.
 *
 * Costs of core's own paths are never touched; ccopt's are put on their scale. Of what core charges for
 * the same work the share of the disk stays as it is, and the processor's share shrinks as the
 * nanoseconds do:
 *
 *     cost(BatchScan) = pages(SeqScan) + rows(SeqScan)  * ns(row, batch)  / ns(row, stock)
 *                                      + quals(SeqScan) * ns(qual, batch) / ns(qual, stock)
 *
 * if that is below core's by the margin, and otherwise more than core's.
 *
 * Not a difference of nanoseconds: core's processor costs are low against what numerics and wide
 * rows take, so that a difference can exceed all that core asks; the scan of a whole table would
 * then cost what its pages do, and beat a bitmap scan of a twentieth of its rows.
 */
#ifndef CCOPT_COSTS_H
#define CCOPT_COSTS_H

#include "costs_in_force.h"

#include "nodes/pathnodes.h"

/*
 * Cost of a BatchScan over `rel` in the planner's units: `walked` attributes (up to the last one
 * needed), quals run on batches (and those of text among them), decimals decoded per row, quals
 * left to rows.
 */
typedef struct ScanWork {
  int walked;
  int number_quals;
  int text_quals;
  int decimals;
} ScanWork;
/* Among so many processes, counted as core does, rows and their work are divided: 1 without workers. */
extern double process_divisor(int workers);
extern void cost_batch_scan(PlannerInfo *root, RelOptInfo *rel, const ScanWork *work,
                            List *row_quals, bool emits_rows, double divisor, Cost *startup,
                            Cost *total);

typedef enum AggStep {
  AGG_STEP_WHOLE,
  AGG_STEP_PARTIAL,    /* in a worker: no results and no HAVING, but states that are handed on */
  AGG_STEP_KEYS,       /* no aggregates: rows that differ, each once */
  AGG_STEP_OF_DISTINCT /* of such rows: DISTINCT in its aggregates is done */
} AggStep;
typedef struct AggWork {
  int transitions; /* of by-value types and counts */
  int decimals;    /* columns decoded */
  int keys;        /* grouping columns; 0: one group */
  Size state;      /* bytes a group takes */
  AggStep step;
} AggWork;
/* Cost of a BatchAgg on top of an input of given cost. */
extern void cost_batch_agg(PlannerInfo *root, const Path *input, const AggWork *work, double groups,
                           Cost *startup, Cost *total);
/*
 * The same beside a plan of core's that groups rows as they come in order, without a table. Core asks
 * the same for both of its ways, and so nothing for the cache misses of a table; beside a plan that has
 * none, they count in full.
 */
extern Cost cost_batch_agg_beside_streams(PlannerInfo *root, const Path *input, const AggWork *work,
                                          double groups);

/*
 * Cost of aggregates with DISTINCT in two steps: `pairs` rows that differ, of `keys`, and `groups` of
 * these. What core asks is of plans that sort the rows of each group, although it does not ask for that.
 */
extern void cost_batch_distinct(PlannerInfo *root, const Path *input, const AggWork *keys,
                                double pairs, const AggWork *work, double groups, Cost *startup,
                                Cost *total);

/* What a batch operator costs before its first row, at least. */
extern Cost batch_setup_cost(void);

typedef struct JoinWork {
  Size entry; /* bytes an inner row takes in the hash table */
  int keys;
  int row_quals; /* join quals left to rows */
} JoinWork;
/*
 * ns of one access into a structure of this size beyond what it takes in one that fits L2: by
 * interpolation of probe_plain or probe_prefetched.
 */
extern double memory_ns(const double probe[12], double bytes);

/* Cost of a BatchHashJoin. */
extern void cost_batch_join(PlannerInfo *root, const Path *outer, const Path *inner,
                            const JoinWork *work, double rows, bool emits_rows, Cost *startup,
                            Cost *total);

#endif
