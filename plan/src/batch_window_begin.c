/*
 * BatchWindow, execution: starting.
 */
#include "batch_window_state.h"

#include "utils/fmgroids.h"

static int resno_of(const Node *var) { return ((const Var *)var)->varattno; }

static const Const *constant_argument(const WindowFunc *function, int index) {
  return list_length(function->args) > index ? list_nth_node(Const, function->args, index) : NULL;
}

/* ---- columns ---- */

static int column_with(const BatchWindowState *state, const Node *var) {
  const List *columns = list_nth(state->private, WINDOW_PRIVATE_COLUMNS);
  ListCell *cell;

  foreach (cell, columns)
    if (resno_of(lfirst(cell)) == resno_of(var)) return foreach_current_index(cell);
  elog(ERROR, "entry %d of the input's target list is not kept", resno_of(var));
}

static bool computes_with_numbers(WindowFunctionKind kind) {
  return kind == WINDOW_SUM_INTEGER || kind == WINDOW_SUM_NUMERIC || kind == WINDOW_AVERAGE ||
         kind == WINDOW_MIN || kind == WINDOW_MAX;
}

static bool hands_on_values(WindowFunctionKind kind) {
  return kind == WINDOW_OFFSET || kind == WINDOW_FIRST_VALUE || kind == WINDOW_LAST_VALUE ||
         kind == WINDOW_NTH_VALUE || kind == WINDOW_SUM_FLOAT || kind == WINDOW_AVERAGE_FLOAT;
}

/* ---- functions ---- */

static bool is_lag(Oid function) {
  return function == F_LAG_ANYELEMENT || function == F_LAG_ANYELEMENT_INT4 ||
         function == F_LAG_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE;
}

static void make_offset(WindowFunction *function, const WindowFunc *planned) {
  const Const *offset = constant_argument(planned, 1);
  const Const *other = constant_argument(planned, 2);

  function->offset = 1;
  if (offset) {
    function->offset_is_null = offset->constisnull;
    function->offset = offset->constisnull ? 0 : DatumGetInt32(offset->constvalue);
  }
  if (is_lag(planned->winfnoid)) function->offset = -function->offset;
  function->other_is_null = other == NULL || other->constisnull;
  function->other = function->other_is_null ? (Datum)0 : other->constvalue;
}

static void make_function(BatchWindowState *state, WindowFunction *function,
                          const WindowFunc *planned) {
  if (!window_function_kind(planned->winfnoid, &function->kind))
    elog(ERROR, "function %u is not computed over windows", planned->winfnoid);
  if (function->kind == WINDOW_NTILE) {
    function->offset = DatumGetInt32(constant_argument(planned, 0)->constvalue);
    return;
  }
  if (planned->args != NIL) {
    StoredColumn *column = &state->columns[column_with(state, linitial(planned->args))];
    function->column = column;
    column->wants_number |= computes_with_numbers(function->kind);
    column->wants_value |= hands_on_values(function->kind);
  }
  if (function->kind == WINDOW_OFFSET) make_offset(function, planned);
  if (function->kind == WINDOW_NTH_VALUE)
    function->offset = DatumGetInt32(constant_argument(planned, 1)->constvalue);
}

static bool needs_peers(const Window *window, WindowFunctionKind kind) {
  switch (kind) {
    case WINDOW_RANK:
    case WINDOW_DENSE_RANK:
    case WINDOW_PERCENT_RANK:
    case WINDOW_CUME_DIST: return true;
    case WINDOW_ROW_NUMBER:
    case WINDOW_NTILE:
    case WINDOW_OFFSET:
    case WINDOW_FIRST_VALUE: return false;
    default: return window->frame == FRAME_TO_PEERS;
  }
}

static void make_window(BatchWindowState *state, Window *window, const List *planned,
                        List *run_condition) {
  const List *numbers = list_nth(planned, WINDOW_CLAUSE_NUMBERS);
  const List *functions = list_nth(planned, WINDOW_CLAUSE_FUNCTIONS);

  window->npartition_keys = list_nth_int(numbers, WINDOW_PARTITION_KEYS);
  window->nkeys = window->npartition_keys + list_nth_int(numbers, WINDOW_ORDER_KEYS);
  window->frame =
      window_frame(list_nth_int(numbers, WINDOW_FRAME), window->nkeys > window->npartition_keys);
  window->is_top = list_nth_int(numbers, WINDOW_IS_TOP);
  window->nfunctions = list_length(functions);
  window->functions = palloc0(sizeof(*window->functions) * window->nfunctions);
  for (int i = 0; i < window->nfunctions; i++) {
    WindowFunction *function = &window->functions[i];
    make_function(state, function, list_nth_node(WindowFunc, functions, i));
    window->has_aggregates |= window_function_is_aggregate(function->kind);
    window->has_peers |= needs_peers(window, function->kind);
    state->functions[state->nfunctions++] = function;
  }
  if (run_condition != NIL) window->run_condition = ExecInitQual(run_condition, &state->css.ss.ps);
  window->results =
      AllocSetContextCreate(CurrentMemoryContext, "ccopt window results", ALLOCSET_SMALL_SIZES);
}

static void make_windows(BatchWindowState *state, const CustomScan *plan) {
  const List *windows = list_nth(state->private, WINDOW_PRIVATE_WINDOWS);
  int nfunctions = 0;
  ListCell *cell;

  foreach (cell, windows)
    nfunctions += list_length(list_nth(lfirst(cell), WINDOW_CLAUSE_FUNCTIONS));
  state->functions = palloc(sizeof(*state->functions) * nfunctions);
  state->nwindows = list_length(windows);
  state->windows = palloc0(sizeof(*state->windows) * state->nwindows);
  for (int i = 0; i < state->nwindows; i++)
    make_window(state, &state->windows[i], list_nth(windows, i), list_nth(plan->custom_exprs, i));
}

/* ---- all ---- */

static void make_keys(BatchWindowState *state) {
  const List *keys = list_nth(state->private, WINDOW_PRIVATE_KEYS);
  const List *operators = list_nth(state->private, WINDOW_PRIVATE_OPERATORS);

  state->nkeys = list_length(keys);
  state->keys = palloc0(sizeof(*state->keys) * Max(state->nkeys, 1));
  for (int i = 0; i < state->nkeys; i++) {
    const List *planned = list_nth(keys, i);
    SortKey *key = &state->keys[i];
    key->column = list_nth_int(planned, WINDOW_KEY_COLUMN);
    key->descending = list_nth_int(planned, WINDOW_KEY_DESCENDING);
    key->nulls_first = list_nth_int(planned, WINDOW_KEY_NULLS_FIRST);
    state->columns[key->column].wants_number = true;
    state->columns[key->column].operator= list_nth_oid(list_nth(operators, i), WINDOW_KEY_ORDER);
  }
}

static void make_output(BatchWindowState *state) {
  const List *output = list_nth(state->private, WINDOW_PRIVATE_OUTPUT);

  state->nout = list_length(output);
  state->output = palloc(sizeof(*state->output) * Max(state->nout, 1));
  for (int i = 0; i < state->nout; i++) {
    state->output[i] = list_nth_int(output, i);
    if (state->output[i] >= 0) state->columns[state->output[i]].wants_value = true;
  }
}

void batch_window_begin(CustomScanState *css, EState *estate, int eflags) {
  BatchWindowState *state = (BatchWindowState *)css;
  CustomScan *plan = (CustomScan *)css->ss.ps.plan;
  const List *columns = list_nth(plan->custom_private, WINDOW_PRIVATE_COLUMNS);
  PlanState *child = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
  Bitmapset *resnos = NULL;
  ListCell *cell;

  css->custom_ps = list_make1(child);
  state->private = plan->custom_private;
  /* A child that is not going to run need not know its batches. */
  if (eflags & EXEC_FLAG_EXPLAIN_ONLY) return;
  foreach (cell, columns) resnos = bms_add_member(resnos, resno_of(lfirst(cell)));
  state->source = batch_source_open(child, resnos);
  state->ncolumns = list_length(columns);
  state->columns = palloc0(sizeof(*state->columns) * Max(state->ncolumns, 1));
  foreach (cell, columns)
    state->columns[foreach_current_index(cell)].column =
        state->source->column_of[resno_of(lfirst(cell)) - 1];
  make_keys(state);
  make_windows(state, plan);
  make_output(state);
  state->store =
      row_store_create(state->source->batch, state->columns, state->ncolumns, CurrentMemoryContext);
  state->sort = row_sort_create(state->store, state->keys, state->nkeys);
  for (int i = 0; i < state->nwindows; i++) state->windows[i].sort = state->sort;
}
