/*
 * BatchHashJoin, execution: a batch of the probing side becomes batches of joined rows.
 *
 * The output batch only has pointers to the values in the probing batch and the table (late
 * materialisation). Columns that the join's quals use are filled in before these run, the others
 * after them.
 */
#include "batch_join.h"

#include "miscadmin.h"

const BatchJoinTraits batch_join_traits[] = {
    [BATCH_JOIN_INNER] = {"Inner", .pairs = true},
    [BATCH_JOIN_LEFT] = {"Left", .pairs = true, .fill_outer = true},
    [BATCH_JOIN_RIGHT] = {"Right", .pairs = true, .fill_inner = true},
    [BATCH_JOIN_FULL] = {"Full", .pairs = true, .fill_outer = true, .fill_inner = true},
    [BATCH_JOIN_SEMI] = {"Semi", .pairs = true, .once_outer = true},
    [BATCH_JOIN_ANTI] = {"Anti", .fill_outer = true},
    [BATCH_JOIN_RIGHT_SEMI] = {"Right Semi", .pairs = true, .once_inner = true},
    [BATCH_JOIN_RIGHT_ANTI] = {"Right Anti", .fill_inner = true},
};

/* ---- filling columns ---- */

static void column_from_outer(BatchColumn *to, const BatchColumn *from, const uint16 *rows, int n) {
  for (int i = 0; i < n; i++) to->where[i] = from->where[rows[i]];
  to->has_nulls = from->has_nulls;
}

static void column_from_inner(BatchColumn *to, const RowLayout *layout, const StoredColumn *stored,
                              JoinRow *const *rows, int n) {
  const char *null = NULL;

  for (int i = 0; i < n; i++) {
    to->where[i] = stored_value(layout, stored, rows[i]);
    null = to->where[i] == NULL ? (const char *)to : null;
  }
  to->has_nulls = null != NULL;
}

static void column_of_nulls(BatchColumn *to, int n) {
  memset(to->where, 0, sizeof(*to->where) * n);
  to->has_nulls = true;
}

/* Fills in the needed columns, either those for the quals or the others. `outer` or `inner` may
 * be NULL: then that side's columns are NULL. */
static void fill_columns(BatchJoinState *state, const uint16 *outer, JoinRow *const *inner, int n,
                         bool for_quals) {
  for (int i = 0; i < state->out.ncolumns; i++) {
    const JoinColumn *column = &state->columns[i];
    BatchColumn *to = &state->out.columns[i];

    if (!column->needed || column->for_quals != for_quals) continue;
    if ((column->of_inner ? (const void *)inner : (const void *)outer) == NULL)
      column_of_nulls(to, n);
    else if (column->of_inner)
      column_from_inner(to, state->layout, column->stored, inner, n);
    else
      column_from_outer(to, &state->batch->columns[column->column], outer, n);
  }
}

/*
 * Restricts batch_store_slot() to the columns that are filled in. The pointers of others belong to
 * an earlier batch and may be invalid.
 */
static void show_columns(BatchJoinState *state, bool only_for_quals) {
  for (int i = 0; i < state->out.ncolumns; i++) {
    const JoinColumn *column = &state->columns[i];
    bool shown = only_for_quals ? column->for_quals : column->needed;
    state->out.columns[i].slot_attno = shown ? i + 1 : 0;
  }
}

/* ---- quals ---- */

/* Keeps the selected rows for which `qual` is true. */
static void run_row_qual(BatchJoinState *state, ExprState *qual, const uint8 *only_rows) {
  ExprContext *context = state->css.ss.ps.ps_ExprContext;
  TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
  Batch *out = &state->out;
  int n = 0;

  context->ecxt_scantuple = slot;
  for (int i = 0; i < out->nselected; i++) {
    uint16 row = out->selected[i];
    bool passes = true;

    if (only_rows == NULL || only_rows[row]) {
      ResetExprContext(context);
      batch_store_slot(out, row, slot);
      passes = ExecQual(qual, context);
    }
    out->selected[n] = row;
    n += passes;
  }
  out->nselected = n;
}

/* Drops pairs that were formed only because their keys have no number, if they do not match. */
static void check_suspects(BatchJoinState *state) {
  const KeyVector *keys = state->outer_vector;
  uint8 suspect[BATCH_ROWS];

  for (int i = 0; i < state->probe->npairs; i++) {
    suspect[i] = 0;
    for (int k = 0; k < keys->nkeys; k++)
      if (keys->keys[k].is_decimal && keys->number[k][state->probe->outer[i]] == NUMBER_SUSPECT)
        suspect[i] = 1;
  }
  run_row_qual(state, state->hash_quals, suspect);
}

static void run_checks(BatchJoinState *state) {
  TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
  ExprContext *context = state->css.ss.ps.ps_ExprContext;
  Batch *out = &state->out;
  int before = out->nselected;

  show_columns(state, true);
  if (state->outer_vector->nsuspect > 0) {
    state->counts.odd_rows += state->outer_vector->nsuspect;
    check_suspects(state);
  }
  if (state->vector_quals && out->nselected > 0) {
    context->ecxt_scantuple = slot;
    vector_qual_run(state->vector_quals, out, slot, context);
  }
  if (state->row_quals && out->nselected > 0) run_row_qual(state, state->row_quals, NULL);
  show_columns(state, false);
  InstrCountFiltered2(&state->css, before - out->nselected);
}

/* Conditions of WHERE above an outer join. */
static void run_other_quals(BatchJoinState *state) {
  ExprState *quals = state->css.ss.ps.qual;
  int before = state->out.nselected;

  if (quals == NULL) return;
  run_row_qual(state, quals, NULL);
  InstrCountFiltered1(&state->css, before - state->out.nselected);
}

/* ---- pairs ---- */

void batch_join_probe_begin(BatchJoinState *state) {
  const BatchJoinTraits *traits = state->traits;

  if (state->matched == state->own_matched)
    memset(state->own_matched, 0, sizeof(*state->own_matched) * state->batch->nrows);
  state->has_checks = state->vector_quals || state->row_quals || state->outer_vector->nsuspect > 0;
  join_probe_begin(state->probe, state->table, state->outer_vector,
                   traits->once_outer ? state->matched : NULL);
  if (state->impossible) state->probe->nactive = 0;
}

static ProbeMode probe_mode(const BatchJoinState *state) {
  const BatchJoinTraits *traits = state->traits;

  if (traits->once_inner || (traits->fill_inner && !traits->pairs))
    return state->has_checks ? PROBE_NEW_INNER_ROWS : PROBE_MARK_INNER_ROWS;
  if (traits->once_outer || (traits->fill_outer && !traits->pairs))
    return state->has_checks ? PROBE_NEW_OUTER_ROWS : PROBE_FIRST;
  return state->inner_unique && !state->has_checks ? PROBE_FIRST : PROBE_ALL;
}

/* Marks both rows of the selected pairs; drops pairs of rows of which one match is needed and
 * that have one.
 */
static void mark_pairs(BatchJoinState *state) {
  const BatchJoinTraits *traits = state->traits;
  const JoinProbe *probe = state->probe;
  Batch *out = &state->out;
  bool mark_outer = traits->fill_outer || traits->once_outer;
  bool mark_inner = traits->fill_inner || traits->once_inner;
  int n = 0;

  if (!mark_outer && !mark_inner) return;
  for (int i = 0; i < out->nselected; i++) {
    uint16 pair = out->selected[i];
    bool again = false;

    if (mark_outer) {
      uint8 *matched = &state->matched[probe->outer[pair]];
      again |= traits->once_outer && *matched;
      *matched = 1;
    }
    if (mark_inner) {
      uint32 *flags = &probe->inner[pair]->size;
      again |= traits->once_inner && (*flags & ROW_MATCHED);
      *flags |= ROW_MATCHED;
    }
    out->selected[n] = pair;
    n += !again;
  }
  out->nselected = n;
}

bool batch_join_next_pairs(BatchJoinState *state) {
  JoinProbe *probe = state->probe;
  Batch *out = &state->out;
  ProbeMode mode = probe_mode(state);

  while (join_probe_next(probe, state->table, mode, state->matched)) {
    batch_reset(out);
    batch_select_all(out, probe->npairs);
    if (state->has_checks) {
      fill_columns(state, probe->outer, probe->inner, probe->npairs, true);
      run_checks(state);
    }
    if (mode != PROBE_MARK_INNER_ROWS) mark_pairs(state);
    if (!state->traits->pairs || out->nselected == 0) continue;
    if (!state->has_checks) fill_columns(state, probe->outer, probe->inner, probe->npairs, true);
    fill_columns(state, probe->outer, probe->inner, probe->npairs, false);
    run_other_quals(state);
    if (out->nselected > 0) return true;
    CHECK_FOR_INTERRUPTS();
  }
  return false;
}

/* ---- rows without a match ---- */

static bool hand_on_unmatched(BatchJoinState *state, const uint16 *outer, JoinRow *const *inner,
                              int n) {
  if (n == 0) return false;
  batch_reset(&state->out);
  batch_select_all(&state->out, n);
  fill_columns(state, outer, inner, n, true);
  fill_columns(state, outer, inner, n, false);
  run_other_quals(state);
  return state->out.nselected > 0;
}

bool batch_join_unmatched_outer(BatchJoinState *state) {
  const Batch *batch = state->batch;
  uint16 *rows = state->probe->outer;
  int n = 0;

  for (int i = 0; i < batch->nselected; i++) {
    rows[n] = batch->selected[i];
    n += !state->matched[rows[n]];
  }
  return hand_on_unmatched(state, rows, NULL, n);
}

bool batch_join_unmatched_inner(BatchJoinState *state) {
  JoinRow **rows = state->probe->inner;

  for (;;) {
    JoinRow *row = NULL;
    int n = 0;

    while (n < BATCH_ROWS && (row = join_row_scan_next(&state->unmatched)) != NULL) {
      rows[n] = row;
      n += !(row->size & ROW_MATCHED);
    }
    if (hand_on_unmatched(state, NULL, rows, n)) return true;
    if (row == NULL) return false;
    CHECK_FOR_INTERRUPTS();
  }
}
