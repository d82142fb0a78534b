/*
 * Rows of batches, kept by column.
 *
 * Invariants:
 *  1. Row i was the i-th row of the input.
 *  2. Arrays have `room` entries and belong to `context`; what values point to belongs to `copies`, in
 *     the same context.
 *  3. is_null[] is there only since the first NULL; a NULL's value and number are 0.
 */
#include "row_store.h"

#include <limits.h>

#include "access/detoast.h"

#include "bump.h"
#include "decimal.h"

#define FIRST_ROOM BATCH_ROWS
#define COPIES_BLOCK (64 * 1024)

static bool is_text(const StoredColumn *column) {
  return column->kind == COLUMN_TEXT || column->kind == COLUMN_BPCHAR;
}

/* Integers are their own numbers. */
static bool keeps_value(const StoredColumn *column) {
  return column->wants_value || column->by_value || !column->wants_number;
}

static bool keeps_number(const StoredColumn *column) {
  return column->wants_number && (column->kind == COLUMN_DECIMAL || is_text(column));
}

static void make_texts(RowStore *store) {
  for (int i = 0; i < store->ncolumns; i++) {
    StoredColumn *column = &store->columns[i];
    if (column->wants_number && is_text(column))
      column->texts = text_ranks_create(column->kind, column->operator, column->collation,
                                        store->context, store->copies);
  }
}

RowStore *row_store_create(const Batch *layout, StoredColumn *columns, int ncolumns,
                           MemoryContext parent) {
  RowStore *store = MemoryContextAllocZero(parent, sizeof(*store));

  store->ncolumns = ncolumns;
  store->columns = columns;
  store->context = AllocSetContextCreate(parent, "ccopt stored rows", ALLOCSET_DEFAULT_SIZES);
  store->copies = MemoryContextAlloc(parent, sizeof(*store->copies));
  bump_init(store->copies, store->context, COPIES_BLOCK);
  for (int i = 0; i < ncolumns; i++) {
    const BatchColumn *like = &layout->columns[columns[i].column];
    columns[i].kind = like->kind;
    columns[i].type = like->type;
    columns[i].collation = like->collation;
    columns[i].scale = like->scale;
    columns[i].length = like->length;
    columns[i].by_value = like->by_value;
    store->per_row += keeps_value(&columns[i]) ? sizeof(Datum) : 0;
    store->per_row += keeps_number(&columns[i]) ? sizeof(int64) : 0;
  }
  make_texts(store);
  return store;
}

static void *resized(const RowStore *store, void *array, Size entry, uint32 room) {
  return array == NULL ? MemoryContextAllocHuge(store->context, entry * room)
                       : repalloc_huge(array, entry * room);
}

/* An eighth more each time: large arrays grow without being copied. */
static uint32 room_for(const RowStore *store, uint32 nrows) {
  if (nrows <= store->room) return store->room;
  return Max(nrows + nrows / 8, FIRST_ROOM);
}

static void make_room(RowStore *store, uint32 nrows) {
  const uint32 room = room_for(store, nrows);

  for (int i = 0; i < store->ncolumns; i++) {
    StoredColumn *column = &store->columns[i];
    if (keeps_value(column))
      column->value = resized(store, column->value, sizeof(*column->value), room);
    if (keeps_number(column))
      column->number = resized(store, column->number, sizeof(*column->number), room);
    if (column->is_null == NULL) continue;
    column->is_null = repalloc_huge(column->is_null, sizeof(bool) * room);
    memset(column->is_null + store->room, false, sizeof(bool) * (room - store->room));
  }
  store->room = room;
}

/* ---- adding rows ---- */

static void note_nulls(RowStore *store, StoredColumn *column, const Batch *batch) {
  const BatchColumn *from = &batch->columns[column->column];

  for (int i = 0; i < batch->nselected; i++) {
    if (from->where[batch->selected[i]] != NULL) continue;
    if (column->is_null == NULL)
      column->is_null = MemoryContextAllocExtended(store->context, sizeof(bool) * store->room,
                                                   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
    column->is_null[store->nrows + i] = true;
  }
}

#define ADD_VALUES(value)                                \
  for (int i = 0; i < batch->nselected; i++) {           \
    const char *where = from->where[batch->selected[i]]; \
    to[i] = where ? (value) : (Datum)0;                  \
  }

static void add_values_by_value(const StoredColumn *column, const Batch *batch, Datum *to) {
  const BatchColumn *from = &batch->columns[column->column];

  switch (column->length) {
    case 4: ADD_VALUES(Int32GetDatum(*(const int32 *)where)); break;
    case 8: ADD_VALUES(*(const Datum *)where); break;
    default: ADD_VALUES(fetch_att(where, true, column->length)); break;
  }
}

static Size size_of(const char *value, int16 length) {
  if (length == -1) return VARSIZE_ANY(value);
  if (length == -2) return strlen(value) + 1;
  return length;
}

static void add_copies(RowStore *store, const StoredColumn *column, const Batch *batch, Datum *to) {
  const BatchColumn *from = &batch->columns[column->column];

  for (int i = 0; i < batch->nselected; i++) {
    const char *where = from->where[batch->selected[i]];
    Size size;
    char *copy;
    if (where == NULL) {
      to[i] = (Datum)0;
      continue;
    }
    size = size_of(where, column->length);
    copy = bump_alloc(store->copies, size);
    memcpy(copy, where, size);
    to[i] = PointerGetDatum(copy);
  }
}

static void add_texts(RowStore *store, StoredColumn *column, const Batch *batch) {
  const BatchColumn *from = &batch->columns[column->column];
  uint32 row = store->nrows;

  for (int i = 0; i < batch->nselected; i++, row++) {
    const char *where = from->where[batch->selected[i]];
    const char *kept;
    column->number[row] = 0;
    if (column->value) column->value[row] = (Datum)0;
    if (where == NULL) continue;
    column->number[row] = text_ranks_number(column->texts, where);
    if (column->value == NULL) continue;
    kept = text_ranks_value(column->texts, (uint32)column->number[row]);
    /* Equal bpchar may have other trailing blanks. */
    if (column->kind == COLUMN_BPCHAR &&
        toast_raw_datum_size((Datum)where) != toast_raw_datum_size(PointerGetDatum(kept))) {
      char *copy = bump_alloc(store->copies, VARSIZE_ANY(where));
      memcpy(copy, where, VARSIZE_ANY(where));
      kept = copy;
    }
    column->value[row] = PointerGetDatum(kept);
  }
}

static void add_numbers(const StoredColumn *column, const Batch *batch, int64 *to) {
  const BatchColumn *from = &batch->columns[column->column];
  for (int i = 0; i < batch->nselected; i++) to[i] = from->number[batch->selected[i]];
}

/* Decodes what is needed as numbers; false if a number does not fit. */
static bool decode(const RowStore *store, Batch *batch) {
  for (int i = 0; i < store->ncolumns; i++)
    if (store->columns[i].wants_number && store->columns[i].kind == COLUMN_DECIMAL)
      batch_decode(batch, store->columns[i].column);
  if (batch->nodd == 0) return true;
  for (int i = 0; i < batch->nselected; i++)
    if (batch->odd[batch->selected[i]]) return false;
  return true;
}

bool row_store_add(RowStore *store, Batch *batch) {
  if (store->nrows > INT_MAX / 2 || !decode(store, batch)) return false;
  if (store->nrows + batch->nselected > store->room)
    make_room(store, store->nrows + batch->nselected);
  for (int i = 0; i < store->ncolumns; i++) {
    StoredColumn *column = &store->columns[i];
    if (batch->columns[column->column].has_nulls) note_nulls(store, column, batch);
    if (column->texts) {
      add_texts(store, column, batch);
      continue;
    }
    if (column->number) add_numbers(column, batch, column->number + store->nrows);
    if (column->value && column->by_value)
      add_values_by_value(column, batch, column->value + store->nrows);
    else if (column->value)
      add_copies(store, column, batch, column->value + store->nrows);
  }
  store->nrows += batch->nselected;
  return true;
}

/* ---- the rest ---- */

Datum stored_value_of_number(const StoredColumn *column, uint32 row) {
  if (column->texts)
    return PointerGetDatum(text_ranks_value(column->texts, (uint32)column->number[row]));
  return datum_of_number(column->type, column->scale, column->number[row]);
}

Size row_store_memory(const RowStore *store, uint32 more) {
  const Size room = room_for(store, store->nrows + more);
  Size bytes = store->copies->total + store->per_row * room;

  for (int i = 0; i < store->ncolumns; i++) {
    if (store->columns[i].is_null) bytes += sizeof(bool) * room;
    if (store->columns[i].texts) bytes += text_ranks_memory(store->columns[i].texts);
  }
  return bytes;
}

void row_store_reset(RowStore *store) {
  for (int i = 0; i < store->ncolumns; i++) {
    StoredColumn *column = &store->columns[i];
    column->value = NULL;
    column->number = NULL;
    column->is_null = NULL;
  }
  MemoryContextReset(store->context);
  bump_reset(store->copies);
  store->nrows = store->room = 0;
  make_texts(store);
}
