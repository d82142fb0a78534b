/*
 * BatchScan, execution: reads pages, walks tuples, runs predicates, walks further for the remaining
 * rows; then returns a batch to a parent that takes batches, or row by row.
 */
#include "batch_scan_exec.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "batch_scan_state.h"
#include "miscadmin.h"
#include "node_names.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "stats.h"
#include "utils/memutils.h"
#include "utils/rel.h"

Node *batch_scan_create_state(CustomScan *plan) {
  BatchScanState *state = (BatchScanState *)newNode(sizeof(*state), T_CustomScanState);
  state->css.methods = &batch_scan_exec_methods.base;
  return (Node *)state;
}

bool is_batch_scan(const PlanState *node) {
  return IsA(node, CustomScanState) &&
         ((const CustomScanState *)node)->methods == &batch_scan_exec_methods.base;
}

/* ---- beginning ---- */

static int column_of_attno(const BatchScanState *state, AttrNumber attno) {
  for (int i = 0; i < state->batch.ncolumns; i++)
    if (state->batch.columns[i].slot_attno == attno) return i;
  return -1;
}

static int column_of_var(const Var *var, void *argument) {
  return column_of_attno(argument, var->varattno);
}

static void make_batch(BatchScanState *state, CustomScan *plan) {
  TupleDesc descriptor = RelationGetDescr(state->css.ss.ss_currentRelation);
  Bitmapset *attributes = NULL;
  int index = 0;

  pull_varattnos((Node *)plan->scan.plan.targetlist, plan->scan.scanrelid, &attributes);
  pull_varattnos((Node *)plan->scan.plan.qual, plan->scan.scanrelid, &attributes);
  pull_varattnos((Node *)plan->custom_exprs, plan->scan.scanrelid, &attributes);
  batch_init(&state->batch, bms_num_members(attributes));
  for (int member = -1; (member = bms_next_member(attributes, member)) >= 0; index++) {
    AttrNumber attno = member + FirstLowInvalidHeapAttributeNumber;
    Form_pg_attribute attribute;
    if (attno <= 0) elog(ERROR, "BatchScan was planned with system columns");
    attribute = TupleDescAttr(descriptor, attno - 1);
    batch_column_init(&state->batch, index, attribute->atttypid, attribute->atttypmod,
                      attribute->attcollation, attno);
    state->last_attno = attno;
  }
}

/* Finds the column of each entry of the target list; false if one is an expression. */
static bool match_target_list(BatchScanState *state, List *target_list) {
  bool plain = true;
  ListCell *cell;

  state->nresult = list_length(target_list);
  state->result_columns = palloc(sizeof(int) * Max(state->nresult, 1));
  foreach (cell, target_list) {
    TargetEntry *entry = lfirst(cell);
    int index = foreach_current_index(cell);
    state->result_columns[index] = -1;
    if (IsA(entry->expr, Var))
      state->result_columns[index] = column_of_attno(state, ((Var *)entry->expr)->varattno);
    plain &= state->result_columns[index] >= 0;
  }
  return plain;
}

static Batch *next_batch(BatchScanState *state);
static TupleTableSlot *exec_batch_scan(CustomScanState *node);
static TupleTableSlot *exec_plain(PlanState *node);

static TupleTableSlot *exec_proc_node(PlanState *node) {
  return exec_batch_scan((CustomScanState *)node);
}

static Batch *source_next(BatchSource *source) {
  return next_batch((BatchScanState *)source->node);
}

static void numbers_suffice(BatchSource *source, int column) {
  BatchScanState *state = (BatchScanState *)source->node;
  MemoryContext before = MemoryContextSwitchTo(source->node->state->es_query_cxt);
  state->numbers_suffice = bms_add_member(state->numbers_suffice, column);
  MemoryContextSwitchTo(before);
}

/* Columns that only predicates use. */
static Bitmapset *columns_of_predicates(const BatchScanState *state, const CustomScan *plan) {
  Bitmapset *attributes = NULL, *columns = NULL;

  pull_varattnos((Node *)plan->scan.plan.targetlist, plan->scan.scanrelid, &attributes);
  pull_varattnos((Node *)plan->scan.plan.qual, plan->scan.scanrelid, &attributes);
  for (int i = 0; i < state->batch.ncolumns; i++)
    if (!bms_is_member(state->batch.columns[i].slot_attno - FirstLowInvalidHeapAttributeNumber,
                       attributes))
      columns = bms_add_member(columns, i);
  return columns;
}

static void begin_batch_scan(CustomScanState *node, EState *estate, int eflags) {
  BatchScanState *state = (BatchScanState *)node;
  CustomScan *plan = (CustomScan *)node->ss.ps.plan;

  make_batch(state, plan);
  if (plan->custom_exprs != NIL) {
    Bitmapset *columns;
    state->qual =
        vector_qual_compile(plan->custom_exprs, &state->batch, column_of_var, state, &node->ss.ps);
    columns = vector_qual_columns(state->qual);
    for (int member = -1; (member = bms_next_member(columns, member)) >= 0;)
      state->qual_attno = Max(state->qual_attno, state->batch.columns[member].slot_attno);
  }
  state->walk =
      walk_create(RelationGetDescr(node->ss.ss_currentRelation), &state->batch, state->qual_attno);
  state->plain =
      match_target_list(state, plan->scan.plan.targetlist) && plan->scan.plan.qual == NIL;
  if (state->plain)
    row_writer_init(&state->writer, &state->batch, state->result_columns, state->nresult);
  else
    row_writer_init(&state->writer, &state->batch, NULL, state->batch.ncolumns);
  state->last_visitor = &state->visitors;
  state->source = (BatchSource){.next = source_next,
                                .node = &node->ss.ps,
                                .batch = &state->batch,
                                .nresnos = state->nresult,
                                .column_of = state->result_columns,
                                .numbers_suffice = numbers_suffice};
  state->numbers_suffice = columns_of_predicates(state, plan);

  /* Unneeded columns stay NULL in the slot. */
  memset(node->ss.ss_ScanTupleSlot->tts_isnull, true,
         sizeof(bool) * node->ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts);
  /* Saves one call for each row. */
  node->ss.ps.ExecProcNode = state->plain ? exec_plain : exec_proc_node;
}

/* ---- batches ---- */

/* Deferred until a row is requested: only then does core count a scan. */
static void open_scan(BatchScanState *state, ParallelTableScanDesc parallel,
                      CachedScanShared *shared) {
  EState *estate = state->css.ss.ps.state;
  Relation relation = state->css.ss.ss_currentRelation;
  MemoryContext before = MemoryContextSwitchTo(estate->es_query_cxt);
  uint32 scan = 0;
  bool wanted;

  Assert(!state->opened);
  page_reader_open(&state->reader, relation, estate->es_snapshot, parallel);
  if (shared) {
    wanted = shared->in_use;
    scan = shared->scan;
  } else
    wanted = parallel == NULL && cached_scan_is_wanted(relation, estate->es_snapshot, &scan);
  if (wanted)
    state->cached = cached_scan_open(&state->reader, &state->batch, state->walk,
                                     state->numbers_suffice, scan, shared);
  MemoryContextSwitchTo(before);
  state->opened = true;
}

/* Finds the columns of attributes up to `attno` for the selected rows. */
static inline void find_columns(BatchScanState *state, int attno) {
  if (unlikely(state->from_cache))
    cached_scan_load(state->cached, attno);
  else
    walk_to(state->walk, &state->batch, attno);
}

/* Calls the visitors for the batch until no row is left; false if none is. */
static bool visit(BatchScanState *state, Batch *batch) {
  int before = batch->nselected;

  find_columns(state, state->visited_attno);
  for (Visitor *visitor = state->visitors; visitor && batch->nselected > 0; visitor = visitor->next)
    visitor->visit(visitor->state, batch);
  state->visitor_filtered += before - batch->nselected;
  return batch->nselected > 0;
}

/* Reads rows of the heap into the batch; 0 at the end, or before a run that is cached. */
static int read_rows(BatchScanState *state) {
  int nrows = page_reader_fill(&state->reader, state->walk->headers, BATCH_ROWS);

  if (nrows > 0) walk_begin(state->walk, &state->batch, nrows);
  if (state->cached) {
    if (nrows > 0) cached_scan_gather(state->cached, nrows);
    cached_scan_end_batch(state->cached);
  }
  return nrows;
}

static Batch *next_batch(BatchScanState *state) {
  Batch *batch = &state->batch;
  ExprContext *context = state->css.ss.ps.ps_ExprContext;
  TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
  Instrumentation *instrument = state->css.ss.ps.instrument;

  context->ecxt_scantuple = slot;
  if (unlikely(!state->begun)) {
    state->begun = true;
    if (!state->opened) open_scan(state, NULL, NULL);
    state->done = state->qual && !vector_qual_begin(state->qual, context);
  }
  while (!state->done) {
    int nrows;

    batch_reset(batch);
    nrows = state->cached ? cached_scan_take(state->cached) : 0;
    state->from_cache = nrows > 0;
    if (nrows == 0) nrows = read_rows(state);
    if (nrows == 0) {
      state->done = state->cached == NULL || state->reader.finished;
      continue;
    }
    state->counts.batches++;
    state->counts.rows_in += nrows;
    if (instrument) instrument->ntuples2++;
    if (state->qual) {
      find_columns(state, state->qual_attno);
      vector_qual_run(state->qual, batch, slot, context);
      if (instrument) instrument->nfiltered2 += nrows - batch->nselected;
      state->counts.odd_rows += batch->nodd;
      if (batch->nselected == 0) continue;
    }
    if (state->visitors && !visit(state, batch)) continue;
    find_columns(state, state->last_attno);
    state->counts.rows_out += batch->nselected;
    return batch;
  }
  return NULL;
}

static BatchSource *batch_scan_source(CustomScanState *node) {
  BatchScanState *state = (BatchScanState *)node;
  return state->plain ? &state->source : NULL;
}

/* ---- rows ---- */

/* The slot that rows go to. */
static TupleTableSlot *row_slot(const BatchScanState *state) {
  return state->plain ? state->css.ss.ps.ps_ResultTupleSlot : state->css.ss.ss_ScanTupleSlot;
}

/* Fetches the next batch; false at the end. */
static bool take_batch(BatchScanState *state) {
  CHECK_FOR_INTERRUPTS();
  state->current = next_batch(state);
  state->next = 0;
  if (state->current == NULL) return false;
  /* For WHERE CURRENT OF, an empty scan slot would mean that there is no current row. */
  if (state->plain) ExecStoreVirtualTuple(ExecClearTuple(state->css.ss.ss_ScanTupleSlot));
  row_writer_begin(&state->writer, row_slot(state));
  return true;
}

/* The next row's index in the current batch, or -1. */
static inline int next_row(BatchScanState *state) {
  if (unlikely(state->current == NULL || state->next >= state->current->nselected) &&
      !take_batch(state))
    return -1;
  return state->current->selected[state->next++];
}

/* ExecProcNode of a scan that only returns columns. */
static TupleTableSlot *exec_plain(PlanState *node) {
  BatchScanState *state = (BatchScanState *)node;
  TupleTableSlot *slot = node->ps_ResultTupleSlot;
  int row = next_row(state);

  if (unlikely(row < 0)) {
    ExecClearTuple(state->css.ss.ss_ScanTupleSlot);
    return ExecClearTuple(slot);
  }
  row_writer_store(&state->writer, row, slot);
  return slot;
}

static TupleTableSlot *exec_batch_scan(CustomScanState *node) {
  BatchScanState *state = (BatchScanState *)node;
  ExprContext *context = node->ss.ps.ps_ExprContext;
  TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

  if (state->plain) return exec_plain(&node->ss.ps);
  for (;;) {
    int row;
    ResetExprContext(context);
    row = next_row(state);
    if (row < 0) break;
    row_writer_store(&state->writer, row, slot);
    context->ecxt_scantuple = slot;
    if (node->ss.ps.qual && !ExecQual(node->ss.ps.qual, context)) {
      InstrCountFiltered1(node, 1);
      CHECK_FOR_INTERRUPTS();
      continue;
    }
    return node->ss.ps.ps_ProjInfo ? ExecProject(node->ss.ps.ps_ProjInfo) : slot;
  }
  ExecClearTuple(slot);
  return node->ss.ps.ps_ProjInfo ? ExecClearTuple(node->ss.ps.ps_ResultTupleSlot) : slot;
}

/* ---- again, and the end ---- */

static void rescan_batch_scan(CustomScanState *node) {
  BatchScanState *state = (BatchScanState *)node;
  if (state->opened) page_reader_rescan(&state->reader);
  if (state->cached) cached_scan_rescan(state->cached);
  state->current = NULL;
  state->next = 0;
  state->begun = false;
  state->done = false;
  for (Visitor *visitor = state->visitors; visitor; visitor = visitor->next)
    if (visitor->restart) visitor->restart(visitor->state);
}

static void end_batch_scan(CustomScanState *node) {
  BatchScanState *state = (BatchScanState *)node;
  if (state->cached) {
    state->counts.cache_hits = cached_scan_hits(state->cached);
    state->counts.cache_fills = cached_scan_fills(state->cached);
    cached_scan_close(state->cached);
    state->cached = NULL;
  }
  if (state->opened) page_reader_close(&state->reader);
  state->opened = false;
  stats_add(STATS_BATCH_SCAN, &state->counts);
}

/* ---- in several processes ---- */

/*
 * The leader and its workers divide the pages as in core's own scans:
 *
 *   leader   initialize_dsm: creates the shared scan, opens its share   reinitialize_dsm: before a rescan
 *   worker   initialize_worker: opens its share
 *
 * Without shared memory (the statement runs in one process after all) neither is called, and
 * next_batch() opens an ordinary scan.
 */
/* The table's scan comes after what the scans of the column cache share. */
#define SHARED_SCAN_OFFSET MAXALIGN(sizeof(CachedScanShared))

static ParallelTableScanDesc shared_scan(void *shared) {
  return (ParallelTableScanDesc)((char *)shared + SHARED_SCAN_OFFSET);
}

static Size estimate_dsm(CustomScanState *node, ParallelContext *context) {
  return SHARED_SCAN_OFFSET +
         table_parallelscan_estimate(node->ss.ss_currentRelation, node->ss.ps.state->es_snapshot);
}

static void initialize_dsm(CustomScanState *node, ParallelContext *context, void *shared) {
  EState *estate = node->ss.ps.state;
  Relation relation = node->ss.ss_currentRelation;
  CachedScanShared *runs = shared;

  pg_atomic_init_u32(&runs->next_run, 0);
  runs->in_use = cached_scan_is_wanted(relation, estate->es_snapshot, &runs->scan);
  table_parallelscan_initialize(relation, shared_scan(shared), estate->es_snapshot);
  open_scan((BatchScanState *)node, shared_scan(shared), runs);
}

static void reinitialize_dsm(CustomScanState *node, ParallelContext *context, void *shared) {
  pg_atomic_write_u32(&((CachedScanShared *)shared)->next_run, 0);
  table_parallelscan_reinitialize(node->ss.ss_currentRelation, shared_scan(shared));
}

static void initialize_worker(CustomScanState *node, shm_toc *toc, void *shared) {
  open_scan((BatchScanState *)node, shared_scan(shared), shared);
}

/* ---- interface for other operators ---- */

bool batch_scan_add_visitor(PlanState *node, BatchVisitor visitor, BatchVisitorExplain explain,
                            void *visitor_state) {
  BatchScanState *state;
  Visitor *added;

  if (!is_batch_scan(node)) return false;
  state = (BatchScanState *)node;
  added = MemoryContextAllocZero(node->state->es_query_cxt, sizeof(*added));
  added->visit = visitor;
  added->explain = explain;
  added->state = visitor_state;
  *state->last_visitor = added;
  state->last_visitor = &added->next;
  state->newest_visitor = added;
  return true;
}

void batch_scan_on_restart(PlanState *node, BatchVisitorRestart restart) {
  ((BatchScanState *)node)->newest_visitor->restart = restart;
}

const Batch *batch_scan_handed_on(const PlanState *node) {
  const BatchScanState *state = (const BatchScanState *)node;
  return state->plain ? &state->batch : NULL;
}

int batch_scan_column_of_resno(PlanState *node, AttrNumber resno) {
  BatchScanState *state = (BatchScanState *)node;
  int column;

  if (!is_batch_scan(node) || resno < 1 || resno > state->nresult) return -1;
  column = state->result_columns[resno - 1];
  if (column >= 0)
    state->visited_attno = Max(state->visited_attno, state->batch.columns[column].slot_attno);
  return column;
}

const BatchExecMethods batch_scan_exec_methods = {
    .base = {.CustomName = BATCH_SCAN_NAME,
             .BeginCustomScan = begin_batch_scan,
             .ExecCustomScan = exec_batch_scan,
             .EndCustomScan = end_batch_scan,
             .ReScanCustomScan = rescan_batch_scan,
             .EstimateDSMCustomScan = estimate_dsm,
             .InitializeDSMCustomScan = initialize_dsm,
             .ReInitializeDSMCustomScan = reinitialize_dsm,
             .InitializeWorkerCustomScan = initialize_worker,
             .ExplainCustomScan = batch_scan_explain},
    .source = batch_scan_source};
