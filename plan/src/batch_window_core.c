/*
 * BatchWindow's rows with core's nodes: where they need more than work_mem, or have a number that does not
 * fit. Core's Sort and WindowAgg then spill, compute and report errors as ever.
 *
 *     WindowAgg         one for each window
 *       Sort
 *         feeder        a CustomScan: rows that were in the store, those of the batch at hand, those to come
 *
 * The rows of the store go through a temporary file, so that they are not in memory twice.
 *
 * Invariants:
 *  1. The feeder hands on each row once, in the order in which they came.
 *  2. These nodes are in no plan that others see: they are made, and ended, by this file.
 */
#include "batch_window_state.h"

#include "executor/nodeCustom.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/tuplestore.h"

/* The file's buffer is in memory until it is full. */
#define BUFFER_KB 64

struct CoreWindows {
  BatchWindowState *owner;
  TupleDesc descriptor; /* of the rows */
  Tuplestorestate *earlier;
  TupleTableSlot *earlier_row;
  Batch *batch; /* at hand; NULL: there are no more */
  int next;     /* of its selected rows */
  PlanState *top;
};

/* ---- the feeder ---- */

typedef struct FeederPlan {
  CustomScan scan;
  CoreWindows *core;
} FeederPlan;

typedef struct FeederState {
  CustomScanState css;
  CoreWindows *core;
} FeederState;

static void store_batch_row(const CoreWindows *core, int row, TupleTableSlot *slot) {
  for (int i = 0; i < core->owner->ncolumns; i++) {
    const BatchColumn *column = &core->batch->columns[core->owner->columns[i].column];
    slot->tts_isnull[i] = column->where[row] == NULL;
    slot->tts_values[i] = slot->tts_isnull[i] ? (Datum)0 : batch_datum(column, row);
  }
  ExecStoreVirtualTuple(slot);
}

static void end_earlier(CoreWindows *core) {
  ExecClearTuple(core->earlier_row);
  if (core->earlier) tuplestore_end(core->earlier);
  core->earlier = NULL;
}

static TupleTableSlot *feed(CustomScanState *css) {
  CoreWindows *core = ((FeederState *)css)->core;
  TupleTableSlot *slot = css->ss.ss_ScanTupleSlot;

  ExecClearTuple(slot);
  if (core->earlier) {
    if (tuplestore_gettupleslot(core->earlier, true, false, core->earlier_row))
      return core->earlier_row;
    end_earlier(core);
  }
  if (core->batch && core->next == core->batch->nselected) {
    core->batch = batch_source_next(core->owner->source);
    core->next = 0;
    if (core->batch == NULL) return slot;
    core->owner->counts.batches++;
    core->owner->counts.rows_in += core->batch->nselected;
  }
  if (core->batch == NULL) return slot;
  store_batch_row(core, core->batch->selected[core->next++], slot);
  return slot;
}

static void begin_feeder(CustomScanState *css, EState *estate, int eflags) {}
static void end_feeder(CustomScanState *css) {}
static void rescan_feeder(CustomScanState *css) {}

static const CustomExecMethods feeder_exec_methods = {.CustomName = "BatchWindow rows",
                                                      .BeginCustomScan = begin_feeder,
                                                      .ExecCustomScan = feed,
                                                      .EndCustomScan = end_feeder,
                                                      .ReScanCustomScan = rescan_feeder};

static Node *create_feeder_state(CustomScan *plan) {
  FeederState *state = palloc0(sizeof(*state));

  NodeSetTag(state, T_CustomScanState);
  state->css.methods = &feeder_exec_methods;
  state->core = ((FeederPlan *)plan)->core;
  return (Node *)state;
}

static const CustomScanMethods feeder_scan_methods = {.CustomName = "BatchWindow rows",
                                                      .CreateCustomScanState = create_feeder_state};

/* ---- the plan ---- */

static Var *column_var(const CoreWindows *core, int varno, int column) {
  Form_pg_attribute attribute = TupleDescAttr(core->descriptor, column);
  return makeVar(varno, column + 1, attribute->atttypid, attribute->atttypmod,
                 attribute->attcollation, 0);
}

static List *column_entries(const CoreWindows *core, int varno) {
  List *entries = NIL;
  for (int i = 0; i < core->descriptor->natts; i++)
    entries =
        lappend(entries, makeTargetEntry((Expr *)column_var(core, varno, i), i + 1, NULL, false));
  return entries;
}

static Plan *plan_feeder(CoreWindows *core) {
  FeederPlan *feeder = (FeederPlan *)palloc0(sizeof(*feeder));

  NodeSetTag(feeder, T_CustomScan);
  feeder->core = core;
  feeder->scan.scan.plan.targetlist = column_entries(core, INDEX_VAR);
  feeder->scan.custom_scan_tlist = column_entries(core, INDEX_VAR);
  feeder->scan.methods = &feeder_scan_methods;
  return &feeder->scan.scan.plan;
}

static Oid key_operator(const CoreWindows *core, int key, WindowKeyOperator which) {
  const List *operators = list_nth(core->owner->private, WINDOW_PRIVATE_OPERATORS);
  return list_nth_oid(list_nth(operators, key), which);
}

static Plan *plan_sort(CoreWindows *core, Plan *input) {
  const BatchWindowState *owner = core->owner;
  Sort *sort = makeNode(Sort);

  if (owner->nkeys == 0) return input;
  sort->plan.targetlist = column_entries(core, OUTER_VAR);
  sort->plan.lefttree = input;
  sort->numCols = owner->nkeys;
  sort->sortColIdx = palloc(sizeof(*sort->sortColIdx) * owner->nkeys);
  sort->sortOperators = palloc(sizeof(*sort->sortOperators) * owner->nkeys);
  sort->collations = palloc(sizeof(*sort->collations) * owner->nkeys);
  sort->nullsFirst = palloc(sizeof(*sort->nullsFirst) * owner->nkeys);
  for (int i = 0; i < owner->nkeys; i++) {
    sort->sortColIdx[i] = owner->keys[i].column + 1;
    sort->sortOperators[i] = key_operator(core, i, WINDOW_KEY_ORDER);
    sort->collations[i] = key_operator(core, i, WINDOW_KEY_COLLATION);
    sort->nullsFirst[i] = owner->keys[i].nulls_first;
  }
  return &sort->plan;
}

/* Equality of `n` keys from key `first`. */
static void plan_equality(const CoreWindows *core, int first, int n, AttrNumber **columns,
                          Oid **operators, Oid **collations) {
  *columns = palloc(sizeof(**columns) * Max(n, 1));
  *operators = palloc(sizeof(**operators) * Max(n, 1));
  *collations = palloc(sizeof(**collations) * Max(n, 1));
  for (int i = 0; i < n; i++) {
    (*columns)[i] = core->owner->keys[first + i].column + 1;
    (*operators)[i] = key_operator(core, first + i, WINDOW_KEY_EQUAL);
    (*collations)[i] = key_operator(core, first + i, WINDOW_KEY_COLLATION);
  }
}

/* Vars of the input's target list become those of the rows, which have columns only. */
static Node *place_vars(Node *node, void *argument) {
  const CoreWindows *core = argument;
  const List *columns = list_nth(core->owner->private, WINDOW_PRIVATE_COLUMNS);
  ListCell *cell;

  if (node == NULL) return NULL;
  if (!IsA(node, Var)) return expression_tree_mutator(node, place_vars, argument);
  foreach (cell, columns)
    if (((const Var *)lfirst(cell))->varattno == ((const Var *)node)->varattno)
      return (Node *)column_var(core, OUTER_VAR, foreach_current_index(cell));
  elog(ERROR, "entry %d of the input's target list is not kept", ((const Var *)node)->varattno);
}

/* Everything that its input has, and then its own functions. */
static Plan *plan_window(CoreWindows *core, const List *planned, Plan *input) {
  const List *numbers = list_nth(planned, WINDOW_CLAUSE_NUMBERS);
  WindowAgg *window = makeNode(WindowAgg);
  List *entries = NIL;
  ListCell *cell;

  foreach (cell, input->targetlist) {
    const TargetEntry *entry = lfirst_node(TargetEntry, cell);
    const Node *value = (const Node *)entry->expr;
    Var *var = makeVar(OUTER_VAR, entry->resno, exprType(value), exprTypmod(value),
                       exprCollation(value), 0);
    entries = lappend(entries, makeTargetEntry((Expr *)var, entry->resno, NULL, false));
  }
  foreach (cell, list_nth(planned, WINDOW_CLAUSE_FUNCTIONS)) {
    Node *function = place_vars(lfirst(cell), core);
    entries =
        lappend(entries, makeTargetEntry((Expr *)function, list_length(entries) + 1, NULL, false));
  }
  window->plan.targetlist = entries;
  window->plan.lefttree = input;
  window->winref = list_nth_int(numbers, WINDOW_REFERENCE);
  window->frameOptions = list_nth_int(numbers, WINDOW_FRAME);
  window->partNumCols = list_nth_int(numbers, WINDOW_PARTITION_KEYS);
  window->ordNumCols = list_nth_int(numbers, WINDOW_ORDER_KEYS);
  plan_equality(core, 0, window->partNumCols, &window->partColIdx, &window->partOperators,
                &window->partCollations);
  plan_equality(core, window->partNumCols, window->ordNumCols, &window->ordColIdx,
                &window->ordOperators, &window->ordCollations);
  window->topWindow = true;
  return &window->plan;
}

/* ---- the rows that were stored ---- */

static void describe_rows(CoreWindows *core) {
  const BatchWindowState *owner = core->owner;

  core->descriptor = CreateTemplateTupleDesc(owner->ncolumns);
  for (int i = 0; i < owner->ncolumns; i++) {
    const BatchColumn *column = &owner->source->batch->columns[owner->columns[i].column];
    TupleDescInitEntry(core->descriptor, i + 1, NULL, column->type, column->typmod, 0);
    TupleDescInitEntryCollation(core->descriptor, i + 1, column->collation);
  }
}

static void put_off_stored_rows(CoreWindows *core) {
  const BatchWindowState *owner = core->owner;
  Datum *values = palloc(sizeof(*values) * Max(owner->ncolumns, 1));
  bool *is_null = palloc(sizeof(*is_null) * Max(owner->ncolumns, 1));
  MemoryContext each =
      AllocSetContextCreate(CurrentMemoryContext, "ccopt stored row", ALLOCSET_SMALL_SIZES);

  core->earlier = tuplestore_begin_heap(false, false, BUFFER_KB);
  for (uint32 row = 0; row < owner->store->nrows; row++) {
    MemoryContext before = MemoryContextSwitchTo(each);
    CHECK_FOR_INTERRUPTS();
    for (int i = 0; i < owner->ncolumns; i++) {
      is_null[i] = stored_is_null(&owner->columns[i], row);
      values[i] = is_null[i] ? (Datum)0 : stored_value(&owner->columns[i], row);
    }
    MemoryContextSwitchTo(before);
    tuplestore_putvalues(core->earlier, core->descriptor, values, is_null);
    MemoryContextReset(each);
  }
  MemoryContextDelete(each);
  row_store_reset(owner->store);
}

/* ---- all ---- */

static CoreWindows *create(BatchWindowState *state) {
  EState *estate = state->css.ss.ps.state;
  CoreWindows *core = palloc0(sizeof(*core));
  Plan *plan;
  ListCell *cell;

  core->owner = state;
  describe_rows(core);
  core->earlier_row = ExecInitExtraTupleSlot(estate, core->descriptor, &TTSOpsMinimalTuple);
  plan = plan_sort(core, plan_feeder(core));
  foreach (cell, list_nth(state->private, WINDOW_PRIVATE_WINDOWS))
    plan = plan_window(core, lfirst(cell), plan);
  core->top = ExecInitNode(plan, estate, 0);
  return core;
}

void core_windows_begin(BatchWindowState *state, Batch *batch) {
  MemoryContext before = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);

  if (state->core == NULL) state->core = create(state);
  state->core->batch = batch;
  state->core->next = 0;
  put_off_stored_rows(state->core);
  MemoryContextSwitchTo(before);
}

TupleTableSlot *core_windows_next(CoreWindows *core) {
  TupleTableSlot *slot = ExecProcNode(core->top);
  return TupIsNull(slot) ? NULL : slot;
}

void core_windows_stop(CoreWindows *core) {
  ExecReScan(core->top);
  end_earlier(core);
}

void core_windows_end(CoreWindows *core) {
  end_earlier(core);
  ExecEndNode(core->top);
}
