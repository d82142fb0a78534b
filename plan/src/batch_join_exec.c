/*
 * BatchHashJoin, execution: the node.
 *
 *   START ─> OUTER ─> PAIRS ─> UNMATCHED_OUTER ─┐
 *              ^ └────────────────────────────<─┘
 *              │ no more: UNMATCHED_INNER ─> NEXT_PASS ─> DONE
 *              └───────────────────────────────┘
 */
#include "batch_join.h"

#include "miscadmin.h"
#include "node_names.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "settings.h"
#include "utils/memutils.h"

#define OUTER_NODE(state) ((PlanState *)linitial((state)->css.custom_ps))
#define INNER_NODE(state) ((PlanState *)lsecond((state)->css.custom_ps))

static int private_integer(const CustomScan *scan, JoinPlanPrivate item) {
  return intVal(list_nth(scan->custom_private, item));
}

/* ---- beginning ---- */

static Node *create_state(CustomScan *scan) {
  BatchJoinState *state = palloc0(sizeof(*state));

  NodeSetTag(state, T_CustomScanState);
  state->css.methods = &batch_join_exec_methods.base;
  return (Node *)state;
}

const CustomScanMethods batch_join_scan_methods = {.CustomName = BATCH_JOIN_NAME,
                                                   .CreateCustomScanState = create_state};

/* Opens the source of a child, for the target entries that are columns or keys here. */
static BatchSource *open_child(PlanState *child, int side, const CustomScan *scan) {
  List *sides = list_nth(scan->custom_private, JOIN_PLAN_SIDES);
  List *resnos = list_nth(scan->custom_private, JOIN_PLAN_RESNOS);
  List *keys =
      list_nth(scan->custom_private, side == 0 ? JOIN_PLAN_OUTER_KEYS : JOIN_PLAN_INNER_KEYS);
  Bitmapset *used = NULL;
  ListCell *side_cell, *resno_cell;

  forboth(side_cell, sides, resno_cell, resnos) {
    if (lfirst_int(side_cell) == side) used = bms_add_member(used, lfirst_int(resno_cell));
  }
  foreach (resno_cell, keys) used = bms_add_member(used, lfirst_int(resno_cell));
  return batch_source_open(child, used);
}

static JoinKey *describe_keys(const BatchSource *source, List *resnos) {
  JoinKey *keys = palloc0(sizeof(*keys) * list_length(resnos));
  ListCell *cell;

  foreach (cell, resnos) {
    JoinKey *key = &keys[foreach_current_index(cell)];
    const BatchColumn *column;

    key->column = source->column_of[lfirst_int(cell) - 1];
    column = &source->batch->columns[key->column];
    if (column->kind == COLUMN_OPAQUE) elog(ERROR, "a key of the join has no number and no text");
    key->is_text = column->kind == COLUMN_TEXT || column->kind == COLUMN_BPCHAR;
    key->blank_padded = column->kind == COLUMN_BPCHAR;
    key->is_decimal = column->kind == COLUMN_DECIMAL;
  }
  return keys;
}

static void find_attributes(List *expressions, Bitmapset **attributes) {
  pull_varattnos((Node *)expressions, INDEX_VAR, attributes);
}

static bool has_attribute(const Bitmapset *attributes, int column) {
  return bms_is_member(column + 1 - FirstLowInvalidHeapAttributeNumber, attributes);
}

/* Creates the output batch: a column for each entry of custom_scan_tlist. */
static void make_output(BatchJoinState *state, const CustomScan *scan) {
  List *sides = list_nth(scan->custom_private, JOIN_PLAN_SIDES);
  List *resnos = list_nth(scan->custom_private, JOIN_PLAN_RESNOS);
  Bitmapset *in_quals = NULL, *in_output = NULL;
  int n = list_length(sides);
  bool has_decimals = false;

  for (int k = 0; k < state->nkeys; k++) has_decimals |= state->inner_keys[k].is_decimal;
  find_attributes(state->join_quals, &in_quals);
  /* Core compares keys without a number. */
  if (has_decimals) find_attributes(state->hash_clauses, &in_quals);
  find_attributes(scan->scan.plan.targetlist, &in_output);
  find_attributes(scan->scan.plan.qual, &in_output);

  batch_init(&state->out, n);
  state->columns = palloc0(sizeof(*state->columns) * Max(n, 1));
  for (int i = 0; i < n; i++) {
    JoinColumn *column = &state->columns[i];
    const BatchSource *source;
    const BatchColumn *from;
    BatchColumn *to = &state->out.columns[i];

    column->of_inner = list_nth_int(sides, i) == 1;
    column->for_quals = has_attribute(in_quals, i);
    column->needed = column->for_quals || has_attribute(in_output, i);
    source = column->of_inner ? state->inner : state->outer;
    column->column = source->column_of[list_nth_int(resnos, i) - 1];
    from = &source->batch->columns[column->column];
    to->kind = from->kind;
    to->type = from->type;
    to->typmod = from->typmod;
    to->collation = from->collation;
    to->length = from->length;
    to->by_value = from->by_value;
    to->align = from->align;
    to->scale = from->scale;
    to->slot_attno = column->needed ? i + 1 : 0;
  }
}

/* Creates the table, which stores the inner columns that are needed. */
static void make_table(BatchJoinState *state) {
  Bitmapset *stored = NULL;

  for (int i = 0; i < state->out.ncolumns; i++)
    if (state->columns[i].of_inner && state->columns[i].needed)
      stored = bms_add_member(stored, state->columns[i].column);
  state->layout = row_layout_create(state->inner->batch, stored, state->nkeys, state->inner_keys);
  for (int i = 0; i < state->out.ncolumns; i++) {
    JoinColumn *column = &state->columns[i];
    if (column->of_inner && column->needed)
      column->stored = &state->layout->columns[state->layout->stored_of[column->column]];
  }
  state->table = join_table_create(state->layout);
}

static int column_of_var(const Var *var, void *argument) {
  return var->varno == INDEX_VAR ? var->varattno - 1 : -1;
}

static void compile_quals(BatchJoinState *state, const CustomScan *scan) {
  PlanState *node = &state->css.ss.ps;
  int nvector = private_integer(scan, JOIN_PLAN_NVECTOR_QUALS);
  List *vector = list_copy_tail(state->join_quals, 0);
  List *rows = list_copy_tail(state->join_quals, nvector);

  vector = list_truncate(vector, nvector);
  state->hash_quals = ExecInitQual(state->hash_clauses, node);
  if (vector != NIL)
    state->vector_quals = vector_qual_compile(vector, &state->out, column_of_var, NULL, node);
  if (rows != NIL) state->row_quals = ExecInitQual(rows, node);
}

/* Adds the filter to the scan now, empty; it takes effect when the table is finished. */
static void attach_filter(BatchJoinState *state, const CustomScan *scan) {
  List *resnos = list_nth(scan->custom_private, JOIN_PLAN_OUTER_KEYS);
  int *keys;

  if (!ccopt_enable_bloom || state->traits->fill_outer || !private_integer(scan, JOIN_PLAN_FILTERS))
    return;
  keys = palloc(sizeof(*keys) * state->nkeys);
  for (int k = 0; k < state->nkeys; k++) keys[k] = list_nth_int(resnos, k);
  state->filter = key_filter_attach(state->outer_node, state->nkeys, keys, state->outer_keys);
  pfree(keys);
}

/* Finds the entries of the target list that are columns of the output batch: 1-based; 0: the
 * list has others.
 */
static void find_result_columns(BatchJoinState *state, List *target) {
  ListCell *cell;

  state->result_columns = palloc(sizeof(int) * Max(list_length(target), 1));
  foreach (cell, target) {
    const Var *var = (const Var *)lfirst_node(TargetEntry, cell)->expr;

    if (!IsA(var, Var) || var->varno != INDEX_VAR) {
      state->nresult = -1;
      return;
    }
    state->result_columns[state->nresult++] = var->varattno - 1;
  }
}

static Batch *next_batch(BatchSource *source);

static void begin(CustomScanState *node, EState *estate, int eflags) {
  BatchJoinState *state = (BatchJoinState *)node;
  CustomScan *scan = (CustomScan *)node->ss.ps.plan;
  int nhash = private_integer(scan, JOIN_PLAN_NHASH_CLAUSES);

  state->kind = private_integer(scan, JOIN_PLAN_KIND);
  state->traits = &batch_join_traits[state->kind];
  state->inner_unique = private_integer(scan, JOIN_PLAN_INNER_UNIQUE);
  state->sharing = private_integer(scan, JOIN_PLAN_SHARING);
  state->nkeys = nhash;
  state->hash_clauses = list_truncate(list_copy(scan->custom_exprs), nhash);
  state->join_quals = list_copy_tail(scan->custom_exprs, nhash);
  state->outer_node = ExecInitNode(linitial(scan->custom_plans), estate, eflags);
  /* The inner side is read once, unless its parameters change. */
  state->inner_node = ExecInitNode(lsecond(scan->custom_plans), estate,
                                   eflags & ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD));
  node->custom_ps = list_make2(state->outer_node, state->inner_node);
  state->source.next = next_batch;
  state->source.node = &node->ss.ps;
  state->source.batch = &state->out;
  state->final_pass = true;

  state->outer = open_child(state->outer_node, 0, scan);
  state->inner = open_child(state->inner_node, 1, scan);
  state->outer_keys =
      describe_keys(state->outer, list_nth(scan->custom_private, JOIN_PLAN_OUTER_KEYS));
  state->inner_keys =
      describe_keys(state->inner, list_nth(scan->custom_private, JOIN_PLAN_INNER_KEYS));
  state->outer_vector = key_vector_create(nhash, state->outer_keys);
  state->inner_vector = key_vector_create(nhash, state->inner_keys);
  make_output(state, scan);
  make_table(state);
  state->probe = join_probe_create();
  state->own_matched = palloc0(sizeof(*state->own_matched) * BATCH_ROWS);
  state->matched = state->own_matched;
  compile_quals(state, scan);
  attach_filter(state, scan);
  find_result_columns(state, scan->scan.plan.targetlist);
}

/* ---- starting ---- */

/*
 * Decides whether to fetch a first outer row before building the table: without one there is
 * nothing to join. As in core: if outer rows begin to come before the inner side would end.
 */
static bool look_first(const BatchJoinState *state) {
  /* The other processes may have outer rows. */
  if (state->traits->fill_inner || state->shared != NULL) return false;
  return state->traits->fill_outer ||
         (!state->outer_seen &&
          state->outer_node->plan->startup_cost < state->inner_node->plan->total_cost);
}

/* False: there is nothing to join. */
static bool start(BatchJoinState *state) {
  const BatchJoinTraits *traits = state->traits;

  state->impossible = state->vector_quals != NULL &&
                      !vector_qual_begin(state->vector_quals, state->css.ss.ps.ps_ExprContext);
  if (!state->table_ready) {
    if (look_first(state)) {
      state->batch = batch_source_next(state->outer);
      if (state->batch == NULL) return false;
      state->outer_seen = state->batch_pending = true;
    }
    batch_join_build(state);
    if (state->table_ready && state->filter != NULL) key_filter_start(state->filter, state->table);
  }
  if (state->inner_rows == 0 && !traits->fill_outer) return false;
  if (state->spill != NULL) {
    Batch *batch = state->batch_pending ? state->batch : batch_source_next(state->outer);

    state->batch_pending = false;
    for (; batch != NULL; batch = batch_source_next(state->outer)) {
      CHECK_FOR_INTERRUPTS();
      state->counts.batches++;
      state->counts.rows_in += batch->nselected;
      join_spill_outer(state, batch);
    }
  }
  return true;
}

/* ---- the phases ---- */

/* Fetches the next batch of the outer side, with its keys. */
static bool fetch_outer(BatchJoinState *state) {
  if (state->spill != NULL) return join_spill_next_outer(state);
  if (!state->batch_pending) state->batch = batch_source_next(state->outer);
  state->batch_pending = false;
  if (state->batch == NULL) return false;
  state->outer_seen = true;
  state->counts.batches++;
  state->counts.rows_in += state->batch->nselected;
  key_vector_fill(state->outer_vector, state->batch);
  return true;
}

/* Runs phases until `out` has rows; false: there are no more. */
static bool advance(BatchJoinState *state) {
  for (;;) {
    CHECK_FOR_INTERRUPTS();
    switch (state->phase) {
      case PHASE_START:
        if (!start(state))
          state->phase = PHASE_DONE;
        else
          state->phase = state->spill ? PHASE_NEXT_PASS : PHASE_OUTER;
        break;
      case PHASE_OUTER:
        if (fetch_outer(state)) {
          batch_join_probe_begin(state);
          state->phase = PHASE_PAIRS;
          break;
        }
        join_row_scan_begin(&state->unmatched, state->table);
        state->phase = state->traits->fill_inner ? PHASE_UNMATCHED_INNER : PHASE_NEXT_PASS;
        break;
      case PHASE_PAIRS:
        if (batch_join_next_pairs(state)) return true;
        state->phase =
            state->traits->fill_outer && state->final_pass ? PHASE_UNMATCHED_OUTER : PHASE_OUTER;
        break;
      case PHASE_UNMATCHED_OUTER:
        state->phase = PHASE_OUTER;
        if (batch_join_unmatched_outer(state)) return true;
        break;
      case PHASE_UNMATCHED_INNER:
        if (batch_join_unmatched_inner(state)) return true;
        state->phase = PHASE_NEXT_PASS;
        break;
      case PHASE_NEXT_PASS:
        state->phase = state->spill && join_spill_next_pass(state) ? PHASE_OUTER : PHASE_DONE;
        break;
      case PHASE_DONE: return false;
    }
  }
}

static Batch *next_batch(BatchSource *source) {
  BatchJoinState *state = (BatchJoinState *)source->node;

  if (!advance(state)) return NULL;
  state->counts.rows_out += state->out.nselected;
  return &state->out;
}

/* ---- rows by slot ---- */

/* A row of plain columns needs no projection: they are stored directly in the result slot. */
static TupleTableSlot *store_result(BatchJoinState *state, int row) {
  TupleTableSlot *slot = state->css.ss.ps.ps_ResultTupleSlot;

  ExecClearTuple(slot);
  for (int i = 0; i < state->nresult; i++) {
    const BatchColumn *column = &state->out.columns[state->result_columns[i]];

    slot->tts_isnull[i] = column->where[row] == NULL;
    slot->tts_values[i] = slot->tts_isnull[i] ? (Datum)0 : batch_datum(column, row);
  }
  return ExecStoreVirtualTuple(slot);
}

/* Rows for the parent come into `out`; false: there are no more. */
static bool take_rows(BatchJoinState *state) {
  state->next_selected = 0;
  while (next_batch(&state->source) != NULL) {
    if (state->top) top_n_filter(state->top, &state->out);
    if (state->out.nselected > 0) return true;
  }
  state->out.nselected = 0;
  return false;
}

static TupleTableSlot *next_row(CustomScanState *node) {
  BatchJoinState *state = (BatchJoinState *)node;
  ProjectionInfo *projection = node->ss.ps.ps_ProjInfo;
  int row;

  if (state->next_selected >= state->out.nselected && !take_rows(state)) return NULL;
  row = state->out.selected[state->next_selected++];
  if (projection == NULL) {
    batch_store_slot(&state->out, row, node->ss.ss_ScanTupleSlot);
    return node->ss.ss_ScanTupleSlot;
  }
  if (state->nresult >= 0) return store_result(state, row);
  ResetExprContext(node->ss.ps.ps_ExprContext);
  batch_store_slot(&state->out, row, node->ss.ss_ScanTupleSlot);
  node->ss.ps.ps_ExprContext->ecxt_scantuple = node->ss.ss_ScanTupleSlot;
  return ExecProject(projection);
}

/* ---- batches for the parent ---- */

static BatchSource *as_source(CustomScanState *node) {
  BatchJoinState *state = (BatchJoinState *)node;

  if (state->nresult < 0) return NULL;
  state->source.nresnos = state->nresult;
  state->source.column_of = state->result_columns;
  return &state->source;
}

bool batch_join_passes_outer(PlanState *node, int *resno, PlanState **outer) {
  BatchJoinState *state = (BatchJoinState *)node;
  int column;

  if (!IsA(node, CustomScanState) || state->css.methods != &batch_join_exec_methods.base)
    return false;
  if (state->traits->fill_inner || state->traits->once_inner || state->nresult < 0) return false;
  column = state->result_columns[*resno - 1];
  if (state->columns[column].of_inner) return false;
  *resno =
      list_nth_int(list_nth(((CustomScan *)node->plan)->custom_private, JOIN_PLAN_RESNOS), column);
  *outer = state->outer_node;
  return true;
}

bool batch_join_set_top_n(PlanState *node, TopN *top, AttrNumber resno) {
  BatchJoinState *state = (BatchJoinState *)node;

  if (!IsA(node, CustomScanState) || state->css.methods != &batch_join_exec_methods.base)
    return false;
  /* What a target list computes could fail for a row that is dropped. */
  if (state->nresult >= 0 && top_n_set_column(top, &state->out, state->result_columns[resno - 1]))
    state->top = top;
  return true;
}

/* ---- again, and the end ---- */

static void forget_table(BatchJoinState *state) {
  if (state->filter != NULL) key_filter_stop(state->filter);
  if (state->spill != NULL) join_spill_end(state);
  join_table_clear(state->table);
  state->table_ready = false;
}

static void rescan_child(PlanState *child, BatchSource *source, const Bitmapset *changed) {
  if (changed != NULL) UpdateChangedParamSet(child, (Bitmapset *)changed);
  ExecReScan(child);
  batch_source_rescan(source);
}

static void rescan(CustomScanState *node) {
  BatchJoinState *state = (BatchJoinState *)node;
  Bitmapset *changed = node->ss.ps.chgParam;

  if (changed != NULL) UpdateChangedParamSet(state->inner_node, changed);
  /* A table that is shared is gone: the leader starts all processes again. */
  if (state->table_ready && state->inner_node->chgParam == NULL && state->shared == NULL) {
    if (state->traits->fill_inner || state->traits->once_inner)
      join_table_forget_matches(state->table);
  } else {
    forget_table(state);
    rescan_child(state->inner_node, state->inner, NULL);
  }
  rescan_child(state->outer_node, state->outer, changed);
  state->phase = PHASE_START;
  state->batch = NULL;
  state->batch_pending = false;
  state->final_pass = true;
  state->matched = state->own_matched;
  state->out.nselected = 0;
  state->next_selected = 0;
  if (state->top) top_n_restart(state->top);
}

/* Before the memory that processes share goes. */
static void shut_down(CustomScanState *node) {
  BatchJoinState *state = (BatchJoinState *)node;

  if (state->shared != NULL && state->table != NULL) join_shared_note(state);
  if (state->table != NULL && state->table->base != NULL) forget_table(state);
  state->shared = NULL;
}

static void end(CustomScanState *node) {
  BatchJoinState *state = (BatchJoinState *)node;

  if (state->table != NULL) forget_table(state);
  stats_add(STATS_BATCH_JOIN, &state->counts);
  ExecEndNode(state->outer_node);
  ExecEndNode(state->inner_node);
}

const BatchExecMethods batch_join_exec_methods = {
    .base = {.CustomName = BATCH_JOIN_NAME,
             .BeginCustomScan = begin,
             .ExecCustomScan = next_row,
             .EndCustomScan = end,
             .ReScanCustomScan = rescan,
             .EstimateDSMCustomScan = join_shared_estimate,
             .InitializeDSMCustomScan = join_shared_initialize,
             .ReInitializeDSMCustomScan = join_shared_reinitialize,
             .InitializeWorkerCustomScan = join_shared_worker,
             .ShutdownCustomScan = shut_down,
             .ExplainCustomScan = batch_join_explain},
    .source = as_source};
