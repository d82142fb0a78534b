/*
 * BatchAgg in workers, planning: each process groups its share of the rows, and core's Finalize
 * Aggregate in the leader combines what they hand on, as it does with core's Partial Aggregate.
 *
 *     Finalize HashAggregate
 *       Gather
 *         BatchAgg                   rows of the partially grouped relation: keys and transition states
 *           Parallel BatchScan       or another path whose rows are divided
 *
 * Whether an aggregation may be divided is core's decision: it made the partially grouped relation,
 * or not.
 */
#include "batch_agg_path.h"

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "utils/selfuncs.h"

#include "batch_scan.h"
#include "node_names.h"
#include "reasons.h"
#include "settings.h"

/* Core's relation of partial groups; NULL if it does not divide this aggregation. */
static RelOptInfo *partial_rel(PlannerInfo *root, const RelOptInfo *input_rel,
                               const RelOptInfo *output_rel, const GroupPathExtraData *extra) {
  RelOptInfo *rel;

  if (!output_rel->consider_parallel || input_rel->partial_pathlist == NIL ||
      !(extra->flags & GROUPING_CAN_PARTIAL_AGG) || !extra->partial_costs_set)
    return NULL;
  /* All grouping columns are constants: one group, if there are rows. */
  if (GROUP_CLAUSES(root) == NIL && root->parse->groupClause != NIL) return NULL;
  rel = fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, output_rel->relids);
  return rel->consider_parallel && rel->reltarget->exprs != NIL ? rel : NULL;
}

/* The path whose rows are divided: core's best, or a BatchScan that hands on batches. */
static Path *divided_path(PlannerInfo *root, RelOptInfo *input_rel) {
  Path *best = linitial(input_rel->partial_pathlist);
  Path *scan = NULL;

  if (ccopt_enable_batch_scan && input_rel->reloptkind == RELOPT_BASEREL)
    scan = batch_scan_partial_path(root, input_rel, false);
  if (scan == NULL) return best;
  return ccopt_force || scan->total_cost < best->total_cost ? scan : best;
}

static Path *finalized(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *output_rel, Path *partial,
                       GroupPathExtraData *extra, double groups) {
  double rows = partial->rows * partial->parallel_workers;
  Path *gathered = (Path *)create_gather_path(root, rel, partial, rel->reltarget, NULL, &rows);

  return (Path *)create_agg_path(root, output_rel, gathered, output_rel->reltarget,
                                 GROUP_CLAUSES(root) != NIL ? AGG_HASHED : AGG_PLAIN,
                                 AGGSPLIT_FINAL_DESERIAL, GROUP_CLAUSES(root),
                                 (List *)extra->havingQual, &extra->agg_final_costs, groups);
}

bool batch_agg_add_parallel_path(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel,
                                 GroupPathExtraData *extra) {
  RelOptInfo *rel = partial_rel(root, input_rel, output_rel, extra);
  Grouping grouping = {0};
  AggOffer offer;
  CustomPath *partial;
  Path *path;
  double groups = 1;
  const char *reason;

  if (rel == NULL) return false;
  reason = grouping_collect(root, rel->reltarget, NULL, &grouping);
  if (reason == NULL)
    reason =
        batch_agg_offer(root, divided_path(root, input_rel), &grouping, AGG_STEP_PARTIAL, &offer);
  if (reason != NULL) {
    note_refusal(root, output_rel, BATCH_AGG_NAME, reason);
    return false;
  }
  if (grouping.keys != NIL)
    groups =
        estimate_num_groups(root, grouping.keys, input_rel->cheapest_total_path->rows, NULL, NULL);
  partial = batch_agg_make_path(root, rel, rel->reltarget, &grouping, NIL, &offer, offer.groups);
  path = finalized(root, rel, output_rel, &partial->path, extra, groups);
  if (ccopt_force) {
    /* Free like the path without workers, and then preferred to it, if a Gather is free as well. */
    if (parallel_setup_cost > 0) return false;
    path->startup_cost = path->total_cost = 0;
  } else if (grouping.keys != NIL) {
    /* Against a plan without a table, the cache misses of BatchAgg's table count in full. */
    Cost misses = cost_batch_agg_beside_streams(root, offer.child, &offer.work, offer.groups) -
                  partial->path.total_cost;
    if (batch_agg_cheapest_stream(output_rel) < path->total_cost + Max(misses, 0)) return false;
  }
  add_path(output_rel, path);
  return true;
}
