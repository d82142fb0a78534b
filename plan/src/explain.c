/*
 * EXPLAIN's lines on operators that were not used, below the plan:
 *
 *     ccopt: orders: BatchScan not used: fewer than 64 pages
 *     ccopt: shape pinned to stock: 1.20x over n=12
 *
 * A plain EXPLAIN prints them if the plan has the node of core's that ccopt's would have replaced:
 * a Seq Scan of that table (of 64 pages or more), an Agg, a Hash Join, a WindowAgg; a reason that holds for many
 * joins is printed once. VERBOSE prints all reasons. Other formats print them in a group of their
 * own beside the plan's, because in PostgreSQL 15 to 17 an extension cannot write into the plan's
 * group once it is open.
 */
#include "reasons.h"

#include "doors.h"
#include "executor/instrument.h"
#include "optimizer/planner.h"
#include "tcop/tcopprot.h"

static ExplainOneQuery_hook_type previous_explain = NULL;

/* The lines that a plain EXPLAIN prints. */
static List *concise(const List *refusals) {
  List *kept = NIL;
  ListCell *cell;

  foreach (cell, refusals) {
    const Refusal *refusal = lfirst(cell);
    Refusal *said = palloc(sizeof(*said));
    bool repeated = false;
    ListCell *other;

    if (!refusal->concerns_plan) continue;
    *said = *refusal;
    if (!refusal->is_table) said->relation = NULL;
    foreach (other, kept) {
      const Refusal *old = lfirst(other);
      repeated = repeated ||
                 (old->relation == NULL && said->relation == NULL &&
                  strcmp(old->node, said->node) == 0 && strcmp(old->reason, said->reason) == 0);
    }
    if (!repeated) kept = lappend(kept, said);
  }
  return kept;
}

static void print_as_text(const char *remark, List *refusals, ExplainState *es) {
  ListCell *cell;

  if (remark) appendStringInfo(es->str, "ccopt: %s\n", remark);
  foreach (cell, refusals) {
    const Refusal *refusal = lfirst(cell);
    appendStringInfo(es->str, "ccopt: %s: %s not used: %s\n",
                     refusal->relation ? refusal->relation : "statement", refusal->node,
                     refusal->reason);
  }
}

static void print_as_group(const char *remark, List *refusals, ExplainState *es) {
  ListCell *cell;

  if (remark == NULL && refusals == NIL) return;
  ExplainOpenGroup("ccopt", NULL, true, es);
  if (remark) ExplainPropertyText("Statement", remark, es);
  if (refusals != NIL) ExplainOpenGroup("Not-Used", "ccopt", false, es);
  foreach (cell, refusals) {
    const Refusal *refusal = lfirst(cell);

    ExplainOpenGroup("Refusal", NULL, true, es);
    ExplainPropertyText("Node", refusal->node, es);
    if (refusal->relation) ExplainPropertyText("Relation", refusal->relation, es);
    ExplainPropertyText("Reason", refusal->reason, es);
    ExplainCloseGroup("Refusal", NULL, true, es);
  }
  if (refusals != NIL) ExplainCloseGroup("Not-Used", "ccopt", false, es);
  ExplainCloseGroup("ccopt", NULL, true, es);
}

#ifdef CCOPT_STANDARD_EXPLAIN
#define explain_one_query standard_ExplainOneQuery
#else
/* What the server does if no hook is set: plans, measures the time, and prints. */
static void explain_one_query(Query *query, int cursor_options, IntoClause *into, ExplainState *es,
                              const char *query_string, ParamListInfo params,
                              QueryEnvironment *environment) {
  BufferUsage before = pgBufferUsage;
  BufferUsage used = {0};
  PlannedStmt *plan;
  instr_time begin;
  instr_time duration;

  INSTR_TIME_SET_CURRENT(begin);
  plan = pg_plan_query(query, query_string, cursor_options, params);
  INSTR_TIME_SET_CURRENT(duration);
  INSTR_TIME_SUBTRACT(duration, begin);
  BufferUsageAccumDiff(&used, &pgBufferUsage, &before);
  ExplainOnePlan(plan, into, es, query_string, params, environment, &duration,
                 es->buffers ? &used : NULL);
}
#endif

static void explain_query(Query *query, int cursor_options, IntoClause *into, ExplainState *es,
                          const char *query_string, ParamListInfo params,
                          QueryEnvironment *environment) {
  ReasonsWatch watch;
  List *refusals;

  reasons_watch(&watch);
  PG_TRY();
  {
    if (previous_explain)
      previous_explain(query, cursor_options, into, es, query_string, params, environment);
    else
      explain_one_query(query, cursor_options, into, es, query_string, params, environment);
  }
  PG_FINALLY();
  { reasons_unwatch(&watch); }
  PG_END_TRY();
  refusals = es->verbose ? watch.refusals : concise(watch.refusals);
  if (es->format == EXPLAIN_FORMAT_TEXT)
    print_as_text(watch.remark, refusals, es);
  else
    print_as_group(watch.remark, refusals, es);
}

void explain_register(void) {
  previous_explain = ExplainOneQuery_hook;
  ExplainOneQuery_hook = explain_query;
}
