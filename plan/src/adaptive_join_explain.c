/*
 * AdaptiveJoin, EXPLAIN: the parts of its plan that core does not print.
 */
#include "adaptive_join.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/ruleutils.h"

static void explain_qual(List *qual, const char *label, CustomScanState *node, List *ancestors,
                         ExplainState *es) {
  List *context;
  if (qual == NIL) return;
  context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
  ExplainPropertyText(
      label, deparse_expression((Node *)make_ands_explicit(qual), context, true, false), es);
}

/*
 * Prints the values behind the inner plan's parameters. Core prints $0 there: it looks for the
 * meaning of parameters in nested loop nodes only.
 */
static void explain_parameters(CustomScanState *node, List *ancestors, ExplainState *es) {
  CustomScan *plan = (CustomScan *)node->ss.ps.plan;
  List *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
  List *shown = NIL;
  ListCell *cell;

  foreach (cell, adaptive_private_list(plan, ADAPTIVE_PARAMS)) {
    const NestLoopParam *param = lfirst(cell);
    char *passed = deparse_expression((Node *)param->paramval, context, true, false);
    shown = lappend(shown, psprintf("$%d = %s", param->paramno, passed));
  }
  if (shown != NIL) ExplainPropertyList("Parameters", shown, es);
}

/*
 * Turns a parameter of the inner plan into an external one, whose meaning core does not look for.
 */
static Node *as_external(Node *node, void *params) {
  if (node == NULL) return NULL;
  if (IsA(node, Param) && ((Param *)node)->paramkind == PARAM_EXEC) {
    ListCell *cell;
    foreach (cell, (List *)params) {
      Param *external;
      if (((NestLoopParam *)lfirst(cell))->paramno != ((Param *)node)->paramid) continue;
      external = copyObject((Param *)node);
      external->paramkind = PARAM_EXTERN;
      return (Node *)external;
    }
  }
  return expression_tree_mutator(node, as_external, params);
}

/*
 * Since 17, a parameter that no node passes is an internal error in core, and a server with
 * assertions aborts. The inner index scan is a leaf; when it is explained, it has already run or
 * never will. From here on its state has a copy of its plan for printing.
 */
static void print_parameters_as_external(CustomScanState *node) {
  List *params = adaptive_private_list((CustomScan *)node->ss.ps.plan, ADAPTIVE_PARAMS);
  IndexScan *shown;

  if (params == NIL || !IsA(innerPlanState(node)->plan, IndexScan)) return;
  shown = copyObject((IndexScan *)innerPlanState(node)->plan);
  shown->scan.plan.qual = (List *)as_external((Node *)shown->scan.plan.qual, params);
  shown->indexqualorig = (List *)as_external((Node *)shown->indexqualorig, params);
  innerPlanState(node)->plan = &shown->scan.plan;
}

static const char *join_type_name(JoinType type) {
  switch (type) {
    case JOIN_LEFT: return "Left";
    case JOIN_SEMI: return "Semi";
    case JOIN_ANTI: return "Anti";
    default: return "Inner";
  }
}

void adaptive_explain_plan(CustomScanState *node, List *ancestors, ExplainState *es) {
  CustomScan *plan = (CustomScan *)node->ss.ps.plan;
  JoinType type = intVal(list_nth(plan->custom_private, ADAPTIVE_JOIN_TYPE));

  ExplainPropertyText("Join Type", join_type_name(type), es);
  explain_parameters(node, ancestors, es);
  print_parameters_as_external(node);
  explain_qual(adaptive_private_list(plan, ADAPTIVE_SHOWN_QUAL), "Hash Filter", node, ancestors,
               es);
  explain_qual(adaptive_private_list(plan, ADAPTIVE_JOIN_QUAL), "Join Filter", node, ancestors, es);
  explain_qual(adaptive_private_list(plan, ADAPTIVE_OTHER_QUAL), "Filter", node, ancestors, es);
}
