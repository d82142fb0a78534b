/*
 * The column cache, private part: the layout of its shared memory.
 *
 *   ColumnCache | segments | entries (SEGMENT_ENTRIES of each segment) | buckets | arena
 *
 * All of it lies within ccopt.cache_mb.
 */
#ifndef CCOPT_COLUMN_CACHE_INTERNAL_H
#define CCOPT_COLUMN_CACHE_INTERNAL_H

#include "column_cache.h"

#include "lib/ilist.h"
#include "storage/lwlock.h"

#define SEGMENT_BYTES (256 * 1024)
#define SEGMENT_ENTRIES 128
#define CACHE_LOCKS 128
#define CACHE_OPEN_SEGMENTS 4
#define CACHE_SEEN 1024

/* In CacheSegment.pins: the segment is being emptied. */
#define SEGMENT_EVICTING 0x80000000u

typedef struct CacheSegment {
  pg_atomic_uint32 pins;
  pg_atomic_uint32 heat;      /* scans that used it, halved for each epoch without use */
  pg_atomic_uint32 epoch;     /* of its last use */
  pg_atomic_uint32 last_scan; /* that used it */
  pg_atomic_uint32 live;      /* entries that can be found */
  pg_atomic_uint32 is_open;   /* in open_segments */
  uint32 used;                /* bytes; of the filler that has the segment */
  uint32 nentries;            /* likewise */
} CacheSegment;

/* Number `segment * SEGMENT_ENTRIES + i`; in chains the number + 1, 0 at the end. */
typedef struct CacheEntry {
  ColumnKey key;
  uint32 next;
  uint32 offset; /* of the chunk in the segment */
} CacheEntry;

typedef struct ColumnCache {
  uint32 nsegments, nbuckets; /* nbuckets: a power of 2 */
  Size total;                 /* bytes of shared memory, all included */
  int tranche;
  pg_atomic_uint32 taken; /* segments used so far, from the first */
  pg_atomic_uint32 hand;  /* of the clock */
  pg_atomic_uint32 scans;
  pg_atomic_uint32 open_segments[CACHE_OPEN_SEGMENTS]; /* segment + 1, or 0 */
  pg_atomic_uint64 hits, misses, fills, stale, evictions, refused;
  pg_atomic_uint64 seen[CACHE_SEEN]; /* tag of a table << 32 | scan that saw it last */
  LWLockPadded locks[CACHE_LOCKS];
  CacheSegment *segments;
  CacheEntry *entries;
  uint32 *buckets;
  char *arena;
} ColumnCache;

extern ColumnCache *column_cache; /* NULL: off */

/* A pin on a segment, released with its resource owner if the statement fails. */
struct CachePin {
  dlist_node node;
  uint32 segment;
  uint32 round;
  ResourceOwner owner;
};

static inline CacheSegment *segment_at(uint32 segment) { return &column_cache->segments[segment]; }

static inline ColumnChunk *chunk_at(uint32 segment, uint32 offset) {
  return (ColumnChunk *)(column_cache->arena + (Size)segment * SEGMENT_BYTES + offset);
}

/* Epochs are counted in scans, so that a large scan ages nothing. */
#define SCANS_OF_EPOCH 64
static inline uint32 epoch_of(uint32 scan) { return scan / SCANS_OF_EPOCH; }

/* The whole hash of a key, given that of its column. */
static inline uint64 hash_with_run(uint64 hash, uint32 run) {
  hash ^= (uint64)(run + 1) * UINT64CONST(0x9E3779B97F4A7C15);
  hash ^= hash >> 33;
  hash *= UINT64CONST(0xFF51AFD7ED558CCD);
  hash ^= hash >> 33;
  return hash;
}

/* column_cache.c: a pin that is released with its resource owner; NULL: being emptied. */
extern CachePin *cache_pin_make(uint32 segment);
/* column_cache.c: empties a segment and pins it for its filler; NULL if a process uses it. */
extern CachePin *cache_pin_claim(uint32 segment);
extern void cache_pin_drop(CachePin *pin);
/* column_cache.c: unlinks an entry from its chain; false if it is in none. */
extern bool cache_unlink(uint32 entry);
/* column_cache_arena.c: empties a segment without pins and leaves it as SEGMENT_EVICTING; else
 * false. */
extern bool cache_evict(uint32 segment);
/* column_cache_arena.c: notes that a scan uses a segment. */
extern void cache_note_use(uint32 segment, uint32 scan);

#endif
