/*
 * Gathers rows of any node to batches, for a batch operator above it.
 *
 * A row of an executor node is valid until the next one is requested, so values are copied: those
 * passed by value into an array per column, the others one after the other into memory that is
 * reused for every batch.
 *
 *   reading ── gather_next: next_row has no more ──> finished ── gather_source_rescan ──> reading
 *
 * Invariants:
 *  1. A batch, and the values copied for it, are valid until the next one is requested.
 *  2. `own` is filled while the library is loaded, and never changes after that.
 */
#include "slot_source.h"

#include "miscadmin.h"
#include "utils/expandeddatum.h"

#include "bump.h"
#include "doors.h"

/*
 * The first batch after a start is small and each next one twice as large: if a parent stops early
 * (a join below LIMIT), the child has run in vain for at most as many rows as were used.
 */
#define FIRST_ROWS 64

/* One block holds a batch's short values; longer ones take more blocks. */
#define COPIES_BLOCK (64 * 1024)

struct GatherSource {
  BatchSource base;
  Batch batch;
  NextRow next_row;
  void *argument;
  int natts;             /* attributes that must be deformed */
  char **values;         /* [ncolumns] arrays of [BATCH_ROWS] cells; NULL if passed by reference */
  MemoryContext context; /* copies of the current batch */
  Bump copies;
  bool by_reference; /* some column is passed by reference */
  int rows;          /* limit of the next batch */
  bool finished;
};

/* Initializes a batch with columns like those of `layout`. */
static void batch_like(Batch *batch, const Batch *layout) {
  batch_init(batch, layout->ncolumns);
  for (int i = 0; i < layout->ncolumns; i++) {
    const BatchColumn *like = &layout->columns[i];
    batch_column_init(batch, i, like->type, like->typmod, like->collation, like->slot_attno);
  }
}

static const char *copy_by_reference(GatherSource *gather, Datum value, int16 length) {
  const char *from = DatumGetPointer(value);
  char *to;
  Size size;

  if (length == -1 && VARATT_IS_EXTERNAL_EXPANDED(from)) {
    ExpandedObjectHeader *object = DatumGetEOHP(value);
    size = EOH_get_flat_size(object);
    to = bump_alloc(&gather->copies, size);
    EOH_flatten_into(object, to, size);
    return to;
  }
  if (length == -1)
    size = VARSIZE_ANY(from);
  else if (length == -2)
    size = strlen(from) + 1;
  else
    size = length;
  to = bump_alloc(&gather->copies, size);
  memcpy(to, from, size);
  return to;
}

static void copy_row(GatherSource *gather, TupleTableSlot *slot, int row) {
  slot_getsomeattrs(slot, gather->natts);
  for (int i = 0; i < gather->batch.ncolumns; i++) {
    BatchColumn *column = &gather->batch.columns[i];
    int attribute = column->slot_attno - 1;

    if (attribute < 0 || slot->tts_isnull[attribute]) {
      column->where[row] = NULL;
      column->has_nulls = true;
    } else if (column->by_value) {
      char *cell = gather->values[i] + row * sizeof(Datum);
      store_att_byval(cell, slot->tts_values[attribute], column->length);
      column->where[row] = cell;
    } else {
      column->where[row] = copy_by_reference(gather, slot->tts_values[attribute], column->length);
    }
  }
}

static Batch *gather_next(BatchSource *source) {
  GatherSource *gather = (GatherSource *)source;
  int nrows = 0;

  CHECK_FOR_INTERRUPTS();
  batch_reset(&gather->batch);
  if (gather->by_reference) {
    MemoryContextReset(gather->context);
    bump_reset(&gather->copies);
  }
  while (nrows < gather->rows && !gather->finished) {
    TupleTableSlot *slot = gather->next_row(gather->argument);
    if (TupIsNull(slot)) {
      gather->finished = true;
      break;
    }
    copy_row(gather, slot, nrows++);
  }
  gather->rows = Min(gather->rows * 2, BATCH_ROWS);
  if (nrows == 0) return NULL;
  batch_select_all(&gather->batch, nrows);
  return &gather->batch;
}

GatherSource *gather_source_create(const Batch *layout, NextRow next_row, void *argument,
                                   PlanState *node) {
  GatherSource *gather = palloc0(sizeof(*gather));

  batch_like(&gather->batch, layout);
  gather->next_row = next_row;
  gather->argument = argument;
  gather->rows = FIRST_ROWS;
  gather->values = palloc0(sizeof(*gather->values) * Max(layout->ncolumns, 1));
  for (int i = 0; i < layout->ncolumns; i++) {
    const BatchColumn *column = &gather->batch.columns[i];
    gather->natts = Max(gather->natts, column->slot_attno);
    if (column->by_value)
      gather->values[i] = palloc(sizeof(Datum) * BATCH_ROWS);
    else
      gather->by_reference = true;
  }
  if (gather->by_reference)
    gather->context =
        AllocSetContextCreate(CurrentMemoryContext, "ccopt batch of rows", ALLOCSET_SMALL_SIZES);
  bump_init(&gather->copies, gather->context, COPIES_BLOCK);
  gather->base.next = gather_next;
  gather->base.node = node;
  gather->base.batch = &gather->batch;
  return gather;
}

BatchSource *gather_source_base(GatherSource *gather) { return &gather->base; }

void gather_source_rescan(GatherSource *gather) {
  gather->finished = false;
  gather->rows = FIRST_ROWS;
}

/* ---- the child of an operator ---- */

/*
 * Instead of ExecProcNode(): batch_source_next() does its instrumentation and checks chgParam, once
 * per batch.
 */
static TupleTableSlot *child_row(void *argument) {
  PlanState *child = argument;
  return child->ExecProcNodeReal(child);
}

/* Methods of ccopt's nodes that return batches; set at loading. */
#define MOST_OWN 2
static const BatchExecMethods *own[MOST_OWN];
static int nown = 0;

void batch_source_register(const BatchExecMethods *methods) {
  Assert(nown < MOST_OWN);
  own[nown++] = methods;
}

static BatchSource *own_batches(PlanState *child) {
  CustomScanState *node = (CustomScanState *)child;

  if (!IsA(child, CustomScanState)) return NULL;
  for (int i = 0; i < nown; i++)
    if (node->methods == &own[i]->base) return own[i]->source(node);
  return NULL;
}

static BatchSource *gathered_rows(PlanState *child, const Bitmapset *resnos) {
  TupleDesc descriptor = ExecGetResultType(child);
  Batch layout = {0};
  GatherSource *gather;
  BatchSource *source;
  int resno = -1;
  int index = 0;

  /* The check that ExecProcNode() does at its first call. */
  check_stack_depth();

  layout.ncolumns = bms_num_members(resnos);
  layout.columns = palloc0(sizeof(*layout.columns) * Max(layout.ncolumns, 1));
  while ((resno = bms_next_member(resnos, resno)) >= 0) {
    Form_pg_attribute attribute = TupleDescAttr(descriptor, resno - 1);
    layout.columns[index].type = attribute->atttypid;
    layout.columns[index].typmod = attribute->atttypmod;
    layout.columns[index].collation = attribute->attcollation;
    layout.columns[index++].slot_attno = resno;
  }
  gather = gather_source_create(&layout, child_row, child, child);
  pfree(layout.columns);

  source = &gather->base;
  source->nresnos = descriptor->natts;
  source->column_of = palloc(sizeof(*source->column_of) * Max(descriptor->natts, 1));
  for (int i = 0; i < descriptor->natts; i++) source->column_of[i] = -1;
  for (int i = 0; i < gather->batch.ncolumns; i++)
    source->column_of[gather->batch.columns[i].slot_attno - 1] = i;
  return source;
}

BatchSource *batch_source_open(PlanState *child, const Bitmapset *resnos) {
  BatchSource *source = own_batches(child);
  return source ? source : gathered_rows(child, resnos);
}

void batch_source_rescan(BatchSource *source) {
  /* ccopt's own nodes start again with ExecReScan(). */
  if (source->next == gather_next) gather_source_rescan((GatherSource *)source);
}
