/*
 * AdaptiveJoin, execution: when to change to a hash table, and its making.
 *
 * The number of outer rows still to come is estimated from the progress of the lowest adaptive join
 * below: the planner knew the number of its outer rows best.
 *
 *     n rows so far, and the lowest join has seen 327 of 8,081 expected:  n * 8,081 / 327 in all
 *
 * In a parallel plan each process decides by its own outer rows; the first that finds a table worth
 * building builds it for all (adaptive_shared.c).
 */
#include "adaptive_join_state.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"

/* This many of the longest times are replaced by the next longest one: a look-up during which
 * another process had the processor takes thousands of times as long. */
#define DOUBTFUL_ROWS 8

/* ---- the decision ---- */

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

static int compare_times(const void *one, const void *two) {
  double first = *(const double *)one, second = *(const double *)two;
  return (first > second) - (first < second);
}

static double lookup_ns(const AdaptiveJoinState *state) {
  double times[ADAPTIVE_TIMED_ROWS];
  double sum = 0;

  for (int i = 0; i < ADAPTIVE_TIMED_ROWS; i++)
    times[i] = INSTR_TIME_GET_DOUBLE(state->lookups[i]) * 1e9;
  qsort(times, ADAPTIVE_TIMED_ROWS, sizeof(*times), compare_times);
  for (int i = 0; i < ADAPTIVE_TIMED_ROWS; i++)
    sum += times[Min(i, ADAPTIVE_TIMED_ROWS - DOUBTFUL_ROWS)];
  return sum / ADAPTIVE_TIMED_ROWS;
}

static bool worth_building(AdaptiveJoinState *state) {
  double to_come;

  state->foreseen = foresee_rows(state);
  to_come = state->foreseen - state->rows;
  if (state->shared) to_come *= adaptive_shared_processes(state->shared);
  if (state->force) return true;
  return to_come * (lookup_ns(state) - state->probe_ns) > state->build_ns * state->margin;
}

/* The rows of the table, not linked yet; NULL: they do not fit. */
static AdaptiveTable *read_rows(AdaptiveJoinState *state) {
  const Size limit = get_hash_memory_limit();
  MemoryContext before;
  AdaptiveTable *table;
  bool fits = true;

  if (state->build_rows * state->build_width > limit) return NULL;
  before = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);
  table = adaptive_table_create(state->nkeys);
  MemoryContextSwitchTo(before);
  ExecReScan(state->build);
  while (fits) {
    int64 keys[ADAPTIVE_MAX_KEYS];
    TupleTableSlot *slot;

    CHECK_FOR_INTERRUPTS();
    slot = ExecProcNode(state->build);
    if (TupIsNull(slot)) return table;
    if (!adaptive_read_keys(slot, state->nkeys, state->inner_keys, state->inner_types, keys))
      continue;
    fits = adaptive_table_add(table, keys, slot, limit);
  }
  /* Look-ups continue as before. Each restarts a Materialize node, but a scan that is left in
   * the middle must not keep pages pinned. */
  if (state->build != innerPlanState(state)) ExecReScan(state->build);
  adaptive_table_free(table);
  return NULL;
}

static void use_table(AdaptiveJoinState *state, AdaptiveTable *table) {
  state->settled = true;
  state->too_large = table == NULL;
  state->table = table;
  if (table == NULL) return;
  state->built = true;
  state->memory = adaptive_table_memory(table);
  state->built_after = state->rows;
}

static void attach_table(AdaptiveJoinState *state) {
  EState *estate = state->css.ss.ps.state;
  MemoryContext before = MemoryContextSwitchTo(estate->es_query_cxt);

  state->attached = true;
  use_table(state, adaptive_shared_attach(state->shared, state->nkeys, estate->es_query_dsa));
  MemoryContextSwitchTo(before);
}

static void build_table(AdaptiveJoinState *state, bool for_all) {
  AdaptiveTable *table = read_rows(state);

  if (for_all && adaptive_shared_publish(state->shared, table, state->css.ss.ps.state->es_query_dsa,
                                         state->bytes_of_area)) {
    adaptive_table_free(table);
    attach_table(state);
    return;
  }
  if (table) adaptive_table_link(table);
  use_table(state, table);
}

static void begin_build(AdaptiveJoinState *state) {
  AdaptiveTask task = state->shared ? adaptive_shared_claim(state->shared) : ADAPTIVE_BUILD_PRIVATE;

  switch (task) {
    case ADAPTIVE_BUILD_SHARED:
    case ADAPTIVE_BUILD_PRIVATE: build_table(state, task == ADAPTIVE_BUILD_SHARED); break;
    case ADAPTIVE_GIVE_UP: use_table(state, NULL); break;
    case ADAPTIVE_LOOK_UP:
      state->awaits_table = true;
      state->next_decision *= 2;
      break;
  }
}

void adaptive_decide(AdaptiveJoinState *state) {
  /* Materialized rows are computed when they are first requested. A join that needs only one
   * match, or whose consumer wants a few rows, may never ask for all, and some could raise an
   * error. */
  bool can_build = state->build != innerPlanState(state) || state->inner_ended;

  if (state->settled) return;
  if (state->shared && adaptive_shared_is_ready(state->shared)) {
    attach_table(state);
    return;
  }
  /* A table was worth its time here, too. */
  if (state->shared && state->awaits_table && adaptive_shared_has_failed(state->shared)) {
    state->awaits_table = false;
    state->next_decision = state->rows;
  }
  if (state->rows < state->next_decision) return;
  if (can_build && worth_building(state))
    begin_build(state);
  else
    state->next_decision *= 2;
}

/* ---- in several processes ---- */

Size adaptive_estimate_dsm(CustomScanState *node, ParallelContext *context) {
  shared_memory_estimate(context);
  return adaptive_shared_size();
}

/* Materialized rows are read by each process, as core has it. */
void adaptive_initialize_worker(CustomScanState *node, shm_toc *toc, void *memory) {
  AdaptiveJoinState *state = (AdaptiveJoinState *)node;
  if (state->build == innerPlanState(node)) return;
  state->shared = memory;
  state->bytes_of_area = shared_memory_begin(toc);
}

void adaptive_initialize_dsm(CustomScanState *node, ParallelContext *context, void *memory) {
  adaptive_shared_init(memory, context->nworkers);
  /* Without a segment there are no workers. */
  if (context->seg != NULL) adaptive_initialize_worker(node, context->toc, memory);
}

void adaptive_reinitialize_dsm(CustomScanState *node, ParallelContext *context, void *memory) {
  adaptive_shared_reset(memory);
}

void adaptive_free_table(AdaptiveJoinState *state) {
  if (state->table) adaptive_table_free(state->table);
  state->table = NULL;
  state->match = NULL;
}

/* Before the memory that processes share goes. If the node runs again, it looks up at first. */
void adaptive_shut_down(CustomScanState *node) {
  AdaptiveJoinState *state = (AdaptiveJoinState *)node;

  if (state->attached) {
    adaptive_free_table(state);
    state->attached = state->settled = false;
  }
  state->shared = NULL;
}
