/*
 * BatchWindow, execution: reads all rows, sorts them, and hands them out with their functions.
 *
 *   reading ──> handing out, from the store        window_at() for each window and row
 *      └──────> handing out, from core's nodes     the rows need more than work_mem, or one has a number
 *                                                  that does not fit: core sorts and computes
 *                                                  (batch_window_core.c)
 *
 * Invariants:
 *  1. Which of the two it is is known before the first row is handed out.
 *  2. A window whose run condition failed computes nothing until its next partition: its functions are NULL,
 *     or, if it is the top one, the rows are dropped.
 */
#include "batch_window_state.h"

#include "executor/nodeCustom.h"
#include "miscadmin.h"

#include "node_names.h"

/* Rows whose values are fetched from memory before they are handed out. */
#define AHEAD 16

/* ---- reading ---- */

/* Why a batch cannot be added, or NULL. */
static const char *add_refusal(const BatchWindowState *state, const Batch *batch) {
  const Size rows = (Size)state->store->nrows + batch->nselected;
  Size memory = row_store_memory(state->store, batch->nselected) + rows * ROW_SORT_BYTES;
  return memory > (Size)work_mem * 1024 ? "work_mem" : NULL;
}

static void restart_windows(BatchWindowState *state) {
  for (int i = 0; i < state->nwindows; i++) window_restart(&state->windows[i]);
  state->place = 0;
}

static void build(BatchWindowState *state) {
  Batch *batch;

  while ((batch = batch_source_next(state->source)) != NULL) {
    const char *refusal = add_refusal(state, batch);
    CHECK_FOR_INTERRUPTS();
    state->counts.batches++;
    state->counts.rows_in += batch->nselected;
    if (refusal == NULL && !row_store_add(state->store, batch)) refusal = "a number does not fit";
    if (refusal == NULL) continue;
    state->left_because = refusal;
    state->counts.fallbacks++;
    core_windows_begin(state, batch);
    state->with_core = state->built = true;
    return;
  }
  row_sort_run(state->sort);
  state->memory = Max(state->memory, row_store_memory(state->store, 0) +
                                         (Size)state->store->nrows * ROW_SORT_BYTES);
  state->by_digits |= state->sort->by_digits;
  restart_windows(state);
  state->built = true;
}

/* ---- handing out ---- */

static void fetch_ahead(const BatchWindowState *state, uint32 place) {
  uint32 row;

  if (place >= state->store->nrows) return;
  row = state->sort->rows[place].row;
  for (int i = 0; i < state->ncolumns; i++) {
    if (state->columns[i].value) __builtin_prefetch(&state->columns[i].value[row]);
    if (state->columns[i].number) __builtin_prefetch(&state->columns[i].number[row]);
  }
}

static void fill(const BatchWindowState *state, uint32 row, TupleTableSlot *slot) {
  for (int i = 0; i < state->nout; i++) {
    const int from = state->output[i];
    if (from >= 0) {
      const StoredColumn *column = &state->columns[from];
      slot->tts_isnull[i] = stored_is_null(column, row);
      slot->tts_values[i] = slot->tts_isnull[i] ? (Datum)0 : column->value[row];
    } else {
      const WindowFunction *function = state->functions[-1 - from];
      slot->tts_isnull[i] = function->is_null;
      slot->tts_values[i] = function->value;
    }
  }
}

/* The functions of a window that stopped. */
static void set_null(Window *window) {
  for (int i = 0; i < window->nfunctions; i++) {
    window->functions[i].is_null = true;
    window->functions[i].value = (Datum)0;
  }
}

static bool fails_run_condition(BatchWindowState *state, Window *window, TupleTableSlot *slot) {
  ExprContext *context = state->css.ss.ps.ps_ExprContext;

  if (window->run_condition == NULL) return false;
  fill(state, state->sort->rows[state->place].row, slot);
  ExecClearTuple(slot);
  ExecStoreVirtualTuple(slot);
  context->ecxt_scantuple = slot;
  return !ExecQual(window->run_condition, context);
}

/* False: the row is dropped, with all others of the top window's partition. */
static bool compute(BatchWindowState *state, TupleTableSlot *slot) {
  for (int i = 0; i < state->nwindows; i++) {
    Window *window = &state->windows[i];
    if (window->stopped && state->place < window->end) continue;
    window_at(window, state->place);
    if (!fails_run_condition(state, window, slot)) continue;
    if (window->is_top) {
      state->place = window->npartition_keys > 0 ? window->end : state->store->nrows;
      return false;
    }
    window->stopped = true;
    set_null(window);
  }
  return true;
}

static TupleTableSlot *next_stored(BatchWindowState *state, TupleTableSlot *slot) {
  while (state->place < state->store->nrows) {
    ExecClearTuple(slot);
    fetch_ahead(state, state->place + AHEAD);
    if (!compute(state, slot)) {
      CHECK_FOR_INTERRUPTS();
      ResetExprContext(state->css.ss.ps.ps_ExprContext);
      continue;
    }
    ExecClearTuple(slot);
    fill(state, state->sort->rows[state->place++].row, slot);
    return ExecStoreVirtualTuple(slot);
  }
  return ExecClearTuple(slot);
}

static TupleTableSlot *next_of_core(BatchWindowState *state, TupleTableSlot *slot) {
  TupleTableSlot *from = core_windows_next(state->core);

  ExecClearTuple(slot);
  if (from == NULL) return slot;
  slot_getallattrs(from);
  for (int i = 0; i < state->nout; i++) {
    int at = state->output[i] >= 0 ? state->output[i] : state->ncolumns - 1 - state->output[i];
    slot->tts_values[i] = from->tts_values[at];
    slot->tts_isnull[i] = from->tts_isnull[at];
  }
  return ExecStoreVirtualTuple(slot);
}

static TupleTableSlot *next_row(ScanState *node) {
  BatchWindowState *state = (BatchWindowState *)node;
  TupleTableSlot *slot = node->ss_ScanTupleSlot;

  if (!state->built) build(state);
  slot = state->with_core ? next_of_core(state, slot) : next_stored(state, slot);
  if (!TTS_EMPTY(slot)) state->counts.rows_out++;
  return slot;
}

static bool recheck(ScanState *node, TupleTableSlot *slot) { return true; }

static TupleTableSlot *exec(CustomScanState *css) { return ExecScan(&css->ss, next_row, recheck); }

/* ---- again, and the end ---- */

static void forget_rows(BatchWindowState *state) {
  if (state->with_core) core_windows_stop(state->core);
  if (state->built) row_store_reset(state->store);
  state->built = state->with_core = false;
}

static void rescan(CustomScanState *css) {
  BatchWindowState *state = (BatchWindowState *)css;
  PlanState *child = linitial(css->custom_ps);

  ExecScanReScan(&css->ss);
  if (css->ss.ps.chgParam != NULL) UpdateChangedParamSet(child, css->ss.ps.chgParam);
  if (state->built && !state->with_core && css->ss.ps.chgParam == NULL && child->chgParam == NULL) {
    /* The rows are still what they were. */
    restart_windows(state);
    return;
  }
  forget_rows(state);
  if (child->chgParam == NULL) ExecReScan(child);
  batch_source_rescan(state->source);
}

static void end(CustomScanState *css) {
  BatchWindowState *state = (BatchWindowState *)css;

  if (state->core) core_windows_end(state->core);
  stats_add(STATS_BATCH_WINDOW, &state->counts);
  ExecEndNode(linitial(css->custom_ps));
}

static const CustomExecMethods batch_window_exec_methods = {
    .CustomName = BATCH_WINDOW_NAME,
    .BeginCustomScan = batch_window_begin,
    .ExecCustomScan = exec,
    .EndCustomScan = end,
    .ReScanCustomScan = rescan,
    .ExplainCustomScan = batch_window_explain};

Node *batch_window_create_state(CustomScan *plan) {
  BatchWindowState *state = palloc0(sizeof(*state));

  NodeSetTag(state, T_CustomScanState);
  state->css.flags = plan->flags;
  state->css.methods = &batch_window_exec_methods;
  return (Node *)state;
}
