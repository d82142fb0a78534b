/*
 * BatchWindow, execution: what EXPLAIN shows.
 */
#include "batch_window_state.h"

#include "nodes/makefuncs.h"
#include "utils/ruleutils.h"

/* A column as it is written: that of the child's target list. */
static char *column_name(BatchWindowState *state, int column, List *context, bool prefix) {
  const List *columns =
      list_nth(((CustomScan *)state->css.ss.ps.plan)->custom_private, WINDOW_PRIVATE_COLUMNS);
  const Plan *child = ((PlanState *)linitial(state->css.custom_ps))->plan;
  const Var *var = list_nth_node(Var, columns, column);
  const TargetEntry *entry = list_nth_node(TargetEntry, child->targetlist, var->varattno - 1);

  return deparse_expression((Node *)entry->expr, context, prefix, true);
}

static char *key_text(BatchWindowState *state, const List *key, List *context, bool prefix) {
  const bool descending = list_nth_int(key, WINDOW_KEY_DESCENDING);
  const bool nulls_first = list_nth_int(key, WINDOW_KEY_NULLS_FIRST);

  return psprintf("%s%s%s",
                  column_name(state, list_nth_int(key, WINDOW_KEY_COLUMN), context, prefix),
                  descending ? " DESC" : "",
                  nulls_first == descending ? ""
                  : nulls_first             ? " NULLS FIRST"
                                            : " NULLS LAST");
}

static void explain_keys(BatchWindowState *state, List *ancestors, ExplainState *es) {
  const CustomScan *plan = (CustomScan *)state->css.ss.ps.plan;
  Plan *child = ((PlanState *)linitial(state->css.custom_ps))->plan;
  List *context = set_deparse_context_plan(es->deparse_cxt, child, lcons((void *)plan, ancestors));
  const bool prefix = EXPLAIN_TABLES(es) > 1 || es->verbose;
  List *texts = NIL;
  ListCell *cell;

  foreach (cell, list_nth(plan->custom_private, WINDOW_PRIVATE_KEYS))
    texts = lappend(texts, key_text(state, lfirst(cell), context, prefix));
  if (texts != NIL) ExplainPropertyList("Sort Key", texts, es);
}

void batch_window_explain(CustomScanState *css, List *ancestors, ExplainState *es) {
  BatchWindowState *state = (BatchWindowState *)css;
  const List *windows =
      list_nth(((CustomScan *)css->ss.ps.plan)->custom_private, WINDOW_PRIVATE_WINDOWS);

  explain_keys(state, ancestors, es);
  if (list_length(windows) > 1) ExplainPropertyInteger("Windows", NULL, list_length(windows), es);
  if (!es->analyze) return;
  if (state->left_because) {
    ExplainPropertyText("Left to PostgreSQL", state->left_because, es);
  } else {
    ExplainPropertyText("Sort Method", state->by_digits ? "digits" : "quicksort", es);
    ExplainPropertyUInteger("Memory Usage", "kB", (state->memory + 1023) / 1024, es);
  }
}
