/*
 * Groups: an open-addressed hash table from the values of grouping columns to a record per group.
 *
 *     slots   [hash, number] [ -- ] [hash, number] ...      8 bytes each, at most 5/8 in use
 *                       │
 *     record            └─> hash, NULL bits, rows │ cells │ states of the aggregates
 *                                                   key, key, ..., carried, ...
 *
 * A record holds the states of all aggregates of its group, one after the other: with many groups
 * every update misses the caches, but only for one or two lines, not for one per aggregate; few
 * groups fit L1 anyway. A whole batch is looked up at a time, in stages (hash; slot; record), so
 * that the misses of a batch overlap.
 *
 * The table does not grow beyond its limit: rows of further groups get no record, and the caller
 * keeps them for later.
 */
#ifndef CCOPT_GROUP_TABLE_H
#define CCOPT_GROUP_TABLE_H

#include "batch.h"

#include "bump.h"

/* Cells of a record: keys, then carried columns. One bit each marks NULL. */
#define GROUP_MAX_CELLS 32

typedef enum KeyKind {
  KEY_NUMBER, /* the column's number; for fallback rows the value, compared by core's functions */
  KEY_BYTES,  /* the bytes of a varlena */
  KEY_GENERIC /* compared by the type's hash and equality functions */
} KeyKind;

typedef struct GroupKey {
  KeyKind kind;
  int column; /* of the batch */
  Oid type;
  int16 length;
  bool by_value;
  Oid collation;
  int scale; /* for KEY_NUMBER of decimals */
  bool is_decimal;
  bool trims;           /* trailing blanks do not count */
  bool direct;          /* of one byte: found without hashing */
  FmgrInfo hash, equal; /* for KEY_GENERIC, and for fallback values of KEY_NUMBER */
  /* for the current batch: bytes of KEY_BYTES, by row */
  const char **data;
  uint32 *size;
} GroupKey;

typedef struct GroupRecord {
  uint32 hash;
  uint32 nulls; /* bit i: cell i is NULL */
  uint32 odd;   /* bit i: cell i holds a Datum although its key has numbers */
  int64 rows;
  Datum cells[FLEXIBLE_ARRAY_MEMBER]; /* number, or StoredBytes *, or Datum */
} GroupRecord;

typedef struct GroupTable GroupTable;

/*
 * `state` zeroed bytes follow the cells of each group. The table is sized for `expected` groups and
 * takes at most `limit` bytes (but holds a few groups always). Its memory is below the current
 * context.
 */
extern GroupTable *group_table_create(const Batch *batch, GroupKey *keys, int nkeys,
                                      const int *carried, int ncarried, Size state, double expected,
                                      Size limit);
/* Sets how a key of a type is compared; false if the type cannot be hashed. */
extern bool group_key_init(GroupKey *key, const BatchColumn *column, int index);

/*
 * Finds the groups of the selected rows, by row; creates new ones. NULL for rows that the table has
 * no space for; returns the number of these rows.
 */
extern int group_table_find(GroupTable *table, Batch *batch, GroupRecord **groups);
/* Without keys there is one group, which is created when first needed. */
extern GroupRecord *group_table_only(GroupTable *table);

extern void group_table_reset(GroupTable *table);
/* Removes the limit until the next reset: for a partition that cannot be divided. */
extern void group_table_lift_limit(GroupTable *table);

extern uint64 group_table_count(const GroupTable *table);
extern GroupRecord *group_table_get(const GroupTable *table, uint64 index);
/* Offset of the states in a record. */
extern Size group_table_state_offset(const GroupTable *table);
/* Memory for data that the states point to; it is counted. */
extern MemoryContext group_table_context(const GroupTable *table);
extern Size group_table_memory(const GroupTable *table);

/* The value of a group's cell, from its first row. */
extern Datum group_table_value(const GroupTable *table, const GroupRecord *group, int cell,
                               bool *is_null);

/* For planning: the size of a group, without data that its keys point to. */
extern Size group_size(int ncells, Size state);

/* The partition of `npartitions` (a power of two) for a hash; different at each depth. */
static inline int group_partition(uint32 hash, int depth, int npartitions) {
  uint32 mixed = hash + (uint32)(depth + 1) * 0x9E3779B9;
  mixed = (mixed ^ (mixed >> 16)) * 0x85EBCA6B;
  mixed = (mixed ^ (mixed >> 13)) * 0xC2B2AE35;
  mixed ^= mixed >> 16;
  return (int)(mixed & (uint32)(npartitions - 1));
}
/* The hash of a row that got no group in the last group_table_find(). */
extern uint32 group_table_hash_of_row(const GroupTable *table, int row);

#endif
