/*
 * Hashes of plans and queries.
 */
#include "shape_key.h"

#include "node_names.h"

#include <math.h>

#include "common/hashfn.h"
#include "hm_statement.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "plan_tree.h"

typedef struct Hashing {
  const PlannedStmt *statement;
  uint64 sum;
} Hashing;

static void mix(Hashing *hashing, uint32 value) {
  hashing->sum = hash_bytes_uint32_extended(value, hashing->sum);
}

/* ---- expressions ---- */

static bool mix_expression(Node *node, void *context) {
  Hashing *hashing = context;

  if (node == NULL) return false;
  mix(hashing, nodeTag(node));
  switch (nodeTag(node)) {
    case T_Var:
      mix(hashing, ((Var *)node)->varno);
      mix(hashing, ((Var *)node)->varattno);
      break;
    case T_Const: mix(hashing, ((Const *)node)->consttype); break;
    case T_Param: mix(hashing, ((Param *)node)->paramtype); break;
    case T_Aggref: mix(hashing, ((Aggref *)node)->aggfnoid); break;
    case T_WindowFunc: mix(hashing, ((WindowFunc *)node)->winfnoid); break;
    case T_FuncExpr: mix(hashing, ((FuncExpr *)node)->funcid); break;
    case T_OpExpr:
    case T_DistinctExpr:
    case T_NullIfExpr: mix(hashing, ((OpExpr *)node)->opno); break;
    case T_ScalarArrayOpExpr: mix(hashing, ((ScalarArrayOpExpr *)node)->opno); break;
    case T_BoolExpr: mix(hashing, ((BoolExpr *)node)->boolop); break;
    case T_NullTest: mix(hashing, ((NullTest *)node)->nulltesttype); break;
    case T_SubPlan: mix(hashing, ((SubPlan *)node)->plan_id); break;
    default: break;
  }
  return expression_tree_walker(node, mix_expression, context);
}

/* ---- nodes ---- */

static void mix_table(Hashing *hashing, Index relation) {
  if (relation > 0) mix(hashing, rt_fetch(relation, hashing->statement->rtable)->relid);
}

static void mix_custom(Hashing *hashing, const CustomScan *scan) {
  const char *name = scan->methods->CustomName;

  hashing->sum = hash_bytes_extended((const unsigned char *)name, strlen(name), hashing->sum);
  mix_table(hashing, scan->scan.scanrelid);
  mix_expression((Node *)scan->custom_scan_tlist, hashing);
}

static bool mix_node(Plan *plan, void *argument) {
  Hashing *hashing = argument;

  mix(hashing, nodeTag(plan));
  switch (nodeTag(plan)) {
    case T_SeqScan:
    case T_SampleScan:
    case T_BitmapHeapScan:
    case T_TidScan:
    case T_TidRangeScan: mix_table(hashing, ((Scan *)plan)->scanrelid); break;
    case T_IndexScan: mix(hashing, ((IndexScan *)plan)->indexid); break;
    case T_IndexOnlyScan: mix(hashing, ((IndexOnlyScan *)plan)->indexid); break;
    case T_BitmapIndexScan: mix(hashing, ((BitmapIndexScan *)plan)->indexid); break;
    case T_CustomScan: mix_custom(hashing, (CustomScan *)plan); break;
    case T_NestLoop:
    case T_MergeJoin:
    case T_HashJoin: mix(hashing, ((Join *)plan)->jointype); break;
    case T_Agg:
      mix(hashing, ((Agg *)plan)->aggstrategy);
      mix(hashing, ((Agg *)plan)->numCols);
      break;
    default: break;
  }
  mix_expression((Node *)plan_expressions(plan), hashing);
  return false;
}

const char *statement_text(const PlannedStmt *plan, const char *query_string, size_t *length) {
  size_t whole = strlen(query_string);
  size_t from = Min((size_t)Max(plan->stmt_location, 0), whole);

  *length = whole - from;
  if (plan->stmt_len > 0) *length = Min(*length, (size_t)plan->stmt_len);
  return query_string + from;
}

uint64 statement_id_of(const PlannedStmt *plan, const char *query_string) {
  char normalised[HM_STATEMENT_LONGEST];
  size_t length, inner;
  const char *text;

  if (query_string == NULL) return 0;
  text = statement_text(plan, query_string, &length);
  length = hm_statement_normalise(HM_DIALECT_POSTGRES, text, length, normalised, NULL);
  inner = hm_statement_inner(normalised, length);
  return hm_statement_id(normalised + inner, length - inner);
}

uint64 shape_key(const PlannedStmt *plan, uint64 statement_id) {
  Hashing hashing = {.statement = plan, .sum = statement_id};

  mix(&hashing, MyDatabaseId);
  statement_any(plan, mix_node, &hashing);
  /*
   * Factors of four: a statement that reads a day of a table and one that reads a year may need
   * different plans.
   */
  mix(&hashing, (uint32)(log2(Max(plan->planTree->total_cost, 1)) / 2));
  return hashing.sum | (UINT64CONST(1) << 32) | 1;
}

static bool is_ours(Plan *plan, void *argument) {
  static const char *const names[] = {BATCH_SCAN_NAME,   BATCH_AGG_NAME, BATCH_JOIN_NAME,
                                      BATCH_WINDOW_NAME, BUFFER_NAME,    ADAPTIVE_JOIN_NAME};

  if (!IsA(plan, CustomScan)) return false;
  for (int i = 0; i < (int)lengthof(names); i++)
    if (strcmp(((CustomScan *)plan)->methods->CustomName, names[i]) == 0) return true;
  return false;
}

bool has_node_of_ours(const PlannedStmt *plan) { return statement_any(plan, is_ours, NULL); }

/* ---- queries ---- */

uint32 query_sign(const Query *query) {
  uint32 sum = MyDatabaseId;
  int tables = 0;
  ListCell *cell;

  foreach (cell, query->rtable) {
    sum = sum * 31 + lfirst_node(RangeTblEntry, cell)->relid;
    if (++tables == 2) break;
  }
  sum = sum * 31 + list_length(query->rtable);
  sum = sum * 31 + list_length(query->targetList);
  sum = sum * 31 + list_length(query->groupClause);
  sum = sum * 31 + list_length(query->sortClause);
  sum = sum * 2 + query->hasAggs;
  return murmurhash32(sum) | 1;
}
