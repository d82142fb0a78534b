/*
 * The column cache: shared memory, the table of chunks, pins.
 *
 * Invariants:
 *  1. All shared memory of the cache lies in one piece of ccopt.cache_mb, whose parts are laid out
 *     once, at the server's start. So the cache cannot grow beyond its limit.
 *  2. An entry is in the chain of its bucket, or in none. Chains are read under the bucket's lock in
 *     shared mode and changed under it in exclusive mode.
 *  3. A segment is emptied only by the process that changed its pins from 0 to SEGMENT_EVICTING. A
 *     reader adds its pin under the lock of the bucket in which it found the entry, and not while
 *     that mark is set. So an entry that is found and pinned stays, and so does its chunk.
 *  4. A published chunk does not change, except for map_lsn, which is written as a whole.
 *  5. A pin belongs to a resource owner: it is dropped with the scan, or with the owner if the
 *     statement fails or its process ends. After a crash of any process the postmaster makes
 *     new shared memory, empty.
 *
 *                 reserve, fill            publish                 find
 *   free segment ---------------> filling ---------> in the table <------ readers, pinned
 *        ^                                                |
 *        +------------------- evict (pins 0, cold) -------+
 */
#include "column_cache.h"

#include "column_cache_internal.h"

#include "common/hashfn.h"
#include "doors.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

ColumnCache *column_cache = NULL;

static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

/* ---- shared memory ---- */

static Size cache_bytes(void) { return (Size)ccopt_cache_mb * 1024 * 1024; }

/* Bytes beside the arena of nsegments segments. */
static Size bytes_beside(uint32 nsegments, uint32 nbuckets) {
  return CACHELINEALIGN(sizeof(ColumnCache)) +
         CACHELINEALIGN(sizeof(CacheSegment) * (Size)nsegments) +
         CACHELINEALIGN(sizeof(CacheEntry) * (Size)nsegments * SEGMENT_ENTRIES) +
         CACHELINEALIGN(sizeof(uint32) * (Size)nbuckets) + PG_CACHE_LINE_SIZE;
}

static uint32 buckets_of(uint32 nsegments) {
  return pg_nextpower2_32(Max(nsegments * (SEGMENT_ENTRIES / 2), CACHE_LOCKS));
}

static void lay_out(ColumnCache *cache, Size total) {
  uint32 nsegments = (uint32)(total / SEGMENT_BYTES);
  char *next;

  while (bytes_beside(nsegments, buckets_of(nsegments)) + (Size)nsegments * SEGMENT_BYTES > total)
    nsegments--;
  cache->total = total;
  cache->nsegments = nsegments;
  cache->nbuckets = buckets_of(nsegments);
  next = (char *)cache + CACHELINEALIGN(sizeof(*cache));
  cache->segments = (CacheSegment *)next;
  next += CACHELINEALIGN(sizeof(CacheSegment) * (Size)nsegments);
  cache->entries = (CacheEntry *)next;
  next += CACHELINEALIGN(sizeof(CacheEntry) * (Size)nsegments * SEGMENT_ENTRIES);
  cache->buckets = (uint32 *)next;
  next += CACHELINEALIGN(sizeof(uint32) * (Size)cache->nbuckets);
  cache->arena = (char *)CACHELINEALIGN(next);
  Assert(cache->arena + (Size)nsegments * SEGMENT_BYTES <= (char *)cache + total);
}

static void cache_init(ColumnCache *cache) {
  memset(cache, 0, sizeof(*cache));
  lay_out(cache, cache_bytes());
  cache->tranche = LWLockNewTrancheId();
  for (int i = 0; i < CACHE_LOCKS; i++) LWLockInitialize(&cache->locks[i].lock, cache->tranche);
  pg_atomic_init_u32(&cache->taken, 0);
  pg_atomic_init_u32(&cache->hand, 0);
  pg_atomic_init_u32(&cache->scans, 0);
  for (int i = 0; i < CACHE_OPEN_SEGMENTS; i++) pg_atomic_init_u32(&cache->open_segments[i], 0);
  for (int i = 0; i < CACHE_SEEN; i++) pg_atomic_init_u64(&cache->seen[i], 0);
  pg_atomic_init_u64(&cache->hits, 0);
  pg_atomic_init_u64(&cache->misses, 0);
  pg_atomic_init_u64(&cache->fills, 0);
  pg_atomic_init_u64(&cache->stale, 0);
  pg_atomic_init_u64(&cache->evictions, 0);
  pg_atomic_init_u64(&cache->refused, 0);
  memset(cache->buckets, 0, sizeof(uint32) * (Size)cache->nbuckets);
  for (uint32 i = 0; i < cache->nsegments; i++) {
    CacheSegment *segment = &cache->segments[i];
    pg_atomic_init_u32(&segment->pins, 0);
    pg_atomic_init_u32(&segment->heat, 0);
    pg_atomic_init_u32(&segment->epoch, 0);
    pg_atomic_init_u32(&segment->last_scan, 0);
    pg_atomic_init_u32(&segment->live, 0);
    pg_atomic_init_u32(&segment->is_open, 0);
    segment->used = segment->nentries = 0;
  }
}

static void shmem_request(void) {
  if (previous_shmem_request) previous_shmem_request();
  if (ccopt_cache_mb > 0) RequestAddinShmemSpace(cache_bytes());
}

static void shmem_startup(void) {
  bool found;

  if (previous_shmem_startup) previous_shmem_startup();
  if (ccopt_cache_mb == 0) return;
  LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
  column_cache = ShmemInitStruct("ccopt column cache", cache_bytes(), &found);
  if (!found) cache_init(column_cache);
  LWLockRelease(AddinShmemInitLock);
  LWLockRegisterTranche(column_cache->tranche, "ccopt_column_cache");
}

const char *column_cache_off_reason(void) {
  if (ccopt_cache_mb == 0) return "ccopt.cache_mb is 0";
  if (column_cache == NULL) return "ccopt is not in shared_preload_libraries";
  return ccopt_enable_cache ? NULL : "ccopt.enable_cache is off";
}

/* ---- pins ---- */

static dlist_head all_pins = DLIST_STATIC_INIT(all_pins);

static CachePin *pin_allocate(uint32 segment) {
  CachePin *pin = MemoryContextAlloc(TopMemoryContext, sizeof(*pin));
  *pin = (CachePin){.segment = segment, .owner = CurrentResourceOwner};
  return pin;
}

CachePin *cache_pin_make(uint32 number) {
  CachePin *pin = pin_allocate(number);
  CacheSegment *segment = segment_at(number);
  uint32 pins = pg_atomic_read_u32(&segment->pins);

  do {
    if (pins & SEGMENT_EVICTING) {
      pfree(pin);
      return NULL;
    }
  } while (!pg_atomic_compare_exchange_u32(&segment->pins, &pins, pins + 1));
  dlist_push_head(&all_pins, &pin->node);
  return pin;
}

CachePin *cache_pin_claim(uint32 number) {
  CachePin *pin = pin_allocate(number);

  if (!cache_evict(number)) {
    pfree(pin);
    return NULL;
  }
  pg_atomic_write_u32(&segment_at(number)->pins, 1);
  dlist_push_head(&all_pins, &pin->node);
  return pin;
}

void cache_pin_drop(CachePin *pin) {
  pg_atomic_fetch_sub_u32(&segment_at(pin->segment)->pins, 1);
  dlist_delete(&pin->node);
  pfree(pin);
}

/* Scans that fail do not end: their pins go with the resource owner that they ran under. */
static void release_with_owner(ResourceReleasePhase phase, bool is_commit, bool is_top_level,
                               void *arg) {
  dlist_mutable_iter iter;

  if (phase != RESOURCE_RELEASE_BEFORE_LOCKS) return;
  dlist_foreach_modify(iter, &all_pins) {
    CachePin *pin = dlist_container(CachePin, node, iter.cur);
    if (pin->owner == CurrentResourceOwner) cache_pin_drop(pin);
  }
}

/* The scan's pin of a segment, or a new one; NULL if the segment is being emptied. */
static CachePin *scan_pin(CachePins *pins, uint32 segment) {
  CachePin *pin;

  for (int i = 0; i < pins->npins; i++)
    if (pins->pins[i]->segment == segment) return pins->pins[i];
  Assert(pins->npins < pins->capacity);
  if (pins->npins == pins->capacity) return NULL;
  pin = cache_pin_make(segment);
  if (pin == NULL) return NULL;
  cache_note_use(segment, pins->scan);
  return pins->pins[pins->npins++] = pin;
}

void column_cache_init_pins(CachePins *pins, uint32 scan, int ncolumns) {
  *pins = (CachePins){.scan = scan, .capacity = 2 * ncolumns};
  pins->pins = palloc(sizeof(*pins->pins) * pins->capacity);
}

void column_cache_drop_old_pins(CachePins *pins) {
  int kept = 0;

  for (int i = 0; i < pins->npins; i++) {
    if (pins->pins[i]->round == pins->round)
      pins->pins[kept++] = pins->pins[i];
    else
      cache_pin_drop(pins->pins[i]);
  }
  pins->npins = kept;
}

void column_cache_drop_all_pins(CachePins *pins) {
  for (int i = 0; i < pins->npins; i++) cache_pin_drop(pins->pins[i]);
  pins->npins = 0;
}

/* ---- the table ---- */

static uint32 bucket_of(uint64 hash) { return (uint32)hash & (column_cache->nbuckets - 1); }

static LWLock *lock_of(uint32 bucket) { return &column_cache->locks[bucket % CACHE_LOCKS].lock; }

uint64 column_cache_hash(const ColumnKey *key) {
  ColumnKey column = *key;
  column.run = 0;
  return hash_bytes_extended((const unsigned char *)&column, sizeof(column), 0);
}

static bool same_key(const ColumnKey *a, const ColumnKey *b) {
  return memcmp(a, b, sizeof(*a)) == 0;
}

/* The number of the key's entry, or -1; under the bucket's lock. */
static int64 lookup(uint32 bucket, const ColumnKey *key) {
  for (uint32 next = column_cache->buckets[bucket]; next != 0;) {
    const CacheEntry *entry = &column_cache->entries[next - 1];
    if (same_key(&entry->key, key)) return next - 1;
    next = entry->next;
  }
  return -1;
}

ColumnChunk *column_cache_find(CachePins *pins, const ColumnKey *key, uint64 hash) {
  uint32 bucket = bucket_of(hash_with_run(hash, key->run));
  ColumnChunk *chunk = NULL;
  int64 found;

  LWLockAcquire(lock_of(bucket), LW_SHARED);
  found = lookup(bucket, key);
  if (found >= 0) {
    uint32 segment = (uint32)(found / SEGMENT_ENTRIES);
    CachePin *pin = scan_pin(pins, segment);
    if (pin) {
      pin->round = pins->round;
      chunk = chunk_at(segment, column_cache->entries[found].offset);
    }
  }
  LWLockRelease(lock_of(bucket));
  return chunk;
}

bool column_cache_has(const ColumnKey *key, uint64 hash) {
  uint32 bucket = bucket_of(hash_with_run(hash, key->run));
  bool found;

  LWLockAcquire(lock_of(bucket), LW_SHARED);
  found = lookup(bucket, key) >= 0;
  LWLockRelease(lock_of(bucket));
  return found;
}

/* Under the bucket's lock, exclusive. */
static bool unlink_from(uint32 bucket, uint32 number) {
  CacheEntry *entries = column_cache->entries;

  for (uint32 *link = &column_cache->buckets[bucket]; *link != 0; link = &entries[*link - 1].next)
    if (*link == number + 1) {
      *link = entries[number].next;
      entries[number].next = 0;
      pg_atomic_fetch_sub_u32(&segment_at(number / SEGMENT_ENTRIES)->live, 1);
      return true;
    }
  return false;
}

bool cache_unlink(uint32 number) {
  const ColumnKey *key = &column_cache->entries[number].key;
  uint32 bucket = bucket_of(hash_with_run(column_cache_hash(key), key->run));
  bool unlinked;

  LWLockAcquire(lock_of(bucket), LW_EXCLUSIVE);
  unlinked = unlink_from(bucket, number);
  LWLockRelease(lock_of(bucket));
  return unlinked;
}

void column_cache_forget(const ColumnKey *key, uint64 hash, const ColumnChunk *chunk) {
  uint32 bucket = bucket_of(hash_with_run(hash, key->run));
  int64 found;

  LWLockAcquire(lock_of(bucket), LW_EXCLUSIVE);
  found = lookup(bucket, key);
  /* Another process may have put a newer chunk in its place. */
  if (found >= 0 &&
      chunk_at((uint32)(found / SEGMENT_ENTRIES), column_cache->entries[found].offset) == chunk) {
    unlink_from(bucket, (uint32)found);
    pg_atomic_fetch_add_u64(&column_cache->stale, 1);
  }
  LWLockRelease(lock_of(bucket));
}

void column_cache_publish(CacheFiller *filler, const ColumnKey *key, uint64 hash,
                          const ColumnChunk *chunk) {
  uint32 bucket = bucket_of(hash_with_run(hash, key->run));
  CacheSegment *segment = segment_at(filler->pin->segment);
  uint32 number = filler->pin->segment * SEGMENT_ENTRIES + segment->nentries;
  CacheEntry *entry = &column_cache->entries[number];

  LWLockAcquire(lock_of(bucket), LW_EXCLUSIVE);
  /* Another scan that read the same pages may have been first; then the space is lost until the
   * segment is evicted. */
  if (lookup(bucket, key) < 0) {
    entry->key = *key;
    entry->offset = (uint32)((const char *)chunk - (const char *)chunk_at(filler->pin->segment, 0));
    entry->next = column_cache->buckets[bucket];
    column_cache->buckets[bucket] = number + 1;
    segment->nentries++;
    pg_atomic_fetch_add_u32(&segment->live, 1);
  }
  LWLockRelease(lock_of(bucket));
}

/* ---- counts ---- */

void column_cache_count(uint64 hits, uint64 misses, uint64 fills) {
  if (hits) pg_atomic_fetch_add_u64(&column_cache->hits, (int64)hits);
  if (misses) pg_atomic_fetch_add_u64(&column_cache->misses, (int64)misses);
  if (fills) pg_atomic_fetch_add_u64(&column_cache->fills, (int64)fills);
}

void column_cache_register(void) {
  if (!process_shared_preload_libraries_in_progress) return;
  previous_shmem_request = shmem_request_hook;
  shmem_request_hook = shmem_request;
  previous_shmem_startup = shmem_startup_hook;
  shmem_startup_hook = shmem_startup;
  if (ccopt_cache_mb > 0) RegisterResourceReleaseCallback(release_with_owner, NULL);
}
