/*
 * BatchAgg, planning: DISTINCT by hashing in batches.
 *
 *     count(DISTINCT x) ... GROUP BY g             SELECT DISTINCT a, b
 *
 *     BatchAgg   groups of g: count(x)             BatchAgg   groups of a, b, without aggregates
 *       BatchAgg   groups of g, x
 *
 * PostgreSQL sorts the rows of each group for an aggregate with DISTINCT. Here the lower step keeps each
 * value of a group once, within the memory of a hash table and with temporary files beyond that, as
 * every BatchAgg. So all aggregates have to be of the same values.
 */
#include "batch_agg_path.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"

#include "batch_scan.h"
#include "doors.h"
#include "group_table.h"
#include "node_names.h"
#include "reasons.h"
#include "refusal.h"
#include "settings.h"

/* ---- aggregates with DISTINCT ---- */

/* The column that all aggregates are of, or why there is none. */
static const char *common_argument(const Grouping *grouping, Node **argument) {
  ListCell *cell;

  *argument = NULL;
  foreach (cell, grouping->aggregates) {
    const Aggref *aggregate = lfirst_node(Aggref, cell);
    Node *value;
    if (aggregate->aggdistinct == NIL) return "aggregates with DISTINCT and without";
    if (aggregate->aggfilter != NULL) return "DISTINCT in an aggregate with FILTER";
    if (list_length(aggregate->args) != 1 || list_length(aggregate->aggdistinct) != 1)
      return "DISTINCT in an aggregate of several values";
    if (!linitial_node(SortGroupClause, aggregate->aggdistinct)->hashable)
      return "DISTINCT of values that cannot be hashed";
    value = (Node *)linitial_node(TargetEntry, aggregate->args)->expr;
    if (!IsA(value, Var)) return "DISTINCT of an expression in an aggregate";
    if (*argument != NULL && !equal(*argument, value))
      return "DISTINCT of several columns in aggregates";
    *argument = value;
  }
  return NULL;
}

/* What the lower step hands on. */
static PathTarget *target_of(PlannerInfo *root, const Grouping *grouping) {
  PathTarget *target = create_empty_pathtarget();
  ListCell *cell;

  foreach (cell, grouping->keys) add_column_to_pathtarget(target, lfirst(cell), 0);
  foreach (cell, grouping->carried) add_new_column_to_pathtarget(target, lfirst(cell));
  return set_pathtarget_cost_width(root, target);
}

const char *batch_agg_add_distinct_path(PlannerInfo *root, RelOptInfo *output_rel, Path *child,
                                        const Grouping *grouping) {
  Grouping pairs = {.carried = grouping->carried};
  AggOffer lower, upper;
  CustomPath *values, *path;
  Node *argument;
  Cost startup, total;
  const char *reason = common_argument(grouping, &argument);

  if (reason) return reason;
  pairs.keys = list_append_unique(list_copy(grouping->keys), argument);
  if (list_length(pairs.keys) + list_length(pairs.carried) > GROUP_MAX_CELLS)
    return "too many grouping columns";
  reason = batch_agg_offer(root, child, &pairs, AGG_STEP_KEYS, &lower);
  if (reason) return reason;
  values = batch_agg_make_path(root, output_rel, target_of(root, &pairs), &pairs, NIL, &lower,
                               lower.groups);
  reason = batch_agg_offer(root, &values->path, grouping, AGG_STEP_OF_DISTINCT, &upper);
  if (reason) return reason;
  path = batch_agg_make_path(root, output_rel, output_rel->reltarget, grouping, NIL, &upper,
                             batch_agg_result_rows(output_rel, upper.groups));
  cost_batch_distinct(root, child, &lower.work, lower.groups, &upper.work, upper.groups, &startup,
                      &total);
  values->path.startup_cost = values->path.total_cost = startup;
  path->path.startup_cost = startup;
  path->path.total_cost =
      total + (ccopt_force ? 0 : output_rel->reltarget->cost.per_tuple) * path->path.rows;
  add_path(output_rel, &path->path);
  return NULL;
}

/* ---- SELECT DISTINCT ---- */

static const char *distinct_refusal(PlannerInfo *root) {
  const char *reason = statement_refusal(root);

  if (reason) return reason;
  if (root->parse->hasDistinctOn) return "DISTINCT ON";
  if (root->parse->hasTargetSRFs) return "a function that returns sets in the target list";
  if (contain_volatile_functions((Node *)root->processed_tlist)) return "volatile functions";
  /* As for core's hashed aggregation: who switches it off counts on sorted groups. */
  if (!enable_hashagg) return "enable_hashagg is off";
  return NULL;
}

static const char *distinct_keys(PlannerInfo *root, Grouping *grouping) {
  ListCell *cell;

  foreach (cell, root->parse->distinctClause) {
    SortGroupClause *clause = lfirst_node(SortGroupClause, cell);
    if (!clause->hashable) return "a column that cannot be hashed";
    grouping->keys =
        list_append_unique(grouping->keys, get_sortgroupclause_expr(clause, root->processed_tlist));
  }
  return list_length(grouping->keys) > GROUP_MAX_CELLS ? "too many columns" : NULL;
}

static const char *add_distinct_over(PlannerInfo *root, RelOptInfo *output_rel, Path *child,
                                     const Grouping *grouping) {
  AggOffer offer;
  ListCell *cell;
  const char *reason;

  /* Constants are in no column of the input. */
  foreach (cell, child->pathtarget->exprs)
    if (!list_member(grouping->keys, lfirst(cell))) return "a column beside those of DISTINCT";
  reason = batch_agg_offer(root, child, grouping, AGG_STEP_KEYS, &offer);
  if (reason) return reason;
  if (!ccopt_force && batch_agg_cheapest_stream(output_rel) <
                          cost_batch_agg_beside_streams(root, child, &offer.work, offer.groups))
    return "rows that come in order are grouped for less, without a table";
  add_path(output_rel, &batch_agg_make_path(root, output_rel, child->pathtarget, grouping, NIL,
                                            &offer, batch_agg_result_rows(output_rel, offer.groups))
                            ->path);
  return NULL;
}

void batch_agg_add_distinct_paths(PlannerInfo *root, RelOptInfo *input_rel,
                                  RelOptInfo *output_rel) {
  Grouping grouping = {0};
  const char *reason;

  if (input_rel->cheapest_total_path == NULL || batch_agg_is_beaten(input_rel, output_rel)) return;
  reason = distinct_refusal(root);
  if (reason == NULL) reason = distinct_keys(root, &grouping);
  if (reason == NULL)
    reason = add_distinct_over(root, output_rel, input_rel->cheapest_total_path, &grouping);
  if (reason == NULL && ccopt_enable_batch_scan && input_rel->reloptkind == RELOPT_BASEREL) {
    Path *scan = batch_scan_path(root, input_rel, false);
    if (scan) add_distinct_over(root, output_rel, scan, &grouping);
  }
  if (reason) note_refusal(root, output_rel, BATCH_AGG_NAME, reason);
}
