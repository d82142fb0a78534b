/*
 * BatchAgg, planning: GROUPING SETS, ROLLUP and CUBE in one pass over the input.
 *
 *     GROUP BY ROLLUP (a, b)
 *
 *     BatchAgg     three tables: groups of (a, b), of (a), and the one group of ()
 *       BatchScan  each batch is decoded once, and goes into all three
 *
 * Core sorts for each ROLLUP, or keeps a hash table for each set as this does, row by row. Of the memory
 * for hashing each set gets a part by its number of groups (batch_agg_exec.c).
 */
#include "batch_agg_path.h"

#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/tlist.h"

#include "settings.h"

/* Each set has vectors of its own, some 50 kB. */
#define MOST_SETS 32

/* The positions among the keys of a set's columns, which parse->groupingSets has by reference. */
static List *key_positions(const PlannerInfo *root, const List *keys, const List *set) {
  List *positions = NIL;
  ListCell *cell;

  foreach (cell, set) {
    SortGroupClause *clause = get_sortgroupref_clause(lfirst_int(cell), root->parse->groupClause);
    Node *key = get_sortgroupclause_expr(clause, root->processed_tlist);
    ListCell *other;
    foreach (other, keys)
      if (equal(lfirst(other), key))
        positions = list_append_unique_int(positions, foreach_current_index(other));
  }
  return positions;
}

/* GROUPING(a, b): a bit for each argument, the last is the lowest; 1: not a column of the set. */
static List *grouping_values(const List *functions, const List *set) {
  List *values = NIL;
  ListCell *cell, *reference;

  foreach (cell, functions) {
    int value = 0;
    foreach (reference, lfirst_node(GroupingFunc, cell)->refs)
      value = value << 1 | !list_member_int(set, lfirst_int(reference));
    values = lappend_int(values, value);
  }
  return values;
}

static List *keys_at(const List *keys, const List *positions) {
  List *chosen = NIL;
  ListCell *cell;
  foreach (cell, positions) chosen = lappend(chosen, list_nth(keys, lfirst_int(cell)));
  return chosen;
}

/*
 * Up to 17 core takes a column that a condition makes constant for constant above grouping sets, too,
 * and drops it from ORDER BY, where the sets without it have NULL. Its answer is then in the order in
 * which core's node happens to make it.
 */
static bool has_constant_key(PlannerInfo *root) {
  ListCell *cell;

  foreach (cell, root->parse->groupClause) {
    SortGroupClause *clause = lfirst_node(SortGroupClause, cell);
    if (OidIsValid(clause->sortop) &&
        make_pathkeys_for_sortclauses(root, list_make1(clause), root->processed_tlist) == NIL)
      return true;
  }
  return false;
}

static const char *sets_refusal(PlannerInfo *root, const Grouping *grouping) {
  if (list_length(root->parse->groupingSets) > MOST_SETS) return "many grouping sets";
  if (grouping_has_distinct(grouping)) return "grouping sets with DISTINCT in an aggregate";
  /* Columns of a subquery that are the same column below: their expressions do not distinguish them. */
  if (list_length(grouping->keys) < list_length(root->parse->groupClause))
    return "grouping sets of equal columns";
  if (grouping->carried != NIL) return "grouping sets with columns that follow from a key";
  if (has_constant_key(root)) return "grouping sets of a column that a condition makes constant";
  return NULL;
}

const char *batch_agg_add_sets_path(PlannerInfo *root, RelOptInfo *output_rel, Path *child,
                                    const Grouping *grouping) {
  const char *reason = sets_refusal(root, grouping);
  Cost startup = child->total_cost, total = child->total_cost, beside_streams = child->total_cost;
  AggOffer offer = {.child = child};
  double groups = 0, bytes = 0;
  List *sets = NIL;
  CustomPath *path;
  ListCell *cell;

  if (reason) return reason;
  foreach (cell, root->parse->groupingSets) {
    List *positions = key_positions(root, grouping->keys, lfirst(cell));
    Grouping set = {.keys = keys_at(grouping->keys, positions), .aggregates = grouping->aggregates};
    Cost set_startup, set_total;

    reason = batch_agg_offer(root, child, &set, AGG_STEP_WHOLE, &offer);
    if (reason) return reason;
    cost_batch_agg(root, child, &offer.work, offer.groups, &set_startup, &set_total);
    startup += set_startup - child->total_cost;
    total += set_total - child->total_cost;
    beside_streams +=
        cost_batch_agg_beside_streams(root, child, &offer.work, offer.groups) - child->total_cost;
    groups += offer.groups;
    bytes += offer.groups * offer.work.state;
    sets = lappend(sets, list_make3(positions, grouping_values(grouping->functions, lfirst(cell)),
                                    batch_agg_group_count(offer.groups)));
  }
  if (!ccopt_force && bytes > get_hash_memory_limit())
    return "the groups of all sets would take more memory than hash_mem_multiplier * work_mem";
  if (!ccopt_force && batch_agg_cheapest_stream(output_rel) < beside_streams)
    return "rows that come in order are grouped for less, without a table";
  offer.groups = groups;
  path = batch_agg_make_path(root, output_rel, output_rel->reltarget, grouping, sets, &offer,
                             batch_agg_result_rows(output_rel, groups));
  if (!ccopt_force) {
    path->path.startup_cost = startup;
    path->path.total_cost = total + output_rel->reltarget->cost.startup +
                            output_rel->reltarget->cost.per_tuple * path->path.rows;
  }
  add_path(output_rel, &path->path);
  return NULL;
}
