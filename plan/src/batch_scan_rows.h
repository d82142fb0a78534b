/*
 * BatchScan, rows: from a batch to a slot, row by row.
 *
 *   row_writer_init      assigns columns to attributes
 *   row_writer_begin     for each batch
 *   row_writer_store     for each row
 */
#ifndef CCOPT_BATCH_SCAN_ROWS_H
#define CCOPT_BATCH_SCAN_ROWS_H

#include "batch.h"

/* A column that becomes an attribute of a slot. */
typedef struct Attribute {
  const BatchColumn *column;
  const char **where;
  int index;    /* index in the slot's arrays */
  int16 length; /* length of a value in place: 1, 2, 4, 8; 0: by reference */
} Attribute;
/* Attributes are sorted by these kinds, so that each kind has its own loop. */
typedef enum AttributeKind { BY_REFERENCE, IN_FOUR_BYTES, IN_EIGHT_BYTES, IN_OTHER } AttributeKind;
#define ATTRIBUTE_KINDS (IN_OTHER + 1)

typedef struct RowWriter {
  int nattributes;
  Attribute *attributes;
  int attributes_end[ATTRIBUTE_KINDS]; /* end of each kind's attributes */
  bool with_nulls;                     /* the current batch has NULLs */
} RowWriter;

/* `columns`: the batch's column of each attribute; NULL: each column goes to its slot_attno, of n. */
extern void row_writer_init(RowWriter *writer, const Batch *batch, const int *columns, int n);
/* Begins a batch whose rows go to `slot`. */
extern void row_writer_begin(RowWriter *writer, TupleTableSlot *slot);
extern pg_noinline void row_writer_store_nulls(const RowWriter *writer, int row,
                                               TupleTableSlot *slot);

/* Fills the slot with a row, like batch_store_slot(), for the few attributes that are needed. */
static pg_attribute_always_inline void row_writer_store(const RowWriter *writer, int row,
                                                        TupleTableSlot *slot) {
  if (likely(!writer->with_nulls)) {
    const Attribute *attributes = writer->attributes;
    const int *end = writer->attributes_end;
    Datum *values = slot->tts_values;
    int i = 0;
    for (; i < end[BY_REFERENCE]; i++)
      values[attributes[i].index] = PointerGetDatum(attributes[i].where[row]);
    for (; i < end[IN_FOUR_BYTES]; i++)
      values[attributes[i].index] = Int32GetDatum(*(const int32 *)attributes[i].where[row]);
    for (; i < end[IN_EIGHT_BYTES]; i++)
      values[attributes[i].index] = Int64GetDatum(*(const int64 *)attributes[i].where[row]);
    for (; i < end[IN_OTHER]; i++)
      values[attributes[i].index] = fetch_att(attributes[i].where[row], true, attributes[i].length);
  } else
    row_writer_store_nulls(writer, row, slot);
  /* Leaves the state that ExecClearTuple() and ExecStoreVirtualTuple() leave; a virtual slot
   * that owns nothing has nothing to free. */
  if (unlikely(TTS_SHOULDFREE(slot))) ExecClearTuple(slot);
  slot->tts_flags &= ~TTS_FLAG_EMPTY;
  slot->tts_nvalid = slot->tts_tupleDescriptor->natts;
}

#endif
