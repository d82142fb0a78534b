/*
 * Sorting of stored rows.
 *
 *     ORDER BY suppkey, shipdate DESC NULLS LAST
 *
 *     code   | suppkey - least | most - shipdate; NULL: most + 1 |
 *
 * Each key becomes an unsigned number in its order, counted from the least that occurs, so that it takes
 * few bits; leading keys that fit 64 bits together are one number. If these are all keys, digits of
 * 11 bits are sorted one after the other.
 *
 * That leaves equal rows in the order in which they came, which core's quicksort does not. So if any two
 * are equal, the rows are sorted again by core's own algorithm (lib/sort_template.h): from the same rows in
 * the same order, with the same comparisons, it makes the same order as in tuplesort.c.
 *
 * Invariants:
 *  1. code holds the first npacked keys completely, and nothing else.
 *  2. code >> shift[n] is the same for two rows if and only if their first n keys are, n <= npacked.
 */
#include "row_sort.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/float.h"

#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)
/* Fewer rows are sorted by comparisons at once. */
#define FEW_ROWS 512

RowSort *row_sort_create(const RowStore *store, const SortKey *keys, int nkeys) {
  RowSort *sort = palloc0(sizeof(*sort));

  Assert(nkeys <= ROW_SORT_KEYS);
  sort->store = store;
  sort->keys = keys;
  sort->nkeys = nkeys;
  return sort;
}

/* ---- keys as numbers ---- */

#define SIGN (UINT64CONST(1) << 63)

/* In the order of float8: NaN is the largest, and 0 is -0. */
static uint64 number_of_float(double value) {
  union {
    double number;
    uint64 bits;
  } form = {.number = value == 0 ? 0 : value};

  if (isnan(value)) return PG_UINT64_MAX;
  return form.bits & SIGN ? ~form.bits : form.bits | SIGN;
}

/* An ascending number of a value that is not NULL, before DESC. */
static inline uint64 number_of(const RowSort *sort, int key, uint32 row) {
  const StoredColumn *column = &sort->store->columns[sort->keys[key].column];

  if (column->number != NULL)
    return sort->ranks[key] ? sort->ranks[key][column->number[row]]
                            : (uint64)column->number[row] ^ SIGN;
  switch (column->type) {
    case OIDOID: return DatumGetObjectId(column->value[row]);
    case CHAROID: return (uint8)DatumGetChar(column->value[row]);
    case FLOAT4OID: return number_of_float(DatumGetFloat4(column->value[row]));
    case FLOAT8OID: return number_of_float(DatumGetFloat8(column->value[row]));
    default: return (uint64)(int64)column->value[row] ^ SIGN;
  }
}

/* Text is ranked by the operator, which has the direction. */
static inline bool is_reversed(const RowSort *sort, int key) {
  return sort->keys[key].descending && sort->ranks[key] == NULL;
}

static const StoredColumn *column_of(const RowSort *sort, int key) {
  return &sort->store->columns[sort->keys[key].column];
}

static void find_range(RowSort *sort, int key) {
  const StoredColumn *column = column_of(sort, key);
  uint64 least = PG_UINT64_MAX, most = 0;

  sort->ranks[key] = column->texts ? text_ranks_order(column->texts) : NULL;
  sort->has_nulls[key] = column->is_null != NULL;
  for (uint32 row = 0; row < sort->store->nrows; row++) {
    uint64 number;
    if (stored_is_null(column, row)) continue;
    number = number_of(sort, key, row);
    least = Min(least, number);
    most = Max(most, number);
  }
  /* All are NULL. */
  if (least > most) least = most = 0;
  sort->least[key] = least;
  sort->most[key] = most;
}

/* Bits that a key takes, 65 if it takes more than 64. */
static int bits_of(const RowSort *sort, int key) {
  uint64 range = sort->most[key] - sort->least[key];

  if (sort->has_nulls[key] && range++ == PG_UINT64_MAX) return 65;
  return range == 0 ? 0 : pg_leftmost_one_pos64(range) + 1;
}

/* A key's number in the final order, from 0. */
static inline uint64 part_of(const RowSort *sort, int key, uint32 row) {
  const bool null_is_least = sort->has_nulls[key] && sort->keys[key].nulls_first;
  uint64 number;

  if (stored_is_null(column_of(sort, key), row))
    return null_is_least ? 0 : sort->most[key] - sort->least[key] + 1;
  number = number_of(sort, key, row);
  number = is_reversed(sort, key) ? sort->most[key] - number : number - sort->least[key];
  return number + null_is_least;
}

/* By column: the kind of a key's numbers is then the same in each loop. */
static void pack_key(RowSort *sort, int key, int bits) {
  if (bits == 0) return;
  for (uint32 row = 0; row < sort->store->nrows; row++) {
    SortedRow *sorted = &sort->rows[row];
    sorted->code = (bits == 64 ? 0 : sorted->code << bits) | part_of(sort, key, row);
  }
}

static void pack(RowSort *sort) {
  int bits[ROW_SORT_KEYS];
  int used = 0;

  for (int key = 0; key < sort->nkeys; key++) {
    find_range(sort, key);
    bits[key] = bits_of(sort, key);
  }
  for (uint32 row = 0; row < sort->store->nrows; row++) sort->rows[row] = (SortedRow){0, row};
  for (sort->npacked = 0; sort->npacked < sort->nkeys; sort->npacked++) {
    if (used + bits[sort->npacked] > 64) break;
    pack_key(sort, sort->npacked, bits[sort->npacked]);
    used += bits[sort->npacked];
  }
  sort->shift[0] = 64;
  for (int key = 0, left = used; key < sort->npacked; key++) {
    left -= bits[key];
    /* All leading keys have one value each. */
    sort->shift[key + 1] = left == 64 ? 64 : left;
  }
}

/* ---- comparing ---- */

static int compare_key(const RowSort *sort, int key, uint32 a, uint32 b) {
  const StoredColumn *column = column_of(sort, key);
  const bool a_is_null = stored_is_null(column, a), b_is_null = stored_is_null(column, b);
  uint64 first, second;

  if (a_is_null || b_is_null) {
    if (a_is_null && b_is_null) return 0;
    return a_is_null == sort->keys[key].nulls_first ? -1 : 1;
  }
  first = number_of(sort, key, a);
  second = number_of(sort, key, b);
  if (first == second) return 0;
  return (first < second) != is_reversed(sort, key) ? -1 : 1;
}

static int compare_rest(const RowSort *sort, uint32 a, uint32 b) {
  for (int key = sort->npacked; key < sort->nkeys; key++) {
    int order = compare_key(sort, key, a, b);
    if (order != 0) return order;
  }
  return 0;
}

bool row_sort_equal_rest(const RowSort *sort, uint32 a, uint32 b, int nkeys) {
  for (int key = sort->npacked; key < nkeys; key++)
    if (compare_key(sort, key, a, b) != 0) return false;
  return true;
}

static inline int compare_codes(const SortedRow *a, const SortedRow *b) {
  return (a->code > b->code) - (a->code < b->code);
}

static inline int compare_all(const SortedRow *a, const SortedRow *b, const RowSort *sort) {
  int order = compare_codes(a, b);
  return order != 0 ? order : compare_rest(sort, a->row, b->row);
}

#define ST_SORT sort_by_codes
#define ST_ELEMENT_TYPE SortedRow
#define ST_COMPARE(a, b) compare_codes(a, b)
#define ST_SCOPE static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DEFINE
#include "lib/sort_template.h"

#define ST_SORT sort_by_all
#define ST_ELEMENT_TYPE SortedRow
#define ST_COMPARE(a, b, sort) compare_all(a, b, sort)
#define ST_COMPARE_ARG_TYPE const RowSort
#define ST_SCOPE static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DEFINE
#include "lib/sort_template.h"

/* ---- sorting ---- */

static void sort_digit(const SortedRow *from, SortedRow *to, uint32 nrows, int shift) {
  uint32 starts[DIGITS + 1] = {0};

  for (uint32 i = 0; i < nrows; i++) starts[(from[i].code >> shift & (DIGITS - 1)) + 1]++;
  for (int digit = 1; digit <= DIGITS; digit++) starts[digit] += starts[digit - 1];
  for (uint32 i = 0; i < nrows; i++) to[starts[from[i].code >> shift & (DIGITS - 1)]++] = from[i];
}

static bool some_are_equal(const SortedRow *rows, uint32 nrows) {
  for (uint32 i = 1; i < nrows; i++)
    if (rows[i].code == rows[i - 1].code) return true;
  return false;
}

static int used_bits(const RowSort *sort) {
  uint64 all = 0;
  for (uint32 row = 0; row < sort->store->nrows; row++) all |= sort->rows[row].code;
  return all == 0 ? 0 : pg_leftmost_one_pos64(all) + 1;
}

/* False if some rows are equal: then they are left as they came. */
static bool sort_by_digits(RowSort *sort) {
  const uint32 nrows = sort->store->nrows;
  const int bits = used_bits(sort);
  SortedRow *from = sort->rows;
  SortedRow *to;

  /* With fewer codes than rows some are equal for sure. */
  if (bits < 32 && UINT64CONST(1) << bits < nrows) return false;
  to = MemoryContextAllocHuge(sort->store->context, sizeof(*to) * nrows);
  for (int shift = 0; shift < bits; shift += DIGIT_BITS) {
    SortedRow *sorted = to;
    CHECK_FOR_INTERRUPTS();
    sort_digit(from, sorted, nrows, shift);
    to = from;
    from = sorted;
  }
  sort->by_digits = !some_are_equal(from, nrows);
  if (!sort->by_digits) {
    for (uint32 i = 0; i < nrows; i++) to[from[i].row] = from[i];
    sort->rows = to;
    pfree(from);
  } else {
    sort->rows = from;
    pfree(to);
  }
  return sort->by_digits;
}

void row_sort_run(RowSort *sort) {
  const uint32 nrows = sort->store->nrows;

  sort->rows = MemoryContextAllocHuge(sort->store->context, sizeof(*sort->rows) * Max(nrows, 1));
  sort->by_digits = false;
  pack(sort);
  CHECK_FOR_INTERRUPTS();
  if (sort->npacked < sort->nkeys)
    sort_by_all(sort->rows, nrows, sort);
  else if (nrows < FEW_ROWS || !sort_by_digits(sort))
    sort_by_codes(sort->rows, nrows);
}
