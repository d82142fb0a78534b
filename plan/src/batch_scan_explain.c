/*
 * BatchScan, EXPLAIN.
 */
#include "batch_scan_state.h"

#include "nodes/makefuncs.h"
#include "utils/ruleutils.h"

/* Columns of pages; nothing is printed of a table that is scanned for the first time. */
static void explain_cache(const BatchScanState *state, ExplainState *es) {
  uint64 hits, fills;

  if (state->cached == NULL) return;
  hits = cached_scan_hits(state->cached);
  fills = cached_scan_fills(state->cached);
  if (hits > 0 || es->format != EXPLAIN_FORMAT_TEXT)
    ExplainPropertyUInteger("Column Cache Hits", NULL, hits, es);
  if (fills > 0 || es->format != EXPLAIN_FORMAT_TEXT)
    ExplainPropertyUInteger("Column Cache Fills", NULL, fills, es);
}

void batch_scan_explain(CustomScanState *node, List *ancestors, ExplainState *es) {
  BatchScanState *state = (BatchScanState *)node;
  CustomScan *plan = (CustomScan *)node->ss.ps.plan;

  if (plan->custom_exprs != NIL) {
    List *context = set_deparse_context_plan(es->deparse_cxt, &plan->scan.plan, ancestors);
    bool qualify = EXPLAIN_TABLES(es) > 1 || es->verbose;
    ExplainPropertyText(
        "Vector Filter",
        deparse_expression((Node *)make_ands_explicit(plan->custom_exprs), context, qualify, false),
        es);
  }
  if (!es->analyze || node->ss.ps.instrument == NULL) return;
  /* For each loop, like core's filters. */
  if (plan->custom_exprs != NIL)
    ExplainPropertyFloat(
        "Rows Removed by Vector Filter", NULL,
        node->ss.ps.instrument->nfiltered2 / Max(node->ss.ps.instrument->nloops, 1), 0, es);
  if (state->visitors)
    ExplainPropertyUInteger("Rows Removed by Visitors", NULL, state->visitor_filtered, es);
  ExplainPropertyFloat("Batches", NULL, node->ss.ps.instrument->ntuples2, 0, es);
  if (state->counts.odd_rows > 0 || es->format != EXPLAIN_FORMAT_TEXT)
    ExplainPropertyUInteger("Odd Rows", NULL, state->counts.odd_rows, es);
  explain_cache(state, es);
  for (const Visitor *visitor = state->visitors; visitor; visitor = visitor->next)
    if (visitor->explain) visitor->explain(visitor->state, es);
}
