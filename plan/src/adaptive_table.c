/*
 * The hash table of an adaptive join: rows by integer keys, chained in buckets.
 *
 *     adaptive_table_add ... ─> adaptive_table_link                    a table of this process
 *                            └> adaptive_table_copy ─> .. _attach      a block that others can read
 *
 * Invariants:
 *  1. A reference is the distance of a row from `base`, and 0 is none. `base` of a process's own table
 *     is 0, so that its references are addresses; in a block they hold at whatever address it is mapped.
 *  2. Rows are not linked before all are there; then nothing changes.
 */
#include "adaptive_join.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "bump.h"

/* Rows lie one after the other in blocks of this size. */
#define ROWS_BLOCK (256 * 1024)

struct AdaptiveRow {
  uint64 next; /* reference to the next row in the bucket */
  uint64 hash;
  int64 keys[FLEXIBLE_ARRAY_MEMBER]; /* nkeys integers, then the MinimalTuple */
};

/* Rows that lie one after the other. */
typedef struct RowRun {
  char *start, *end;
} RowRun;

struct AdaptiveTable {
  MemoryContext context;
  Bump rows;
  RowRun *runs; /* of this process's own rows */
  int nruns;
  int nkeys;
  uint64 nrows;
  uint64 mask;     /* number of buckets - 1 */
  uint64 *buckets; /* references; NULL until rows are linked */
  uintptr_t base;
  Size block; /* bytes of the block that it was attached to, or 0 */
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

AdaptiveTable *adaptive_table_create(int nkeys) {
  MemoryContext context =
      AllocSetContextCreate(CurrentMemoryContext, "ccopt adaptive join", ALLOCSET_DEFAULT_SIZES);
  AdaptiveTable *table = MemoryContextAllocZero(context, sizeof(*table));

  table->context = context;
  bump_init(&table->rows, context, ROWS_BLOCK);
  table->nkeys = nkeys;
  return table;
}

static Size keys_size(int nkeys) {
  return MAXALIGN(offsetof(AdaptiveRow, keys) + sizeof(int64) * nkeys);
}

Size adaptive_row_size(int nkeys, int width) {
  return MAXALIGN(keys_size(nkeys) + SizeofMinimalTupleHeader + width);
}

/* ---- rows ---- */

/* Notes where the row is: behind the one before, or in a new block. */
static void extend_run(AdaptiveTable *table, char *row, Size size) {
  RowRun *last = table->nruns > 0 ? &table->runs[table->nruns - 1] : NULL;

  if (last == NULL || last->end != row) {
    /* Room for a power of two of runs. */
    if (table->nruns == 0)
      table->runs = MemoryContextAlloc(table->context, sizeof(*table->runs));
    else if ((table->nruns & (table->nruns - 1)) == 0)
      table->runs = repalloc_huge(table->runs, sizeof(*table->runs) * table->nruns * 2);
    last = &table->runs[table->nruns++];
    last->start = row;
  }
  last->end = row + size;
}

bool adaptive_table_add(AdaptiveTable *table, const int64 *keys, TupleTableSlot *slot, Size limit) {
  bool copied;
  MinimalTuple tuple = ExecFetchSlotMinimalTuple(slot, &copied);
  Size head = keys_size(table->nkeys);
  Size size = MAXALIGN(head + tuple->t_len);
  AdaptiveRow *row = (AdaptiveRow *)bump_alloc(&table->rows, size);

  extend_run(table, (char *)row, size);
  memcpy(row->keys, keys, sizeof(int64) * table->nkeys);
  memcpy((char *)row + head, tuple, tuple->t_len);
  if (copied) pfree(tuple);
  row->hash = hash_keys(keys, table->nkeys);
  table->nrows++;
  return adaptive_table_memory(table) <= limit;
}

static Size row_size(const AdaptiveTable *table, const AdaptiveRow *row) {
  return MAXALIGN(keys_size(table->nkeys) + adaptive_row_tuple(table, row)->t_len);
}

static uint64 bucket_count(uint64 nrows) { return pg_nextpower2_64(Max(nrows, 1024)); }

/* Links rows from `start` to `end`, the first of which has the reference `reference`. */
static void link_rows(const AdaptiveTable *table, uint64 *buckets, char *start, const char *end,
                      uint64 reference) {
  const uint64 mask = bucket_count(table->nrows) - 1;
  Size size;

  for (char *at = start; at < end; at += size, reference += size) {
    AdaptiveRow *row = (AdaptiveRow *)at;
    uint64 *bucket = &buckets[row->hash & mask];
    row->next = *bucket;
    *bucket = reference;
    size = row_size(table, row);
  }
}

void adaptive_table_link(AdaptiveTable *table) {
  uint64 count = bucket_count(table->nrows);

  table->buckets = MemoryContextAllocExtended(table->context, count * sizeof(*table->buckets),
                                              MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
  table->mask = count - 1;
  for (int i = 0; i < table->nruns; i++)
    link_rows(table, table->buckets, table->runs[i].start, table->runs[i].end,
              (uintptr_t)table->runs[i].start);
}

/* ---- in a block ---- */

Size adaptive_table_block_size(const AdaptiveTable *table) {
  Size size = bucket_count(table->nrows) * sizeof(*table->buckets);
  for (int i = 0; i < table->nruns; i++) size += table->runs[i].end - table->runs[i].start;
  return size;
}

void adaptive_table_copy(const AdaptiveTable *table, void *block) {
  Size at = bucket_count(table->nrows) * sizeof(*table->buckets);

  memset(block, 0, at);
  for (int i = 0; i < table->nruns; i++) {
    const RowRun *run = &table->runs[i];
    char *copy = (char *)block + at;
    Size size = run->end - run->start;

    CHECK_FOR_INTERRUPTS();
    memcpy(copy, run->start, size);
    link_rows(table, block, copy, copy + size, at);
    at += size;
  }
}

uint64 adaptive_table_rows(const AdaptiveTable *table) { return table->nrows; }

AdaptiveTable *adaptive_table_attach(int nkeys, void *block, Size size, uint64 nrows) {
  AdaptiveTable *table = adaptive_table_create(nkeys);

  table->nrows = nrows;
  table->mask = bucket_count(nrows) - 1;
  table->buckets = block;
  table->base = (uintptr_t)block;
  table->block = size;
  return table;
}

/* ---- finding rows ---- */

static const AdaptiveRow *row_at(const AdaptiveTable *table, uint64 reference) {
  return reference == 0 ? NULL : (const AdaptiveRow *)(table->base + reference);
}

static const AdaptiveRow *first_of(const AdaptiveTable *table, uint64 reference, uint64 hash,
                                   const int64 *keys) {
  const AdaptiveRow *row;

  for (; (row = row_at(table, reference)) != NULL; reference = row->next)
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
  return (MinimalTuple)((char *)row + keys_size(table->nkeys));
}

Size adaptive_table_memory(const AdaptiveTable *table) {
  if (table->block > 0) return table->block;
  return table->rows.total + bucket_count(table->nrows) * sizeof(*table->buckets);
}

void adaptive_table_free(AdaptiveTable *table) { MemoryContextDelete(table->context); }
