/*
 * BatchAgg, execution: what EXPLAIN shows.
 */
#include "batch_agg_state.h"

#include "costs.h"
#include "utils/ruleutils.h"

static void explain_keys(BatchAggState *state, List *ancestors, ExplainState *es) {
  CustomScan *plan = (CustomScan *)state->css.ss.ps.plan;
  List *context = set_deparse_context_plan(es->deparse_cxt, &plan->scan.plan, ancestors);
  bool prefix = EXPLAIN_TABLES(es) > 1 || es->verbose;
  List *keys = NIL;

  for (int i = 0; i < state->nkeys; i++) {
    TargetEntry *entry = list_nth(plan->custom_scan_tlist, i);
    keys = lappend(keys, deparse_expression((Node *)entry->expr, context, prefix, true));
  }
  if (keys != NIL) ExplainPropertyList("Group Key", keys, es);
}

/* As it is written in SQL: Grouping Sets: (a, b), (a), () */
static void explain_sets(const BatchAggState *state, List *ancestors, ExplainState *es) {
  CustomScan *plan = (CustomScan *)state->css.ss.ps.plan;
  List *context = set_deparse_context_plan(es->deparse_cxt, &plan->scan.plan, ancestors);
  bool prefix = EXPLAIN_TABLES(es) > 1 || es->verbose;
  List *sets = NIL;
  ListCell *cell, *key;

  foreach (cell, list_nth(plan->custom_private, AGG_PRIVATE_SETS)) {
    StringInfoData text;
    initStringInfo(&text);
    foreach (key, list_nth(lfirst(cell), AGG_SET_KEYS)) {
      TargetEntry *entry = list_nth(plan->custom_scan_tlist, lfirst_int(key));
      appendStringInfo(&text, "%s%s", text.len > 0 ? ", " : "(",
                       deparse_expression((Node *)entry->expr, context, prefix, true));
    }
    appendStringInfoString(&text, text.len > 0 ? ")" : "()");
    sets = lappend(sets, text.data);
  }
  ExplainPropertyList("Grouping Sets", sets, es);
}

static uint64 slow_rows(const BatchAggState *state) {
  uint64 rows = 0;
  for (int i = 0; i < state->nsets; i++) rows += transitions_slow_rows(state->sets[i].transitions);
  return rows;
}

void batch_agg_explain(CustomScanState *css, List *ancestors, ExplainState *es) {
  BatchAggState *state = (BatchAggState *)css;
  const List *private = ((CustomScan *)css->ss.ps.plan)->custom_private;

  if (list_nth(private, AGG_PRIVATE_SETS) == NIL)
    explain_keys(state, ancestors, es);
  else
    explain_sets(state, ancestors, es);
  if (intVal(list_nth(private, AGG_PRIVATE_STEP)) == AGG_STEP_PARTIAL)
    ExplainPropertyText("Partial Mode", "Partial", es);
  if (!es->analyze) return;
  ExplainPropertyUInteger("Batches", NULL, state->counts.batches, es);
  if (state->nkeys > 0) ExplainPropertyUInteger("Groups", NULL, state->ngroups, es);
  ExplainPropertyUInteger("Odd Rows", NULL, state->counts.odd_rows, es);
  if (slow_rows(state) > 0)
    ExplainPropertyUInteger("Rows Through Core", NULL, slow_rows(state), es);
  if (state->top) top_n_explain(state->top, es);
  ExplainPropertyUInteger("Memory Usage", "kB", (state->memory + 1023) / 1024, es);
  if (state->put_off > 0) {
    ExplainPropertyUInteger("Passes", NULL, state->passes, es);
    ExplainPropertyUInteger("Rows Put Off", NULL, state->put_off, es);
  }
}
