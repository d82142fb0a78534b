/*
 * Batches: creation, selection, and conversion of a row to a slot. No kernels.
 */
#include "batch.h"

#include "catalog/pg_type.h"
#include "decimal.h"
#include "utils/lsyscache.h"
#include "utils/pg_locale.h"

/*
 * numeric(p,s): a value has at most p digits, s of them after the point. Beyond 18 digits it does
 * not fit an int64; products of a scale beyond 8 would not fit. Without a modifier every row has
 * its own scale.
 */
#define DECIMAL_MAX_DIGITS 18
#define DECIMAL_MAX_SCALE 8

static bool decimal_scale(int32 typmod, int *scale) {
  int precision;
  if (typmod < (int32)VARHDRSZ) return false;
  precision = ((typmod - VARHDRSZ) >> 16) & 0xffff;
  /* Eleven bits, signed since PostgreSQL 15. */
  *scale = (((typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024;
  return precision <= DECIMAL_MAX_DIGITS && *scale >= 0 && *scale <= DECIMAL_MAX_SCALE &&
         *scale <= precision;
}

static bool deterministic(Oid collation) {
  return OidIsValid(collation) && get_collation_isdeterministic(collation);
}

ColumnKind column_kind(Oid type, int32 typmod, Oid collation, int *scale) {
  *scale = 0;
  switch (type) {
    case INT2OID:
    case INT4OID:
    case INT8OID:
    case DATEOID:
    case TIMESTAMPOID:
    case TIMESTAMPTZOID:
    case OIDOID:
    case BOOLOID:
    case CHAROID: return COLUMN_INTEGER;
    case NUMERICOID: return decimal_scale(typmod, scale) ? COLUMN_DECIMAL : COLUMN_OPAQUE;
    case TEXTOID:
    case VARCHAROID: return deterministic(collation) ? COLUMN_TEXT : COLUMN_OPAQUE;
    case BPCHAROID: return deterministic(collation) ? COLUMN_BPCHAR : COLUMN_OPAQUE;
    default: return COLUMN_OPAQUE;
  }
}

void batch_init(Batch *batch, int ncolumns) {
  memset(batch, 0, sizeof(*batch));
  batch->selected = palloc(sizeof(*batch->selected) * BATCH_ROWS);
  batch->odd = palloc0(sizeof(*batch->odd) * BATCH_ROWS);
  batch->ncolumns = ncolumns;
  batch->columns = palloc0(sizeof(*batch->columns) * Max(ncolumns, 1));
  for (int i = 0; i < ncolumns; i++)
    batch->columns[i].where = palloc0(sizeof(*batch->columns[i].where) * BATCH_ROWS);
}

void batch_column_init(Batch *batch, int index, Oid type, int32 typmod, Oid collation,
                       AttrNumber slot_attno) {
  BatchColumn *column = &batch->columns[index];

  Assert(index >= 0 && index < batch->ncolumns);
  column->type = type;
  column->typmod = typmod;
  column->collation = collation;
  column->slot_attno = slot_attno;
  column->kind = column_kind(type, typmod, collation, &column->scale);
  get_typlenbyvalalign(type, &column->length, &column->by_value, &column->align);
}

void batch_reset(Batch *batch) {
  batch->nrows = 0;
  batch->nselected = 0;
  if (batch->nodd > 0) memset(batch->odd, 0, sizeof(*batch->odd) * BATCH_ROWS);
  batch->nodd = 0;
  for (int i = 0; i < batch->ncolumns; i++) {
    batch->columns[i].has_nulls = false;
    batch->columns[i].decoded = false;
    batch->columns[i].magnitude = 0;
    batch->columns[i].lane = NULL;
    batch->columns[i].numbers_only = false;
  }
}

void batch_select_all(Batch *batch, int nrows) {
  Assert(nrows <= BATCH_ROWS);
  batch->nrows = nrows;
  batch->nselected = nrows;
  for (int row = 0; row < nrows; row++) batch->selected[row] = (uint16)row;
}

Datum batch_datum_of_lane(const BatchColumn *column, int row) {
  int64 number = column->lane_kind == LANE_INT32 ? ((const int32 *)column->lane)[row]
                                                 : ((const int64 *)column->lane)[row];
  return datum_of_number(column->type, column->scale, number);
}

void batch_store_slot(const Batch *batch, int row, TupleTableSlot *slot) {
  int natts = slot->tts_tupleDescriptor->natts;

  Assert(TTS_IS_VIRTUAL(slot));
  ExecClearTuple(slot);
  memset(slot->tts_isnull, true, natts * sizeof(*slot->tts_isnull));
  for (int i = 0; i < batch->ncolumns; i++) {
    const BatchColumn *column = &batch->columns[i];
    if (column->slot_attno == 0 || column->where[row] == NULL) continue;
    Assert(column->slot_attno <= natts);
    slot->tts_values[column->slot_attno - 1] = batch_datum(column, row);
    slot->tts_isnull[column->slot_attno - 1] = false;
  }
  ExecStoreVirtualTuple(slot);
}
