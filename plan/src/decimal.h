/*
 * Conversion between numbers (value * 10^scale, as in batches) and core's numeric. For single
 * values: results, constants, fallback rows; the kernel that decodes columns is in decode.c.
 */
#ifndef CCOPT_DECIMAL_H
#define CCOPT_DECIMAL_H

#include "postgres.h"

#include "utils/numeric.h"

/* Powers of ten that an int64 holds. */
#define DECIMAL_MAX_POWER 18
extern const int64 decimal_powers[DECIMAL_MAX_POWER + 1];

/* The numeric of a number, with that display scale; 0 <= scale <= DECIMAL_MAX_POWER. */
extern Numeric numeric_of_decimal(int128 number, int scale);
/* The same value with another display scale, which is at most its own and loses no digits. */
extern Numeric numeric_with_scale(Numeric value, int scale);

/* Number and display scale of a numeric; false if it does not fit: more than 18 digits, NaN,
 * infinity. */
extern bool decimal_of_numeric(Numeric value, int64 *number, int *scale);
/* The number of a numeric at a given scale, for any display scale; false if it does not fit or
 * has more digits. */
extern bool decimal_at_scale(Numeric value, int scale, int64 *number);

/* Converts a number to a Datum of a type that has numbers (COLUMN_INTEGER, COLUMN_DECIMAL); and
 * back, for COLUMN_INTEGER only. */
extern Datum datum_of_number(Oid type, int scale, int64 number);
extern int64 number_of_datum(Oid type, Datum value);

#endif
