/*
 * Conversion between numbers and core's numeric, by core's functions.
 */
#include "decimal.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"

const int64 decimal_powers[DECIMAL_MAX_POWER + 1] = {INT64CONST(1),
                                                     INT64CONST(10),
                                                     INT64CONST(100),
                                                     INT64CONST(1000),
                                                     INT64CONST(10000),
                                                     INT64CONST(100000),
                                                     INT64CONST(1000000),
                                                     INT64CONST(10000000),
                                                     INT64CONST(100000000),
                                                     INT64CONST(1000000000),
                                                     INT64CONST(10000000000),
                                                     INT64CONST(100000000000),
                                                     INT64CONST(1000000000000),
                                                     INT64CONST(10000000000000),
                                                     INT64CONST(100000000000000),
                                                     INT64CONST(1000000000000000),
                                                     INT64CONST(10000000000000000),
                                                     INT64CONST(100000000000000000),
                                                     INT64CONST(1000000000000000000)};

static Numeric multiply(Numeric a, Numeric b) {
  return DatumGetNumeric(DirectFunctionCall2(numeric_mul, NumericGetDatum(a), NumericGetDatum(b)));
}

static int compare(Numeric a, Numeric b) {
  return DatumGetInt32(DirectFunctionCall2(numeric_cmp, NumericGetDatum(a), NumericGetDatum(b)));
}

Numeric numeric_of_decimal(int128 number, int scale) {
  /*
   * Splits the digits in two parts of an int64 each; the lower part has the `scale` digits after
   * the decimal point.
   */
  const int64 unit = decimal_powers[DECIMAL_MAX_POWER];
  int128 high;
  Numeric result;

  if (number == (int128)(int64)number) return int64_div_fast_to_numeric((int64)number, scale);
  /* Sums of int64 are below 2^63 * 2^63 rows: high fits. */
  high = number / unit;
  result = int64_div_fast_to_numeric((int64)(number % unit), scale);
  return DatumGetNumeric(DirectFunctionCall2(
      numeric_add, NumericGetDatum(result),
      NumericGetDatum(multiply(int64_to_numeric((int64)high),
                               int64_to_numeric(decimal_powers[DECIMAL_MAX_POWER - scale])))));
}

Numeric numeric_with_scale(Numeric value, int scale) {
  return DatumGetNumeric(
      DirectFunctionCall2(numeric_trunc, NumericGetDatum(value), Int32GetDatum(scale)));
}

bool decimal_at_scale(Numeric value, int scale, int64 *number) {
  Numeric scaled, limit;

  if (numeric_is_nan(value) || numeric_is_inf(value)) return false;
  scaled = multiply(value, int64_to_numeric(decimal_powers[scale]));
  limit = int64_to_numeric(decimal_powers[DECIMAL_MAX_POWER]);
  if (compare(scaled, limit) >= 0 ||
      compare(scaled,
              DatumGetNumeric(DirectFunctionCall1(numeric_uminus, NumericGetDatum(limit)))) <= 0)
    return false;
  if (compare(scaled, numeric_with_scale(scaled, 0)) != 0) return false;
  *number = DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(scaled)));
  return true;
}

bool decimal_of_numeric(Numeric value, int64 *number, int *scale) {
  if (numeric_is_nan(value) || numeric_is_inf(value)) return false;
  *scale = DatumGetInt32(DirectFunctionCall1(numeric_scale, NumericGetDatum(value)));
  return *scale <= DECIMAL_MAX_POWER && decimal_at_scale(value, *scale, number);
}

Datum datum_of_number(Oid type, int scale, int64 number) {
  switch (type) {
    case BOOLOID: return BoolGetDatum(number != 0);
    case CHAROID: return CharGetDatum((char)number);
    case INT2OID: return Int16GetDatum((int16)number);
    case OIDOID: return ObjectIdGetDatum((Oid)number);
    case INT4OID:
    case DATEOID: return Int32GetDatum((int32)number);
    case NUMERICOID: return NumericGetDatum(numeric_of_decimal(number, scale));
    default: return Int64GetDatum(number);
  }
}

int64 number_of_datum(Oid type, Datum value) {
  switch (type) {
    case BOOLOID: return DatumGetBool(value);
    case CHAROID: return (uint8)DatumGetChar(value);
    case INT2OID: return DatumGetInt16(value);
    case OIDOID: return DatumGetObjectId(value);
    case INT4OID:
    case DATEOID: return DatumGetInt32(value);
    default: return DatumGetInt64(value);
  }
}
