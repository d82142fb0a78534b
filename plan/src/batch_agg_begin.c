/*
 * BatchAgg, execution: starting; a table for each set of keys.
 */
#include "batch_agg_state.h"

#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

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

/* The part of the memory for hashing that a set gets: half by its share of the groups. */
static Size limit_of(const BatchAggState *state, double expected, double all) {
  double limit = get_hash_memory_limit();

  if (state->nsets == 1) return (Size)limit;
  return (Size)(limit / 2 * (1.0 / state->nsets + expected / Max(all, 1)));
}

static void make_set(BatchAggState *state, AggSet *set, List *keys, List *carried, double expected,
                     Size limit) {
  Batch *batch = state->source->batch;
  int carried_columns[GROUP_MAX_CELLS];
  ListCell *cell;

  set->keys = palloc0(sizeof(*set->keys) * Max(set->nkeys, 1));
  for (int i = 0; i < set->nkeys; i++) {
    int column = column_of_resno(state, list_nth(keys, set->cells[i]));
    if (!group_key_init(&set->keys[i], &batch->columns[column], column))
      elog(ERROR, "type %u of a grouping column cannot be hashed", batch->columns[column].type);
  }
  foreach (cell, carried)
    carried_columns[foreach_current_index(cell)] = column_of_resno(state, lfirst(cell));
  set->transitions =
      transitions_create(&state->css.ss.ps, batch, state->aggregates, column_of_slot, batch);
  set->table =
      group_table_create(batch, set->keys, set->nkeys, carried_columns, list_length(carried),
                         transitions_state_size(set->transitions), expected, limit);
  transitions_attach(set->transitions, set->table);
}

static int *numbers_of(const List *list) {
  int *numbers = palloc(sizeof(*numbers) * Max(list_length(list), 1));
  ListCell *cell;
  foreach (cell, list) numbers[foreach_current_index(cell)] = lfirst_int(cell);
  return numbers;
}

static void make_sets(BatchAggState *state, List *private) {
  List *keys = list_nth(private, AGG_PRIVATE_KEYS);
  List *carried = list_nth(private, AGG_PRIVATE_CARRIED);
  List *sets = list_nth(private, AGG_PRIVATE_SETS);
  double all = floatVal(list_nth(private, AGG_PRIVATE_GROUPS));

  state->nsets = Max(list_length(sets), 1);
  state->sets = palloc0(sizeof(*state->sets) * state->nsets);
  for (int i = 0; i < state->nsets; i++) {
    AggSet *set = &state->sets[i];
    double expected = all;
    if (sets == NIL) {
      set->nkeys = state->nkeys;
      set->cells = palloc(sizeof(*set->cells) * Max(set->nkeys, 1));
      for (int k = 0; k < set->nkeys; k++) set->cells[k] = k;
      /* GROUPING() without sets is 0. */
      set->functions = palloc0(sizeof(*set->functions) * Max(state->nfunctions, 1));
    } else {
      const List *planned = list_nth(sets, i);
      set->nkeys = list_length(list_nth(planned, AGG_SET_KEYS));
      set->cells = numbers_of(list_nth(planned, AGG_SET_KEYS));
      set->functions = numbers_of(list_nth(planned, AGG_SET_GROUPING));
      expected = floatVal(list_nth(planned, AGG_SET_GROUPS));
    }
    make_set(state, set, keys, carried, expected, limit_of(state, expected, all));
  }
}

/* Arguments of aggregates are used as numbers; keys and what is carried are copied as they are. */
static void ask_for_numbers(BatchAggState *state, List *keys, List *carried) {
  Bitmapset *resnos = NULL, *copied = NULL;
  int member = -1;

  collect_resnos((Node *)keys, &resnos);
  collect_resnos((Node *)carried, &resnos);
  while ((member = bms_next_member(resnos, member)) >= 0)
    copied = bms_add_member(copied, state->source->column_of[member - 1]);
  for (member = -1; (member = bms_next_member(state->columns, member)) >= 0;)
    if (!bms_is_member(member, copied)) batch_source_numbers_suffice(state->source, member);
}

void batch_agg_begin(CustomScanState *css, EState *estate, int eflags) {
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
  state->nfunctions = list_length(plan->custom_scan_tlist) - state->ncells - state->naggregates;
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
  state->groups = palloc(sizeof(*state->groups) * BATCH_ROWS);
  ask_for_numbers(state, keys, carried);
  make_sets(state, plan->custom_private);
  state->having =
      having_filter_create(plan->scan.plan.qual, state->ncells, state->naggregates, &css->ss.ps);
}
