/*
 * The rows of a buffer.
 */
#include "buffer_rows.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"

#define ARENA_BLOCK (64 * 1024)
#define MAX_PINNED_PAGES 64

/* ---- arena ---- */

static char *arena_take(RowArena *arena, Size size) {
  size = MAXALIGN(size);
  arena->total += size;
  if (size > ARENA_BLOCK / 4) return MemoryContextAlloc(arena->large, size);
  if (arena->nblocks == 0 || arena->used + size > ARENA_BLOCK) {
    if (arena->nblocks > 0) arena->current++;
    if (arena->current >= arena->nblocks) {
      Size bytes = sizeof(*arena->block) * (arena->nblocks + 1);
      arena->block =
          arena->block ? repalloc(arena->block, bytes) : MemoryContextAlloc(arena->blocks, bytes);
      arena->block[arena->nblocks] = MemoryContextAlloc(arena->blocks, ARENA_BLOCK);
      arena->nblocks++;
    }
    arena->used = 0;
  }
  char *taken = arena->block[arena->current] + arena->used;
  arena->used += size;
  return taken;
}

static void arena_clear(RowArena *arena) {
  MemoryContextReset(arena->large);
  arena->current = 0;
  arena->used = 0;
  arena->total = 0;
}

/* ---- making ---- */

static void set_wanted(BufferRows *rows, List *wanted) {
  int natts = rows->descriptor->natts;
  ListCell *cell;

  rows->wanted = palloc(sizeof(bool) * Max(natts, 1));
  memset(rows->wanted, wanted == NIL, sizeof(bool) * Max(natts, 1));
  rows->last_wanted = wanted == NIL ? natts : 0;
  foreach (cell, wanted) {
    Assert(lfirst_int(cell) >= 1 && lfirst_int(cell) <= natts);
    rows->wanted[lfirst_int(cell) - 1] = true;
    rows->last_wanted = Max(rows->last_wanted, lfirst_int(cell));
  }
}

BufferRows *buffer_rows_make(RowStore store, TupleDesc descriptor, List *wanted,
                             MemoryContext context) {
  MemoryContext before = MemoryContextSwitchTo(context);
  BufferRows *rows = palloc0(sizeof(*rows));

  rows->store = store;
  rows->descriptor = descriptor;
  rows->memory_limit = (Size)work_mem * 1024;
  rows->arena.blocks = context;
  rows->arena.large = AllocSetContextCreate(context, "Buffer large values", ALLOCSET_DEFAULT_SIZES);
  set_wanted(rows, wanted);
  switch (store) {
    case ROWS_PINNED: rows->pins = palloc(sizeof(Buffer) * MAX_PINNED_PAGES); break;
    case ROWS_VALUES:
      rows->slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsVirtual);
      rows->slot_values = rows->slot->tts_values;
      rows->slot_nulls = rows->slot->tts_isnull;
      break;
    case ROWS_COPIES:
      rows->slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);
      rows->tuple_memory = AllocSetContextCreate(context, "Buffer rows", ALLOCSET_DEFAULT_SIZES);
      break;
  }
  MemoryContextSwitchTo(before);
  return rows;
}

static void point_slot_home(BufferRows *rows) {
  if (rows->store != ROWS_VALUES) return;
  ExecClearTuple(rows->slot);
  rows->slot->tts_values = rows->slot_values;
  rows->slot->tts_isnull = rows->slot_nulls;
}

void buffer_rows_clear(BufferRows *rows) {
  if (rows->store == ROWS_PINNED) {
    /* Slots first: a slot must not point into a page without a pin. */
    for (int i = 0; i < rows->nrows; i++) ExecClearTuple(rows->slots[i]);
    for (int i = 0; i < rows->npins; i++) ReleaseBuffer(rows->pins[i]);
    rows->npins = 0;
  } else if (rows->store == ROWS_COPIES) {
    ExecClearTuple(rows->slot);
    MemoryContextReset(rows->tuple_memory);
  }
  point_slot_home(rows);
  arena_clear(&rows->arena);
  rows->nrows = 0;
}

void buffer_rows_free(BufferRows *rows) {
  buffer_rows_clear(rows);
  if (rows->store == ROWS_PINNED)
    for (int i = 0; i < rows->room; i++) ExecDropSingleTupleTableSlot(rows->slots[i]);
  else
    ExecDropSingleTupleTableSlot(rows->slot);
}

static void *enlarge(void *vector, Size bytes, MemoryContext context) {
  if (vector) pfree(vector);
  return MemoryContextAllocHuge(context, bytes);
}

void buffer_rows_reserve(BufferRows *rows, int room) {
  MemoryContext context = rows->arena.blocks;
  Size cells = (Size)room * rows->descriptor->natts;

  Assert(rows->nrows == 0);
  if (room <= rows->room) return;
  switch (rows->store) {
    case ROWS_PINNED: {
      MemoryContext before = MemoryContextSwitchTo(context);
      Size bytes = sizeof(*rows->slots) * room;
      rows->slots = rows->slots ? repalloc(rows->slots, bytes) : palloc(bytes);
      for (int i = rows->room; i < room; i++)
        rows->slots[i] = MakeSingleTupleTableSlot(rows->descriptor, &TTSOpsHeapTuple);
      MemoryContextSwitchTo(before);
      break;
    }
    case ROWS_VALUES:
      rows->values = enlarge(rows->values, sizeof(Datum) * Max(cells, 1), context);
      rows->nulls = enlarge(rows->nulls, sizeof(bool) * Max(cells, 1), context);
      break;
    case ROWS_COPIES:
      rows->tuples = enlarge(rows->tuples, sizeof(MinimalTuple) * room, context);
      break;
  }
  rows->room = room;
}

/* ---- adding ---- */

/*
 * The number of pages that the rows may pin if all are like this one. A child may append temporary
 * tables.
 */
static int pin_limit(BufferRows *rows, Buffer buffer) {
  bool local = BufferIsLocal(buffer);
  PinHolder *holder = &rows->pins_held[local];

  if (holder->end.func == NULL) {
    MemoryContext before = MemoryContextSwitchTo(rows->arena.blocks);
    pin_budget_join(holder, local);
    MemoryContextSwitchTo(before);
  }
  return pin_budget_limit(holder, MAX_PINNED_PAGES);
}

/* True if the page is pinned until the rows are cleared. */
static bool pin_page(BufferRows *rows, Buffer buffer) {
  /* Scans proceed page by page, so the page is nearly always the last pin. */
  if (rows->npins > 0 && rows->pins[rows->npins - 1] == buffer) return true;
  if (rows->npins >= pin_limit(rows, buffer)) return false;
  IncrBufferRefCount(buffer);
  rows->pins[rows->npins++] = buffer;
  return true;
}

static void share_deformed(HeapTupleTableSlot *kept, const BufferHeapTupleTableSlot *given) {
  TupleTableSlot *to = &kept->base;
  const TupleTableSlot *from = &given->base.base;

  memcpy(to->tts_values, from->tts_values, sizeof(Datum) * from->tts_nvalid);
  memcpy(to->tts_isnull, from->tts_isnull, sizeof(bool) * from->tts_nvalid);
  to->tts_nvalid = from->tts_nvalid;
  kept->off = given->base.off;
  /* The only flag that belongs to the position in the tuple; all others are the slot's own. */
  to->tts_flags = (to->tts_flags & ~TTS_FLAG_SLOW) | (from->tts_flags & TTS_FLAG_SLOW);
}

static void add_pinned(BufferRows *rows, TupleTableSlot *slot) {
  const BufferHeapTupleTableSlot *given = (const BufferHeapTupleTableSlot *)slot;
  HeapTupleTableSlot *kept = (HeapTupleTableSlot *)rows->slots[rows->nrows];

  if (TTS_IS_BUFFERTUPLE(slot) && given->base.tuple && BufferIsValid(given->buffer) &&
      pin_page(rows, given->buffer)) {
    /* The header may live in the scan; the tuple lives in the page. */
    kept->tupdata = *given->base.tuple;
    ExecStoreHeapTuple(&kept->tupdata, &kept->base, false);
    share_deformed(kept, given);
  } else {
    bool must_free;
    HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &must_free);
    kept->tupdata = *tuple;
    kept->tupdata.t_data = (HeapTupleHeader)arena_take(&rows->arena, tuple->t_len);
    memcpy(kept->tupdata.t_data, tuple->t_data, tuple->t_len);
    ExecStoreHeapTuple(&kept->tupdata, &kept->base, false);
    if (must_free) heap_freetuple(tuple);
  }
  kept->base.tts_tableOid = slot->tts_tableOid;
}

static Datum copy_value(RowArena *arena, Datum value, int16 length) {
  char *copy;

  if (length == -1 && VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value))) {
    ExpandedObjectHeader *object = DatumGetEOHP(value);
    Size size = EOH_get_flat_size(object);
    copy = arena_take(arena, size);
    EOH_flatten_into(object, copy, size);
  } else {
    Size size = length == -1   ? VARSIZE_ANY(DatumGetPointer(value))
                : length == -2 ? strlen(DatumGetCString(value)) + 1
                               : (Size)length;
    copy = arena_take(arena, size);
    memcpy(copy, DatumGetPointer(value), size);
  }
  return PointerGetDatum(copy);
}

static void add_values(BufferRows *rows, TupleTableSlot *slot) {
  int natts = rows->descriptor->natts;
  Datum *values = rows->values + (Size)rows->nrows * natts;
  bool *nulls = rows->nulls + (Size)rows->nrows * natts;

  slot_getsomeattrs(slot, rows->last_wanted);
  for (int i = 0; i < natts; i++) {
    const FormData_pg_attribute *attribute = TupleDescAttr(rows->descriptor, i);
    nulls[i] = !rows->wanted[i] || slot->tts_isnull[i];
    if (nulls[i])
      values[i] = (Datum)0;
    else if (attribute->attbyval)
      values[i] = slot->tts_values[i];
    else
      values[i] = copy_value(&rows->arena, slot->tts_values[i], attribute->attlen);
  }
}

bool buffer_rows_add(BufferRows *rows, TupleTableSlot *slot) {
  Assert(rows->nrows < rows->room);
  switch (rows->store) {
    case ROWS_PINNED: add_pinned(rows, slot); break;
    case ROWS_VALUES: add_values(rows, slot); break;
    case ROWS_COPIES: {
      MemoryContext before = MemoryContextSwitchTo(rows->tuple_memory);
      MinimalTuple tuple = ExecCopySlotMinimalTuple(slot);
      MemoryContextSwitchTo(before);
      rows->tuples[rows->nrows] = tuple;
      rows->arena.total += tuple->t_len;
      break;
    }
  }
  rows->nrows++;
  return rows->arena.total < rows->memory_limit;
}

/* ---- handing on ---- */

TupleTableSlot *buffer_rows_get(BufferRows *rows, int i) {
  if (rows->order) i = rows->order[i];
  switch (rows->store) {
    case ROWS_PINNED: return rows->slots[i];
    case ROWS_COPIES: return ExecStoreMinimalTuple(rows->tuples[i], rows->slot, false);
    case ROWS_VALUES: break;
  }
  TupleTableSlot *slot = rows->slot;
  Size at = (Size)i * rows->descriptor->natts;
  ExecClearTuple(slot);
  slot->tts_values = rows->values + at;
  slot->tts_isnull = rows->nulls + at;
  return ExecStoreVirtualTuple(slot);
}
