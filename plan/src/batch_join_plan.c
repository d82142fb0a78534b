/*
 * BatchHashJoin, planning: a chosen path becomes a plan node.
 *
 * All columns that are used become entries of custom_scan_tlist, so that core itself replaces the
 * columns of the clauses by references to them, with subplans, parameters and dependencies.
 */
#include "batch_join.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"

typedef struct JoinColumns {
  List *outer, *inner; /* target lists of the children */
  List *target;        /* custom_scan_tlist so far */
  List *sides, *resnos;
} JoinColumns;

/* The entry for a column; NULL if neither child has it. */
static TargetEntry *entry_for(JoinColumns *columns, Node *column) {
  int known = batch_join_find_column(columns->target, column);
  int side = 0, index;
  TargetEntry *entry;

  if (known >= 0) return list_nth_node(TargetEntry, columns->target, known);
  index = batch_join_find_column(columns->outer, column);
  if (index < 0) {
    side = 1;
    index = batch_join_find_column(columns->inner, column);
  }
  if (index < 0) return NULL;
  entry =
      makeTargetEntry(copyObject((Expr *)column), list_length(columns->target) + 1, NULL, false);
  columns->target = lappend(columns->target, entry);
  columns->sides = lappend_int(columns->sides, side);
  columns->resnos = lappend_int(columns->resnos, index + 1);
  return entry;
}

/* Replaces columns by the entries' columns: core compares them with all their properties. */
static Node *over_entries(Node *node, JoinColumns *columns) {
  if (node == NULL) return NULL;
  if (IsA(node, Var) || IsA(node, PlaceHolderVar)) {
    TargetEntry *entry = entry_for(columns, node);
    if (entry != NULL) return (Node *)copyObject(entry->expr);
    if (IsA(node, Var)) elog(ERROR, "a column of the join's conditions is in neither side");
    return over_entries((Node *)((PlaceHolderVar *)node)->phexpr, columns);
  }
  return expression_tree_mutator(node, over_entries, columns);
}

/*
 * Adds the children's target entries that a hash clause compares. Returns the clause with the outer
 * side on the left, as core's hash joins do.
 */
static OpExpr *add_key(const JoinColumns *columns, OpExpr *clause, List **outer, List **inner) {
  Node *left, *right;
  int outer_index, inner_index;

  batch_join_clause_sides(clause, &left, &right);
  outer_index = batch_join_find_column(columns->outer, left);
  inner_index = batch_join_find_column(columns->inner, right);
  if (outer_index < 0 || inner_index < 0) {
    outer_index = batch_join_find_column(columns->outer, right);
    inner_index = batch_join_find_column(columns->inner, left);
    if (OidIsValid(get_commutator(clause->opno))) {
      clause = copyObject(clause);
      CommuteOpExpr(clause);
    }
  }
  if (outer_index < 0 || inner_index < 0) elog(ERROR, "a key of the join is in neither side");
  *outer = lappend_int(*outer, outer_index + 1);
  *inner = lappend_int(*inner, inner_index + 1);
  return clause;
}

Plan *batch_join_make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *target,
                           List *clauses, List *children) {
  CustomScan *scan = makeNode(CustomScan);
  List *private = path->custom_private;
  List *hash_clauses = NIL;
  List *vector_quals = NIL, *row_quals = NIL, *outer_keys = NIL, *inner_keys = NIL;
  JoinColumns columns = {.outer = ((Plan *)linitial(children))->targetlist,
                         .inner = ((Plan *)lsecond(children))->targetlist};
  ListCell *cell;

  foreach (cell, (List *)list_nth(private, JOIN_PATH_TARGET))
    if (entry_for(&columns, lfirst(cell)) == NULL)
      elog(ERROR, "a column of the join is in neither side");
  foreach (cell, (List *)list_nth(private, JOIN_PATH_HASH_CLAUSES))
    hash_clauses = lappend(hash_clauses,
                           add_key(&columns, lfirst_node(OpExpr, cell), &outer_keys, &inner_keys));
  foreach (cell, (List *)list_nth(private, JOIN_PATH_QUALS)) {
    if (vector_qual_refusal(lfirst(cell)) == NULL)
      vector_quals = lappend(vector_quals, lfirst(cell));
    else
      row_quals = lappend(row_quals, lfirst(cell));
  }

  scan->scan.plan.targetlist = target;
  scan->scan.plan.qual =
      (List *)over_entries((Node *)list_nth(private, JOIN_PATH_OTHER_QUALS), &columns);
  scan->flags = path->flags;
  scan->custom_plans = children;
  scan->custom_exprs = list_concat(list_copy(hash_clauses), vector_quals);
  scan->custom_exprs =
      (List *)over_entries((Node *)list_concat(scan->custom_exprs, row_quals), &columns);
  scan->custom_scan_tlist = columns.target;
  scan->methods = &batch_join_scan_methods;
  scan->custom_private =
      list_make5(list_nth(private, JOIN_PATH_KIND), list_nth(private, JOIN_PATH_INNER_UNIQUE),
                 list_nth(private, JOIN_PATH_FILTERS), list_nth(private, JOIN_PATH_SHARING),
                 makeInteger(list_length(hash_clauses)));
  scan->custom_private = lappend(scan->custom_private, makeInteger(list_length(vector_quals)));
  scan->custom_private = lappend(scan->custom_private, columns.sides);
  scan->custom_private = lappend(scan->custom_private, columns.resnos);
  scan->custom_private = lappend(scan->custom_private, outer_keys);
  scan->custom_private = lappend(scan->custom_private, inner_keys);
  return &scan->scan.plan;
}
