/*
 * AdaptiveJoin, execution: a nested loop that may change to a hash table between two outer rows.
 */
#include "adaptive_join_state.h"

#include "miscadmin.h"

#include "node_names.h"
#include "stats.h"

static const CustomExecMethods exec_methods;

/* ---- beginning ---- */

static int private_integer(const CustomScan *plan, AdaptivePrivate item) {
  return intVal(list_nth(plan->custom_private, item));
}

static double private_float(const CustomScan *plan, AdaptivePrivate item) {
  return floatVal(list_nth(plan->custom_private, item));
}

Node *adaptive_join_create_state(CustomScan *plan) {
  AdaptiveJoinState *state = (AdaptiveJoinState *)newNode(sizeof(*state), T_CustomScanState);
  state->css.methods = &exec_methods;
  return (Node *)state;
}

static void begin_keys(AdaptiveJoinState *state, const CustomScan *plan) {
  List *outer = adaptive_private_list(plan, ADAPTIVE_OUTER_KEYS);
  List *inner = adaptive_private_list(plan, ADAPTIVE_INNER_KEYS);
  List *types = adaptive_private_list(plan, ADAPTIVE_KEY_TYPES);

  state->nkeys = list_length(outer);
  for (int i = 0; i < state->nkeys; i++) {
    state->outer_keys[i] = list_nth_int(outer, i);
    state->inner_keys[i] = list_nth_int(inner, i);
    state->outer_types[i] = list_nth_oid(types, i);
    state->inner_types[i] = list_nth_oid(types, state->nkeys + i);
  }
}

/* Where no condition of the scan drops rows, all of `build_rows` will be in the table. */
static Size expected_width(const CustomScan *plan, int nkeys) {
  const CustomScan *scan = plan->custom_plans == NIL ? NULL : linitial(plan->custom_plans);

  if (scan == NULL || scan->custom_exprs != NIL) return sizeof(MinimalTupleData);
  return adaptive_row_size(nkeys, scan->scan.plan.plan_width);
}

static TupleTableSlot *exec_adaptive_join(PlanState *node);

static void begin_adaptive_join(CustomScanState *node, EState *estate, int eflags) {
  AdaptiveJoinState *state = (AdaptiveJoinState *)node;
  CustomScan *plan = (CustomScan *)node->ss.ps.plan;
  PlanState *ps = &node->ss.ps;
  PlanState *inner;

  /* Before the children are created: expressions must not depend on the type of their slots,
   * because inner rows come from the inner plan or from the hash table. */
  state->join_qual = ExecInitQual(adaptive_private_list(plan, ADAPTIVE_JOIN_QUAL), ps);
  state->other_qual = ExecInitQual(adaptive_private_list(plan, ADAPTIVE_OTHER_QUAL), ps);
  state->hash_qual = ExecInitQual(adaptive_private_list(plan, ADAPTIVE_HASH_QUAL), ps);
  state->projection = ExecBuildProjectionInfo(plan->custom_scan_tlist, ps->ps_ExprContext,
                                              node->ss.ss_ScanTupleSlot, ps, NULL);

  outerPlanState(node) = ExecInitNode(outerPlan(plan), estate, eflags);
  innerPlanState(node) = inner = ExecInitNode(innerPlan(plan), estate, eflags | EXEC_FLAG_REWIND);
  state->build = inner;
  if (plan->custom_plans != NIL) {
    state->build = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
    node->custom_ps = list_make1(state->build);
  }
  state->null_inner = ExecInitNullTupleSlot(estate, ExecGetResultType(inner), &TTSOpsVirtual);
  state->found =
      ExecInitExtraTupleSlot(estate, ExecGetResultType(state->build), &TTSOpsMinimalTuple);

  state->join_type = private_integer(plan, ADAPTIVE_JOIN_TYPE);
  state->single_match = private_integer(plan, ADAPTIVE_UNIQUE) || state->join_type == JOIN_SEMI;
  state->keeps_outer = state->join_type == JOIN_LEFT || state->join_type == JOIN_ANTI;
  state->params = adaptive_private_list(plan, ADAPTIVE_PARAMS);
  state->lookup = adaptive_lookup_create(inner);
  state->force = private_integer(plan, ADAPTIVE_FORCE);
  state->expected_rows = Max(private_float(plan, ADAPTIVE_OUTER_ROWS), 1);
  state->build_rows = private_float(plan, ADAPTIVE_BUILD_ROWS);
  state->build_ns = private_float(plan, ADAPTIVE_BUILD_NS);
  state->probe_ns = private_float(plan, ADAPTIVE_PROBE_NS);
  state->margin = private_float(plan, ADAPTIVE_MARGIN);
  begin_keys(state, plan);
  state->build_width = expected_width(plan, state->nkeys);
  state->need_outer = true;
  state->executions = 1;
  state->next_decision = state->force ? 1 : ADAPTIVE_FIRST_DECISION;
  ps->ExecProcNode = exec_adaptive_join;
}

bool is_adaptive_join(const PlanState *node) {
  return IsA(node, CustomScanState) && ((const CustomScanState *)node)->methods == &exec_methods;
}

/* ---- inner rows ---- */

static void look_up(AdaptiveJoinState *state, TupleTableSlot *outer) {
  PlanState *inner = innerPlanState(state);
  ListCell *cell;

  foreach (cell, state->params) {
    NestLoopParam *param = lfirst(cell);
    ParamExecData *value = &state->css.ss.ps.ps_ExprContext->ecxt_param_exec_vals[param->paramno];
    value->value = slot_getattr(outer, param->paramval->varattno, &value->isnull);
    if (!state->lookup) inner->chgParam = bms_add_member(inner->chgParam, param->paramno);
  }
  if (state->lookup)
    adaptive_lookup_start(state->lookup);
  else
    ExecReScan(inner);
}

static void begin_inner(AdaptiveJoinState *state, TupleTableSlot *outer) {
  if (state->table) {
    int64 keys[ADAPTIVE_MAX_KEYS];
    state->match = NULL;
    if (adaptive_read_keys(outer, state->nkeys, state->outer_keys, state->outer_types, keys))
      state->match = adaptive_table_find(state->table, keys);
  } else {
    look_up(state, outer);
  }
}

/* The next row of the hash table with the outer row's keys that look-ups would have returned. */
static TupleTableSlot *next_match(AdaptiveJoinState *state) {
  ExprContext *context = state->css.ss.ps.ps_ExprContext;

  while (state->match) {
    const AdaptiveRow *row = state->match;
    state->match = adaptive_table_next(state->table, row);
    ExecStoreMinimalTuple(adaptive_row_tuple(state->table, row), state->found, false);
    if (state->hash_qual == NULL) return state->found;
    context->ecxt_innertuple = state->found;
    if (ExecQual(state->hash_qual, context)) return state->found;
    ResetExprContext(context);
    CHECK_FOR_INTERRUPTS();
  }
  return NULL;
}

static TupleTableSlot *next_inner(AdaptiveJoinState *state) {
  if (state->table) return next_match(state);
  return state->lookup ? adaptive_lookup_next(state->lookup) : ExecProcNode(innerPlanState(state));
}

/* A step of the inner side, timed if a decision is near. */
static TupleTableSlot *step_inner(AdaptiveJoinState *state, TupleTableSlot *outer_or_null) {
  instr_time start, end, *time;
  TupleTableSlot *slot;

  if (likely(!adaptive_times_lookup(state))) {
    if (outer_or_null) begin_inner(state, outer_or_null);
    return next_inner(state);
  }
  time = &state->lookups[state->rows % ADAPTIVE_TIMED_ROWS];
  if (outer_or_null) INSTR_TIME_SET_ZERO(*time);
  INSTR_TIME_SET_CURRENT(start);
  if (outer_or_null) begin_inner(state, outer_or_null);
  slot = next_inner(state);
  INSTR_TIME_SET_CURRENT(end);
  INSTR_TIME_ACCUM_DIFF(*time, end, start);
  return slot;
}

/* ---- the loop ---- */

static TupleTableSlot *hand_on(AdaptiveJoinState *state) {
  state->rows_out++;
  return ExecProject(state->projection);
}

static TupleTableSlot *exec_adaptive_join(PlanState *node) {
  AdaptiveJoinState *state = (AdaptiveJoinState *)node;
  ExprContext *context = node->ps_ExprContext;

  ResetExprContext(context);
  for (;;) {
    TupleTableSlot *outer_now = NULL, *inner;

    CHECK_FOR_INTERRUPTS(); /* no child is called for rows that the hash table has */
    if (state->need_outer) {
      outer_now = ExecProcNode(outerPlanState(node));
      if (TupIsNull(outer_now)) return NULL;
      context->ecxt_outertuple = outer_now;
      state->need_outer = false;
      state->matched = false;
      adaptive_decide(state);
      state->rows++;
    }
    inner = step_inner(state, outer_now);
    if (TupIsNull(inner)) {
      state->need_outer = true;
      state->inner_ended = true;
      if (state->matched || !state->keeps_outer) continue;
      context->ecxt_innertuple = state->null_inner;
      if (ExecQual(state->other_qual, context)) return hand_on(state);
      InstrCountFiltered2(node, 1);
    } else {
      context->ecxt_innertuple = inner;
      if (ExecQual(state->join_qual, context)) {
        state->matched = true;
        if (state->single_match || state->join_type == JOIN_ANTI) state->need_outer = true;
        if (state->join_type == JOIN_ANTI) continue;
        if (ExecQual(state->other_qual, context)) return hand_on(state);
        InstrCountFiltered2(node, 1);
      } else {
        InstrCountFiltered1(node, 1);
      }
    }
    ResetExprContext(context);
  }
}

static TupleTableSlot *exec_custom_scan(CustomScanState *node) {
  return exec_adaptive_join(&node->ss.ps);
}

/* ---- again, and the end ---- */

static void rescan_adaptive_join(CustomScanState *node) {
  AdaptiveJoinState *state = (AdaptiveJoinState *)node;
  if (outerPlanState(node)->chgParam == NULL) ExecReScan(outerPlanState(node));
  /* The inner side depends on outer rows only: a built table stays valid. */
  state->need_outer = true;
  state->match = NULL;
  state->executions++;
}

static void end_adaptive_join(CustomScanState *node) {
  AdaptiveJoinState *state = (AdaptiveJoinState *)node;
  const NodeCounts counts = {.batches = state->built ? 1 : 0,
                             .rows_in = state->rows,
                             .rows_out = state->rows_out,
                             .fallbacks = state->too_large ? 1 : 0};

  stats_add(STATS_ADAPTIVE_JOIN, &counts);
  adaptive_free_table(state);
  if (state->build != innerPlanState(node)) ExecEndNode(state->build);
  ExecEndNode(outerPlanState(node));
  ExecEndNode(innerPlanState(node));
}

/* ---- EXPLAIN ---- */

static void explain_adaptive_join(CustomScanState *node, List *ancestors, ExplainState *es) {
  AdaptiveJoinState *state = (AdaptiveJoinState *)node;

  adaptive_explain_plan(node, ancestors, es);
  if (!es->analyze) return;
  if (state->built) {
    ExplainPropertyUInteger("Looked Up Before Hashing", "rows", state->built_after, es);
    /* 0: another process built it before a decision here. */
    if (state->foreseen > 0)
      ExplainPropertyFloat("Outer Rows Foreseen", NULL, state->foreseen, 0, es);
    ExplainPropertyUInteger("Hash Table Memory", "kB", state->memory / 1024, es);
  } else {
    ExplainPropertyUInteger("Looked Up", "rows", state->rows, es);
    if (state->too_large)
      ExplainPropertyText("Not Hashed Because", "the table would not fit into work_mem", es);
  }
}

static const CustomExecMethods exec_methods = {
    .CustomName = ADAPTIVE_JOIN_NAME,
    .BeginCustomScan = begin_adaptive_join,
    .ExecCustomScan = exec_custom_scan,
    .EndCustomScan = end_adaptive_join,
    .ReScanCustomScan = rescan_adaptive_join,
    .EstimateDSMCustomScan = adaptive_estimate_dsm,
    .InitializeDSMCustomScan = adaptive_initialize_dsm,
    .ReInitializeDSMCustomScan = adaptive_reinitialize_dsm,
    .InitializeWorkerCustomScan = adaptive_initialize_worker,
    .ShutdownCustomScan = adaptive_shut_down,
    .ExplainCustomScan = explain_adaptive_join};
