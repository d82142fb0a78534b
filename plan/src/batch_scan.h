/*
 * BatchScan: the rows of a heap table, a batch at a time. What other operators may ask of it.
 */
#ifndef CCOPT_BATCH_SCAN_H
#define CCOPT_BATCH_SCAN_H

#include "batch.h"
#include "compat.h"

/*
 * A BatchScan path for a base relation, or NULL with the reason noted. `emits_rows` is false if the
 * parent takes batches: then handing on rows costs nothing. Not added to the relation's paths.
 */
extern Path *batch_scan_path(PlannerInfo *root, RelOptInfo *rel, bool emits_rows);
/* The same for the share of one of several processes, the table's pages divided among them; NULL also if
 * no workers may be used for it. */
extern Path *batch_scan_partial_path(PlannerInfo *root, RelOptInfo *rel, bool emits_rows);

/*
 * A visitor sees each batch after the predicates and before the consumer: it may shorten the
 * selection (a bloom filter) or touch what the consumer will need (prefetch). Visitors run in the
 * order in which they were added. Only columns that were requested by
 * batch_scan_column_of_resno() are found by then: the others are looked for in the rows that are
 * left.
 */
typedef void (*BatchVisitor)(void *state, Batch *batch);
/* Its lines for EXPLAIN ANALYZE, behind those of the scan. */
typedef void (*BatchVisitorExplain)(const void *state, ExplainState *es);
/* False if `node` is no BatchScan. `explain` may be NULL. `column` (out): the batch's column that holds the node's target
 * entry `resno`, or -1. */
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
