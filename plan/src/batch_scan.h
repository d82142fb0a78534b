/*
 * BatchScan: the rows of a heap table, one batch at a time. Interface for other operators.
 */
#ifndef CCOPT_BATCH_SCAN_H
#define CCOPT_BATCH_SCAN_H

#include "batch.h"
#include "compat.h"

/*
 * A BatchScan path for a base relation, or NULL with the reason recorded. `emits_rows` is false if
 * the parent takes batches: returning rows then costs nothing. Not added to the relation's paths.
 */
extern Path *batch_scan_path(PlannerInfo *root, RelOptInfo *rel, bool emits_rows);
/* The same for a scan whose pages are divided among processes; NULL also if no workers may be
 * used for it. */
extern Path *batch_scan_partial_path(PlannerInfo *root, RelOptInfo *rel, bool emits_rows);

/*
 * A visitor is called for each batch after the predicates and before the consumer: it may shorten
 * the selection (a bloom filter) or touch memory that the consumer will need (prefetch). Visitors
 * run in the order in which they were added. At that time only the columns requested by
 * batch_scan_column_of_resno() are filled in; the others are filled in for the remaining rows.
 */
typedef void (*BatchVisitor)(void *state, Batch *batch);
/* Prints lines for EXPLAIN ANALYZE, after those of the scan. */
typedef void (*BatchVisitorExplain)(const void *state, ExplainState *es);
/* Returns false if `node` is not a BatchScan. `explain` may be NULL. `column` (out): the batch's
 * column of the node's target entry `resno`, or -1. */
extern bool batch_scan_add_visitor(PlanState *node, BatchVisitor visitor,
                                   BatchVisitorExplain explain, void *state);
/* At each new start of the scan: of the visitor that was added last. */
typedef void (*BatchVisitorRestart)(void *state);
extern void batch_scan_on_restart(PlanState *node, BatchVisitorRestart restart);
/* The batch, if all rows that are left after the visitors are handed on, and these as they are; else NULL. */
extern const Batch *batch_scan_handed_on(const PlanState *node);
extern int batch_scan_column_of_resno(PlanState *node, AttrNumber resno);
extern bool is_batch_scan(const PlanState *node);

#endif
