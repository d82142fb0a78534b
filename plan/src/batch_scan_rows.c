/*
 * BatchScan, rows: assigns columns to attributes, and stores rows with NULLs.
 */
#include "batch_scan_rows.h"

static AttributeKind attribute_kind(const BatchColumn *column) {
  if (!column->by_value) return BY_REFERENCE;
  if (column->length == sizeof(int32)) return IN_FOUR_BYTES;
  return column->length == sizeof(int64) ? IN_EIGHT_BYTES : IN_OTHER;
}

void row_writer_init(RowWriter *writer, const Batch *batch, const int *columns, int n) {
  writer->attributes = palloc(sizeof(*writer->attributes) * Max(n, 1));
  writer->nattributes = 0;
  for (int kind = 0; kind < ATTRIBUTE_KINDS; kind++) {
    for (int i = 0; i < n; i++) {
      const BatchColumn *column = &batch->columns[columns ? columns[i] : i];
      if (attribute_kind(column) != (AttributeKind)kind) continue;
      writer->attributes[writer->nattributes++] =
          (Attribute){.column = column,
                      .where = column->where,
                      .index = columns ? i : column->slot_attno - 1,
                      .length = column->length};
    }
    writer->attributes_end[kind] = writer->nattributes;
  }
}

void row_writer_begin(RowWriter *writer, TupleTableSlot *slot) {
  writer->with_nulls = false;
  for (int i = 0; i < writer->nattributes; i++) {
    writer->with_nulls |= writer->attributes[i].column->has_nulls;
    slot->tts_isnull[writer->attributes[i].index] = false;
  }
}

pg_noinline void row_writer_store_nulls(const RowWriter *writer, int row, TupleTableSlot *slot) {
  for (int i = 0; i < writer->nattributes; i++) {
    const Attribute *attribute = &writer->attributes[i];
    const char *value = attribute->where[row];
    slot->tts_isnull[attribute->index] = value == NULL;
    if (value != NULL)
      slot->tts_values[attribute->index] =
          fetch_att(value, attribute->column->by_value, attribute->length);
  }
}
