/*
 * BatchAgg, planning: what is grouped and aggregated, as the planner has it and over a child.
 */
#include "batch_agg_path.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/lsyscache.h"

#include "group_table.h"
#include "transitions.h"

/*
 * What core found to follow from the rest is carried along. If nothing is left (since 16: all equal
 * constants) the columns are keys after all: no rows have to make no group.
 */
List *group_clauses(const PlannerInfo *root) {
  return GROUP_CLAUSES(root) != NIL ? GROUP_CLAUSES(root) : root->parse->groupClause;
}

static bool collect_inputs(Node *node, Grouping *grouping) {
  if (node == NULL || list_member(grouping->keys, node)) return false;
  if (IsA(node, Aggref)) {
    grouping->aggregates = list_append_unique(grouping->aggregates, node);
    return false;
  }
  if (IsA(node, GroupingFunc)) {
    grouping->functions = list_append_unique(grouping->functions, node);
    return false;
  }
  if (IsA(node, Var) || IsA(node, PlaceHolderVar)) {
    grouping->carried = list_append_unique(grouping->carried, node);
    return false;
  }
  return expression_tree_walker(node, collect_inputs, grouping);
}

const char *grouping_collect(PlannerInfo *root, const PathTarget *target, Node *having,
                             Grouping *grouping) {
  ListCell *cell;

  foreach (cell, group_clauses(root)) {
    SortGroupClause *clause = lfirst_node(SortGroupClause, cell);
    Node *key = get_sortgroupclause_expr(clause, root->processed_tlist);
    if (!clause->hashable) return "a grouping column that cannot be hashed";
    grouping->keys = list_append_unique(grouping->keys, key);
  }
  foreach (cell, target->exprs) collect_inputs(lfirst(cell), grouping);
  grouping->having = (List *)having;
  collect_inputs(having, grouping);
  if (list_length(grouping->keys) + list_length(grouping->carried) > GROUP_MAX_CELLS)
    return "too many grouping columns";
  return NULL;
}

/* ---- over a child ---- */

typedef struct Mapping {
  const PlannerInfo *root;
  List *child; /* expressions of its target list */
  bool failed; /* something is not there */
} Mapping;

static int find(const List *expressions, const Node *node) {
  ListCell *cell;
  foreach (cell, expressions)
    if (equal(lfirst(cell), node)) return foreach_current_index(cell);
  return -1;
}

static Node *map_to_child(Node *node, void *argument) {
  Mapping *mapping = argument;

  if (node == NULL) return NULL;
  if (!IsA(node, Const) && !IsA(node, Param) && !IsA(node, List) && !IsA(node, TargetEntry)) {
    int place = find(mapping->child, node);
    if (place < 0) place = find(mapping->child, BELOW_GROUPING_SETS(mapping->root, node));
    if (place >= 0)
      return (Node *)makeVar(OUTER_VAR, place + 1, exprType(node), exprTypmod(node),
                             exprCollation(node), 0);
  }
  if (IsA(node, Var) || IsA(node, PlaceHolderVar)) {
    mapping->failed = true;
    return node;
  }
  return expression_tree_mutator(node, map_to_child, argument);
}

static bool all_vars(const List *list) {
  ListCell *cell;
  foreach (cell, list)
    if (!IsA(lfirst(cell), Var)) return false;
  return true;
}

/* Of copies. */
static void drop_distinct(List *aggregates) {
  ListCell *cell;
  foreach (cell, aggregates) lfirst_node(Aggref, cell)->aggdistinct = NIL;
}

bool grouping_has_distinct(const Grouping *grouping) {
  ListCell *cell;
  foreach (cell, grouping->aggregates)
    if (lfirst_node(Aggref, cell)->aggdistinct != NIL) return true;
  return false;
}

Grouping *grouping_over(const PlannerInfo *root, const Grouping *grouping, List *child,
                        AggStep step) {
  Mapping mapping = {root, child, false};
  Grouping *mapped = palloc0(sizeof(*mapped));

  mapped->keys = (List *)map_to_child((Node *)grouping->keys, &mapping);
  mapped->carried = (List *)map_to_child((Node *)grouping->carried, &mapping);
  mapped->aggregates = (List *)map_to_child((Node *)grouping->aggregates, &mapping);
  if (mapping.failed || !all_vars(mapped->keys) || !all_vars(mapped->carried)) return NULL;
  if (step == AGG_STEP_OF_DISTINCT) drop_distinct(mapped->aggregates);
  return mapped;
}

/* ---- what it takes ---- */

/* Bytes of a group, with what its cells point to. */
static Size bytes_per_group(const Grouping *grouping, AggWork *work) {
  List *cells = list_concat_copy(grouping->keys, grouping->carried);
  Size size = group_size(list_length(cells),
                         transitions_estimate(grouping->aggregates, &work->transitions));
  ListCell *cell;

  foreach (cell, cells) {
    const Var *var = lfirst_node(Var, cell);
    if (!get_typbyval(var->vartype))
      size += MAXALIGN(get_typavgwidth(var->vartype, var->vartypmod) + 4);
  }
  list_free(cells);
  /* And its slots: between 3/8 and 5/8 of them are in use. */
  return size + 16;
}

static int count_decimals(const Grouping *grouping) {
  List *vars = pull_var_clause((Node *)list_concat_copy(grouping->keys, grouping->aggregates),
                               PVC_RECURSE_AGGREGATES);
  List *decimals = NIL;
  ListCell *cell;

  foreach (cell, vars) {
    Var *var = lfirst_node(Var, cell);
    int scale;
    if (column_kind(var->vartype, var->vartypmod, var->varcollid, &scale) == COLUMN_DECIMAL)
      decimals = list_append_unique(decimals, var);
  }
  return list_length(decimals);
}

AggWork grouping_work(const Grouping *grouping) {
  AggWork work = {0};
  work.state = bytes_per_group(grouping, &work);
  work.keys = list_length(grouping->keys);
  work.decimals = count_decimals(grouping);
  return work;
}
