/*
 * The hash table of a join: memory, buckets, probing.
 *
 * Build: rows are packed one after the other as they arrive, and put into buckets at the end, when
 * their number is known. Probe: a whole batch of keys at a time and in stages, so that the memory
 * accesses of a stage are independent of each other and were prefetched by the stage before.
 */
#include "join_table.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

/* ---- memory ---- */

struct JoinChunk {
  JoinChunk *next;
  Size size; /* bytes of data */
  Size filled;
  char data[FLEXIBLE_ARRAY_MEMBER];
};

/*
 * The first chunk fits the smallest work_mem; the largest one makes the number of chunks
 * negligible.
 */
#define FIRST_CHUNK ((Size)8 * 1024)
#define LARGEST_CHUNK ((Size)1024 * 1024)

/*
 * A bucket has 48 bits for a pointer: the whole user address space, unless a program asks for more.
 */
#define POINTER_BITS 48
#define POINTER_MASK ((UINT64CONST(1) << POINTER_BITS) - 1)
StaticAssertDecl(sizeof(void *) == 8, "a bucket holds tags and a pointer in 64 bits");

JoinTable *join_table_create(const RowLayout *layout) {
  JoinTable *table = palloc0(sizeof(*table));

  table->layout = layout;
  table->memory =
      AllocSetContextCreate(CurrentMemoryContext, "BatchHashJoin table", ALLOCSET_DEFAULT_SIZES);
  return table;
}

void join_table_clear(JoinTable *table) {
  JoinChunk *kept = table->first;

  /* Scratch tables are cleared for every batch: they keep their only chunk. The chunk of a block that is
   * shared may be gone. */
  if (table->buckets == NULL && kept != NULL && kept->next == NULL) {
    kept->filled = 0;
    table->last = kept;
  } else {
    MemoryContextReset(table->memory);
    table->first = table->last = NULL;
    table->base = NULL;
    table->buckets = NULL;
    table->used = 0;
  }
  table->nrows = table->nlinked = 0;
}

static void add_chunk(JoinTable *table, uint32 needed) {
  Size size = table->last ? Min(table->last->size * 2, LARGEST_CHUNK) : FIRST_CHUNK;
  JoinChunk *chunk;

  size = Max(size, needed);
  chunk = MemoryContextAllocHuge(table->memory, offsetof(JoinChunk, data) + size);
  if (((uint64)(uintptr_t)chunk + size) >> POINTER_BITS)
    ereport(ERROR, (errmsg("memory beyond 48 bits of address cannot hold a BatchHashJoin"),
                    errhint("Set ccopt.enable_batch_join to off.")));
  chunk->next = NULL;
  chunk->size = size;
  chunk->filled = 0;
  if (table->last)
    table->last->next = chunk;
  else
    table->first = chunk;
  table->last = chunk;
  table->used += size;
}

JoinRow *join_table_room(JoinTable *table, uint32 size) {
  JoinRow *row;

  Assert(size % 8 == 0 && table->buckets == NULL);
  if (table->last == NULL || table->last->size - table->last->filled < size) add_chunk(table, size);
  row = (JoinRow *)(table->last->data + table->last->filled);
  table->last->filled += size;
  table->nrows++;
  return row;
}

void join_row_scan_begin(JoinRowScan *scan, const JoinTable *table) {
  scan->chunk = table->first;
  scan->offset = 0;
}

JoinRow *join_row_scan_next(JoinRowScan *scan) {
  JoinRow *row;

  while (scan->chunk != NULL && scan->offset == scan->chunk->filled) {
    scan->chunk = scan->chunk->next;
    scan->offset = 0;
  }
  if (scan->chunk == NULL) return NULL;
  row = (JoinRow *)(scan->chunk->data + scan->offset);
  scan->offset += join_row_size(row);
  return row;
}

/* ---- buckets ---- */

#define MOST_BUCKETS (UINT64CONST(1) << 31)

static uint64 bucket_count(int64 nlinked) {
  return Min(pg_nextpower2_64(Max(nlinked, 16)), MOST_BUCKETS);
}

Size join_table_memory(const JoinTable *table) {
  return table->used + bucket_count(table->nlinked) * sizeof(*table->buckets);
}

/* Two of the sixteen tags, chosen by other bits than the bucket and the partition. */
static inline uint64 tags_of(uint32 hash) {
  uint32 bits = hash * 0x85EBCA77u;
  return (UINT64CONST(1) << POINTER_BITS << (bits >> 28)) |
         (UINT64CONST(1) << POINTER_BITS << (bits >> 24 & 15));
}

/* A bucket is prefetched this many rows before its use: about the time of a memory access. */
#define LINK_AHEAD 32

void join_table_link(JoinTable *table) {
  uint64 count = bucket_count(table->nlinked);
  JoinRowScan scan;
  JoinRow *row, *ahead[LINK_AHEAD];
  int64 taken = 0, waiting = 0;

  table->mask = (uint32)(count - 1);
  table->buckets = MemoryContextAllocExtended(table->memory, count * sizeof(*table->buckets),
                                              MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
  table->peak = Max(table->peak, table->used + count * sizeof(*table->buckets));

  join_row_scan_begin(&scan, table);
  do {
    row = join_row_scan_next(&scan);
    if (row != NULL) {
      if (row->size & ROW_KEY_IS_NULL) continue;
      __builtin_prefetch(&table->buckets[row->hash & table->mask], 1);
    }
    if (taken - waiting == LINK_AHEAD || (row == NULL && taken > waiting)) {
      JoinRow *link = ahead[waiting++ % LINK_AHEAD];
      uint64 *bucket = &table->buckets[link->hash & table->mask];

      link->next = *bucket & POINTER_MASK;
      *bucket = (*bucket & ~POINTER_MASK) | tags_of(link->hash) | (uint64)(uintptr_t)link;
    }
    if (row != NULL) ahead[taken++ % LINK_AHEAD] = row;
  } while (row != NULL || taken > waiting);
}

void join_table_forget_matches(JoinTable *table) {
  JoinRowScan scan;
  JoinRow *row;

  join_row_scan_begin(&scan, table);
  while ((row = join_row_scan_next(&scan)) != NULL) row->size &= ~ROW_MATCHED;
}

/* ---- a block that processes share ---- */

static char *rows_of_block(char *base, const JoinBlock *block) {
  return base + bucket_count(block->nlinked) * sizeof(uint64);
}

Size join_table_filled(const JoinTable *table) {
  Size filled = 0;
  for (const JoinChunk *chunk = table->first; chunk != NULL; chunk = chunk->next)
    filled += chunk->filled;
  return filled;
}

Size join_block_size(const JoinBlock *block) {
  return bucket_count(block->nlinked) * sizeof(uint64) + offsetof(JoinChunk, data) + block->bytes;
}

void join_block_format(char *base, const JoinBlock *block) {
  JoinChunk *chunk = (JoinChunk *)rows_of_block(base, block);

  memset(base, 0, (char *)chunk - base);
  chunk->next = NULL;
  chunk->size = chunk->filled = block->bytes;
}

/* As of a table's own bucket, while other processes do the same. */
static void link_shared(uint64 *buckets, uint32 mask, char *base, JoinRow *row) {
  pg_atomic_uint64 *bucket = (pg_atomic_uint64 *)&buckets[row->hash & mask];
  uint64 old = pg_atomic_read_u64(bucket);
  uint64 linked;

  do {
    row->next = old & POINTER_MASK;
    linked = (old & ~POINTER_MASK) | tags_of(row->hash) | (uint64)((char *)row - base);
  } while (!pg_atomic_compare_exchange_u64(bucket, &old, linked));
}

static void link_bytes(char *rows, Size bytes, char *base, uint32 mask) {
  uint64 *buckets = (uint64 *)base;
  JoinRow *ahead[LINK_AHEAD];
  int64 taken = 0;

  for (Size at = 0; at < bytes; taken++) {
    JoinRow *row = (JoinRow *)(rows + at);

    __builtin_prefetch(&buckets[row->hash & mask], 1);
    if (taken >= LINK_AHEAD) link_shared(buckets, mask, base, ahead[taken % LINK_AHEAD]);
    ahead[taken % LINK_AHEAD] = row;
    at += join_row_size(row);
  }
  for (int64 i = Max(taken - LINK_AHEAD, 0); i < taken; i++)
    link_shared(buckets, mask, base, ahead[i % LINK_AHEAD]);
}

void join_table_move_rows(JoinTable *table, char *base, const JoinBlock *block, Size at) {
  char *rows = ((JoinChunk *)rows_of_block(base, block))->data;
  uint32 mask = (uint32)(bucket_count(block->nlinked) - 1);

  /* Rows with a NULL key are in no bucket; a table that is shared has none. */
  Assert(table->nrows == table->nlinked);
  for (const JoinChunk *chunk = table->first; chunk != NULL; chunk = chunk->next) {
    CHECK_FOR_INTERRUPTS();
    memcpy(rows + at, chunk->data, chunk->filled);
    link_bytes(rows + at, chunk->filled, base, mask);
    at += chunk->filled;
  }
  join_table_clear(table);
}

void join_table_attach(JoinTable *table, char *base, const JoinBlock *block) {
  Assert(table->nrows == 0);
  MemoryContextReset(table->memory);
  table->base = base;
  table->buckets = (uint64 *)base;
  table->mask = (uint32)(bucket_count(block->nlinked) - 1);
  table->first = table->last = (JoinChunk *)rows_of_block(base, block);
  table->nrows = table->nlinked = block->nlinked;
  table->used = block->bytes;
  table->peak = Max(table->peak, join_block_size(block));
}

/* ---- probing ---- */

static inline JoinRow *row_at(const JoinTable *table, uint64 distance) {
  return (JoinRow *)((uintptr_t)table->base + distance);
}

JoinProbe *join_probe_create(void) {
  JoinProbe *probe = palloc0(sizeof(*probe));

  probe->outer = palloc(sizeof(*probe->outer) * BATCH_ROWS);
  probe->inner = palloc(sizeof(*probe->inner) * BATCH_ROWS);
  probe->active = palloc(sizeof(*probe->active) * BATCH_ROWS);
  probe->at = palloc(sizeof(*probe->at) * BATCH_ROWS);
  return probe;
}

void join_probe_begin(JoinProbe *probe, const JoinTable *table, const KeyVector *keys,
                      const uint8 *marked) {
  const uint32 *hash = keys->hash;
  const uint64 *buckets = table->buckets;
  uint32 mask = table->mask;
  int n = 0;

  probe->keys = keys;
  probe->npairs = 0;
  probe->position = probe->kept = probe->nactive = 0;
  if (table->nlinked == 0) return;
  for (int i = 0; i < keys->n; i++) __builtin_prefetch(&buckets[hash[keys->rows[i]] & mask]);
  for (int i = 0; i < keys->n; i++) {
    uint16 row = keys->rows[i];
    uint64 bucket = buckets[hash[row] & mask];
    uint64 tags = tags_of(hash[row]);
    JoinRow *first = row_at(table, bucket & POINTER_MASK);

    probe->active[n] = row;
    probe->at[n] = first;
    __builtin_prefetch(first);
    n += (bucket & tags) == tags;
  }
  if (marked != NULL) {
    int left = 0;
    for (int i = 0; i < n; i++) {
      probe->active[left] = probe->active[i];
      probe->at[left] = probe->at[i];
      left += !marked[probe->active[i]];
    }
    n = left;
  }
  probe->nactive = n;
}

static bool same_keys(const JoinTable *table, const KeyVector *keys, uint16 row,
                      const JoinRow *packed) {
  const RowLayout *layout = table->layout;

  if (packed->hash != keys->hash[row]) return false;
  for (int k = 0; k < layout->nkeys; k++) {
    const char *stored = (const char *)packed + layout->key_offset[k];

    if (!layout->keys[k].is_text) {
      if (*(const int64 *)stored != keys->number[k][row]) return false;
    } else {
      KeyBytes theirs =
          key_bytes((const char *)packed + *(const uint32 *)stored, layout->keys[k].blank_padded);
      KeyBytes ours = keys->bytes[k][row];
      if (theirs.length != ours.length || memcmp(theirs.data, ours.data, ours.length) != 0)
        return false;
    }
  }
  return true;
}

/*
 * Follows the chains of all active rows step by step until there are as many pairs as a batch has
 * rows. `one_number` and `mode` are constants at each call.
 */
static pg_attribute_always_inline bool walk_chains(JoinProbe *probe, const JoinTable *table,
                                                   ProbeMode mode, const uint8 *marked,
                                                   bool one_number) {
  const KeyVector *keys = probe->keys;
  const int64 *number = one_number ? keys->number[0] : NULL;
  uint16 *active = probe->active;
  JoinRow **at = probe->at;
  int npairs = 0, kept = probe->kept, position = probe->position, nactive = probe->nactive;

  while (nactive > 0) {
    CHECK_FOR_INTERRUPTS(); /* chains of one frequent key are long */
    for (; position < nactive; position++) {
      uint16 row = active[position];
      JoinRow *packed = at[position];
      JoinRow *next;
      bool equal;

      if (npairs == BATCH_ROWS) goto full;
      if (mode == PROBE_NEW_OUTER_ROWS && marked[row]) continue;
      if (one_number)
        equal = *(const int64 *)(packed + 1) == number[row];
      else
        equal = same_keys(table, keys, row, packed);
      if (mode == PROBE_NEW_INNER_ROWS) equal = equal && !(packed->size & ROW_MATCHED);
      if (mode == PROBE_MARK_INNER_ROWS && equal) {
        /* The probe that marked this row continues with the others of its key, or has done so. */
        if (packed->size & ROW_MATCHED) continue;
        packed->size |= ROW_MATCHED;
      }
      probe->outer[npairs] = row;
      probe->inner[npairs] = packed;
      npairs += equal;
      if (mode == PROBE_FIRST && equal) continue;
      next = row_at(table, packed->next);
      __builtin_prefetch(next);
      active[kept] = row;
      at[kept] = next;
      kept += packed->next != 0;
    }
    nactive = kept;
    kept = position = 0;
  }
full:
  probe->npairs = npairs;
  probe->nactive = nactive;
  probe->position = position;
  probe->kept = kept;
  return npairs > 0;
}

bool join_probe_next(JoinProbe *probe, const JoinTable *table, ProbeMode mode,
                     const uint8 *marked) {
  const RowLayout *layout = table->layout;
  bool one_number = layout->nkeys == 1 && !layout->keys[0].is_text;

  if (one_number) {
    switch (mode) {
      case PROBE_ALL: return walk_chains(probe, table, PROBE_ALL, marked, true);
      case PROBE_FIRST: return walk_chains(probe, table, PROBE_FIRST, marked, true);
      default: return walk_chains(probe, table, mode, marked, true);
    }
  }
  return walk_chains(probe, table, mode, marked, false);
}
