/*
 * Aggregates over the frame of a window that begins with its partition: rows are only added.
 *
 * Sums of integers and decimals are exact in 128 bits, and become numeric when a result is requested.
 * Those of float8 are added in the order of the rows, by core's formulas.
 */
#include "window_functions.h"

#include "utils/float.h"
#include "utils/fmgrprotos.h"

#include "decimal.h"

/* Rows lie in memory in the order in which they came: fetched this many rows ahead. */
#define AHEAD 16

void window_function_begin(WindowFunction *function) {
  function->count = 0;
  function->sum = 0;
  function->x = function->xx = 0;
}

static inline uint32 row_at(const RowSort *sort, uint32 place) { return sort->rows[place].row; }

/* ---- numbers ---- */

#define EACH_NUMBER(work)                                                              \
  for (uint32 place = from; place < to; place++) {                                     \
    uint32 row = row_at(sort, place);                                                  \
    int64 number;                                                                      \
    if (place + AHEAD < to) __builtin_prefetch(&numbers[row_at(sort, place + AHEAD)]); \
    if (has_nulls && column->is_null[row]) continue;                                   \
    number = numbers[row];                                                             \
    count++;                                                                           \
    work;                                                                              \
  }

static pg_attribute_always_inline void add_numbers(WindowFunction *function, const RowSort *sort,
                                                   uint32 from, uint32 to, bool has_nulls) {
  const StoredColumn *column = function->column;
  const int64 *numbers = column->number ? column->number : (const int64 *)column->value;
  int64 count = function->count;
  int128 sum = function->sum;

  switch (function->kind) {
    case WINDOW_MIN: EACH_NUMBER(sum = count == 1 || number < sum ? number : sum) break;
    case WINDOW_MAX: EACH_NUMBER(sum = count == 1 || number > sum ? number : sum) break;
    default: EACH_NUMBER(sum += number) break;
  }
  function->count = count;
  function->sum = sum;
}

static void count_values(WindowFunction *function, const RowSort *sort, uint32 from, uint32 to) {
  function->count += to - from;
  if (function->column->is_null == NULL) return;
  for (uint32 place = from; place < to; place++)
    function->count -= function->column->is_null[row_at(sort, place)];
}

/* ---- floats ---- */

/* As float8pl(), after the first value. */
static void sum_float(WindowFunction *function, double value) {
  double sum = function->count == 1 ? value : function->x + value;

  if (unlikely(isinf(sum)) && function->count > 1 && !isinf(function->x) && !isinf(value))
    float_overflow_error();
  function->x = sum;
}

/* As float8_accum(): it also has the squares, which may overflow. */
static void average_float(WindowFunction *function, double value) {
  const double n = (double)function->count;
  const double before = function->x;

  function->x += value;
  if (function->count == 1) {
    if (isnan(value) || isinf(value)) function->xx = get_float8_nan();
    return;
  }
  {
    double distance = value * n - function->x;
    function->xx += distance * distance / (n * (n - 1));
  }
  if (isinf(function->x) || isinf(function->xx)) {
    if (!isinf(before) && !isinf(value)) float_overflow_error();
    function->xx = get_float8_nan();
  }
}

static void add_floats(WindowFunction *function, const RowSort *sort, uint32 from, uint32 to) {
  for (uint32 place = from; place < to; place++) {
    uint32 row = row_at(sort, place);
    double value;
    if (stored_is_null(function->column, row)) continue;
    value = DatumGetFloat8(function->column->value[row]);
    function->count++;
    if (function->kind == WINDOW_SUM_FLOAT)
      sum_float(function, value);
    else
      average_float(function, value);
  }
}

/* ---- all ---- */

void window_function_add(WindowFunction *function, const RowSort *sort, uint32 from, uint32 to) {
  switch (function->kind) {
    case WINDOW_COUNT_ROWS: function->count += to - from; break;
    case WINDOW_COUNT: count_values(function, sort, from, to); break;
    case WINDOW_SUM_FLOAT:
    case WINDOW_AVERAGE_FLOAT: add_floats(function, sort, from, to); break;
    default:
      if (function->column->is_null)
        add_numbers(function, sort, from, to, true);
      else
        add_numbers(function, sort, from, to, false);
      break;
  }
}

static Datum average(const WindowFunction *function) {
  Numeric sum = numeric_of_decimal(function->sum, function->column->scale);
  return DirectFunctionCall2(numeric_div, NumericGetDatum(sum),
                             NumericGetDatum(int64_to_numeric(function->count)));
}

void window_function_finish(WindowFunction *function) {
  const WindowFunctionKind kind = function->kind;

  function->is_null = function->count == 0 && kind != WINDOW_COUNT && kind != WINDOW_COUNT_ROWS;
  if (function->is_null) {
    function->value = (Datum)0;
    return;
  }
  switch (kind) {
    case WINDOW_SUM_INTEGER: function->value = Int64GetDatum((int64)function->sum); break;
    case WINDOW_SUM_NUMERIC:
      function->value = NumericGetDatum(numeric_of_decimal(function->sum, function->column->scale));
      break;
    case WINDOW_AVERAGE: function->value = average(function); break;
    case WINDOW_MIN:
    case WINDOW_MAX:
      function->value =
          datum_of_number(function->column->type, function->column->scale, (int64)function->sum);
      break;
    case WINDOW_SUM_FLOAT: function->value = Float8GetDatum(function->x); break;
    case WINDOW_AVERAGE_FLOAT:
      function->value = Float8GetDatum(function->x / (double)function->count);
      break;
    default: function->value = Int64GetDatum(function->count); break;
  }
}
