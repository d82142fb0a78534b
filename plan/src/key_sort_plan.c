/*
 * Key-sorting buffers, planning: placed below the outer side of a nested loop that looks up an
 * index by one integer or date, if no node above depends on the order of rows.
 */
#include "plan_tree.h"

#include "access/htup_details.h"
#include "batch_agg.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "hash_keys.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/pg_locale.h"
#include "utils/syscache.h"

/* 256,000 rows gained a little more here and lost elsewhere (docs/design/plan.md, 3.2). */
#define KEY_SORT_ROWS 16000
#define LEAST_OUTER_ROWS 5000
/* Least size of table and index together: larger than the second-level cache, so that an
 * unsorted look-up misses it.
 */
#define LEAST_INNER_BYTES (8.0 * 1024 * 1024)

/* ---- dependence on the order of rows ---- */

/* True if equal values of this expression are indistinguishable in output. `expression` is over
 * the output of `plan`'s children. */
static bool equal_is_same(Node *expression, const Plan *plan) {
  const Plan *where;
  Oid type = exprType(expression);
  Oid collation;

  switch (type) {
    case BOOLOID:
    case INT2OID:
    case INT4OID:
    case INT8OID:
    case OIDOID:
    case DATEOID:
    case TIMESTAMPOID:
    case TIMESTAMPTZOID: return true;
    case TEXTOID:
    case VARCHAROID:
    case BPCHAROID:
      collation = exprCollation(expression);
      if (type == BPCHAROID && exprTypmod(expression) < 0) return false;
      return OidIsValid(collation) && get_collation_isdeterministic(collation);
    case NUMERICOID:
      /* 1.0 and 1.00 are equal; with one type modifier, or as results of extract(), equal values
       * also look the same. */
      if (exprTypmod(expression) >= 0) return true;
      expression = plan_resolve(expression, plan, &where);
      return IsA(expression, FuncExpr) && ((FuncExpr *)expression)->funcid == F_EXTRACT_TEXT_DATE;
    default: return false;
  }
}

static bool is_exact_number(Oid type) {
  return type == INT2OID || type == INT4OID || type == INT8OID || type == NUMERICOID;
}

/* True for aggregates that core computes exactly: their sums do not depend on the order of
 * summands. */
static bool aggregate_ignores_order(const Aggref *aggref, const Plan *plan) {
  const char *name = get_func_name(aggref->aggfnoid);
  Node *argument;

  if (name == NULL || aggref->aggfnoid >= FirstGenbkiObjectId) return false;
  if (aggref->aggsplit != AGGSPLIT_SIMPLE) return false;
  if (strcmp(name, "count") == 0) return true;
  if (list_length(aggref->args) != 1) return false;
  argument = (Node *)((TargetEntry *)linitial(aggref->args))->expr;
  if (strcmp(name, "sum") == 0 || strcmp(name, "avg") == 0)
    return is_exact_number(exprType(argument));
  if (strcmp(name, "min") == 0 || strcmp(name, "max") == 0) return equal_is_same(argument, plan);
  return strcmp(name, "bool_and") == 0 || strcmp(name, "bool_or") == 0;
}

static bool sees_order(Node *node, void *plan) {
  if (node == NULL) return false;
  if (IsA(node, Aggref)) return !aggregate_ignores_order((Aggref *)node, plan);
  if (IsA(node, Var)) return !equal_is_same(node, plan);
  return expression_tree_walker(node, sees_order, plan);
}

static bool batch_agg_sees_order(const CustomScan *agg) {
  void *plan = (void *)agg;
  if (list_length(agg->custom_private) != AGG_PRIVATE_LENGTH) return true;
  return sees_order(list_nth(agg->custom_private, AGG_PRIVATE_KEYS), plan) ||
         sees_order(list_nth(agg->custom_private, AGG_PRIVATE_CARRIED), plan) ||
         sees_order(list_nth(agg->custom_private, AGG_PRIVATE_AGGREGATES), plan);
}

bool aggregates_ignore_order(const Plan *plan) {
  if (IsA(plan, CustomScan)) return !batch_agg_sees_order((const CustomScan *)plan);
  return !sees_order((Node *)plan->targetlist, (void *)plan) &&
         !sees_order((Node *)plan->qual, (void *)plan);
}

/* ---- look-ups ---- */

static double bytes_of_relation(Oid relation) {
  HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
  double bytes = 0;
  if (HeapTupleIsValid(tuple)) {
    bytes = (double)((Form_pg_class)GETSTRUCT(tuple))->relpages * BLCKSZ;
    ReleaseSysCache(tuple);
  }
  return bytes;
}

static bool is_first_index_column(Node *node) {
  if (IsA(node, RelabelType)) node = (Node *)((RelabelType *)node)->arg;
  return IsA(node, Var) && ((Var *)node)->varno == INDEX_VAR && ((Var *)node)->varattno == 1;
}

/* The outer attribute that is compared with the index's first column; 0 if there is none. */
static AttrNumber looked_up_key(const NestLoop *join, List *indexqual) {
  ListCell *cell;
  foreach (cell, indexqual) {
    const OpExpr *clause = lfirst(cell);
    ListCell *nested;
    if (!IsA(clause, OpExpr) || list_length(clause->args) != 2) continue;
    if (!is_first_index_column(linitial(clause->args)) || !IsA(lsecond(clause->args), Param))
      continue;
    foreach (nested, join->nestParams) {
      const NestLoopParam *param = lfirst(nested);
      const Param *compared = lsecond(clause->args);
      if (param->paramno != compared->paramid || compared->paramkind != PARAM_EXEC) continue;
      if (!IsA(param->paramval, Var) || param->paramval->varno != OUTER_VAR) continue;
      if (is_hashed_as_integer(param->paramval->vartype)) return param->paramval->varattno;
    }
  }
  return 0;
}

static Bitmapset *add_outer_columns(Bitmapset *needs, Node *expression) {
  ListCell *cell;
  foreach (cell, pull_var_clause(expression, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
                                                 PVC_RECURSE_PLACEHOLDERS)) {
    const Var *var = lfirst(cell);
    if (var->varno == OUTER_VAR) needs = bms_add_member(needs, var->varattno);
  }
  return needs;
}

/* The outer columns that the join uses. */
static Bitmapset *needed_columns(const NestLoop *join) {
  Bitmapset *needs = add_outer_columns(NULL, (Node *)join->join.plan.targetlist);
  ListCell *cell;
  needs = add_outer_columns(needs, (Node *)join->join.plan.qual);
  needs = add_outer_columns(needs, (Node *)join->join.joinqual);
  foreach (cell, join->nestParams)
    needs = add_outer_columns(needs, (Node *)((NestLoopParam *)lfirst(cell))->paramval);
  return needs;
}

const char *key_order_refusal(const PlanFacts *facts, const Plan *parent, ChildRole role,
                              const Plan *child, PlanPosition position, BufferPlace *place) {
  const NestLoop *join = (const NestLoop *)parent;
  const Scan *inner = (const Scan *)innerPlan(parent);
  List *indexqual;
  Oid index;
  AttrNumber key;
  double bytes;

  if (!IsA(parent, NestLoop) || role != CHILD_OUTER) return "the parent is not a nested loop";
  switch (nodeTag(inner)) {
    case T_IndexScan:
      indexqual = ((const IndexScan *)inner)->indexqual;
      index = ((const IndexScan *)inner)->indexid;
      break;
    case T_IndexOnlyScan:
      indexqual = ((const IndexOnlyScan *)inner)->indexqual;
      index = ((const IndexOnlyScan *)inner)->indexid;
      break;
    default: return "the nested loop looks up no index";
  }
  key = looked_up_key(join, indexqual);
  if (key == 0) return "the index is not looked up by an integer or date of the outer side";
  if (position.order_matters) return "a node above depends on the order of rows";
  if (position.limited || position.may_stop) return "the parent may stop early";
  if (position.rescanned) return "the nested loop is started repeatedly";
  if (child->plan_rows < LEAST_OUTER_ROWS) return "there are few look-ups";
  bytes = bytes_of_relation(index) +
          bytes_of_relation(rt_fetch(inner->scanrelid, facts->statement->rtable)->relid);
  if (bytes < LEAST_INNER_BYTES) return "the inner table fits the caches";
  place->purpose = BUFFER_FOR_KEY_ORDER;
  place->rows = KEY_SORT_ROWS;
  place->keys = list_make1_int(key);
  place->needs = needed_columns(join);
  return NULL;
}
