/*
 * AdaptiveJoin, execution: a nested loop that may change to a hash table between two outer rows.
 *
 * The number of outer rows still to come is estimated from the progress of the lowest adaptive join
 * below: the planner knew the number of its outer rows best.
 *
 *     n rows so far, and the lowest join has seen 327 of 8,081 expected:  n * 8,081 / 327 in all
 */
#include "adaptive_join.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "portability/instr_time.h"

#include "costs.h"
#include "costs_in_force.h"
#include "node_names.h"
#include "stats.h"

/* Look-ups are timed during the last TIMED_ROWS outer rows before a decision. */
#define FIRST_DECISION 256
#define TIMED_ROWS 64
/* This many of the longest times are replaced by the next longest one: a look-up during which
 * another process had the processor takes thousands of times as long. */
#define DOUBTFUL_ROWS 8

typedef struct AdaptiveJoinState {
  CustomScanState css;

  /* the nested loop */
  JoinType join_type;
  bool single_match; /* a second inner row cannot match, or is not needed */
  bool keeps_outer;  /* outer rows without a match are results */
  ExprState *join_qual, *other_qual;
  ExprState *hash_qual; /* for rows of the hash table only */
  List *params;
  AdaptiveLookup *lookup; /* NULL: the inner plan runs as in a nested loop */
  ProjectionInfo *projection;
  TupleTableSlot *null_inner;
  bool need_outer, matched;

  /* keys */
  int nkeys;
  AttrNumber outer_keys[ADAPTIVE_MAX_KEYS], inner_keys[ADAPTIVE_MAX_KEYS];
  Oid outer_types[ADAPTIVE_MAX_KEYS], inner_types[ADAPTIVE_MAX_KEYS];

  /* the decision */
  bool force;
  double expected_rows; /* outer rows of one execution, estimated by the planner */
  double build_rows, build_ns, probe_ns;
  uint64 executions; /* the first run and rescans */
  uint64 rows;       /* outer rows so far, of all executions */
  uint64 next_decision;
  bool settled; /* no further decision: the table is built, or did not fit */
  bool too_large;
  bool inner_ended;               /* the inner plan was read to its end at least once */
  instr_time lookups[TIMED_ROWS]; /* time in the inner plan, for each outer row */
  double foreseen;                /* outer rows that were expected when the table was built */
  uint64 built_after;

  /* the hash table */
  PlanState *build; /* returns the table's rows */
  AdaptiveTable *table;
  Size memory;
  TupleTableSlot *found;    /* holds the table's current row */
  const AdaptiveRow *match; /* the next candidate */

  uint64 rows_out; /* for ccopt_stats */
} AdaptiveJoinState;

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
  begin_keys(state, plan);
  state->need_outer = true;
  state->executions = 1;
  state->next_decision = state->force ? 1 : FIRST_DECISION;
  ps->ExecProcNode = exec_adaptive_join;
}

/* ---- the decision ---- */

static bool is_adaptive_join(const PlanState *node) {
  return IsA(node, CustomScanState) && ((const CustomScanState *)node)->methods == &exec_methods;
}

/* True for nodes whose outer plan has progressed as far as the node itself. */
static bool keeps_pace(const PlanState *node) {
  return is_adaptive_join(node) || IsA(node, NestLoopState) || IsA(node, HashJoinState) ||
         IsA(node, ResultState);
}

/* The lowest adaptive join in the chain of outer plans that keep pace. */
static const AdaptiveJoinState *lowest_join(const AdaptiveJoinState *state) {
  const AdaptiveJoinState *lowest = state;
  for (const PlanState *node = (const PlanState *)state; node && keeps_pace(node);
       node = outerPlanState(node))
    if (is_adaptive_join(node)) lowest = (const AdaptiveJoinState *)node;
  return lowest;
}

/* Estimate of the outer rows of all executions so far. */
static double foresee_rows(const AdaptiveJoinState *state) {
  const AdaptiveJoinState *lowest = lowest_join(state);
  double expected = lowest->expected_rows * lowest->executions;
  /* If even the lowest join has more rows than expected: assume twice the present number. */
  double progress = lowest->rows < expected / 2 ? lowest->rows / expected : 0.5;
  return state->rows / Max(progress, 1e-9);
}

static bool timing(const AdaptiveJoinState *state) {
  return !state->settled && state->rows + TIMED_ROWS > state->next_decision;
}

static int compare_times(const void *one, const void *two) {
  double first = *(const double *)one, second = *(const double *)two;
  return (first > second) - (first < second);
}

static double lookup_ns(const AdaptiveJoinState *state) {
  double times[TIMED_ROWS];
  double sum = 0;

  for (int i = 0; i < TIMED_ROWS; i++) times[i] = INSTR_TIME_GET_DOUBLE(state->lookups[i]) * 1e9;
  qsort(times, TIMED_ROWS, sizeof(*times), compare_times);
  for (int i = 0; i < TIMED_ROWS; i++) sum += times[Min(i, TIMED_ROWS - DOUBTFUL_ROWS)];
  return sum / TIMED_ROWS;
}

static bool worth_building(AdaptiveJoinState *state) {
  double to_come;

  state->foreseen = foresee_rows(state);
  to_come = state->foreseen - state->rows;
  if (state->force) return true;
  return to_come * (lookup_ns(state) - state->probe_ns) >
         state->build_ns * cost_constants()->margin;
}

static bool read_keys(TupleTableSlot *slot, int nkeys, const AttrNumber *attributes,
                      const Oid *types, int64 *keys) {
  for (int i = 0; i < nkeys; i++) {
    bool isnull;
    Datum value = slot_getattr(slot, attributes[i], &isnull);
    if (isnull) return false; /* equals nothing */
    keys[i] = adaptive_key(value, types[i]);
  }
  return true;
}

static void build_table(AdaptiveJoinState *state) {
  MemoryContext before = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);
  Size limit = get_hash_memory_limit();
  bool fits;

  state->settled = true;
  if (state->build_rows * sizeof(MinimalTupleData) > limit) {
    state->too_large = true;
    MemoryContextSwitchTo(before);
    return;
  }
  state->table = adaptive_table_create(state->nkeys, state->build_rows);
  MemoryContextSwitchTo(before);
  fits = adaptive_table_memory(state->table) <= limit;
  ExecReScan(state->build);
  while (fits) {
    int64 keys[ADAPTIVE_MAX_KEYS];
    TupleTableSlot *slot;

    CHECK_FOR_INTERRUPTS();
    slot = ExecProcNode(state->build);
    if (TupIsNull(slot)) break;
    if (!read_keys(slot, state->nkeys, state->inner_keys, state->inner_types, keys)) continue;
    fits = adaptive_table_add(state->table, keys, slot, limit);
  }
  if (fits) {
    state->memory = adaptive_table_memory(state->table);
    state->built_after = state->rows;
    return;
  }
  /* Look-ups continue as before. Each restarts a Materialize node, but a scan that is left in
   * the middle must not keep pages pinned. */
  if (state->build != innerPlanState(state)) ExecReScan(state->build);
  adaptive_table_free(state->table);
  state->table = NULL;
  state->too_large = true;
}

/* Called at an outer row: decides whether to switch to a hash table. */
static void decide(AdaptiveJoinState *state) {
  /* Materialized rows are computed when they are first requested. A join that needs only one
   * match, or whose consumer wants a few rows, may never ask for all, and some could raise an
   * error. */
  bool can_build = state->build != innerPlanState(state) || state->inner_ended;

  if (state->settled || state->rows < state->next_decision) return;
  if (can_build && worth_building(state)) {
    build_table(state);
    return;
  }
  state->next_decision *= 2;
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
    if (read_keys(outer, state->nkeys, state->outer_keys, state->outer_types, keys))
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

  if (likely(!timing(state))) {
    if (outer_or_null) begin_inner(state, outer_or_null);
    return next_inner(state);
  }
  time = &state->lookups[state->rows % TIMED_ROWS];
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
      decide(state);
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
  const NodeCounts counts = {.batches = state->table ? 1 : 0,
                             .rows_in = state->rows,
                             .rows_out = state->rows_out,
                             .fallbacks = state->too_large ? 1 : 0};

  stats_add(STATS_ADAPTIVE_JOIN, &counts);
  if (state->table) adaptive_table_free(state->table);
  state->table = NULL;
  if (state->build != innerPlanState(node)) ExecEndNode(state->build);
  ExecEndNode(outerPlanState(node));
  ExecEndNode(innerPlanState(node));
}

/* ---- EXPLAIN ---- */

static void explain_adaptive_join(CustomScanState *node, List *ancestors, ExplainState *es) {
  AdaptiveJoinState *state = (AdaptiveJoinState *)node;

  adaptive_explain_plan(node, ancestors, es);
  if (!es->analyze) return;
  if (state->table) {
    ExplainPropertyUInteger("Looked Up Before Hashing", "rows", state->built_after, es);
    ExplainPropertyFloat("Outer Rows Foreseen", NULL, state->foreseen, 0, es);
    ExplainPropertyUInteger("Hash Table Memory", "kB", state->memory / 1024, es);
  } else {
    ExplainPropertyUInteger("Looked Up", "rows", state->rows, es);
    if (state->too_large)
      ExplainPropertyText("Not Hashed Because", "the table would not fit into work_mem", es);
  }
}

static const CustomExecMethods exec_methods = {.CustomName = ADAPTIVE_JOIN_NAME,
                                               .BeginCustomScan = begin_adaptive_join,
                                               .ExecCustomScan = exec_custom_scan,
                                               .EndCustomScan = end_adaptive_join,
                                               .ReScanCustomScan = rescan_adaptive_join,
                                               .ExplainCustomScan = explain_adaptive_join};
