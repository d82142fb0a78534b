/*
 * BatchAgg, execution: groups the child's batches, then hands out a row per group.
 */
#include "batch_agg.h"

#include "executor/nodeCustom.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/ruleutils.h"

#include "group_table.h"
#include "costs.h"
#include "node_names.h"
#include "stats.h"
#include "transitions.h"

/* Partitions at a time; fewer if memory is so scarce that their buffers would be most of it. */
#define PARTITIONS 32
#define FEW_PARTITIONS 8
#define SCARCE_MEMORY (4 * 1024 * 1024)

typedef struct BatchAggState {
  CustomScanState css;
  BatchSource *source;
  Bitmapset *columns; /* of the input, those that are used */
  int nkeys;
  int ncells; /* keys and carried columns */
  int naggregates;
  List *aggregates; /* Aggref; Vars by slot_attno */
  GroupKey *keys;
  GroupTable *table;
  Transitions *transitions;
  GroupRecord **groups;     /* [BATCH_ROWS], of the batch at hand */
  TupleTableSlot *row;      /* for rows that go through core */
  ExprContext *row_context; /* and what is evaluated for them */
  MemoryContext context;    /* of the query */
  HavingFilter *having;     /* NULL: none */
  AggSpill *spill;          /* NULL until memory is short */

  bool began;     /* constants are evaluated */
  bool built;     /* the groups in memory are complete */
  uint64 emitted; /* of these */

  /* for EXPLAIN */
  NodeCounts counts;
  uint64 ngroups;
  uint64 passes;
  uint64 put_off; /* rows, each time they were */
  Size memory;    /* at most */
} BatchAggState;

/* ---- starting ---- */

/* From Var(OUTER_VAR, resno) to where batch_store_slot() puts the column. */
static Node *place_vars(Node *node, void *argument) {
  const BatchSource *source = argument;

  if (node == NULL) return NULL;
  if (IsA(node, Var)) {
    Var *var = copyObject((Var *)node);
    int column = source->column_of[var->varattno - 1];
    if (column < 0 || source->batch->columns[column].slot_attno == 0)
      elog(ERROR, "entry %d of the input's target list is in no column", var->varattno);
    var->varattno = source->batch->columns[column].slot_attno;
    return (Node *)var;
  }
  return expression_tree_mutator(node, place_vars, argument);
}

static int column_of_slot(const Var *var, void *argument) {
  const Batch *batch = argument;
  for (int i = 0; i < batch->ncolumns; i++)
    if (batch->columns[i].slot_attno == var->varattno) return i;
  return -1;
}

static bool collect_resnos(Node *node, Bitmapset **resnos) {
  if (node == NULL) return false;
  if (IsA(node, Var)) *resnos = bms_add_member(*resnos, ((Var *)node)->varattno);
  return expression_tree_walker(node, collect_resnos, resnos);
}

/* Attributes that no column fills are NULL, of any type. */
static TupleDesc row_descriptor(const Batch *batch) {
  TupleDesc descriptor;
  int natts = 0;

  for (int i = 0; i < batch->ncolumns; i++) natts = Max(natts, batch->columns[i].slot_attno);
  descriptor = CreateTemplateTupleDesc(natts);
  for (int i = 1; i <= natts; i++) TupleDescInitEntry(descriptor, i, NULL, INT4OID, -1, 0);
  for (int i = 0; i < batch->ncolumns; i++) {
    const BatchColumn *column = &batch->columns[i];
    if (column->slot_attno == 0) continue;
    TupleDescInitEntry(descriptor, column->slot_attno, NULL, column->type, column->typmod, 0);
    TupleDescInitEntryCollation(descriptor, column->slot_attno, column->collation);
  }
  return descriptor;
}

static int column_of_resno(const BatchAggState *state, const Node *var) {
  return state->source->column_of[((const Var *)var)->varattno - 1];
}

static void make_table(BatchAggState *state, List *keys, List *carried, double expected) {
  const Batch *batch = state->source->batch;
  int carried_columns[GROUP_MAX_CELLS];
  ListCell *cell;

  state->keys = palloc0(sizeof(*state->keys) * Max(state->nkeys, 1));
  foreach (cell, keys) {
    int column = column_of_resno(state, lfirst(cell));
    if (!group_key_init(&state->keys[foreach_current_index(cell)], &batch->columns[column], column))
      elog(ERROR, "type %u of a grouping column cannot be hashed", batch->columns[column].type);
  }
  foreach (cell, carried)
    carried_columns[foreach_current_index(cell)] = column_of_resno(state, lfirst(cell));
  state->table = group_table_create(
      batch, state->keys, state->nkeys, carried_columns, list_length(carried),
      transitions_state_size(state->transitions), expected, get_hash_memory_limit());
  transitions_attach(state->transitions, state->table);
}

static void begin(CustomScanState *css, EState *estate, int eflags) {
  BatchAggState *state = (BatchAggState *)css;
  CustomScan *plan = (CustomScan *)css->ss.ps.plan;
  List *keys = list_nth(plan->custom_private, AGG_PRIVATE_KEYS);
  List *carried = list_nth(plan->custom_private, AGG_PRIVATE_CARRIED);
  List *aggregates = list_nth(plan->custom_private, AGG_PRIVATE_AGGREGATES);
  Bitmapset *resnos = NULL;
  PlanState *child = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
  Batch *batch;
  int resno = -1;

  css->custom_ps = list_make1(child);
  state->context = CurrentMemoryContext;
  state->nkeys = list_length(keys);
  state->ncells = state->nkeys + list_length(carried);
  state->naggregates = list_length(aggregates);
  /* A child that is not going to run need not know its batches. */
  if (eflags & EXEC_FLAG_EXPLAIN_ONLY) return;
  collect_resnos((Node *)keys, &resnos);
  collect_resnos((Node *)carried, &resnos);
  collect_resnos((Node *)aggregates, &resnos);
  state->source = batch_source_open(child, resnos);
  batch = state->source->batch;
  while ((resno = bms_next_member(resnos, resno)) >= 0)
    state->columns = bms_add_member(state->columns, state->source->column_of[resno - 1]);

  state->row = ExecInitExtraTupleSlot(estate, row_descriptor(batch), &TTSOpsVirtual);
  state->row_context = CreateExprContext(estate);
  state->row_context->ecxt_outertuple = state->row;
  state->row_context->ecxt_scantuple = state->row;
  state->aggregates = (List *)place_vars((Node *)aggregates, state->source);
  state->transitions =
      transitions_create(&css->ss.ps, batch, state->aggregates, column_of_slot, batch);
  state->groups = palloc(sizeof(*state->groups) * BATCH_ROWS);
  make_table(state, keys, carried, floatVal(list_nth(plan->custom_private, AGG_PRIVATE_GROUPS)));
  state->having =
      having_filter_create(plan->scan.plan.qual, state->ncells, state->naggregates, &css->ss.ps);
}

/* ---- grouping ---- */

static void store_used(const BatchAggState *state, const Batch *batch, int row) {
  TupleTableSlot *slot = state->row;
  int column = -1;

  ExecClearTuple(slot);
  memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(*slot->tts_isnull));
  while ((column = bms_next_member(state->columns, column)) >= 0) {
    const BatchColumn *values = &batch->columns[column];
    if (values->where[row] == NULL) continue;
    slot->tts_values[values->slot_attno - 1] = batch_datum(values, row);
    slot->tts_isnull[values->slot_attno - 1] = false;
  }
  ExecStoreVirtualTuple(slot);
}

/* Rows without a group leave the selection, for a later pass. */
static void put_off(BatchAggState *state, Batch *batch) {
  int kept = 0;

  if (state->spill == NULL) {
    MemoryContext before = MemoryContextSwitchTo(state->context);
    state->spill =
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
    agg_spill_put(state->spill, state->row, group_table_hash_of_row(state->table, row));
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

static void absorb_batch(BatchAggState *state, Batch *batch) {
  GroupRecord *only = NULL;

  if (!state->began) {
    transitions_begin(state->transitions, batch, state->row_context);
    ResetExprContext(state->row_context);
    state->began = true;
  }
  state->counts.batches++;
  if (state->nkeys > 0) {
    if (group_table_find(state->table, batch, state->groups) > 0) put_off(state, batch);
    if (batch->nselected == 0) return;
  } else {
    only = group_table_only(state->table);
  }
  count_rows(state, batch, only);
  transitions_advance(state->transitions, batch, only ? NULL : state->groups, only, state->row,
                      state->row_context);
  if (batch->nodd > 0)
    for (int i = 0; i < batch->nselected; i++)
      state->counts.odd_rows += batch->odd[batch->selected[i]];
}

static void groups_complete(BatchAggState *state) {
  state->memory = Max(state->memory, group_table_memory(state->table));
  state->ngroups += group_table_count(state->table);
  state->emitted = 0;
  state->passes++;
}

static void build(BatchAggState *state) {
  Batch *batch;

  while ((batch = batch_source_next(state->source)) != NULL) {
    CHECK_FOR_INTERRUPTS();
    state->counts.rows_in += batch->nselected;
    absorb_batch(state, batch);
  }
  /* Without GROUP BY there is a row even of nothing. */
  if (state->nkeys == 0) group_table_only(state->table);
  groups_complete(state);
  state->built = true;
}

/* Groups the rows that were put off; false if there are none. */
static bool build_next_partition(BatchAggState *state) {
  BatchSource *source;
  Batch *batch;

  if (state->spill == NULL) return false;
  group_table_reset(state->table);
  transitions_reset(state->transitions);
  source = agg_spill_next(state->spill);
  if (source == NULL) return false;
  if (agg_spill_is_deep(state->spill)) group_table_lift_limit(state->table);
  while ((batch = source->next(source)) != NULL) {
    CHECK_FOR_INTERRUPTS();
    absorb_batch(state, batch);
  }
  groups_complete(state);
  return true;
}

/* ---- handing out ---- */

/* The next group that HAVING may let pass, or NULL. */
static const GroupRecord *next_record(BatchAggState *state) {
  for (;;) {
    const GroupRecord *group;
    while (state->emitted >= group_table_count(state->table))
      if (!build_next_partition(state)) return NULL;
    group = group_table_get(state->table, state->emitted++);
    if (state->having == NULL ||
        having_filter_passes(state->having, state->transitions, group, state->row_context))
      return group;
    InstrCountFiltered1(state, 1);
    if (state->emitted % BATCH_ROWS == 0) CHECK_FOR_INTERRUPTS();
  }
}

static TupleTableSlot *next_group(ScanState *node) {
  BatchAggState *state = (BatchAggState *)node;
  TupleTableSlot *slot = node->ss_ScanTupleSlot;
  const GroupRecord *group;
  MemoryContext before;

  if (!state->built) build(state);
  ExecClearTuple(slot);
  group = next_record(state);
  if (group == NULL) return slot;

  before = MemoryContextSwitchTo(node->ps.ps_ExprContext->ecxt_per_tuple_memory);
  for (int i = 0; i < state->ncells; i++)
    slot->tts_values[i] = group_table_value(state->table, group, i, &slot->tts_isnull[i]);
  for (int i = 0; i < state->naggregates; i++)
    slot->tts_values[state->ncells + i] =
        transitions_result(state->transitions, i, group, &slot->tts_isnull[state->ncells + i]);
  MemoryContextSwitchTo(before);
  state->counts.rows_out++;
  return ExecStoreVirtualTuple(slot);
}

static bool recheck(ScanState *node, TupleTableSlot *slot) { return true; }

static TupleTableSlot *exec(CustomScanState *css) {
  return ExecScan(&css->ss, next_group, recheck);
}

static void forget_groups(BatchAggState *state) {
  if (state->spill) agg_spill_end(state->spill);
  state->spill = NULL;
  group_table_reset(state->table);
  transitions_reset(state->transitions);
  if (state->having) having_filter_reset(state->having);
  state->built = state->began = false;
  state->emitted = 0;
}

static void rescan(CustomScanState *css) {
  BatchAggState *state = (BatchAggState *)css;
  PlanState *child = linitial(css->custom_ps);

  ExecScanReScan(&css->ss);
  if (css->ss.ps.chgParam != NULL) UpdateChangedParamSet(child, css->ss.ps.chgParam);
  if (!state->built) {
    /* Nothing was read, or reading failed. */
  } else if (css->ss.ps.chgParam == NULL && child->chgParam == NULL && state->spill == NULL) {
    /* The groups are still what they were. */
    state->emitted = 0;
    return;
  }
  forget_groups(state);
  if (child->chgParam == NULL) ExecReScan(child);
  batch_source_rescan(state->source);
}

static void end(CustomScanState *css) {
  BatchAggState *state = (BatchAggState *)css;

  if (state->spill) agg_spill_end(state->spill);
  state->spill = NULL;
  stats_add(STATS_BATCH_AGG, &state->counts);
  ExecEndNode(linitial(css->custom_ps));
}

/* ---- EXPLAIN ---- */

static void explain_keys(BatchAggState *state, List *ancestors, ExplainState *es) {
  CustomScan *plan = (CustomScan *)state->css.ss.ps.plan;
  List *context = set_deparse_context_plan(es->deparse_cxt, &plan->scan.plan, ancestors);
  bool prefix = list_length(es->rtable) > 1 || es->verbose;
  List *keys = NIL;

  for (int i = 0; i < state->nkeys; i++) {
    TargetEntry *entry = list_nth(plan->custom_scan_tlist, i);
    keys = lappend(keys, deparse_expression((Node *)entry->expr, context, prefix, true));
  }
  if (keys != NIL) ExplainPropertyList("Group Key", keys, es);
}

static void explain(CustomScanState *css, List *ancestors, ExplainState *es) {
  BatchAggState *state = (BatchAggState *)css;

  explain_keys(state, ancestors, es);
  if (intVal(list_nth(((CustomScan *)css->ss.ps.plan)->custom_private, AGG_PRIVATE_STEP)) ==
      AGG_STEP_PARTIAL)
    ExplainPropertyText("Partial Mode", "Partial", es);
  if (!es->analyze) return;
  ExplainPropertyUInteger("Batches", NULL, state->counts.batches, es);
  if (state->nkeys > 0) ExplainPropertyUInteger("Groups", NULL, state->ngroups, es);
  ExplainPropertyUInteger("Odd Rows", NULL, state->counts.odd_rows, es);
  if (transitions_slow_rows(state->transitions) > 0)
    ExplainPropertyUInteger("Rows Through Core", NULL, transitions_slow_rows(state->transitions),
                            es);
  ExplainPropertyUInteger("Memory Usage", "kB", (state->memory + 1023) / 1024, es);
  if (state->put_off > 0) {
    ExplainPropertyUInteger("Passes", NULL, state->passes, es);
    ExplainPropertyUInteger("Rows Put Off", NULL, state->put_off, es);
  }
}

static const CustomExecMethods batch_agg_exec_methods = {.CustomName = BATCH_AGG_NAME,
                                                         .BeginCustomScan = begin,
                                                         .ExecCustomScan = exec,
                                                         .EndCustomScan = end,
                                                         .ReScanCustomScan = rescan,
                                                         .ExplainCustomScan = explain};

Node *batch_agg_create_state(CustomScan *plan) {
  BatchAggState *state = palloc0(sizeof(*state));

  NodeSetTag(state, T_CustomScanState);
  state->css.flags = plan->flags;
  state->css.methods = &batch_agg_exec_methods;
  return (Node *)state;
}
