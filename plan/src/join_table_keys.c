/*
 * The keys of a batch: numbers, bytes, hashes.
 */
#include "join_table.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

KeyVector *key_vector_create(int nkeys, const JoinKey *keys) {
  KeyVector *vector = palloc0(sizeof(*vector));

  vector->nkeys = nkeys;
  vector->keys = keys;
  vector->rows = palloc(sizeof(*vector->rows) * BATCH_ROWS);
  vector->null_rows = palloc(sizeof(*vector->null_rows) * BATCH_ROWS);
  vector->hash = palloc(sizeof(*vector->hash) * BATCH_ROWS);
  vector->mixed = palloc(sizeof(*vector->mixed) * BATCH_ROWS);
  vector->number = palloc0(sizeof(*vector->number) * nkeys);
  vector->own_number = palloc0(sizeof(*vector->own_number) * nkeys);
  vector->bytes = palloc0(sizeof(*vector->bytes) * nkeys);
  for (int i = 0; i < nkeys; i++) {
    if (keys[i].is_text)
      vector->bytes[i] = palloc(sizeof(**vector->bytes) * BATCH_ROWS);
    else
      vector->own_number[i] = palloc(sizeof(**vector->own_number) * BATCH_ROWS);
  }
  vector->detoasted =
      AllocSetContextCreate(CurrentMemoryContext, "BatchHashJoin keys", ALLOCSET_SMALL_SIZES);
  return vector;
}

/* ---- NULL ---- */

static void split_by_null(KeyVector *vector, const Batch *batch) {
  bool some = false;

  vector->n = 0;
  vector->nnull = 0;
  for (int k = 0; k < vector->nkeys; k++) some |= batch->columns[vector->keys[k].column].has_nulls;
  if (!some) {
    memcpy(vector->rows, batch->selected, sizeof(*vector->rows) * batch->nselected);
    vector->n = batch->nselected;
    return;
  }
  for (int i = 0; i < batch->nselected; i++) {
    uint16 row = batch->selected[i];
    bool is_null = false;

    for (int k = 0; k < vector->nkeys; k++)
      is_null |= batch->columns[vector->keys[k].column].where[row] == NULL;
    vector->rows[vector->n] = row;
    vector->null_rows[vector->nnull] = row;
    vector->n += !is_null;
    vector->nnull += is_null;
  }
}

/* ---- numbers ---- */

/*
 * The number of a value in a fallback row. It is not recorded which of the row's columns did not
 * fit, so core's functions compute it again.
 */
static int64 number_of_odd(const BatchColumn *column, const char *value) {
  Datum scaled, whole;

  if (column->kind == COLUMN_INTEGER) {
    Datum datum = fetch_att(value, column->by_value, column->length);
    switch (column->type) {
      case INT2OID: return DatumGetInt16(datum);
      case INT4OID:
      case DATEOID: return DatumGetInt32(datum);
      case OIDOID: return DatumGetObjectId(datum);
      case CHAROID: return (uint8)DatumGetChar(datum);
      case BOOLOID: return DatumGetBool(datum);
      default: return DatumGetInt64(datum);
    }
  }
  scaled = PointerGetDatum(value);
  if (numeric_is_nan(DatumGetNumeric(scaled)) || numeric_is_inf(DatumGetNumeric(scaled)))
    return NUMBER_SUSPECT;
  for (int i = 0; i < column->scale; i++)
    scaled = DirectFunctionCall2(numeric_mul, scaled, NumericGetDatum(int64_to_numeric(10)));
  whole = DirectFunctionCall2(numeric_trunc, scaled, Int32GetDatum(0));
  if (!DatumGetBool(DirectFunctionCall2(numeric_eq, scaled, whole)) ||
      DatumGetBool(
          DirectFunctionCall2(numeric_ge, DirectFunctionCall1(numeric_abs, whole),
                              NumericGetDatum(int64_to_numeric(INT64CONST(1000000000000000000))))))
    return NUMBER_SUSPECT;
  return DatumGetInt64(DirectFunctionCall1(numeric_int8, whole));
}

static void take_numbers(KeyVector *vector, Batch *batch, int key) {
  const BatchColumn *column = &batch->columns[vector->keys[key].column];
  int64 *own = vector->own_number[key];

  vector->number[key] = column->number;
  if (batch->nodd == 0) return;
  /* The batch's numbers must not be changed. */
  for (int i = 0; i < vector->n; i++) {
    int row = vector->rows[i];
    own[row] = batch->odd[row] ? number_of_odd(column, column->where[row]) : column->number[row];
    vector->nsuspect += vector->keys[key].is_decimal && own[row] == NUMBER_SUSPECT;
  }
  vector->number[key] = own;
}

/* ---- text ---- */

KeyBytes key_bytes(const char *value, bool blank_padded) {
  KeyBytes bytes = {VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};

  if (blank_padded)
    while (bytes.length > 0 && bytes.data[bytes.length - 1] == ' ') bytes.length--;
  return bytes;
}

static void take_bytes(KeyVector *vector, const Batch *batch, int key) {
  const BatchColumn *column = &batch->columns[vector->keys[key].column];
  KeyBytes *bytes = vector->bytes[key];
  bool blank_padded = vector->keys[key].blank_padded;

  for (int i = 0; i < vector->n; i++) {
    int row = vector->rows[i];
    const char *value = column->where[row];

    if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value)) {
      MemoryContext caller = MemoryContextSwitchTo(vector->detoasted);
      value = (const char *)PG_DETOAST_DATUM(PointerGetDatum(value));
      MemoryContextSwitchTo(caller);
    }
    bytes[row] = key_bytes(value, blank_padded);
  }
}

/* ---- hashes ---- */

/* 2^64 divided by the golden ratio, and a prime with a similar effect (xxHash's). */
#define MIX_FIRST UINT64CONST(0x9E3779B97F4A7C15)
#define MIX_LAST UINT64CONST(0xC2B2AE3D27D4EB4F)

static inline uint64 mix(uint64 mixed, uint64 value) {
  mixed = (mixed ^ value) * MIX_FIRST;
  return mixed ^ mixed >> 32;
}

static void take_hashes(KeyVector *vector) {
  uint64 *mixed = vector->mixed;
  const uint16 *rows = vector->rows;
  uint32 *hash = vector->hash;
  int n = vector->n;

  for (int i = 0; i < n; i++) mixed[rows[i]] = 0;
  for (int k = 0; k < vector->nkeys; k++) {
    if (vector->keys[k].is_text) {
      const KeyBytes *bytes = vector->bytes[k];
      for (int i = 0; i < n; i++) {
        int row = rows[i];
        mixed[row] =
            mix(mixed[row], hash_bytes((const unsigned char *)bytes[row].data, bytes[row].length));
      }
    } else {
      const int64 *number = vector->number[k];
      for (int i = 0; i < n; i++) mixed[rows[i]] = mix(mixed[rows[i]], (uint64)number[rows[i]]);
    }
  }
  for (int i = 0; i < n; i++) hash[rows[i]] = (uint32)(mixed[rows[i]] * MIX_LAST >> 32);
}

void key_vector_fill(KeyVector *vector, Batch *batch) {
  MemoryContextReset(vector->detoasted);
  vector->nsuspect = 0;
  split_by_null(vector, batch);
  for (int k = 0; k < vector->nkeys; k++)
    if (!vector->keys[k].is_text) batch_decode(batch, vector->keys[k].column);
  /* Only now are the fallback rows known. */
  for (int k = 0; k < vector->nkeys; k++) {
    if (vector->keys[k].is_text)
      take_bytes(vector, batch, k);
    else
      take_numbers(vector, batch, k);
  }
  take_hashes(vector);
}
