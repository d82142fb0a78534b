/*
 * Bloom filters that are built from finished hash tables.
 *
 * Rows without a match in the join are dropped: inner, semi and right joins, single-batch tables.
 * Their number is unknown in advance, so a filter is tested first:
 *
 *     WAITING    no table yet
 *     TRYING     the first rows are looked up in core's table, which is exact
 *     FILTERING  most had no partner: the filter is built from core's hash values, in the order
 *                of their addresses
 *     OFF        most rows pass, or the table is not suitable
 *
 *     WAITING ── look_for_table ──> TRYING ── judge ──> FILTERING ── judge ──> OFF
 *       ^            └──────────────────────────┴─────────────────────────────> OFF
 *       └── table_is_gone, from each of them
 *
 * Invariants:
 *  1. The table belongs to the join, which frees it at a rescan if its inner side changed. The
 *     filter does not outlive it: a callback of the table's memory context resets it to WAITING.
 *  2. A filter lives as long as the statement's execution (es_query_cxt), like its scan.
 */
#include "bloom.h"

#include "batch_scan.h"
#include "executor/hashjoin.h"
#include "hash_keys.h"
#include "hash_prefetch.h"

/* Rows looked up before the first decision, and rows filtered before each further one. */
#define TRIED_ROWS 1000
#define PROVEN_ROWS 20000
/* If a larger share of rows passes, a filter only adds cost. */
#define MOST_PASSING 0.7
/* For a table with more rows the filter itself would miss the caches. */
#define MOST_TUPLES (4.0 * 1024 * 1024)
/* 16 bits a tuple, three of them set, all in one word: 2 % of other keys pass. */
#define BITS_PER_TUPLE 16

typedef enum BloomPhase { BLOOM_WAITING, BLOOM_TRYING, BLOOM_FILTERING, BLOOM_OFF } BloomPhase;

typedef struct Bloom {
  HashJoinState *join;
  PlanState *scan;
  int column; /* column of the scan's batch */
  BloomPhase phase;
  const char *off_because;
  uint64 *words;
  int shift; /* 64 - log2 of the number of words */
  Size allocated;
  /* counted since the table exists */
  uint64 seen;
  uint64 passed;
  /* for EXPLAIN ANALYZE: counted while filtering */
  uint64 rows_in;
  uint64 rows_out;
} Bloom;

/* ---- the table's life ---- */

static void table_is_gone(void *argument) {
  Bloom *bloom = argument;
  bloom->phase = BLOOM_WAITING;
  bloom->seen = bloom->passed = 0;
}

static void turn_off(Bloom *bloom, const char *because) {
  bloom->phase = BLOOM_OFF;
  bloom->off_because = because;
}

/* Called while waiting: checks whether the table exists and is suitable. */
static void look_for_table(Bloom *bloom) {
  HashJoinTable table = bloom->join->hj_HashTable;
  MemoryContextCallback *callback;

  /* A join asks its outer side for rows before it builds its table, or when the table is
   * complete.
   */
  if (table == NULL) return;
  callback = MemoryContextAlloc(table->hashCxt, sizeof(*callback));
  callback->func = table_is_gone;
  callback->arg = bloom;
  MemoryContextRegisterResetCallback(table->hashCxt, callback);
  if (table->parallel_state)
    turn_off(bloom, "the hash table is shared by workers");
  else if (table->nbatch > 1)
    turn_off(bloom, "the hash table is in several batches");
  else if (table->totalTuples > MOST_TUPLES)
    turn_off(bloom, "the hash table has too many rows");
  else if (!hash_values_agree(bloom->join))
    turn_off(bloom, "hash values are not those that were expected");
  else
    bloom->phase = BLOOM_TRYING;
}

/* ---- the filter ---- */

static inline uint64 spread(uint32 hash) { return hash * UINT64CONST(0x9E3779B97F4A7C15); }

static inline uint64 bits_of(uint64 spread_hash) {
  return UINT64CONST(1) << (spread_hash >> 8 & 63) | UINT64CONST(1) << (spread_hash >> 16 & 63) |
         UINT64CONST(1) << (spread_hash >> 24 & 63);
}

static void make_filter(Bloom *bloom) {
  HashJoinTable table = bloom->join->hj_HashTable;
  double bits = Max(table->totalTuples, 64) * BITS_PER_TUPLE;
  int log2_words = 0;
  Size bytes;

  while (64.0 * (1 << log2_words) < bits) log2_words++;
  /* A shift by 64 is undefined; two words work as well as one. */
  log2_words = Max(log2_words, 1);
  bytes = sizeof(uint64) << log2_words;
  if (bytes > bloom->allocated) {
    if (bloom->words) pfree(bloom->words);
    bloom->words = MemoryContextAlloc(bloom->scan->state->es_query_cxt, bytes);
    bloom->allocated = bytes;
  }
  memset(bloom->words, 0, bytes);
  bloom->shift = 64 - log2_words;
  for (HashMemoryChunk chunk = table->chunks; chunk; chunk = chunk->next.unshared) {
    for (Size at = 0; at < chunk->used;) {
      HashJoinTuple tuple = (HashJoinTuple)(HASH_CHUNK_DATA(chunk) + at);
      uint64 hash = spread(tuple->hashvalue);
      bloom->words[hash >> bloom->shift] |= bits_of(hash);
      at += MAXALIGN(HJTUPLE_OVERHEAD + HJTUPLE_MINTUPLE(tuple)->t_len);
    }
  }
  bloom->phase = BLOOM_FILTERING;
}

/* ---- rows ---- */

/* Keeps rows whose hash value is in core's table. */
static int try_rows(const Bloom *bloom, Batch *batch) {
  const BatchColumn *column = &batch->columns[bloom->column];
  HashJoinTable table = bloom->join->hj_HashTable;
  uint32 mask = (uint32)table->nbuckets - 1;
  int kept = 0;

  for (int i = 0; i < batch->nselected; i++) {
    uint16 row = batch->selected[i];
    HashJoinTuple tuple;
    uint32 hash;
    /* A NULL equals nothing. */
    if (column->where[row] == NULL) continue;
    hash = hash_integer(column->number[row]);
    for (tuple = table->buckets.unshared[hash & mask]; tuple; tuple = tuple->next.unshared)
      if (tuple->hashvalue == hash) break;
    if (tuple) batch->selected[kept++] = row;
  }
  return kept;
}

static int filter_rows(const Bloom *bloom, Batch *batch) {
  const BatchColumn *column = &batch->columns[bloom->column];
  int kept = 0;

  for (int i = 0; i < batch->nselected; i++) {
    uint16 row = batch->selected[i];
    bool isnull = column->has_nulls && column->where[row] == NULL;
    uint64 hash = spread(hash_integer(isnull ? 0 : column->number[row]));
    uint64 bits = bits_of(hash);
    batch->selected[kept] = row;
    kept += !isnull && (bloom->words[hash >> bloom->shift] & bits) == bits;
  }
  return kept;
}

static void judge(Bloom *bloom) {
  bool most_pass = bloom->passed > MOST_PASSING * bloom->seen;
  if (bloom->phase == BLOOM_TRYING && bloom->seen >= TRIED_ROWS) {
    if (most_pass)
      turn_off(bloom, "most rows have a partner");
    else
      make_filter(bloom);
    bloom->seen = bloom->passed = 0;
  } else if (bloom->phase == BLOOM_FILTERING && bloom->seen >= PROVEN_ROWS) {
    if (most_pass) turn_off(bloom, "most rows pass");
    bloom->seen = bloom->passed = 0;
  }
}

static void visit(void *state, Batch *batch) {
  Bloom *bloom = state;
  int before = batch->nselected;

  if (bloom->phase == BLOOM_WAITING) look_for_table(bloom);
  if (bloom->phase != BLOOM_TRYING && bloom->phase != BLOOM_FILTERING) return;
  batch_decode(batch, bloom->column);
  batch->nselected =
      bloom->phase == BLOOM_TRYING ? try_rows(bloom, batch) : filter_rows(bloom, batch);
  bloom->seen += before;
  bloom->passed += batch->nselected;
  bloom->rows_in += before;
  bloom->rows_out += batch->nselected;
  judge(bloom);
}

/* ---- making, explaining ---- */

static void explain(const void *state, ExplainState *es) {
  const Bloom *bloom = state;
  ExplainPropertyInteger("Bloom Filter of Join", NULL, bloom->join->js.ps.plan->plan_node_id, es);
  ExplainPropertyUInteger("Bloom Filter Rows In", NULL, bloom->rows_in, es);
  ExplainPropertyUInteger("Bloom Filter Rows Out", NULL, bloom->rows_out, es);
  if (bloom->phase == BLOOM_OFF) ExplainPropertyText("Bloom Filter Off", bloom->off_because, es);
}

void bloom_attach(HashJoinState *join, PlanState *scan, AttrNumber resno) {
  MemoryContext context = scan->state->es_query_cxt;
  int column = batch_scan_column_of_resno(scan, resno);
  Bloom *bloom;

  if (column < 0) return;
  bloom = MemoryContextAllocZero(context, sizeof(*bloom));
  bloom->join = join;
  bloom->scan = scan;
  bloom->column = column;
  batch_scan_add_visitor(scan, visit, explain, bloom);
}
