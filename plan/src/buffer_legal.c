/*
 * Where a buffer changes only the order of work. A buffer reads ahead of its parent, so the
 * parent's and the child's side effects, errors and positions must not depend on each other:
 *
 *     writes, locks, volatile functions    the whole statement is left alone
 *     going backwards, mark and restore    no scrolling cursor; nothing below a merge join's inner
 *     side effects of unrequested rows     slow start (buffer_exec.c), and where a node may stop
 *                                          early, nothing that can fail is computed ahead of time
 *     parameters that change               nothing that depends on them is buffered
 *     parallel plans                       left alone: workers would need the buffer's state
 */
#include "plan_tree.h"

#include "node_names.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"

static bool has_volatile(Plan *plan, void *argument) {
  return contain_volatile_functions((Node *)plan_expressions(plan));
}

static bool is_foreign(Plan *plan, void *argument) { return IsA(plan, ForeignScan); }

const char *read_ahead_refusal(const PlannedStmt *plan, int cursor_options) {
  if (plan->commandType != CMD_SELECT) return "the statement writes";
  if (plan->rowMarks != NIL) return "the statement locks rows";
  if (plan->hasModifyingCTE) return "a WITH query writes";
  if (cursor_options & CURSOR_OPT_SCROLL) return "a scrolling cursor may go backwards";
  if ((cursor_options & CURSOR_OPT_FAST_PLAN) && !(cursor_options & CURSOR_OPT_NO_SCROLL))
    return "a cursor without NO SCROLL may go backwards";
  if (statement_any(plan, is_foreign, NULL)) return "a foreign table is read";
  if (statement_any(plan, has_volatile, NULL)) return "a function is volatile";
  return NULL;
}

const char *buffer_statement_refusal(const PlannedStmt *plan, int cursor_options) {
  if (plan->parallelModeNeeded) return "the plan is parallel";
  return read_ahead_refusal(plan, cursor_options);
}

/* ---- clauses that can fail ---- */

static bool function_leaks(Oid function, void *context) { return !get_func_leakproof(function); }

/* Leakproof functions raise no errors that depend on their arguments: core's own criterion. */
static bool can_fail(Node *node, void *facts) {
  if (node == NULL) return false;
  switch (nodeTag(node)) {
    case T_List:
    case T_TargetEntry:
    case T_Var:
    case T_Const:
    case T_BoolExpr:
    case T_NullTest:
    case T_BooleanTest:
    case T_RelabelType:
    case T_CaseExpr:
    case T_CaseWhen:
    case T_CaseTestExpr: break;
    case T_Param: {
      /* An initplan runs when its value is first requested. */
      const Param *param = (const Param *)node;
      return param->paramkind == PARAM_EXEC &&
             bms_is_member(param->paramid, ((const PlanFacts *)facts)->init_params);
    }
    case T_FuncExpr:
    case T_OpExpr:
    case T_DistinctExpr:
    case T_NullIfExpr:
    case T_ScalarArrayOpExpr:
      if (check_functions_in_node(node, function_leaks, NULL)) return true;
      break;
    default: return true;
  }
  return expression_tree_walker(node, can_fail, facts);
}

static bool computes_what_can_fail(Plan *plan, void *facts) {
  /* The plan of a CTE is run only as far as it is read. */
  if (IsA(plan, CteScan)) {
    List *subplans = ((const PlanFacts *)facts)->statement->subplans;
    Plan *query = list_nth(subplans, ((const CteScan *)plan)->ctePlanId - 1);
    if (plan_tree_any(query, computes_what_can_fail, facts)) return true;
  }
  return can_fail((Node *)plan_expressions(plan), facts);
}

/* ---- positions ---- */

static bool is_outer_driven(JoinType jointype, bool inner_unique) {
  return inner_unique || jointype == JOIN_SEMI || jointype == JOIN_ANTI;
}

static bool is_named(const Plan *plan, const char *name) {
  return strcmp(((const CustomScan *)plan)->methods->CustomName, name) == 0;
}

PlanPosition position_below(const Plan *parent, ChildRole role, PlanPosition position) {
  switch (nodeTag(parent)) {
    case T_Sort:
      position.may_stop = false;
      /* SQL does not define the order of equal rows; with a LIMIT another order would return
       * other rows. */
      position.order_matters = position.ties_matter || position.limited;
      break;
    case T_Agg: {
      const Agg *agg = (const Agg *)parent;
      bool sees_order = !aggregates_ignore_order(parent);
      if (agg->aggstrategy == AGG_SORTED || agg->aggstrategy == AGG_MIXED) {
        position.order_matters = true;
      } else {
        position.may_stop = false;
        /* Groups leave a hash table nearly in the order in which they were added. */
        if (agg->aggstrategy == AGG_PLAIN || !position.order_matters)
          position.order_matters = sees_order;
      }
      position.ties_matter = sees_order;
      break;
    }
    case T_Hash: position.may_stop = false; break;
    case T_NestLoop:
      if (role == CHILD_INNER) {
        const NestLoop *join = (const NestLoop *)parent;
        position.rescanned = true;
        if (is_outer_driven(join->join.jointype, join->join.inner_unique)) position.may_stop = true;
      }
      break;
    case T_MergeJoin:
      position.ties_matter = position.ties_matter || position.order_matters;
      position.may_stop = position.order_matters = true;
      break;
    case T_IncrementalSort: position.order_matters = true; break;
    case T_Limit: position.may_stop = position.limited = true; break;
    case T_HashJoin:
    case T_Material:
    case T_Append:
    case T_Result:
    case T_ProjectSet:
    case T_SubqueryScan: break;
    case T_CustomScan:
      if (is_named(parent, BATCH_AGG_NAME)) {
        bool sees_order = !aggregates_ignore_order(parent);
        position.may_stop = false;
        position.order_matters = position.order_matters || sees_order;
        position.ties_matter = sees_order;
      } else if (!is_named(parent, BATCH_JOIN_NAME)) {
        position.order_matters = position.ties_matter = true;
      }
      break;
    default: position.order_matters = position.ties_matter = true; break;
  }
  return position;
}

/* ---- edges ---- */

static bool reads_row_by_row(const Plan *parent, ChildRole role) {
  switch (nodeTag(parent)) {
    case T_Agg:
    case T_Sort:
    case T_IncrementalSort:
    case T_Hash:
    case T_Unique:
    case T_Group:
    case T_WindowAgg:
    case T_SetOp:
    case T_Material:
    case T_ProjectSet:
    case T_Append:
    case T_MergeAppend:
    case T_Limit:
    case T_Result:
    case T_SubqueryScan: return true;
    case T_NestLoop:
    case T_HashJoin:
    case T_MergeJoin: return role == CHILD_OUTER;
    default: return false;
  }
}

/* Core looks for the scan of a cursor's row below these nodes only (execCurrentOf). */
static bool is_looked_through(const Plan *plan) {
  switch (nodeTag(plan)) {
    case T_Append:
    case T_MergeAppend:
    case T_Result:
    case T_Limit:
    case T_SubqueryScan: return true;
    default: return false;
  }
}

/* A LIMIT passes the number of rows it wants to a Sort below it, through these nodes only
 * (ExecSetTupleBound). */
static bool hands_on_bounds(const Plan *plan) {
  switch (nodeTag(plan)) {
    case T_Limit:
    case T_Result:
    case T_SubqueryScan:
    case T_Append:
    case T_MergeAppend: return true;
    default: return false;
  }
}

static bool keeps_rows_itself(const Plan *child) {
  switch (nodeTag(child)) {
    case T_Sort:
    case T_IncrementalSort:
    case T_Material:
    case T_Memoize:
    case T_Hash: return true;
    default: return false;
  }
}

static bool can_be_read_ahead(const Plan *child) {
  switch (nodeTag(child)) {
    case T_Result:
    case T_ProjectSet:
    case T_Append:
    case T_MergeAppend:
    case T_SeqScan:
    case T_SampleScan:
    case T_IndexScan:
    case T_IndexOnlyScan:
    case T_BitmapHeapScan:
    case T_TidScan:
    case T_TidRangeScan:
    case T_SubqueryScan:
    case T_FunctionScan:
    case T_ValuesScan:
    case T_TableFuncScan:
    case T_CteScan:
    case T_NestLoop:
    case T_MergeJoin:
    case T_HashJoin:
    case T_Group:
    case T_Agg:
    case T_WindowAgg:
    case T_Unique:
    case T_SetOp:
    case T_Limit: return true;
    case T_CustomScan:
      return strcmp(((const CustomScan *)child)->methods->CustomName, BUFFER_NAME) != 0 &&
             strncmp(((const CustomScan *)child)->methods->CustomName, "Batch", 5) == 0;
    default: return false;
  }
}

const char *buffer_edge_refusal(const PlanFacts *facts, const Plan *parent, ChildRole role,
                                const Plan *child, PlanPosition position) {
  if (IsA(parent, MergeJoin) && role == CHILD_INNER)
    return "a merge join goes back on its inner side";
  if (IsA(parent, NestLoop) && role == CHILD_INNER)
    return "a nested loop starts its inner side repeatedly";
  if (!reads_row_by_row(parent, role)) return "the parent does not read row by row";
  if (keeps_rows_itself(child)) return "the child has its rows ready";
  if (!can_be_read_ahead(child)) return "the child cannot be read ahead";
  if (facts->is_cursor && is_looked_through(parent)) return "a cursor's row may be updated";
  if (hands_on_bounds(parent) && hands_on_bounds(child)) return "a LIMIT must reach the Sort below";
  if (!bms_is_subset(child->extParam, facts->init_params))
    return "the child depends on a parameter that changes";
  if (position.may_stop && plan_tree_any((Plan *)child, computes_what_can_fail, (void *)facts))
    return "the parent may stop early, and the child evaluates an expression that can fail";
  return NULL;
}
