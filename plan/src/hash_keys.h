/*
 * The hash values that core computes for integer keys, without its function calls: those of
 * hashint2, hashint4, hashint8 (dates and timestamps use the same) and their combination in
 * HashJoin and in hashed Agg. That core of the running server computes the same is not assumed: the
 * callers first compare one stored hash value (hash_prefetch.c, bloom.c).
 */
#ifndef CCOPT_HASH_KEYS_H
#define CCOPT_HASH_KEYS_H

#include "compat.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "port/pg_bitutils.h"

#define HASH_KEYS_MOST 4

/* True for types whose hash function is one of those three. */
static inline bool is_hashed_as_integer(Oid type) {
  return type == INT2OID || type == INT4OID || type == INT8OID || type == DATEOID ||
         type == TIMESTAMPOID || type == TIMESTAMPTZOID;
}

static inline int64 integer_of_datum(Datum value, Oid type) {
  switch (type) {
    case INT2OID: return DatumGetInt16(value);
    case INT4OID:
    case DATEOID: return DatumGetInt32(value);
    default: return DatumGetInt64(value);
  }
}

/* hashint8's folding makes an int8 hash like the int4 and int2 of the same value. */
static inline uint32 hash_integer(int64 value) {
  uint32 low = (uint32)value;
  uint32 high = (uint32)((uint64)value >> 32);
  return hash_bytes_uint32(low ^ (value >= 0 ? high : ~high));
}

/* Combines further keys. */
static inline uint32 hash_combined(uint32 hash, int64 value) {
  return pg_rotate_left32(hash, 1) ^ hash_integer(value);
}

#endif
