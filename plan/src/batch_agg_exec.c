/*
 * BatchAgg, execution: groups the child's batches, then hands out a row per group.
 *
 *   reading     batches go into the tables of all sets; rows without space into the set's files
 *   handing out set after set: the groups in memory, then those of each of its files (build_next_partition)
 *
 * GROUP BY is one set of all keys; each of GROUPING SETS is one of its keys (batch_agg_sets.c).
 *
 * Invariants:
 *  1. A set's group is in its table or in one of its files, never in both.
 *  2. What one set puts off leaves the selection for that set only.
 */
#include "batch_agg_state.h"

#include "executor/nodeCustom.h"
#include "miscadmin.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"

#include "costs.h"
#include "node_names.h"

/* Partitions at a time; fewer if memory is so scarce that their buffers would be most of it. */
#define PARTITIONS 32
#define FEW_PARTITIONS 8
#define SCARCE_MEMORY (4 * 1024 * 1024)

static const CustomExecMethods batch_agg_exec_methods;

/* ---- grouping ---- */

static void store_used(const BatchAggState *state, const Batch *batch, int row) {
  TupleTableSlot *slot = state->row;
  MemoryContext before;
  int column = -1;

  ResetExprContext(state->row_context);
  before = MemoryContextSwitchTo(state->row_context->ecxt_per_tuple_memory);
  ExecClearTuple(slot);
  memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(*slot->tts_isnull));
  while ((column = bms_next_member(state->columns, column)) >= 0) {
    const BatchColumn *values = &batch->columns[column];
    if (values->where[row] == NULL) continue;
    slot->tts_values[values->slot_attno - 1] = batch_datum(values, row);
    slot->tts_isnull[values->slot_attno - 1] = false;
  }
  ExecStoreVirtualTuple(slot);
  MemoryContextSwitchTo(before);
}

/* Rows without a group leave the selection, for a later pass. */
static void put_off(BatchAggState *state, AggSet *set, Batch *batch) {
  int kept = 0;

  if (set->spill == NULL) {
    MemoryContext before = MemoryContextSwitchTo(state->context);
    set->spill =
        agg_spill_create(batch, state->columns, state->row->tts_tupleDescriptor,
                         get_hash_memory_limit() < SCARCE_MEMORY ? FEW_PARTITIONS : PARTITIONS);
    MemoryContextSwitchTo(before);
    state->counts.spills++;
  }
  for (int i = 0; i < batch->nselected; i++) {
    int row = batch->selected[i];
    if (state->groups[row]) {
      batch->selected[kept++] = (uint16)row;
      continue;
    }
    store_used(state, batch, row);
    agg_spill_put(set->spill, state->row, group_table_hash_of_row(set->table, row));
    state->put_off++;
  }
  batch->nselected = kept;
}

static void count_rows(const BatchAggState *state, const Batch *batch, GroupRecord *only) {
  if (only) {
    only->rows += batch->nselected;
    return;
  }
  if (batch->nselected == batch->nrows)
    for (int row = 0; row < batch->nrows; row++) state->groups[row]->rows++;
  else
    for (int i = 0; i < batch->nselected; i++) state->groups[batch->selected[i]]->rows++;
}

static void absorb_into(BatchAggState *state, AggSet *set, Batch *batch) {
  GroupRecord *only = NULL;

  if (set->nkeys > 0) {
    if (group_table_find(set->table, batch, state->groups) > 0) put_off(state, set, batch);
    if (batch->nselected == 0) return;
  } else {
    only = group_table_only(set->table);
  }
  count_rows(state, batch, only);
  transitions_advance(set->transitions, batch, only ? NULL : state->groups, only, state->row,
                      state->row_context);
}

/* Before the first set: each set deselects the rows that it spills, and a column that is decoded
 * after that would lack their numbers for the next set. */
static void decode_used(const BatchAggState *state, Batch *batch) {
  int column = -1;

  while ((column = bms_next_member(state->columns, column)) >= 0) {
    ColumnKind kind = batch->columns[column].kind;
    if (kind == COLUMN_INTEGER || kind == COLUMN_DECIMAL) batch_decode(batch, column);
  }
}

static void absorb_into_all(BatchAggState *state, Batch *batch) {
  uint16 selected[BATCH_ROWS];
  const int nselected = batch->nselected;

  memcpy(selected, batch->selected, sizeof(*selected) * nselected);
  decode_used(state, batch);
  for (int i = 0; i < state->nsets; i++) {
    absorb_into(state, &state->sets[i], batch);
    if (batch->nselected == nselected) continue;
    memcpy(batch->selected, selected, sizeof(*selected) * nselected);
    batch->nselected = nselected;
  }
}

/* `set` NULL: all of them. */
static void absorb_batch(BatchAggState *state, AggSet *set, Batch *batch) {
  if (!state->began) {
    for (int i = 0; i < state->nsets; i++)
      transitions_begin(state->sets[i].transitions, batch, state->row_context);
    ResetExprContext(state->row_context);
    state->began = true;
  }
  state->counts.batches++;
  if (set == NULL)
    absorb_into_all(state, batch);
  else
    absorb_into(state, set, batch);
  if (batch->nodd > 0)
    for (int i = 0; i < batch->nselected; i++)
      state->counts.odd_rows += batch->odd[batch->selected[i]];
}

static void note_memory(BatchAggState *state) {
  Size memory = 0;
  for (int i = 0; i < state->nsets; i++) memory += group_table_memory(state->sets[i].table);
  state->memory = Max(state->memory, memory);
}

/* The groups of the first set are to be handed out. */
static void start_handing_out(BatchAggState *state) {
  state->emitting = 0;
  state->emitted = 0;
  state->noted = false;
  state->top_on = state->top && top_n_begin(state->top);
}

static void build(BatchAggState *state) {
  AggSet *only_set = state->nsets == 1 ? state->sets : NULL;
  Batch *batch;

  while ((batch = batch_source_next(state->source)) != NULL) {
    CHECK_FOR_INTERRUPTS();
    state->counts.rows_in += batch->nselected;
    absorb_batch(state, only_set, batch);
  }
  for (int i = 0; i < state->nsets; i++) {
    AggSet *set = &state->sets[i];
    /* Without keys there is a row even of nothing. */
    if (set->nkeys == 0) group_table_only(set->table);
    state->ngroups += group_table_count(set->table);
  }
  note_memory(state);
  state->passes++;
  start_handing_out(state);
  state->built = true;
}

/* Groups the rows that a set put off; false if there are none. */
static bool build_next_partition(BatchAggState *state, AggSet *set) {
  BatchSource *source;
  Batch *batch;

  if (set->spill == NULL) return false;
  group_table_reset(set->table);
  transitions_reset(set->transitions);
  source = agg_spill_next(set->spill);
  if (source == NULL) return false;
  if (agg_spill_is_deep(set->spill)) group_table_lift_limit(set->table);
  while ((batch = source->next(source)) != NULL) {
    CHECK_FOR_INTERRUPTS();
    absorb_batch(state, set, batch);
  }
  state->ngroups += group_table_count(set->table);
  note_memory(state);
  state->emitted = 0;
  state->noted = false;
  state->passes++;
  return true;
}

/* ---- below ORDER BY ... LIMIT ---- */

void batch_agg_set_top_n(PlanState *node, TopN *top, AttrNumber resno) {
  BatchAggState *state = (BatchAggState *)node;
  const TargetEntry *entry = get_tle_by_resno(node->plan->targetlist, resno);
  const Var *var = entry ? (const Var *)entry->expr : NULL;
  int aggregate;

  if (!IsA(node, CustomScanState) || state->css.methods != &batch_agg_exec_methods) return;
  /* What HAVING takes out later must not count; and a worker hands on no results. */
  if (node->qual != NULL || var == NULL || !IsA(var, Var) || var->varno != INDEX_VAR ||
      intVal(list_nth(((CustomScan *)node->plan)->custom_private, AGG_PRIVATE_STEP)) ==
          AGG_STEP_PARTIAL)
    return;
  aggregate = var->varattno - 1 - state->ncells;
  if (aggregate < 0 || aggregate >= state->naggregates) return;
  state->top = top;
  state->top_aggregate = aggregate;
}

static void note_groups(BatchAggState *state, const AggSet *set) {
  for (uint64 i = 0; i < group_table_count(set->table); i++) {
    int128 number;
    int scale;
    bool is_null;
    if (i % BATCH_ROWS == 0) CHECK_FOR_INTERRUPTS();
    if (transitions_number(set->transitions, state->top_aggregate, group_table_get(set->table, i),
                           &number, &scale, &is_null) &&
        !is_null)
      top_n_note(state->top, number);
  }
  state->noted = true;
}

static bool may_be_first(const BatchAggState *state, const AggSet *set, const GroupRecord *group) {
  int128 number;
  int scale;
  bool is_null;

  if (!transitions_number(set->transitions, state->top_aggregate, group, &number, &scale, &is_null))
    return true;
  return is_null ? top_n_admits_null(state->top) : top_n_admits(state->top, number);
}

/* ---- handing out ---- */

static bool is_wanted(BatchAggState *state, const AggSet *set, const GroupRecord *group) {
  if (state->having &&
      !having_filter_passes(state->having, set->transitions, group, state->row_context)) {
    InstrCountFiltered1(state, 1);
    return false;
  }
  if (state->top_on && !may_be_first(state, set, group)) {
    top_n_count(state->top, 1);
    return false;
  }
  return true;
}

/* The next group that may be wanted, of the set at hand; or NULL. */
static const GroupRecord *next_record(BatchAggState *state) {
  while (state->emitting < state->nsets) {
    AggSet *set = &state->sets[state->emitting];
    if (state->top_on && !state->noted) note_groups(state, set);
    while (state->emitted < group_table_count(set->table)) {
      const GroupRecord *group = group_table_get(set->table, state->emitted++);
      if (is_wanted(state, set, group)) return group;
      if (state->emitted % BATCH_ROWS == 0) CHECK_FOR_INTERRUPTS();
    }
    if (build_next_partition(state, set)) continue;
    if (state->emitting + 1 == state->nsets) return NULL;
    state->emitting++;
    state->emitted = 0;
    state->noted = false;
  }
  return NULL;
}

static void fill_cells(const BatchAggState *state, const AggSet *set, const GroupRecord *group,
                       TupleTableSlot *slot) {
  if (set->nkeys < state->nkeys)
    memset(slot->tts_isnull, true, sizeof(*slot->tts_isnull) * state->nkeys);
  for (int i = 0; i < set->nkeys; i++)
    slot->tts_values[set->cells[i]] =
        group_table_value(set->table, group, i, &slot->tts_isnull[set->cells[i]]);
  for (int i = state->nkeys; i < state->ncells; i++)
    slot->tts_values[i] = group_table_value(set->table, group, i, &slot->tts_isnull[i]);
}

static TupleTableSlot *next_group(ScanState *node) {
  BatchAggState *state = (BatchAggState *)node;
  TupleTableSlot *slot = node->ss_ScanTupleSlot;
  const AggSet *set;
  const GroupRecord *group;
  MemoryContext before;
  int attribute = state->ncells;

  if (!state->built) build(state);
  ExecClearTuple(slot);
  group = next_record(state);
  if (group == NULL) return slot;

  set = &state->sets[state->emitting];
  before = MemoryContextSwitchTo(node->ps.ps_ExprContext->ecxt_per_tuple_memory);
  fill_cells(state, set, group, slot);
  for (int i = 0; i < state->naggregates; i++, attribute++)
    slot->tts_values[attribute] =
        transitions_result(set->transitions, i, group, &slot->tts_isnull[attribute]);
  MemoryContextSwitchTo(before);
  for (int i = 0; i < state->nfunctions; i++, attribute++) {
    slot->tts_values[attribute] = Int32GetDatum(set->functions[i]);
    slot->tts_isnull[attribute] = false;
  }
  state->counts.rows_out++;
  return ExecStoreVirtualTuple(slot);
}

static bool recheck(ScanState *node, TupleTableSlot *slot) { return true; }

static TupleTableSlot *exec(CustomScanState *css) {
  return ExecScan(&css->ss, next_group, recheck);
}

static bool has_spilled(const BatchAggState *state) {
  for (int i = 0; i < state->nsets; i++)
    if (state->sets[i].spill) return true;
  return false;
}

static void end_spills(BatchAggState *state) {
  for (int i = 0; i < state->nsets; i++) {
    AggSet *set = &state->sets[i];
    if (set->spill) agg_spill_end(set->spill);
    set->spill = NULL;
  }
}

static void forget_groups(BatchAggState *state) {
  end_spills(state);
  for (int i = 0; i < state->nsets; i++) {
    group_table_reset(state->sets[i].table);
    transitions_reset(state->sets[i].transitions);
  }
  if (state->having) having_filter_reset(state->having);
  state->built = state->began = false;
  state->emitting = 0;
  state->emitted = 0;
}

static void rescan(CustomScanState *css) {
  BatchAggState *state = (BatchAggState *)css;
  PlanState *child = linitial(css->custom_ps);

  ExecScanReScan(&css->ss);
  if (css->ss.ps.chgParam != NULL) UpdateChangedParamSet(child, css->ss.ps.chgParam);
  if (!state->built) {
    /* Nothing was read, or reading failed. */
  } else if (css->ss.ps.chgParam == NULL && child->chgParam == NULL && !has_spilled(state)) {
    /* The groups are still what they were. */
    start_handing_out(state);
    return;
  }
  forget_groups(state);
  if (child->chgParam == NULL) ExecReScan(child);
  batch_source_rescan(state->source);
}

static void end(CustomScanState *css) {
  BatchAggState *state = (BatchAggState *)css;

  end_spills(state);
  stats_add(STATS_BATCH_AGG, &state->counts);
  ExecEndNode(linitial(css->custom_ps));
}

static const CustomExecMethods batch_agg_exec_methods = {.CustomName = BATCH_AGG_NAME,
                                                         .BeginCustomScan = batch_agg_begin,
                                                         .ExecCustomScan = exec,
                                                         .EndCustomScan = end,
                                                         .ReScanCustomScan = rescan,
                                                         .ExplainCustomScan = batch_agg_explain};

Node *batch_agg_create_state(CustomScan *plan) {
  BatchAggState *state = palloc0(sizeof(*state));

  NodeSetTag(state, T_CustomScanState);
  state->css.flags = plan->flags;
  state->css.methods = &batch_agg_exec_methods;
  return (Node *)state;
}
