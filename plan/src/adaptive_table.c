/*
 * The hash table of an adaptive join: rows by integer keys, chained in buckets.
 */
#include "adaptive_join.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "utils/memutils.h"

#include "bump.h"

/* Rows lie one after the other in blocks of this size. */
#define ROWS_BLOCK (256 * 1024)

struct AdaptiveRow {
  AdaptiveRow *next; /* next in the bucket */
  uint64 hash;
  int64 keys[FLEXIBLE_ARRAY_MEMBER]; /* nkeys integers, then the MinimalTuple */
};

struct AdaptiveTable {
  MemoryContext context;
  Bump rows;
  int nkeys;
  uint64 nrows;
  uint64 mask; /* number of buckets - 1 */
  AdaptiveRow **buckets;
};

bool is_adaptive_key_type(Oid type) {
  switch (type) {
    case INT2OID:
    case INT4OID:
    case INT8OID:
    case DATEOID: return true;
    default: return false;
  }
}

int64 adaptive_key(Datum value, Oid type) {
  switch (type) {
    case INT2OID: return DatumGetInt16(value);
    case INT8OID: return DatumGetInt64(value);
    default: return DatumGetInt32(value); /* int4, date */
  }
}

static uint64 hash_keys(const int64 *keys, int nkeys) {
  uint64 hash = 0;
  /* Two 32-bit finalizers produce 64 bits; core has the 64-bit finalizer from 17 on. */
  for (int i = 0; i < nkeys; i++)
    hash = hash_combine64(hash, (uint64)murmurhash32((uint32)keys[i]) << 32 |
                                    murmurhash32((uint32)((uint64)keys[i] >> 32) ^ 0x5bd1e995));
  return hash ^ hash >> 32;
}

static void make_buckets(AdaptiveTable *table, uint64 count) {
  table->mask = count - 1;
  table->buckets = MemoryContextAllocExtended(table->context, count * sizeof(*table->buckets),
                                              MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

AdaptiveTable *adaptive_table_create(int nkeys, double expected) {
  MemoryContext context =
      AllocSetContextCreate(CurrentMemoryContext, "ccopt adaptive join", ALLOCSET_DEFAULT_SIZES);
  AdaptiveTable *table = MemoryContextAllocZero(context, sizeof(*table));
  uint64 count = 1024;

  table->context = context;
  bump_init(&table->rows, context, ROWS_BLOCK);
  table->nkeys = nkeys;
  while (count < expected && count < (UINT64CONST(1) << 24)) count *= 2;
  make_buckets(table, count);
  return table;
}

static void grow(AdaptiveTable *table) {
  AdaptiveRow **old = table->buckets;
  uint64 old_count = table->mask + 1;

  make_buckets(table, old_count * 2);
  for (uint64 i = 0; i < old_count; i++) {
    AdaptiveRow *row = old[i];
    while (row) {
      AdaptiveRow *next = row->next;
      row->next = table->buckets[row->hash & table->mask];
      table->buckets[row->hash & table->mask] = row;
      row = next;
    }
  }
  pfree(old);
}

static Size keys_size(const AdaptiveTable *table) {
  return MAXALIGN(offsetof(AdaptiveRow, keys) + sizeof(int64) * table->nkeys);
}

bool adaptive_table_add(AdaptiveTable *table, const int64 *keys, TupleTableSlot *slot, Size limit) {
  bool copied;
  MinimalTuple tuple = ExecFetchSlotMinimalTuple(slot, &copied);
  Size head = keys_size(table);
  AdaptiveRow *row = (AdaptiveRow *)bump_alloc(&table->rows, head + tuple->t_len);

  memcpy(row->keys, keys, sizeof(int64) * table->nkeys);
  memcpy((char *)row + head, tuple, tuple->t_len);
  if (copied) pfree(tuple);
  row->hash = hash_keys(keys, table->nkeys);
  if (++table->nrows > table->mask) grow(table);
  row->next = table->buckets[row->hash & table->mask];
  table->buckets[row->hash & table->mask] = row;
  return adaptive_table_memory(table) <= limit;
}

static const AdaptiveRow *first_of(const AdaptiveTable *table, const AdaptiveRow *row, uint64 hash,
                                   const int64 *keys) {
  for (; row; row = row->next)
    if (row->hash == hash && memcmp(row->keys, keys, sizeof(int64) * table->nkeys) == 0) return row;
  return NULL;
}

const AdaptiveRow *adaptive_table_find(const AdaptiveTable *table, const int64 *keys) {
  uint64 hash = hash_keys(keys, table->nkeys);
  return first_of(table, table->buckets[hash & table->mask], hash, keys);
}

const AdaptiveRow *adaptive_table_next(const AdaptiveTable *table, const AdaptiveRow *row) {
  return first_of(table, row->next, row->hash, row->keys);
}

MinimalTuple adaptive_row_tuple(const AdaptiveTable *table, const AdaptiveRow *row) {
  return (MinimalTuple)((char *)row + keys_size(table));
}

Size adaptive_table_memory(const AdaptiveTable *table) {
  return table->rows.total + (table->mask + 1) * sizeof(*table->buckets);
}

void adaptive_table_free(AdaptiveTable *table) { MemoryContextDelete(table->context); }
