/*
 * Where CC-Optimizer puts a buffer: figures 9 and 10 of Tsuji, Kawashima 2008.
 *
 *   1. the parent has three or more kinds of aggregates, and the child is a major module, not a sort
 *   2. the parent is a join, and the child is a major module, not a sort
 *   3. the parent is a sort, and the child is a major module
 *   4. and in all cases the planner expects 1500 rows or more
 *
 * The kinds: section 4.2.3 finds a sure gain for queries F and G of table 1 (avg, max, sum and
 * count), but not for D and E (avg, sum and count: "two kinds") or H (avg only). So count is not
 * a kind of its own, and avg or sum, the large ones, must be among the three.
 */
#include "buffer.h"

#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#define PAPER_THRESHOLD_ROWS 1500
#define PAPER_KINDS 3

typedef struct Kinds {
  List *names; /* of String */
} Kinds;

static bool collect_kinds(Node *node, Kinds *kinds) {
  if (node == NULL) return false;
  if (IsA(node, Aggref)) {
    char *name = get_func_name(((Aggref *)node)->aggfnoid);
    if (name) kinds->names = list_append_unique(kinds->names, makeString(name));
  }
  return expression_tree_walker(node, collect_kinds, kinds);
}

static bool has_large_aggregates(const Agg *agg) {
  Kinds kinds = {NIL};
  bool avg_or_sum;

  collect_kinds((Node *)agg->plan.targetlist, &kinds);
  collect_kinds((Node *)agg->plan.qual, &kinds);
  kinds.names = list_delete(kinds.names, makeString("count"));
  avg_or_sum =
      list_member(kinds.names, makeString("avg")) || list_member(kinds.names, makeString("sum"));
  return avg_or_sum && list_length(kinds.names) >= PAPER_KINDS;
}

/*
 * Major modules are those for which Zhou & Ross list instruction footprints: scans of tables,
 * joins, aggregation, sort. SubqueryScan, Limit, Material and similar nodes are small: a buffer
 * cost 1.25 %.
 */
static bool is_major_module(const Plan *child) {
  switch (nodeTag(child)) {
    case T_SeqScan:
    case T_IndexScan:
    case T_IndexOnlyScan:
    case T_BitmapHeapScan:
    case T_NestLoop:
    case T_MergeJoin:
    case T_HashJoin:
    case T_Agg: return true;
    default: return false;
  }
}

const char *paper_refusal(const Plan *parent, const Plan *child) {
  switch (nodeTag(parent)) {
    case T_Agg:
      if (!has_large_aggregates((const Agg *)parent)) return "fewer than three kinds of aggregates";
      break;
    case T_NestLoop:
    case T_MergeJoin:
    case T_HashJoin:
    case T_Sort: break;
    default: return "the parent is not an aggregation, join or sort";
  }
  if (!is_major_module(child)) return "the child is not a major module";
  if (child->plan_rows < PAPER_THRESHOLD_ROWS) return "fewer than 1500 rows expected";
  return NULL;
}
