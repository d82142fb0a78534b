/*
 * The rows of a buffer, and three ways to keep them:
 *
 *     pinned    the tuples stay in their pages; one pin a page, and each row keeps a slot of its
 *               own, so that what the child deformed is not deformed again
 *     values    by attribute: a matrix of Datums; what they point to is copied
 *     copies    MinimalTuples, as 7.3 would have had to
 *
 * Pinned rows need a child that returns buffer heap slots. Pins keep VACUUM from pruning and count
 * against shared_buffers: beyond a limit rows are copied.
 */
#ifndef CCOPT_BUFFER_ROWS_H
#define CCOPT_BUFFER_ROWS_H

#include "compat.h"
#include "pin_budget.h"

#include "executor/tuptable.h"

typedef enum RowStore { ROWS_PINNED, ROWS_VALUES, ROWS_COPIES } RowStore;

/* Memory for what rows point to, freed at once. */
typedef struct RowArena {
  MemoryContext blocks; /* lives as long as the buffer */
  MemoryContext large;  /* reset together with the rows */
  char **block;         /* [nblocks], each ARENA_BLOCK long */
  int nblocks;
  int current;
  Size used; /* of the current block */
  Size total;
} RowArena;

typedef struct BufferRows {
  RowStore store;
  TupleDesc descriptor;
  int nrows;
  int room;
  int *order; /* index of the i-th row to return; NULL: in order of arrival */
  RowArena arena;
  Size memory_limit; /* bytes copied after which no more rows should be added */

  /* pinned */
  TupleTableSlot **slots; /* [room] */
  Buffer *pins;
  int npins;
  PinHolder pins_held[2]; /* of shared and of local buffers; joined when first needed */

  /* values */
  Datum *values; /* [room][natts] */
  bool *nulls;
  bool *wanted; /* [natts]; the parent sees NULL in the others, which it does not use */
  int last_wanted;
  Datum *slot_values; /* the slot's own arrays, while it points into the matrix */
  bool *slot_nulls;

  /* copies */
  MinimalTuple *tuples; /* [room] */
  MemoryContext tuple_memory;

  TupleTableSlot *slot; /* values, copies: the slot that is returned */
} BufferRows;

/* `wanted`: list of attribute numbers, NIL for all. */
extern BufferRows *buffer_rows_make(RowStore store, TupleDesc descriptor, List *wanted,
                                    MemoryContext context);
extern void buffer_rows_free(BufferRows *rows);
/* Removes all rows and releases their pins. */
extern void buffer_rows_clear(BufferRows *rows);
/* Allocates space, while there are no rows. */
extern void buffer_rows_reserve(BufferRows *rows, int room);
/* Keeps the child's row. False: it was kept, but no more should be added. */
extern bool buffer_rows_add(BufferRows *rows, TupleTableSlot *slot);
/* Row i in a slot: valid until the next call, or until the rows are cleared. */
extern TupleTableSlot *buffer_rows_get(BufferRows *rows, int i);

/* An attribute of row i, in order of arrival. */
static inline Datum buffer_rows_value(BufferRows *rows, int i, AttrNumber attno, bool *isnull) {
  if (rows->store == ROWS_PINNED) return slot_getattr(rows->slots[i], attno, isnull);
  if (rows->store == ROWS_COPIES) {
    ExecStoreMinimalTuple(rows->tuples[i], rows->slot, false);
    return slot_getattr(rows->slot, attno, isnull);
  }
  Size at = (Size)i * rows->descriptor->natts + attno - 1;
  *isnull = rows->nulls[at];
  return rows->values[at];
}

#endif
