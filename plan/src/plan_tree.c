/*
 * Walking a finished plan.
 */
#include "plan_tree.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"

static void visit_members(Plan *parent, List *members, PlanChildVisitor visit, void *argument) {
  ListCell *cell;
  foreach (cell, members) visit(parent, (Plan **)&lfirst(cell), CHILD_MEMBER, argument);
}

void plan_for_each_child(Plan *plan, PlanChildVisitor visit, void *argument) {
  if (plan->lefttree) visit(plan, &plan->lefttree, CHILD_OUTER, argument);
  if (plan->righttree) visit(plan, &plan->righttree, CHILD_INNER, argument);
  switch (nodeTag(plan)) {
    case T_Append: visit_members(plan, ((Append *)plan)->appendplans, visit, argument); break;
    case T_MergeAppend:
      visit_members(plan, ((MergeAppend *)plan)->mergeplans, visit, argument);
      break;
    case T_BitmapAnd: visit_members(plan, ((BitmapAnd *)plan)->bitmapplans, visit, argument); break;
    case T_BitmapOr: visit_members(plan, ((BitmapOr *)plan)->bitmapplans, visit, argument); break;
    case T_SubqueryScan:
      visit(plan, &((SubqueryScan *)plan)->subplan, CHILD_OUTER, argument);
      break;
    case T_CustomScan:
      visit_members(plan, ((CustomScan *)plan)->custom_plans, visit, argument);
      break;
    default: break;
  }
}

typedef struct Search {
  PlanVisitor visit;
  void *argument;
  bool found;
} Search;

static void search_child(Plan *parent, Plan **link, ChildRole role, void *argument) {
  Search *search = argument;
  if (!search->found) search->found = plan_tree_any(*link, search->visit, search->argument);
}

bool plan_tree_any(Plan *plan, PlanVisitor visit, void *argument) {
  Search search = {visit, argument, false};
  if (visit(plan, argument)) return true;
  plan_for_each_child(plan, search_child, &search);
  return search.found;
}

bool statement_any(const PlannedStmt *statement, PlanVisitor visit, void *argument) {
  ListCell *cell;
  if (plan_tree_any(statement->planTree, visit, argument)) return true;
  foreach (cell, statement->subplans) {
    Plan *plan = lfirst(cell);
    if (plan && plan_tree_any(plan, visit, argument)) return true;
  }
  return false;
}

static bool find_highest_id(Plan *plan, void *argument) {
  int *highest = argument;
  *highest = Max(*highest, plan->plan_node_id);
  return false;
}

int statement_last_id(const PlannedStmt *statement) {
  int highest = 0;
  statement_any(statement, find_highest_id, &highest);
  return highest;
}

List *plan_identity_list(List *entries, int varno) {
  List *identity = NIL;
  ListCell *cell;
  foreach (cell, entries) {
    TargetEntry *entry = flatCopyTargetEntry(lfirst(cell));
    entry->expr = (Expr *)makeVarFromTargetEntry(varno, lfirst(cell));
    identity = lappend(identity, entry);
  }
  return identity;
}

/* Expressions that a node evaluates in addition to its target list and its quals. */
static List *own_expressions(const Plan *plan) {
  switch (nodeTag(plan)) {
    case T_Result: return list_make1(((const Result *)plan)->resconstantqual);
    case T_SampleScan: return list_make1(((const SampleScan *)plan)->tablesample);
    case T_IndexScan: {
      const IndexScan *scan = (const IndexScan *)plan;
      return list_make2(scan->indexqualorig, scan->indexorderbyorig);
    }
    case T_IndexOnlyScan: {
      const IndexOnlyScan *scan = (const IndexOnlyScan *)plan;
      return list_make3(scan->indexqual, scan->recheckqual, scan->indexorderby);
    }
    case T_BitmapIndexScan: return list_make1(((const BitmapIndexScan *)plan)->indexqualorig);
    case T_BitmapHeapScan: return list_make1(((const BitmapHeapScan *)plan)->bitmapqualorig);
    case T_TidScan: return list_make1(((const TidScan *)plan)->tidquals);
    case T_TidRangeScan: return list_make1(((const TidRangeScan *)plan)->tidrangequals);
    case T_FunctionScan: return list_make1(((const FunctionScan *)plan)->functions);
    case T_ValuesScan: return list_make1(((const ValuesScan *)plan)->values_lists);
    case T_TableFuncScan: return list_make1(((const TableFuncScan *)plan)->tablefunc);
    case T_ForeignScan: {
      const ForeignScan *scan = (const ForeignScan *)plan;
      return list_make2(scan->fdw_exprs, scan->fdw_recheck_quals);
    }
    case T_CustomScan: return list_make1(((const CustomScan *)plan)->custom_exprs);
    case T_NestLoop: return list_make1(((const NestLoop *)plan)->join.joinqual);
    case T_MergeJoin: {
      const MergeJoin *join = (const MergeJoin *)plan;
      return list_make2(join->join.joinqual, join->mergeclauses);
    }
    case T_HashJoin: {
      const HashJoin *join = (const HashJoin *)plan;
      return list_make3(join->join.joinqual, join->hashclauses, join->hashkeys);
    }
    case T_Hash: return list_make1(((const Hash *)plan)->hashkeys);
    case T_Memoize: return list_make1(((const Memoize *)plan)->param_exprs);
    case T_WindowAgg: {
      const WindowAgg *window = (const WindowAgg *)plan;
      return list_make3(window->runCondition, window->startOffset, window->endOffset);
    }
    case T_Limit: {
      const Limit *limit = (const Limit *)plan;
      return list_make2(limit->limitOffset, limit->limitCount);
    }
    default: return NIL;
  }
}

List *plan_expressions(const Plan *plan) {
  return lcons(plan->targetlist, lcons(plan->qual, own_expressions(plan)));
}

/* The target list that a Var of `plan` refers to, and the node with that list. */
static List *pointed_at(const Var *var, const Plan *plan, const Plan **child) {
  switch (var->varno) {
    case OUTER_VAR:
      *child = outerPlan(plan);
      if (*child == NULL && IsA(plan, CustomScan) && ((const CustomScan *)plan)->custom_plans)
        *child = linitial(((const CustomScan *)plan)->custom_plans);
      break;
    case INNER_VAR: *child = innerPlan(plan); break;
    case INDEX_VAR:
      *child = plan;
      return IsA(plan, CustomScan) ? ((const CustomScan *)plan)->custom_scan_tlist : NIL;
    default:
      *child = NULL;
      if (IsA(plan, SubqueryScan) && var->varno == ((const SubqueryScan *)plan)->scan.scanrelid)
        *child = ((const SubqueryScan *)plan)->subplan;
  }
  return *child ? (*child)->targetlist : NIL;
}

Node *plan_resolve(Node *expression, const Plan *plan, const Plan **where) {
  *where = plan;
  while (IsA(expression, Var)) {
    const Plan *child;
    List *entries = pointed_at((const Var *)expression, *where, &child);
    TargetEntry *entry = get_tle_by_resno(entries, ((const Var *)expression)->varattno);
    if (entry == NULL) break;
    expression = (Node *)entry->expr;
    *where = child;
  }
  return expression;
}
