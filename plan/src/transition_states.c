/*
 * Core's transition states between a worker and the leader (transition_states.h).
 */
#include "transition_states.h"

#include "catalog/pg_type.h"
#include "libpq/pqformat.h"
#include "utils/array.h"
#include "utils/fmgrprotos.h"

Datum partial_average(int64 sum, int64 rows) {
  Datum elements[2] = {Int64GetDatum(rows), Int64GetDatum(sum)};
  return PointerGetDatum(
      construct_array(elements, 2, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/*
 * The digits of a numeric in the form of numericvar_serialize(). numeric_send() writes the same
 * with fields of 16 bits: digits, weight, sign, display scale. Returns the display scale.
 */
static int send_digits(StringInfo to, Numeric value) {
  bytea *sent = DatumGetByteaPP(DirectFunctionCall1(numeric_send, NumericGetDatum(value)));
  StringInfoData from = {.data = VARDATA_ANY(sent), .len = VARSIZE_ANY_EXHDR(sent)};
  int ndigits = pq_getmsgint(&from, sizeof(int16));
  int weight = (int16)pq_getmsgint(&from, sizeof(int16));
  int sign = pq_getmsgint(&from, sizeof(int16));
  int scale = pq_getmsgint(&from, sizeof(int16));

  pq_sendint32(to, ndigits);
  pq_sendint32(to, weight);
  pq_sendint32(to, sign);
  pq_sendint32(to, scale);
  for (int i = 0; i < ndigits; i++) pq_sendint16(to, pq_getmsgint(&from, sizeof(int16)));
  return scale;
}

/* For a sum that is NaN or infinite only that fact counts, not the number of such rows. */
typedef struct Specials {
  int64 nan, plus, minus; /* NaN, infinity, -infinity */
} Specials;

static Specials specials_of(Numeric sum) {
  Specials specials = {0};
  Numeric zero = int64_to_numeric(0);

  if (numeric_is_nan(sum))
    specials.nan = 1;
  else if (!numeric_is_inf(sum))
    return specials;
  else if (DatumGetBool(
               DirectFunctionCall2(numeric_gt, NumericGetDatum(sum), NumericGetDatum(zero))))
    specials.plus = 1;
  else
    specials.minus = 1;
  return specials;
}

Datum partial_sum(Oid type, Numeric sum, int64 rows) {
  Specials specials = {0};
  StringInfoData buffer;
  int scale;

  if (type == NUMERICOID) {
    specials = specials_of(sum);
    if (specials.nan || specials.plus || specials.minus) sum = int64_to_numeric(0);
  }
  pq_begintypsend(&buffer);
  pq_sendint64(&buffer, rows);
  scale = send_digits(&buffer, sum);
  if (type == NUMERICOID) {
    /*
     * Used by moving aggregates only, which never read this: the largest display scale, and the
     * number of rows with it.
     */
    pq_sendint32(&buffer, scale);
    pq_sendint64(&buffer, rows);
    pq_sendint64(&buffer, specials.nan);
    pq_sendint64(&buffer, specials.plus);
    pq_sendint64(&buffer, specials.minus);
  }
  return PointerGetDatum(pq_endtypsend(&buffer));
}
