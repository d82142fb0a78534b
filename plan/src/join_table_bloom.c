/*
 * A Bloom filter of the finished table's keys, for the scan whose rows will probe it: rows without
 * a match are dropped there, before they reach any other join.
 *
 * All bits of a key are in one 64-bit word, so that a test is one memory access (a blocked Bloom
 * filter: Putze, Sanders, Singler, Cache-, Hash- and Space-Efficient Bloom Filters, 2007). With 8
 * to 16 bits a key about 2 to 5 of 100 other keys pass.
 */
#include "join_table.h"

#include "batch_join.h"
#include "batch_scan.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

struct KeyFilter {
  KeyVector *keys; /* of the scan's batches */
  MemoryContext memory;
  uint64 *words; /* NULL: all rows pass */
  int shift;
  int64 seen, passed;
  int64 seen_before, passed_before; /* counts of tables before the present one */
};

/* By measurement, a filter that more than 70 % of the rows pass costs more than it saves. */
#define TRIAL_ROWS 20000
#define WORTHLESS_SHARE 0.7
/* For a filter larger than second-level caches, a test costs as much as the probe. */
#define LARGEST_FILTER ((uint64)8 * 1024 * 1024)

/* Four of 64 bits, chosen by 24 bits of the hash. */
static inline uint64 bits_of_hash(uint32 hash) {
  uint32 bits = hash * 0x27D4EB2Fu >> 8;
  return UINT64CONST(1) << (bits & 63) | UINT64CONST(1) << (bits >> 6 & 63) |
         UINT64CONST(1) << (bits >> 12 & 63) | UINT64CONST(1) << (bits >> 18 & 63);
}

static inline uint64 *word_of_hash(const KeyFilter *filter, uint32 hash) {
  return &filter->words[hash * UINT64CONST(0x9E3779B97F4A7C15) >> filter->shift];
}

static void drop_strangers(void *state, Batch *batch) {
  KeyFilter *filter = state;
  KeyVector *keys = filter->keys;
  int n = 0;

  if (filter->words == NULL) return;
  key_vector_fill(keys, batch);
  filter->seen += batch->nselected;
  for (int i = 0; i < keys->n; i++)
    __builtin_prefetch(word_of_hash(filter, keys->hash[keys->rows[i]]));
  for (int i = 0; i < keys->n; i++) {
    uint16 row = keys->rows[i];
    uint64 bits = bits_of_hash(keys->hash[row]);
    batch->selected[n] = row;
    n += (*word_of_hash(filter, keys->hash[row]) & bits) == bits;
  }
  batch->nselected = n;
  filter->passed += n;
  if (filter->seen >= TRIAL_ROWS && filter->passed > WORTHLESS_SHARE * filter->seen)
    key_filter_stop(filter);
}

/* Follows a target entry down to the scan that reads it, through joins that pass the rows of
 * their probing side on unchanged. */
static PlanState *find_scan(PlanState *node, int *resno) {
  while (batch_join_passes_outer(node, resno, &node))
    ;
  return is_batch_scan(node) ? node : NULL;
}

KeyFilter *key_filter_attach(PlanState *node, int nkeys, const int *resnos, const JoinKey *keys) {
  KeyFilter *filter;
  PlanState *scan = NULL;
  JoinKey *scan_keys = palloc(sizeof(*scan_keys) * nkeys);

  for (int k = 0; k < nkeys; k++) {
    int resno = resnos[k];
    PlanState *found = find_scan(node, &resno);

    if (found == NULL || (scan != NULL && found != scan)) return NULL;
    scan = found;
    scan_keys[k] = keys[k];
    scan_keys[k].column = batch_scan_column_of_resno(scan, resno);
    if (scan_keys[k].column < 0) return NULL;
  }
  filter = palloc0(sizeof(*filter));
  filter->keys = key_vector_create(nkeys, scan_keys);
  filter->memory =
      AllocSetContextCreate(CurrentMemoryContext, "BatchHashJoin filter", ALLOCSET_SMALL_SIZES);
  if (!batch_scan_add_visitor(scan, drop_strangers, NULL, filter)) return NULL;
  return filter;
}

void key_filter_start(KeyFilter *filter, const JoinTable *table) {
  uint64 count = pg_nextpower2_64(Max(table->nlinked / 8, 8));
  JoinRowScan scan;
  JoinRow *row;

  key_filter_stop(filter);
  if (count * sizeof(uint64) > LARGEST_FILTER) return;
  filter->words = MemoryContextAllocZero(filter->memory, count * sizeof(uint64));
  filter->shift = 64 - pg_leftmost_one_pos64(count);
  join_row_scan_begin(&scan, table);
  while ((row = join_row_scan_next(&scan)) != NULL)
    if (!(row->size & ROW_KEY_IS_NULL)) *word_of_hash(filter, row->hash) |= bits_of_hash(row->hash);
}

void key_filter_stop(KeyFilter *filter) {
  filter->words = NULL;
  MemoryContextReset(filter->memory);
  filter->seen_before += filter->seen;
  filter->passed_before += filter->passed;
  filter->seen = filter->passed = 0;
}

void key_filter_counts(const KeyFilter *filter, int64 *seen, int64 *passed) {
  *seen = filter->seen_before + filter->seen;
  *passed = filter->passed_before + filter->passed;
}
