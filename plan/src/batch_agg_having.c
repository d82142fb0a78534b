/*
 * HAVING on numbers: sum(l_quantity) > 300 without making a numeric of each group's sum.
 */
#include "batch_agg.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "decimal.h"

typedef enum Order { BELOW = 1, SAME = 2, ABOVE = 4 } Order;

typedef struct Condition {
  int aggregate;
  int orders; /* Order, or-ed: of the aggregate to the constant, for which it is true */
  Oid type;   /* of the constant */
  ExprState *constant;
  bool ready;  /* the constant is evaluated */
  bool usable; /* its value is a number */
  int64 number;
  int scale;
} Condition;

struct HavingFilter {
  int nconditions;
  Condition conditions[FLEXIBLE_ARRAY_MEMBER];
};

/* For which orders of its operands core's function is true; 0: none of those known. */
static int orders_of(Oid function) {
  switch (function) {
    case F_INT2LT:
    case F_INT4LT:
    case F_INT8LT:
    case F_INT24LT:
    case F_INT42LT:
    case F_INT48LT:
    case F_INT84LT:
    case F_NUMERIC_LT: return BELOW;
    case F_INT2LE:
    case F_INT4LE:
    case F_INT8LE:
    case F_INT24LE:
    case F_INT42LE:
    case F_INT48LE:
    case F_INT84LE:
    case F_NUMERIC_LE: return BELOW | SAME;
    case F_INT2EQ:
    case F_INT4EQ:
    case F_INT8EQ:
    case F_INT24EQ:
    case F_INT42EQ:
    case F_INT48EQ:
    case F_INT84EQ:
    case F_NUMERIC_EQ: return SAME;
    case F_INT2NE:
    case F_INT4NE:
    case F_INT8NE:
    case F_INT24NE:
    case F_INT42NE:
    case F_INT48NE:
    case F_INT84NE:
    case F_NUMERIC_NE: return BELOW | ABOVE;
    case F_INT2GE:
    case F_INT4GE:
    case F_INT8GE:
    case F_INT24GE:
    case F_INT42GE:
    case F_INT48GE:
    case F_INT84GE:
    case F_NUMERIC_GE: return SAME | ABOVE;
    case F_INT2GT:
    case F_INT4GT:
    case F_INT8GT:
    case F_INT24GT:
    case F_INT42GT:
    case F_INT48GT:
    case F_INT84GT:
    case F_NUMERIC_GT: return ABOVE;
    default: return 0;
  }
}

static bool is_number_constant(const Node *node) {
  return (IsA(node, Const) || IsA(node, Param)) &&
         (exprType(node) == NUMERICOID || exprType(node) == INT2OID || exprType(node) == INT4OID ||
          exprType(node) == INT8OID);
}

/* False if the clause is of another form. */
static bool parse_condition(const Node *clause, int ncells, int naggregates, PlanState *parent,
                            Condition *condition) {
  const OpExpr *operator=(const OpExpr *) clause;
  Node *left, *right;

  if (!IsA(clause, OpExpr) || list_length(operator->args) != 2) return false;
  condition->orders = orders_of(OidIsValid(operator->opfuncid) ? operator->opfuncid
                                                               : get_opcode(operator->opno));
  if (condition->orders == 0) return false;
  left = linitial(operator->args);
  right = lsecond(operator->args);
  if (IsA(right, Var)) {
    Node *swap = left;
    left = right;
    right = swap;
    condition->orders = (condition->orders & SAME) | (condition->orders & BELOW ? ABOVE : 0) |
                        (condition->orders & ABOVE ? BELOW : 0);
  }
  if (!IsA(left, Var) || ((Var *)left)->varno != INDEX_VAR || !is_number_constant(right))
    return false;
  condition->aggregate = ((Var *)left)->varattno - 1 - ncells;
  if (condition->aggregate < 0 || condition->aggregate >= naggregates) return false;
  condition->type = exprType(right);
  condition->constant = ExecInitExpr((Expr *)right, parent);
  return true;
}

/* Evaluating it cannot fail, nor run a sub-select. */
static bool is_simple(const Node *clause) {
  ListCell *cell;
  foreach (cell, ((const OpExpr *)clause)->args)
    if (IsA(lfirst(cell), Param) && lfirst_node(Param, cell)->paramkind != PARAM_EXTERN)
      return false;
  return true;
}

HavingFilter *having_filter_create(List *qual, int ncells, int naggregates, PlanState *parent) {
  HavingFilter *filter =
      palloc0(offsetof(HavingFilter, conditions) + sizeof(Condition) * list_length(qual));
  bool all = true; /* of the clauses so far are conditions */
  ListCell *cell;

  foreach (cell, qual) {
    Condition *condition = &filter->conditions[filter->nconditions];
    /* A sub-select is asked only by groups that pass what comes before, as in core. */
    if (parse_condition(lfirst(cell), ncells, naggregates, parent, condition) &&
        (all || is_simple(lfirst(cell))))
      filter->nconditions++;
    else
      all = false;
  }
  return filter->nconditions > 0 ? filter : NULL;
}

void having_filter_reset(HavingFilter *filter) {
  for (int i = 0; i < filter->nconditions; i++) filter->conditions[i].ready = false;
}

static void evaluate(Condition *condition, ExprContext *context) {
  bool is_null;
  Datum value = ExecEvalExprSwitchContext(condition->constant, context, &is_null);

  condition->ready = true;
  condition->scale = 0;
  condition->usable = !is_null;
  if (is_null) return;
  if (condition->type == NUMERICOID) {
    MemoryContext before = MemoryContextSwitchTo(context->ecxt_per_tuple_memory);
    condition->usable =
        decimal_of_numeric(DatumGetNumeric(value), &condition->number, &condition->scale);
    MemoryContextSwitchTo(before);
  } else {
    condition->number = number_of_datum(condition->type, value);
  }
}

/* True unless the condition is known to be false or NULL. */
static bool may_pass(const Condition *condition, const Transitions *transitions,
                     const GroupRecord *group) {
  int128 number, constant = condition->number;
  int scale;
  bool is_null;
  Order order;

  if (!condition->usable ||
      !transitions_number(transitions, condition->aggregate, group, &number, &scale, &is_null))
    return true;
  if (is_null) return false;
  if (scale >= condition->scale) {
    constant *= decimal_powers[scale - condition->scale];
  } else {
    if (number != (int128)(int64)number) return true;
    number *= decimal_powers[condition->scale - scale];
  }
  order = number < constant ? BELOW : number > constant ? ABOVE : SAME;
  return (condition->orders & order) != 0;
}

bool having_filter_passes(HavingFilter *filter, const Transitions *transitions,
                          const GroupRecord *group, ExprContext *context) {
  for (int i = 0; i < filter->nconditions; i++) {
    Condition *condition = &filter->conditions[i];
    if (unlikely(!condition->ready)) {
      evaluate(condition, context);
      ResetExprContext(context);
    }
    if (!may_pass(condition, transitions, group)) return false;
  }
  return true;
}
