/*
 * BatchAgg, planning: when grouping can be done in batches, and which paths are added.
 */
#include "batch_agg_path.h"

#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/tlist.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/typcache.h"

#include "batch_scan.h"
#include "doors.h"
#include "node_names.h"
#include "reasons.h"
#include "refusal.h"
#include "settings.h"
#include "transitions.h"

/* ---- whether ---- */

static const char *statement_level_refusal(PlannerInfo *root, RelOptInfo *input_rel,
                                           RelOptInfo *output_rel, GroupPathExtraData *extra) {
  const char *reason = statement_refusal(root);

  if (reason) return reason;
  if (root->parse->hasTargetSRFs) return "a function that returns sets in the target list";
  if (IS_OTHER_REL(input_rel)) return "aggregation of a single partition";
  if (extra->patype == PARTITIONWISE_AGGREGATE_PARTIAL) return "partial aggregation";
  if (contain_volatile_functions((Node *)output_rel->reltarget->exprs) ||
      contain_volatile_functions(extra->havingQual))
    return "volatile functions";
  /* As for core's hashed aggregation: who switches it off counts on sorted groups. */
  if (group_clauses(root) != NIL && !enable_hashagg) return "enable_hashagg is off";
  return NULL;
}

/* ---- paths ---- */

/*
 * Of paths that cost the same within the planner's own fuzz, the one that loses less when there are
 * more rows than estimated. Behind a few joins estimates are too low by orders of magnitude (TPC-H
 * Q9: 143 rows, 319,404 in truth), and the sorted grouping that add_path() keeps for its order then
 * sorts them all.
 */
#define FUZZ 1.01
#define MORE_ROWS 10

static bool is_fragile(const Path *path, const Path *ours, const Path *child, Cost ours_with_more) {
  const AggPath *core = (const AggPath *)path;

  if (!IsA(path, AggPath) || core->aggsplit != AGGSPLIT_SIMPLE || path->param_info) return false;
  if (core->aggstrategy != AGG_HASHED &&
      !(core->aggstrategy == AGG_SORTED && IsA(core->subpath, SortPath)))
    return false;
  return ours->total_cost <= path->total_cost * FUZZ &&
         ours_with_more - child->total_cost < MORE_ROWS * (path->total_cost - child->total_cost);
}

static void drop_fragile_paths(PlannerInfo *root, RelOptInfo *output_rel, const Path *ours,
                               Path *child, const AggWork *work, double groups) {
  const double rows = child->rows;
  Cost startup, total;
  ListCell *cell;

  child->rows = rows * MORE_ROWS;
  cost_batch_agg(root, child, work, groups, &startup, &total);
  child->rows = rows;
  foreach (cell, output_rel->pathlist)
    if (is_fragile(lfirst(cell), ours, child, total))
      output_rel->pathlist = foreach_delete_current(output_rel->pathlist, cell);
}

static const char *add_path_over(PlannerInfo *root, RelOptInfo *output_rel, Path *child,
                                 const Grouping *grouping) {
  AggOffer offer;
  CustomPath *path;
  const char *reason;

  if (root->parse->groupingSets != NIL)
    return batch_agg_add_sets_path(root, output_rel, child, grouping);
  if (grouping_has_distinct(grouping))
    return batch_agg_add_distinct_path(root, output_rel, child, grouping);
  reason = batch_agg_offer(root, child, grouping, AGG_STEP_WHOLE, &offer);
  if (reason) return reason;
  if (!ccopt_force && offer.work.keys > 0 &&
      batch_agg_cheapest_stream(output_rel) <
          cost_batch_agg_beside_streams(root, child, &offer.work, offer.groups))
    return "rows that come in order are grouped for less, without a table";
  path = batch_agg_make_path(root, output_rel, output_rel->reltarget, grouping, NIL, &offer,
                             batch_agg_result_rows(output_rel, offer.groups));
  drop_fragile_paths(root, output_rel, &path->path, child, &offer.work, offer.groups);
  add_path(output_rel, &path->path);
  return NULL;
}

void batch_agg_add_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
                         RelOptInfo *output_rel, void *extra) {
  GroupPathExtraData *grouping_extra = extra;
  Grouping grouping = {0};
  const char *reason;
  const char *over_scan;

  if (batch_agg_is_beaten(input_rel, output_rel)) return;
  reason = statement_level_refusal(root, input_rel, output_rel, grouping_extra);

  if (reason == NULL)
    reason = grouping_collect(root, output_rel->reltarget, grouping_extra->havingQual, &grouping);
  if (reason == NULL && input_rel->cheapest_total_path == NULL) reason = "the input has no path";
  /* Forced, of two paths that cost nothing that with workers is taken. */
  if (reason == NULL && batch_agg_add_parallel_path(root, input_rel, output_rel, grouping_extra) &&
      ccopt_force)
    return;
  if (reason == NULL)
    reason = add_path_over(root, output_rel, input_rel->cheapest_total_path, &grouping);
  /* What is not possible over one path is not over the other. */
  if (reason == NULL && ccopt_enable_batch_scan && input_rel->reloptkind == RELOPT_BASEREL) {
    Path *scan = batch_scan_path(root, input_rel, false);
    over_scan = scan ? add_path_over(root, output_rel, scan, &grouping) : NULL;
    if (over_scan) note_refusal(root, output_rel, BATCH_AGG_NAME, over_scan);
  }
  if (reason) note_refusal(root, output_rel, BATCH_AGG_NAME, reason);
}
