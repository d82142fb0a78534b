/*
 * Predicates on numbers: constants as int64 in the column's own unit, and the kernels.
 *
 * Each comparison with a constant is a range: x < 2.5 of an integer column is x <= 2. Digits of a
 * constant beyond the column's unit only decide how it is rounded.
 */
#include "qual_internal.h"

#include "catalog/pg_type.h"
#include "datatype/timestamp.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"

/* ---- constants ---- */

/* A constant in the column's unit: it equals `floor`, or lies between that and the next. */
typedef struct Unit {
  int64 floor;
  bool exact;
  int beyond; /* -1: below all numbers, 1: above all, 0: neither */
} Unit;

static Unit unit_of_numeric(Datum value, int scale) {
  Unit unit = {0, false, 0};
  Datum limit = NumericGetDatum(int64_to_numeric(INT64CONST(1000000000000000000)));
  Datum negative_limit = NumericGetDatum(int64_to_numeric(-INT64CONST(1000000000000000000)));
  Datum scaled, floored;
  int64 factor = 1;

  /* A column's numbers are below the limit even in units, so a constant above the limit is above
   * all of them. NaN is greater than all others. */
  if (DatumGetBool(DirectFunctionCall2(numeric_gt, value, limit))) {
    unit.beyond = 1;
    return unit;
  }
  if (DatumGetBool(DirectFunctionCall2(numeric_lt, value, negative_limit))) {
    unit.beyond = -1;
    return unit;
  }
  while (scale-- > 0) factor *= 10;
  scaled = DirectFunctionCall2(numeric_mul, value, NumericGetDatum(int64_to_numeric(factor)));
  if (DatumGetBool(DirectFunctionCall2(numeric_gt, scaled, limit))) {
    unit.beyond = 1;
    return unit;
  }
  if (DatumGetBool(DirectFunctionCall2(numeric_lt, scaled, negative_limit))) {
    unit.beyond = -1;
    return unit;
  }
  floored = DirectFunctionCall1(numeric_floor, scaled);
  unit.floor = DatumGetInt64(DirectFunctionCall1(numeric_int8, floored));
  unit.exact = DatumGetBool(DirectFunctionCall2(numeric_eq, floored, scaled));
  return unit;
}

/* A timestamp in days, for a column of dates. Infinities are those of dates. */
static Unit unit_of_timestamp(Timestamp timestamp) {
  Unit unit = {0, true, 0};
  if (TIMESTAMP_IS_NOBEGIN(timestamp)) {
    unit.floor = DATEVAL_NOBEGIN;
  } else if (TIMESTAMP_IS_NOEND(timestamp)) {
    unit.floor = DATEVAL_NOEND;
  } else {
    unit.floor = timestamp / USECS_PER_DAY;
    if (timestamp % USECS_PER_DAY < 0) unit.floor--;
    unit.exact = timestamp % USECS_PER_DAY == 0;
  }
  return unit;
}

static Unit unit_of(const QualNode *node, Datum value) {
  Unit unit = {0, true, 0};
  switch (node->constant_type) {
    case NUMERICOID: return unit_of_numeric(value, node->scale);
    case TIMESTAMPOID:
      if (node->var->vartype == DATEOID) return unit_of_timestamp(DatumGetTimestamp(value));
      unit.floor = DatumGetTimestamp(value);
      return unit;
    case INT2OID: unit.floor = DatumGetInt16(value); return unit;
    case INT4OID: unit.floor = DatumGetInt32(value); return unit;
    case INT8OID: unit.floor = DatumGetInt64(value); return unit;
    case DATEOID: unit.floor = DatumGetDateADT(value); return unit;
    case TIMESTAMPTZOID: unit.floor = DatumGetTimestampTz(value); return unit;
    case OIDOID: unit.floor = DatumGetObjectId(value); return unit;
    case BOOLOID: unit.floor = DatumGetBool(value) ? 1 : 0; return unit;
    case CHAROID: unit.floor = (uint8)DatumGetChar(value); return unit;
    default: elog(ERROR, "a constant of type %u is no number", node->constant_type);
  }
}

/* Sets the range of a comparison; an empty one is QUAL_NEVER. */
static void set_range(QualNode *node, Unit unit) {
  int64 low = PG_INT64_MIN, high = PG_INT64_MAX;
  bool empty = false;

  node->negated_run = false;
  if (unit.beyond != 0) {
    bool below = unit.beyond > 0; /* the column's numbers are below the constant */
    switch (node->comparison) {
      case LESS:
      case LESS_EQUAL: empty = !below; break;
      case GREATER:
      case GREATER_EQUAL: empty = below; break;
      case EQUAL: empty = true; break;
      case NOT_EQUAL: break;
    }
  } else
    switch (node->comparison) {
      case LESS:
        if (unit.exact) {
          empty = unit.floor == PG_INT64_MIN;
          high = empty ? 0 : unit.floor - 1;
        } else
          high = unit.floor;
        break;
      case LESS_EQUAL: high = unit.floor; break;
      case GREATER:
        empty = unit.floor == PG_INT64_MAX;
        low = empty ? 0 : unit.floor + 1;
        break;
      case GREATER_EQUAL: low = unit.exact ? unit.floor : unit.floor + 1; break;
      case EQUAL:
        empty = !unit.exact;
        low = high = unit.floor;
        break;
      case NOT_EQUAL:
        if (unit.exact) {
          low = high = unit.floor;
          node->negated_run = true;
        }
        break;
    }
  node->low = low;
  node->high = high;
  node->run = empty ? QUAL_NEVER : QUAL_COMPARE;
  node->for_odd = node->column_kind == COLUMN_DECIMAL;
}

static int compare_int64(const void *a, const void *b) {
  int64 left = *(const int64 *)a, right = *(const int64 *)b;
  return left < right ? -1 : left > right;
}

/* For a wider range a bitmap would cost more cache than it saves comparisons. */
#define BITMAP_SPAN 65536

static void set_numbers(QualNode *node, Datum *values, int nvalues) {
  int n = 0;
  uint64 span;

  node->run = QUAL_IN;
  node->negated_run = node->negated;
  node->values = palloc(sizeof(*node->values) * Max(nvalues, 1));
  for (int i = 0; i < nvalues; i++) {
    Unit unit = unit_of(node, values[i]);
    /* No number of the column equals it. */
    if (unit.beyond != 0 || !unit.exact) continue;
    node->values[n++] = unit.floor;
  }
  qsort(node->values, n, sizeof(*node->values), compare_int64);
  node->nvalues = 0;
  for (int i = 0; i < n; i++)
    if (i == 0 || node->values[i] != node->values[i - 1])
      node->values[node->nvalues++] = node->values[i];
  node->bitmap = NULL;
  if (node->nvalues <= 2) return;
  span = (uint64)node->values[node->nvalues - 1] - (uint64)node->values[0];
  if (span >= BITMAP_SPAN) return;
  node->bitmap = palloc0(sizeof(uint64) * (span / 64 + 1));
  for (int i = 0; i < node->nvalues; i++) {
    uint64 bit = (uint64)node->values[i] - (uint64)node->values[0];
    node->bitmap[bit / 64] |= UINT64CONST(1) << (bit % 64);
  }
}

static void set_array(QualNode *node, Datum value) {
  ArrayType *array = DatumGetArrayTypeP(value);
  Datum *values;
  bool *nulls;
  int nvalues, kept = 0;
  int16 length;
  bool by_value, has_null = false;
  char align;

  get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
  deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &values, &nulls, &nvalues);
  if (nvalues == 0) {
    /* NOT IN with an empty list is true even for NULL. */
    node->run = node->negated ? QUAL_ALWAYS : QUAL_NEVER;
    return;
  }
  for (int i = 0; i < nvalues; i++) {
    if (nulls[i])
      has_null = true;
    else
      values[kept++] = values[i];
  }
  /* x NOT IN (.., NULL) is false or NULL. */
  if (has_null && node->negated)
    node->run = QUAL_NEVER;
  else if (node->kind == QUAL_TEXT_IN)
    qual_set_strings(node, values, nulls, kept);
  else
    set_numbers(node, values, kept);
}

void qual_set_constant(QualNode *node, Datum value, bool is_null) {
  node->ready = true;
  node->for_odd = false;
  if (is_null) {
    node->run = QUAL_NEVER;
    return;
  }
  if (node->is_array) {
    set_array(node, value);
    return;
  }
  switch (node->kind) {
    case QUAL_COMPARE: set_range(node, unit_of(node, value)); break;
    case QUAL_TEXT_IN: qual_set_strings(node, &value, &is_null, 1); break;
    case QUAL_LIKE: qual_set_pattern(node, value); break;
    default: elog(ERROR, "predicate %d has no constant", (int)node->kind);
  }
}

/* ---- kernels ---- */

/* Filters without a branch: each row is written, and the index advances if it passed. */
#define FILTER(passes)                                   \
  do {                                                   \
    if (column->has_nulls)                               \
      for (int i = 0; i < n; i++) {                      \
        int row = in[i];                                 \
        out[kept] = (uint16)row;                         \
        kept += (column->where[row] != NULL) & (passes); \
      }                                                  \
    else                                                 \
      for (int i = 0; i < n; i++) {                      \
        int row = in[i];                                 \
        out[kept] = (uint16)row;                         \
        kept += (passes);                                \
      }                                                  \
  } while (0)

static int run_range(const QualNode *node, const BatchColumn *column, const uint16 *in, int n,
                     uint16 *out) {
  const int64 *number = column->number;
  const uint64 low = (uint64)node->low;
  const uint64 span = (uint64)node->high - low;
  int kept = 0;

  if (node->negated_run)
    FILTER((uint64)number[row] - low > span);
  else
    FILTER((uint64)number[row] - low <= span);
  return kept;
}

static inline bool is_member(const QualNode *node, int64 number) {
  int below = 0, above = node->nvalues;
  while (above - below > 1) {
    int middle = (below + above) / 2;
    if (node->values[middle] <= number)
      below = middle;
    else
      above = middle;
  }
  return node->values[below] == number;
}

static int run_in(const QualNode *node, const BatchColumn *column, const uint16 *in, int n,
                  uint16 *out) {
  const int64 *number = column->number;
  const bool negated = node->negated_run;
  int kept = 0;

  if (node->nvalues == 0) {
    if (negated) FILTER(true);
  } else if (node->bitmap) {
    const uint64 low = (uint64)node->values[0];
    const uint64 span = (uint64)node->values[node->nvalues - 1] - low;
    const uint64 *bitmap = node->bitmap;
    FILTER((((uint64)number[row] - low <= span) &&
            (bitmap[((uint64)number[row] - low) / 64] >> (((uint64)number[row] - low) % 64) & 1)) !=
           negated);
  } else if (node->nvalues <= 2) {
    const int64 first = node->values[0], second = node->values[node->nvalues - 1];
    FILTER(((number[row] == first) | (number[row] == second)) != negated);
  } else
    FILTER(is_member(node, number[row]) != negated);
  return kept;
}

#define FILTER_COLUMNS(operator)                                \
  for (int i = 0; i < n; i++) {                                 \
    int row = in[i];                                            \
    out[kept] = (uint16)row;                                    \
    kept += (!left->has_nulls || left->where[row] != NULL) &&   \
            (!right->has_nulls || right->where[row] != NULL) && \
            left->number[row] operator right->number[row];      \
  }

static int run_columns(const QualNode *node, const BatchColumn *left, const BatchColumn *right,
                       const uint16 *in, int n, uint16 *out) {
  int kept = 0;
  switch (node->comparison) {
    case LESS: FILTER_COLUMNS(<) break;
    case LESS_EQUAL: FILTER_COLUMNS(<=) break;
    case EQUAL: FILTER_COLUMNS(==) break;
    case GREATER_EQUAL: FILTER_COLUMNS(>=) break;
    case GREATER: FILTER_COLUMNS(>) break;
    case NOT_EQUAL: FILTER_COLUMNS(!=) break;
  }
  return kept;
}

int qual_run_numbers(const QualNode *node, const Batch *batch, const uint16 *in, int n,
                     uint16 *out) {
  const BatchColumn *column = &batch->columns[node->column];
  switch (node->run) {
    case QUAL_COMPARE: return run_range(node, column, in, n, out);
    case QUAL_IN: return run_in(node, column, in, n, out);
    case QUAL_COLUMNS:
      return run_columns(node, column, &batch->columns[node->other_column], in, n, out);
    default: elog(ERROR, "predicate %d is not of numbers", (int)node->run);
  }
}
