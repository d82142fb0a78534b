/*
 * Decodes values to int64.
 *
 * A numeric on disk is a header, sign, weight and display scale, then base-10000 digits. That
 * layout is private to core's numeric.c, but it is the format of every data directory, so it does
 * not change between the supported versions. A value of another form makes its row a fallback row.
 */
#include "batch.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---- integers ---- */

static inline uint64 bits_of(int64 number) {
  return number < 0 ? (uint64)0 - (uint64)number : (uint64)number;
}

#define DECODE_INTEGERS(ctype)               \
  do {                                       \
    for (int i = 0; i < n; i++) {            \
      int row = list ? list[i] : i;          \
      int64 value;                           \
      if (has_nulls && where[row] == NULL) { \
        number[row] = 0;                     \
        continue;                            \
      }                                      \
      value = *(const ctype *)where[row];    \
      number[row] = value;                   \
      magnitude |= bits_of(value);           \
    }                                        \
  } while (0)

/* `list` and `has_nulls` are constants at each call, so that each gets its own loop. */
static pg_attribute_always_inline uint64 decode_integers(const BatchColumn *column,
                                                         const uint16 *list, int n,
                                                         bool has_nulls) {
  const char **where = column->where;
  int64 *number = column->number;
  uint64 magnitude = 0;

  switch (column->type) {
    case INT2OID: DECODE_INTEGERS(int16); break;
    case INT4OID:
    case DATEOID: DECODE_INTEGERS(int32); break;
    case INT8OID:
    case TIMESTAMPOID:
    case TIMESTAMPTZOID: DECODE_INTEGERS(int64); break;
    case OIDOID: DECODE_INTEGERS(uint32); break;
    /* "char" is compared as unsigned. */
    case CHAROID: DECODE_INTEGERS(uint8); break;
    case BOOLOID: DECODE_INTEGERS(bool); break;
    default: elog(ERROR, "type %u has no integers", column->type);
  }
  return magnitude;
}

/* ---- lanes of the column cache ---- */

#define COPY_LANE(ctype)                                           \
  do {                                                             \
    const ctype *lane = column->lane;                              \
    if (list == NULL)                                              \
      for (int row = 0; row < n; row++) number[row] = lane[row];   \
    else                                                           \
      for (int i = 0; i < n; i++) number[list[i]] = lane[list[i]]; \
  } while (0)

/* The numbers of an integer column are its values; `magnitude` as by decode_integers(). */
static void decode_lane(BatchColumn *column, const uint16 *list, int n) {
  int64 *number = column->number;
  uint64 magnitude = 0;

  column->magnitude = column->lane_magnitude;
  if (column->lane_kind == LANE_INT32) {
    COPY_LANE(int32);
    return;
  }
  if (column->lane_kind == LANE_INT64) {
    COPY_LANE(int64);
    return;
  }
  switch (column->type) {
    case INT2OID: COPY_LANE(int16); break;
    case INT4OID:
    case DATEOID: COPY_LANE(int32); break;
    case INT8OID:
    case TIMESTAMPOID:
    case TIMESTAMPTZOID: COPY_LANE(int64); break;
    case OIDOID: COPY_LANE(uint32); break;
    case CHAROID: COPY_LANE(uint8); break;
    case BOOLOID: COPY_LANE(bool); break;
    default: elog(ERROR, "type %u has no integers", column->type);
  }
  if (list == NULL)
    for (int row = 0; row < n; row++) magnitude |= bits_of(number[row]);
  else
    for (int i = 0; i < n; i++) magnitude |= bits_of(number[list[i]]);
  column->magnitude = magnitude;
}

/* ---- decimals ---- */

#define DIGIT_BASE 10000
#define DIGIT_DECIMALS 4
#define FORM_MASK 0xC000
#define FORM_SHORT 0x8000
#define FORM_SPECIAL 0xC000
#define SHORT_SCALE_MASK 0x1F80
#define SHORT_SCALE_SHIFT 7
#define LONG_SCALE_MASK 0x3FFF
#define SHORT_NEGATIVE 0x2000
#define LONG_NEGATIVE 0x4000

static const int64 powers_of_ten[] = {1,
                                      10,
                                      100,
                                      1000,
                                      10000,
                                      100000,
                                      1000000,
                                      10000000,
                                      100000000,
                                      1000000000,
                                      10000000000,
                                      100000000000,
                                      1000000000000,
                                      10000000000000,
                                      100000000000000,
                                      1000000000000000,
                                      10000000000000000,
                                      100000000000000000,
                                      1000000000000000000};
/* Limit of a column's numbers: column_kind() admits 18 digits. */
#define DECIMAL_LIMIT INT64CONST(1000000000000000000)

/*
 * Decodes any finite numeric that fits; false for others. It must have the column's display scale,
 * too, since sums show the largest scale of their inputs: a type modifier is enforced for stored
 * rows, but not for RECORDs that a function returns.
 */
static bool decode_decimal(const char *value, int scale, int64 *number) {
  const char *data;
  int size, weight, ndigits, exponent;
  uint16 header;
  bool negative;
  int64 result = 0;

  if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value)) return false;
  data = VARDATA_ANY(value);
  size = VARSIZE_ANY_EXHDR(value);
  if (size < (int)sizeof(header)) return false;
  memcpy(&header, data, sizeof(header));
  data += sizeof(header);
  size -= sizeof(header);
  switch (header & FORM_MASK) {
    case FORM_SPECIAL: return false;
    case FORM_SHORT:
      if ((header & SHORT_SCALE_MASK) >> SHORT_SCALE_SHIFT != scale) return false;
      negative = (header & SHORT_NEGATIVE) != 0;
      /* Seven bits with a sign. */
      weight = (int)((header & 0x7F) ^ 0x40) - 0x40;
      break;
    default: {
      int16 wide;
      if ((header & LONG_SCALE_MASK) != scale) return false;
      if (size < (int)sizeof(wide)) return false;
      memcpy(&wide, data, sizeof(wide));
      data += sizeof(wide);
      size -= sizeof(wide);
      negative = (header & FORM_MASK) == LONG_NEGATIVE;
      weight = wide;
    }
  }
  ndigits = size / (int)sizeof(int16);
  for (int i = 0; i < ndigits; i++) {
    int16 digit;
    memcpy(&digit, data + i * sizeof(digit), sizeof(digit));
    /* The last digit may have zeros after the scale; only the part that counts is used. */
    exponent = (weight - i) * DIGIT_DECIMALS + scale;
    if (exponent < 0) {
      int64 unit;
      if (exponent <= -DIGIT_DECIMALS) {
        if (digit != 0) return false;
        continue;
      }
      unit = powers_of_ten[-exponent];
      if (digit % unit != 0) return false;
      if (pg_add_s64_overflow(result, digit / unit, &result)) return false;
    } else {
      int64 part;
      if (digit == 0) continue;
      if (exponent >= (int)lengthof(powers_of_ten)) return false;
      if (pg_mul_s64_overflow(digit, powers_of_ten[exponent], &part) ||
          pg_add_s64_overflow(result, part, &result))
        return false;
    }
  }
  if (result >= DECIMAL_LIMIT) return false;
  *number = negative ? -result : result;
  return true;
}

static uint64 decode_decimals_slowly(Batch *batch, BatchColumn *column) {
  uint64 magnitude = 0;

  for (int i = 0; i < batch->nselected; i++) {
    int row = batch->selected[i];
    const char *value = column->where[row];

    column->number[row] = 0;
    if (column->has_nulls && value == NULL) continue;
    if (decode_decimal(value, column->scale, &column->number[row])) {
      magnitude |= bits_of(column->number[row]);
    } else if (!batch->odd[row]) {
      batch->odd[row] = 1;
      batch->nodd++;
    }
  }
  return magnitude;
}

#ifndef WORDS_BIGENDIAN

/* 5^-k modulo 2^64, k = 0 .. 3: exact division by 10^k is a shift and a product. */
static const uint64 inverse_of_five[] = {1, UINT64CONST(0xCCCCCCCCCCCCCCCD),
                                         UINT64CONST(0x8F5C28F5C28F5C29),
                                         UINT64CONST(0x1CAC083126E978D5)};

/*
 * Decodes the usual numeric without a branch: one-byte header, short form, the column's scale, at
 * most four digits with trailing zeros left out. Eight bytes are loaded from the place where the
 * digits would start if there were four up to the scale, and the missing ones are masked. So each
 * of the word's four lanes has a fixed weight, and two products compute a number from the lanes.
 * The place and the mask depend on weight and number of digits only: a table has them.
 *
 * The load may begin before the value and end after it, by less than eight bytes. A value in a
 * tuple lies within its page, with the tuple's header before it; the memory after the last page of
 * the pool, and around an allocated value, is mapped, too. Memcheck treats an unpinned page as
 * inaccessible: a server compiled for it (USE_VALGRIND) loads only the value's own bytes, so that
 * it still detects a value that is read after its page was unpinned.
 */
typedef struct DigitLanes {
  uint64 mask;
  int32 offset; /* offset from the value's first byte */
  uint32 wrong; /* nonzero: no such value has four lanes */
} DigitLanes;

/*
 * Indexed by digits after the point in groups of four (up to DECIMAL_MAX_SCALE), weight and size.
 */
#define LANE_WEIGHTS 128
#define LANE_SIZES 8
static DigitLanes digit_lanes[3][LANE_WEIGHTS * LANE_SIZES];
static bool digit_lanes_made = false;

/* A value's first three bytes, in little-endian order: its size with the mark of a one-byte
 * header, and the numeric's header. */
/* The size is 3, 5 .. 11; it is stored doubled, with the mark. So bits 2 to 4 are 1 + digits. */
#define FIRST_FIXED_BITS 0xE3
#define FIRST_ONE_BYTE_HEADER 0x03
#define FIRST_HEADER_SHIFT 8

static void make_digit_lanes(void) {
  for (int fraction = 0; fraction < (int)lengthof(digit_lanes); fraction++)
    for (int i = 0; i < LANE_WEIGHTS * LANE_SIZES; i++) {
      DigitLanes *lanes = &digit_lanes[fraction][i];
      int weight = (i / LANE_SIZES ^ 0x40) - 0x40;
      int ndigits = i % LANE_SIZES - 1;
      int used = weight + 1 + fraction; /* lanes from the first digit to the scale */

      *lanes = (DigitLanes){0, 0, 1};
      if (used < 1 || used > 4 || ndigits < 0 || ndigits > used) continue;
      lanes->wrong = 0;
      lanes->offset = 3 - 2 * (4 - used);
      for (int digit = 0; digit < ndigits; digit++)
        lanes->mask |= UINT64CONST(0xFFFF) << (4 - used + digit) * 16;
    }
  digit_lanes_made = true;
}

/* A value's first bytes; the fourth, which the smallest value lacks, is not read. */
static inline uint32 first_bytes(const char *value) {
  uint32 first = 0;
#ifdef USE_VALGRIND
  memcpy(&first, value, 3);
#else
  memcpy(&first, value, sizeof(first));
#endif
  return first;
}

/* The number of four lanes of digits, most significant first. */
static inline uint64 number_of_lanes(const char *digits, uint64 mask) {
  uint64 pairs;
#if defined(__SSE2__) && !defined(USE_VALGRIND)
  const __m128i weights = _mm_set1_epi32(1 << 16 | DIGIT_BASE);
  __m128i lanes = _mm_and_si128(_mm_loadl_epi64((const __m128i *)digits), _mm_cvtsi64_si128(mask));
  pairs = _mm_cvtsi128_si64(_mm_madd_epi16(lanes, weights));
#else
  uint64 lanes = 0;
#ifdef USE_VALGRIND
  for (int shift = 0; shift < 64; shift += 8, digits++)
    if (mask >> shift & 0xFF) lanes |= (uint64)(unsigned char)*digits << shift;
#else
  memcpy(&lanes, digits, sizeof(lanes));
  lanes &= mask;
#endif
  pairs = (lanes & UINT64CONST(0x0000FFFF0000FFFF)) * DIGIT_BASE +
          (lanes >> 16 & UINT64CONST(0x0000FFFF0000FFFF));
#endif
  return (pairs & 0xFFFFFFFF) * (DIGIT_BASE * DIGIT_BASE) + (pairs >> 32);
}

/*
 * Returns false if some value had another form; then no result is valid. `excess`, the number of
 * decimal digits of the last lane after the scale, is a constant where this is inlined, as are
 * `has_nulls` and whether there is a list.
 */
static pg_attribute_always_inline bool decode_short_decimals(BatchColumn *column,
                                                             const uint16 *list, int n,
                                                             bool has_nulls, int excess) {
  const char **where = column->where;
  int64 *number = column->number;
  const char *table = (const char *)digit_lanes[(column->scale + excess) / DIGIT_DECIMALS];
  const uint32 fixed_mask =
      (uint32)(FORM_MASK | SHORT_SCALE_MASK) << FIRST_HEADER_SHIFT | FIRST_FIXED_BITS;
  const uint32 fixed = (uint32)(FORM_SHORT | column->scale << SHORT_SCALE_SHIFT)
                           << FIRST_HEADER_SHIFT |
                       FIRST_ONE_BYTE_HEADER;
  uint64 magnitude = 0;
  uint32 wrong = 0;

  StaticAssertStmt(sizeof(DigitLanes) == 16 && LANE_SIZES == 8, "shifts below");
  for (int i = 0; i < n; i++) {
    int row = list ? list[i] : i;
    const char *value = where[row];
    const DigitLanes *lanes;
    uint32 first;
    uint64 result;
    int64 sign;

    if (has_nulls && value == NULL) {
      number[row] = 0;
      continue;
    }
    first = first_bytes(value);
    wrong |= (first & fixed_mask) ^ fixed;
    /* Index by weight and size, times the size of an entry. */
    lanes = (const DigitLanes *)(table + ((first >> 1 & (LANE_WEIGHTS - 1) << 7) |
                                          (first << 2 & (LANE_SIZES - 1) << 4)));
    wrong |= lanes->wrong;
    /* Digits after the scale are never stored, so the division has no remainder. */
    result =
        (number_of_lanes(value + lanes->offset, lanes->mask) >> excess) * inverse_of_five[excess];
    magnitude |= result;
    /* All ones if negative. */
    sign = (int32)(first << (31 - FIRST_HEADER_SHIFT - 13)) >> 31;
    number[row] = ((int64)result ^ sign) - sign;
  }
  column->magnitude = magnitude;
  return wrong == 0;
}

static pg_attribute_always_inline bool decode_short_by_list(Batch *batch, BatchColumn *column,
                                                            int excess) {
  int n = batch->nselected;
  if (column->has_nulls) return decode_short_decimals(column, batch->selected, n, true, excess);
  if (n == batch->nrows) return decode_short_decimals(column, NULL, n, false, excess);
  return decode_short_decimals(column, batch->selected, n, false, excess);
}

static bool decode_decimals_fast(Batch *batch, BatchColumn *column) {
  if (unlikely(!digit_lanes_made)) make_digit_lanes();
  switch (column->scale % DIGIT_DECIMALS) {
    case 0: return decode_short_by_list(batch, column, 0);
    case 1: return decode_short_by_list(batch, column, 3);
    case 2: return decode_short_by_list(batch, column, 2);
    default: return decode_short_by_list(batch, column, 1);
  }
}

#else

static bool decode_decimals_fast(Batch *batch, BatchColumn *column) { return false; }

#endif

void batch_decode(Batch *batch, int index) {
  BatchColumn *column = &batch->columns[index];
  const uint16 *list = batch->nselected == batch->nrows ? NULL : batch->selected;
  int n = batch->nselected;

  if (column->decoded) return;
  if (column->number == NULL)
    column->number = MemoryContextAlloc(GetMemoryChunkContext(column->where),
                                        sizeof(*column->number) * BATCH_ROWS);
  if (column->lane) {
    decode_lane(column, list, n);
    column->decoded = true;
    return;
  }
  switch (column->kind) {
    case COLUMN_INTEGER:
      if (column->has_nulls)
        column->magnitude = decode_integers(column, batch->selected, n, true);
      else if (list == NULL)
        column->magnitude = decode_integers(column, NULL, n, false);
      else
        column->magnitude = decode_integers(column, list, n, false);
      break;
    case COLUMN_DECIMAL:
      if (!decode_decimals_fast(batch, column))
        column->magnitude = decode_decimals_slowly(batch, column);
      break;
    default: elog(ERROR, "a column of type %u has no numbers", column->type);
  }
  column->decoded = true;
}
