/*
 * Why a statement is left alone as a whole.
 */
#include "refusal.h"

#include "nodes/nodeFuncs.h"

const char *planning_refusal = NULL;

/*
 * UPDATE ... WHERE CURRENT OF looks in the cursor's plan for the scan of its table and asks that for
 * the row (core's execCurrentOf). It looks through nothing that groups, sorts or joins.
 */
static bool may_be_updated_through(const Query *query) {
  return !query->hasAggs && !query->hasWindowFuncs && query->groupClause == NIL &&
         query->groupingSets == NIL && query->distinctClause == NIL && query->sortClause == NIL &&
         query->setOperations == NULL && list_length(query->jointree->fromlist) == 1 &&
         IsA(linitial(query->jointree->fromlist), RangeTblRef);
}

const char *cursor_refusal(const Query *query, int cursor_options) {
  if (cursor_options & CURSOR_OPT_SCROLL) return "a scrolling cursor may go backwards";
  /* All else is of cursors that have a name: DECLARE and PL/pgSQL set this. */
  if (!(cursor_options & CURSOR_OPT_FAST_PLAN)) return NULL;
  /* Without NO SCROLL a cursor may go backwards if its plan can, so the plan has to be one that can. */
  if (!(cursor_options & CURSOR_OPT_NO_SCROLL))
    return "a cursor without NO SCROLL may go backwards";
  if (may_be_updated_through(query)) return "a row may be updated through the cursor";
  return NULL;
}

const char *statement_refusal(const PlannerInfo *root) {
  /* Subqueries of a statement that writes or locks are read under its rules (EvalPlanQual). */
  for (; root != NULL; root = root->parent_root) {
    const Query *query = root->parse;
    if (query->commandType != CMD_SELECT) return "the statement writes";
    if (query->rowMarks != NIL || root->rowMarks != NIL) return "the statement locks rows";
    if (query->hasModifyingCTE) return "a WITH query writes";
  }
  return planning_refusal;
}
