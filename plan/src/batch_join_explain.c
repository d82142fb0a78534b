/*
 * BatchHashJoin in EXPLAIN.
 */
#include "batch_join.h"

#include "nodes/makefuncs.h"
#include "utils/ruleutils.h"

static void explain_clauses(CustomScanState *node, const char *label, List *clauses,
                            List *ancestors, ExplainState *es) {
  List *context;
  char *text;

  if (clauses == NIL) return;
  context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
  text = deparse_expression((Node *)make_ands_explicit(clauses), context,
                            EXPLAIN_TABLES(es) > 1 || es->verbose, false);
  ExplainPropertyText(label, text, es);
}

static void explain_run(const BatchJoinState *state, ExplainState *es) {
  int64 seen, passed;
  Size peak = Max(state->peak, state->table->peak);

  if (state->shortage != SHORT_OF_NOTHING)
    ExplainPropertyText("Not Shared Because",
                        state->shortage == SHORT_OF_WORK_MEM
                            ? "the rows would not fit into work_mem"
                            : "/dev/shm has too little space",
                        es);
  ExplainPropertyInteger("Inner Rows", NULL, state->inner_rows, es);
  if (state->table->buckets != NULL)
    ExplainPropertyInteger("Buckets", NULL, (int64)state->table->mask + 1, es);
  ExplainPropertyInteger("Partitions", NULL, Max(state->partitions, 1), es);
  ExplainPropertyInteger("Memory Usage", "kB", (peak + 1023) / 1024, es);
  if (state->filter != NULL) {
    key_filter_counts(state->filter, &seen, &passed);
    ExplainPropertyInteger("Bloom Filter Rows", NULL, seen, es);
    ExplainPropertyInteger("Bloom Filter Rows Passed", NULL, passed, es);
  }
}

void batch_join_explain(CustomScanState *node, List *ancestors, ExplainState *es) {
  BatchJoinState *state = (BatchJoinState *)node;

  ExplainPropertyText("Join Type", state->traits->name, es);
  if (state->sharing != JOIN_PRIVATE)
    ExplainPropertyText(
        "Shared Hash Table",
        state->sharing == JOIN_DIVIDED ? "read by all processes" : "read by one process", es);
  if (es->verbose) ExplainPropertyBool("Inner Unique", state->inner_unique, es);
  explain_clauses(node, "Hash Cond", state->hash_clauses, ancestors, es);
  explain_clauses(node, "Join Filter", state->join_quals, ancestors, es);
  if (!es->analyze) return;
  if (state->join_quals != NIL && node->ss.ps.instrument != NULL)
    ExplainPropertyFloat(
        "Rows Removed by Join Filter", NULL,
        node->ss.ps.instrument->nfiltered2 / Max(node->ss.ps.instrument->nloops, 1.0), 0, es);
  if (state->top != NULL) top_n_explain(state->top, es);
  if (state->table != NULL) explain_run(state, es);
}
