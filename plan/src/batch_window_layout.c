/*
 * BatchWindow, planning: which windows can be computed, and what they need of each row.
 */
#include "batch_window_path.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "access/transam.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "window_functions.h"

/* ---- the child's columns ---- */

static int find_resno(const Node *expression, List *child) {
  ListCell *cell;
  foreach (cell, child)
    if (equal(lfirst(cell), expression)) return foreach_current_index(cell) + 1;
  return 0;
}

static Var *child_var(List *child, int resno) {
  const Node *expression = list_nth(child, resno - 1);
  return makeVar(OUTER_VAR, resno, exprType(expression), exprTypmod(expression),
                 exprCollation(expression), 0);
}

int window_layout_column(WindowLayout *layout, List *child, int resno) {
  ListCell *cell;
  foreach (cell, layout->columns)
    if (lfirst_node(Var, cell)->varattno == resno) return foreach_current_index(cell);
  layout->columns = lappend(layout->columns, child_var(child, resno));
  return list_length(layout->columns) - 1;
}

/* ---- keys ---- */

/* True if the operator's input type `input` is the one that values of a column are stored in. */
static bool orders_as_stored(Oid type, ColumnKind kind, Oid input) {
  if (kind == COLUMN_INTEGER) return input == type;
  switch (type) {
    case VARCHAROID: return input == TEXTOID;
    case FLOAT4OID:
    case FLOAT8OID:
    case NUMERICOID:
    case TEXTOID:
    case BPCHAROID: return input == type;
    default: return false;
  }
}

static const char *key_refusal(const Var *var, Oid operator) {
  Oid family, input;
  OperatorOrder order;
  int scale;
  ColumnKind kind = column_kind(var->vartype, var->vartypmod, var->varcollid, &scale);

  if (!get_ordering_op_properties(operator, & family, &input, &order) ||
      family >= FirstGenbkiObjectId)
    return "an operator that is not PostgreSQL's own orders the rows";
  if (!orders_as_stored(var->vartype, kind, input))
    return "a window by a type other than integers, numeric, float, dates, text";
  if (kind == COLUMN_OPAQUE && var->vartype == NUMERICOID)
    return "a window by numeric without a precision of at most 18 digits";
  if (kind == COLUMN_OPAQUE && var->vartype != FLOAT4OID && var->vartype != FLOAT8OID)
    return "a window by text of a nondeterministic collation";
  return NULL;
}

static const char *add_key(PlannerInfo *root, const SortGroupClause *clause, List *child,
                           WindowLayout *layout) {
  const Node *expression =
      get_sortgroupclause_expr((SortGroupClause *)clause, root->processed_tlist);
  const int resno = find_resno(expression, child);
  Oid family, input;
  OperatorOrder order;
  const char *reason;
  Var *var;

  if (resno == 0) return "the input lacks a column that windows are ordered by";
  var = child_var(child, resno);
  reason = key_refusal(var, clause->sortop);
  if (reason) return reason;
  if (!get_ordering_op_properties(clause->sortop, &family, &input, &order))
    return "an operator that orders nothing";
  layout->keys =
      lappend(layout->keys, list_make3_int(window_layout_column(layout, child, resno),
                                           order == ORDERS_DESCENDING, clause->nulls_first));
  layout->operators =
      lappend(layout->operators, list_make3_oid(clause->sortop, clause->eqop, var->varcollid));
  return NULL;
}

/* ---- functions ---- */

const char *window_frame_refusal(int frame_options) {
  if (frame_options & FRAMEOPTION_EXCLUSION) return "a frame with EXCLUDE";
  if (!(frame_options & FRAMEOPTION_START_UNBOUNDED_PRECEDING))
    return "a frame that does not begin with the partition";
  if (!(frame_options & (FRAMEOPTION_END_CURRENT_ROW | FRAMEOPTION_END_UNBOUNDED_FOLLOWING)))
    return "a frame that ends with an offset";
  return NULL;
}

static bool is_positive_constant(const WindowFunc *function, int index) {
  const Const *constant = list_nth(function->args, index);
  return IsA(constant, Const) && constant->consttype == INT4OID && !constant->constisnull &&
         DatumGetInt32(constant->constvalue) > 0;
}

static bool are_constants(const List *arguments, int from) {
  for (int i = from; i < list_length(arguments); i++)
    if (!IsA(list_nth(arguments, i), Const)) return false;
  return true;
}

static const char *number_refusal(const Var *var) {
  int scale;
  ColumnKind kind = column_kind(var->vartype, var->vartypmod, var->varcollid, &scale);
  if (kind == COLUMN_INTEGER || kind == COLUMN_DECIMAL) return NULL;
  return "a sum over a window of numeric without a precision of at most 18 digits";
}

const char *window_function_refusal(const WindowFunc *function) {
  const Var *var = function->args != NIL ? linitial(function->args) : NULL;
  WindowFunctionKind kind;

  if (!window_function_kind(function->winfnoid, &kind))
    return "a window function other than ranks, lag, lead, values of the frame, count, sum, avg, "
           "min, max";
  if (function->aggfilter) return "FILTER in a window function";
  switch (kind) {
    case WINDOW_NTILE:
      return is_positive_constant(function, 0)
                 ? NULL
                 : "ntile() of something other than a positive constant";
    case WINDOW_NTH_VALUE:
      if (!is_positive_constant(function, 1))
        return "nth_value() of something other than a positive constant";
      break;
    case WINDOW_OFFSET:
      if (!are_constants(function->args, 1))
        return "lag() or lead() by an offset that is not a constant";
      break;
    default: break;
  }
  if (var == NULL) return NULL;
  if (!IsA(var, Var)) return "an expression in a window function";
  switch (kind) {
    case WINDOW_SUM_INTEGER:
    case WINDOW_SUM_NUMERIC:
    case WINDOW_AVERAGE:
    case WINDOW_MIN:
    case WINDOW_MAX: return number_refusal(var);
    default: return NULL;
  }
}

static const char *map_function(const WindowFunc *function, List *child, WindowLayout *layout,
                                List **mapped) {
  WindowFunc *copy = copyObject((WindowFunc *)function);
  const char *reason;
  ListCell *cell;

  FORGET_RUN_CONDITION(copy);
  foreach (cell, copy->args) {
    int resno = IsA(lfirst(cell), Const) ? 0 : find_resno(lfirst(cell), child);
    if (resno > 0) lfirst(cell) = child_var(child, resno);
  }
  reason = window_function_refusal(copy);
  if (reason) return reason;
  foreach (cell, copy->args) {
    const Var *var = lfirst(cell);
    if (!IsA(var, Var)) continue;
    if (var->varno != OUTER_VAR) return "the input lacks a column that a window function needs";
    window_layout_column(layout, child, var->varattno);
  }
  *mapped = lappend(*mapped, copy);
  return NULL;
}

/* ---- all ---- */

static const char *add_window(const WindowAggPath *path, const List *functions, List *child,
                              WindowLayout *layout) {
  const WindowClause *clause = path->winclause;
  List *mapped = NIL;
  List *numbers;
  const char *reason = window_frame_refusal(clause->frameOptions);
  ListCell *cell;

  foreach (cell, functions)
    if (reason == NULL)
      reason = map_function(lfirst_node(WindowFunc, cell), child, layout, &mapped);
  if (reason) return reason;
  numbers = list_make4_int(list_length(clause->partitionClause), list_length(clause->orderClause),
                           clause->frameOptions, clause->winref);
  numbers = lappend_int(numbers, path->topwindow);
  layout->windows = lappend(layout->windows, list_make2(numbers, mapped));
  return NULL;
}

const char *window_layout_make(PlannerInfo *root, const WindowGroup *group, List *child,
                               WindowLayout *layout) {
  const char *reason = NULL;
  ListCell *cell;

  memset(layout, 0, sizeof(*layout));
  if (list_length(group->clauses) > ROW_SORT_KEYS)
    return "many columns that windows are ordered by";
  foreach (cell, group->clauses)
    if (reason == NULL) reason = add_key(root, lfirst_node(SortGroupClause, cell), child, layout);
  foreach (cell, group->paths) {
    const List *functions = list_nth(group->functions, foreach_current_index(cell));
    if (reason == NULL) reason = add_window(lfirst(cell), functions, child, layout);
  }
  return reason;
}
