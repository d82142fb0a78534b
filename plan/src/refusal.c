/*
 * Reasons to leave a statement alone as a whole.
 */
#include "refusal.h"

#include "cursors.h"
#include "nodes/nodeFuncs.h"

const char *planning_refusal = NULL;

/*
 * UPDATE ... WHERE CURRENT OF searches the cursor's plan for the scan of its table and reads the
 * row from it (core's execCurrentOf). It does not search below nodes that group, sort or join; but
 * rows that are sorted in one plan come from an index in another.
 */
static bool may_be_updated_through(const Query *query, bool sorted) {
  return !query->hasAggs && !query->hasWindowFuncs && query->groupClause == NIL &&
         query->groupingSets == NIL && query->distinctClause == NIL &&
         (sorted || query->sortClause == NIL) && query->setOperations == NULL &&
         list_length(query->jointree->fromlist) == 1 &&
         IsA(linitial(query->jointree->fromlist), RangeTblRef);
}

const char *cursor_refusal(const Query *query, int cursor_options) {
  if (cursor_options & CURSOR_OPT_SCROLL) return "a scrolling cursor may go backwards";
  /* Further rules apply to named cursors only: DECLARE and PL/pgSQL set this option. */
  if (!(cursor_options & CURSOR_OPT_FAST_PLAN)) return NULL;
  if (may_be_updated_through(query, cursor_may_go_backwards(cursor_options)))
    return "a row may be updated through the cursor";
  return NULL;
}

/*
 * True if rows are read once: INSERT reads them under the statement's snapshot. Other statements
 * that write read a row again if it was changed meanwhile (EvalPlanQual); ON CONFLICT DO UPDATE is
 * left to core like these.
 */
static bool is_read_once(const Query *query) {
  return query->commandType == CMD_SELECT ||
         (query->commandType == CMD_INSERT &&
          (query->onConflict == NULL || query->onConflict->action != ONCONFLICT_UPDATE));
}

const char *statement_refusal(const PlannerInfo *root) {
  /* Subqueries of a statement that writes or locks follow its rules (EvalPlanQual). */
  for (; root != NULL; root = root->parent_root) {
    const Query *query = root->parse;
    if (!is_read_once(query)) return "the statement writes";
    if (query->rowMarks != NIL || root->rowMarks != NIL) return "the statement locks rows";
    if (query->hasModifyingCTE) return "a WITH query writes";
  }
  return planning_refusal;
}
