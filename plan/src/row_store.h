/*
 * Rows of batches, kept by column in the order in which they came.
 *
 *            column 0      column 1          column 2 (text, a key)
 *            value[]       number[]          value[]        number[]
 *    row 0   42            1750              ·──> "MAIL"    0
 *    row 1   NULL          320               ·──> "AIR"     1
 *    row 2   17            99                ·──> "MAIL"    0
 *
 * Values passed by reference are copied once. Text that is a key is kept once for each different value:
 * its number identifies the value, and value_rank() orders the values by their collation.
 */
#ifndef CCOPT_ROW_STORE_H
#define CCOPT_ROW_STORE_H

#include "batch.h"
#include "text_ranks.h"

typedef struct StoredColumn {
  /* set by the caller of row_store_create() */
  int column;        /* of the batches */
  bool wants_value;  /* to be handed on */
  bool wants_number; /* to be ordered by, or to be computed with */
  Oid operator;      /* < or >, if text is to be ordered */

  /* the type */
  ColumnKind kind;
  Oid type;
  Oid collation;
  int scale;
  int16 length;
  bool by_value;

  /* values; those that are not needed are NULL */
  Datum *value;
  int64 *number; /* of decimals, and of text that is a key */
  bool *is_null; /* NULL: no value is NULL */
  TextRanks *texts;
} StoredColumn;

typedef struct RowStore {
  int ncolumns;
  StoredColumn *columns;
  uint32 nrows;
  uint32 room;
  MemoryContext context; /* of all values; reset by row_store_reset() */
  struct Bump *copies;
  Size per_row; /* bytes, without what values passed by reference point to */
} RowStore;

/* For rows of batches like `layout`. `parent`: the memory context of its own. */
extern RowStore *row_store_create(const Batch *layout, StoredColumn *columns, int ncolumns,
                                  MemoryContext parent);
/*
 * Adds the selected rows of a batch. False, and nothing was added, if a row has a number that does not
 * fit, or if there are 2^30 rows.
 */
extern bool row_store_add(RowStore *store, Batch *batch);
/* Bytes in use if there are `more` more rows. */
extern Size row_store_memory(const RowStore *store, uint32 more);
extern void row_store_reset(RowStore *store);

static inline bool stored_is_null(const StoredColumn *column, uint32 row) {
  return column->is_null != NULL && column->is_null[row];
}
/* A value that is not NULL; of a column that is not wanted as a value it is made from its number. */
extern Datum stored_value_of_number(const StoredColumn *column, uint32 row);
static inline Datum stored_value(const StoredColumn *column, uint32 row) {
  return likely(column->value != NULL) ? column->value[row] : stored_value_of_number(column, row);
}
#endif
