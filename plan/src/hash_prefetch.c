/*
 * Prefetches a hash table before its rows arrive: execution.
 */
#include "hash_prefetch.h"

#include "batch_scan.h"
#include "costs.h"
#include "costs_in_force.h"
#include "executor/hashjoin.h"
#include "executor/nodeAgg.h"
#include "hash_keys.h"

/*
 * If prefetching saves less than the cost of a row through a buffer, rows are passed through; for a
 * batch, no rows are copied.
 */
#define BUFFER_NS 25
#define BATCH_NS 6
/* While it is not worthwhile: rows until the table's size is read again. */
#define ROWS_UNTIL_NEXT_LOOK 1024

typedef enum TableState { TABLE_UNKNOWN, TABLE_AGREES, TABLE_DIFFERS } TableState;

typedef struct HashPrefetch {
  BufferHelper helper; /* must be first: the part that the Buffer uses */
  PlanState *parent;
  double worth_ns;
  int nkeys;
  AttrNumber attnos[HASH_KEYS_MOST];
  Oid types[HASH_KEYS_MOST];
  int columns[HASH_KEYS_MOST]; /* columns of the batch */
  TableState state;
  uint32 hashes[BATCH_ROWS];
  double changes; /* recent share of rows with another key than the row before */
  /* for a visitor: batches until the table's size is read again, and the result */
  int batches;
  bool pays;
} HashPrefetch;

/* ---- core's tables ---- */

static HashJoinTable join_table(PlanState *parent) {
  return ((HashJoinState *)parent)->hj_HashTable;
}

static TupleHashTable group_table(PlanState *parent) {
  AggState *agg = (AggState *)parent;
  return agg->perhash && !agg->table_filled ? agg->perhash[0].hashtable : NULL;
}

static double bytes_of(PlanState *parent) {
  if (IsA(parent, HashJoinState)) return join_table(parent)->spaceUsed;
  const tuplehash_hash *table = group_table(parent)->hashtab;
  return (double)table->size * sizeof(TupleHashEntryData) +
         table->members * ((AggState *)parent)->hashentrysize;
}

/* The number of misses of a probe, out of the two dependent ones that the costs assume. In a
 * table with few rows most buckets are empty, and a probe ends early. */
static double misses(PlanState *parent) {
  if (IsA(parent, AggState)) return 1;
  const HashJoinTableData *table = join_table(parent);
  return 0.25 + 0.75 * Min(1, table->totalTuples / table->nbuckets);
}

/* The reason why prefetching would gain nothing now, or NULL. */
static const char *look_at_table(HashPrefetch *prefetch) {
  const CostConstants *costs = cost_constants();
  PlanState *parent = prefetch->parent;
  double bytes;
  double saved;

  if (prefetch->state == TABLE_DIFFERS) return "hash values are not those that were expected";
  if (IsA(parent, HashJoinState)) {
    if (join_table(parent) == NULL) return "the hash table is not there yet";
    if (join_table(parent)->parallel_state) return "the hash table is shared by workers";
    if (join_table(parent)->nbatch > 1) return "the hash table is in several batches";
  } else if (group_table(parent) == NULL) {
    return "the hash table is not there yet";
  }
  bytes = bytes_of(parent);
  saved = memory_ns(costs->probe_plain, bytes) - memory_ns(costs->probe_prefetched, bytes);
  if (saved * misses(parent) * prefetch->changes < prefetch->worth_ns)
    return "the hash table is small enough for the caches";
  return NULL;
}

/* ---- check of the hash values against core's ---- */

static bool keys_of_tuple(MinimalTuple tuple, TupleTableSlot *slot, const AttrNumber *attnos,
                          int nkeys, uint32 *hash) {
  *hash = 0;
  ExecStoreMinimalTuple(tuple, slot, false);
  for (int i = 0; i < nkeys; i++) {
    bool isnull;
    Datum value = slot_getattr(slot, attnos[i], &isnull);
    if (isnull) return false;
    *hash = hash_combined(
        *hash,
        integer_of_datum(value, TupleDescAttr(slot->tts_tupleDescriptor, attnos[i] - 1)->atttypid));
  }
  return true;
}

static HashJoinTuple first_tuple(HashJoinTable table) {
  for (int i = 0; i < table->nbuckets; i++)
    if (table->buckets.unshared[i]) return table->buckets.unshared[i];
  return NULL;
}

bool hash_values_agree(HashJoinState *join) {
  const Hash *hash = (const Hash *)innerPlan(join->js.ps.plan);
  HashJoinTuple tuple = first_tuple(join->hj_HashTable);
  AttrNumber attnos[HASH_KEYS_MOST];
  TupleTableSlot *slot;
  ListCell *cell;
  uint32 expected;
  int nkeys = 0;
  bool agrees;

  if (tuple == NULL) return true;
  foreach (cell, hash->hashkeys) {
    const Var *key = lfirst(cell);
    if (!IsA(key, Var) || !is_hashed_as_integer(key->vartype) || nkeys == HASH_KEYS_MOST)
      return false;
    attnos[nkeys++] = key->varattno;
  }
  slot = MakeSingleTupleTableSlot(ExecGetResultType(innerPlanState(join)), &TTSOpsMinimalTuple);
  /* A NULL key (of a right join) has a special hash value, which proves nothing. */
  agrees = !keys_of_tuple(HJTUPLE_MINTUPLE(tuple), slot, attnos, nkeys, &expected) ||
           expected == tuple->hashvalue;
  ExecDropSingleTupleTableSlot(slot);
  return agrees;
}

/* UNKNOWN until there is a group to compare. */
static TableState groups_agree(AggState *agg) {
  TupleHashTable table = agg->perhash[0].hashtable;
  tuplehash_iterator iterator;
  TupleHashEntry entry;
  AttrNumber attnos[HASH_KEYS_MOST];
  uint32 expected;

  tuplehash_start_iterate(table->hashtab, &iterator);
  entry = tuplehash_iterate(table->hashtab, &iterator);
  if (entry == NULL || agg->perhash[0].numCols > HASH_KEYS_MOST) return TABLE_UNKNOWN;
  for (int i = 0; i < agg->perhash[0].numCols; i++)
    attnos[i] = agg->perhash[0].hashGrpColIdxHash[i];
  TupleTableSlot *slot =
      MakeSingleTupleTableSlot(table->tableslot->tts_tupleDescriptor, &TTSOpsMinimalTuple);
  bool whole = keys_of_tuple(entry->firstTuple, slot, attnos, agg->perhash[0].numCols, &expected);
  ExecDropSingleTupleTableSlot(slot);
  if (!whole) return TABLE_UNKNOWN;
  return murmurhash32(expected) == entry->hash ? TABLE_AGREES : TABLE_DIFFERS;
}

static bool agrees(HashPrefetch *prefetch) {
  if (prefetch->state == TABLE_UNKNOWN)
    prefetch->state = IsA(prefetch->parent, AggState) ? groups_agree((AggState *)prefetch->parent)
                      : hash_values_agree((HashJoinState *)prefetch->parent) ? TABLE_AGREES
                                                                             : TABLE_DIFFERS;
  return prefetch->state == TABLE_AGREES;
}

/* ---- touching ---- */

/* Two rounds: the second reads what the first prefetched. */
static void touch_join(HashJoinTable table, const uint32 *hashes, int n) {
  uint32 mask = (uint32)table->nbuckets - 1;
  for (int i = 0; i < n; i++) __builtin_prefetch(&table->buckets.unshared[hashes[i] & mask]);
  for (int i = 0; i < n; i++) {
    HashJoinTuple tuple = table->buckets.unshared[hashes[i] & mask];
    if (tuple) __builtin_prefetch(tuple);
  }
}

static void touch_groups(TupleHashTable table, const uint32 *hashes, int n) {
  const tuplehash_hash *hash = table->hashtab;
  for (int i = 0; i < n; i++)
    __builtin_prefetch(&hash->data[murmurhash32(hashes[i]) & hash->sizemask]);
  for (int i = 0; i < n; i++) {
    const TupleHashEntryData *entry = &hash->data[murmurhash32(hashes[i]) & hash->sizemask];
    if (entry->status == 0) continue;
    /* The group's tuple, and its transition states, which were allocated after it. */
    __builtin_prefetch(entry->firstTuple);
    __builtin_prefetch((const char *)entry->firstTuple + PG_CACHE_LINE_SIZE / 2);
  }
}

/* Adjacent rows with the same key miss once. */
static void count_changes(HashPrefetch *prefetch, int n) {
  int changes = 0;
  for (int i = 1; i < n; i++) changes += prefetch->hashes[i] != prefetch->hashes[i - 1];
  prefetch->changes = (changes + 1.0) / Max(n, 1);
}

static void touch(HashPrefetch *prefetch, int n) {
  count_changes(prefetch, n);
  if (IsA(prefetch->parent, AggState))
    touch_groups(group_table(prefetch->parent), prefetch->hashes, n);
  else
    touch_join(join_table(prefetch->parent), prefetch->hashes, n);
}

/* ---- of a Buffer's rows ---- */

static const char *ready(BufferHelper *helper, int *ask_again) {
  HashPrefetch *prefetch = (HashPrefetch *)helper;
  const char *reason = look_at_table(prefetch);
  *ask_again = 1;
  if (reason == NULL) return NULL;
  /* A join reads one row before it builds its table. */
  if (IsA(prefetch->parent, AggState) || join_table(prefetch->parent))
    *ask_again = ROWS_UNTIL_NEXT_LOOK;
  return reason;
}

static void gathered(BufferHelper *helper, BufferRows *rows) {
  HashPrefetch *prefetch = (HashPrefetch *)helper;
  int n = Min(rows->nrows, BATCH_ROWS);
  int hashed = 0;

  if (!agrees(prefetch)) return;
  for (int i = 0; i < n; i++) {
    uint32 hash = 0;
    bool isnull = false;
    for (int key = 0; key < prefetch->nkeys && !isnull; key++) {
      Datum value = buffer_rows_value(rows, i, prefetch->attnos[key], &isnull);
      if (!isnull) hash = hash_combined(hash, integer_of_datum(value, prefetch->types[key]));
    }
    if (!isnull) prefetch->hashes[hashed++] = hash;
  }
  touch(prefetch, hashed);
}

/* ---- of a BatchScan's rows ---- */

static bool pays(HashPrefetch *prefetch) {
  if (prefetch->batches-- > 0) return prefetch->pays;
  prefetch->batches = 4;
  prefetch->pays = look_at_table(prefetch) == NULL && agrees(prefetch);
  return prefetch->pays;
}

static void visit(void *state, Batch *batch) {
  HashPrefetch *prefetch = state;
  bool table_is_there = IsA(prefetch->parent, AggState) ? group_table(prefetch->parent) != NULL
                                                        : join_table(prefetch->parent) != NULL;

  /* Checked each time: a rescan may have removed the table. */
  if (!table_is_there || !pays(prefetch)) return;
  for (int key = 0; key < prefetch->nkeys; key++) {
    int index = prefetch->columns[key];
    const BatchColumn *column = &batch->columns[index];
    batch_decode(batch, index);
    for (int i = 0; i < batch->nselected; i++) {
      int row = batch->selected[i];
      int64 value = column->where[row] ? column->number[row] : 0;
      prefetch->hashes[i] =
          key == 0 ? hash_integer(value) : hash_combined(prefetch->hashes[i], value);
    }
  }
  touch(prefetch, batch->nselected);
}

/* ---- making ---- */

static HashPrefetch *make(PlanState *parent, PlanState *child) {
  List *keys = hashed_integer_keys(parent->plan);
  TupleDesc descriptor = ExecGetResultType(child);
  HashPrefetch *prefetch;
  ListCell *cell;

  if (keys == NIL) return NULL;
  prefetch = MemoryContextAllocZero(parent->state->es_query_cxt, sizeof(*prefetch));
  prefetch->parent = parent;
  prefetch->changes = 1;
  foreach (cell, keys) {
    prefetch->attnos[prefetch->nkeys] = lfirst_int(cell);
    prefetch->types[prefetch->nkeys] = TupleDescAttr(descriptor, lfirst_int(cell) - 1)->atttypid;
    prefetch->nkeys++;
  }
  return prefetch;
}

BufferHelper *hash_prefetch_helper(PlanState *parent, PlanState *buffer) {
  HashPrefetch *prefetch = make(parent, buffer);
  if (prefetch == NULL) return NULL;
  prefetch->worth_ns = BUFFER_NS;
  prefetch->helper = (BufferHelper){.ready = ready, .gathered = gathered};
  return &prefetch->helper;
}

bool hash_prefetch_visit(PlanState *parent, PlanState *scan) {
  HashPrefetch *prefetch = make(parent, scan);
  if (prefetch == NULL) return false;
  prefetch->worth_ns = BATCH_NS;
  for (int i = 0; i < prefetch->nkeys; i++) {
    prefetch->columns[i] = batch_scan_column_of_resno(scan, prefetch->attnos[i]);
    if (prefetch->columns[i] < 0) return false;
  }
  return batch_scan_add_visitor(scan, visit, NULL, prefetch);
}
