/*
 * The column cache: the arena, filling and eviction.
 *
 * The arena is cut into segments of 256 KB. A scan that fills has a segment of its own, puts chunk
 * after chunk into it, and takes another when it is full; a segment is evicted as a whole. So there
 * are no free lists of different sizes, and nothing to defragment.
 *
 * What is used stays. A segment's heat is the number of scans that used it, halved for each 64 scans
 * of the server without use. A clock looks for a segment without heat; if there is none, the cache
 * refuses, and the scan goes on without filling. So a table that is larger than the cache keeps the
 * part that came first, and does not push out its own beginning, or other tables', at each scan.
 *
 * Invariants:
 *  1. used and nentries are changed by the process that has the segment: it fills it (its pin came
 *     from column_cache_reserve()) or empties it (SEGMENT_EVICTING).
 *  2. A segment with is_open has room and no process that fills it: it is not evicted, and the
 *     process that clears is_open in open_segments has it.
 */
#include "column_cache_internal.h"

#include "common/hashfn.h"

#define MOST_HEAT 15
/* At most one in this number of segments is open, beside the first, so that small caches can evict. */
#define SEGMENTS_OF_OPEN 8
/* With less room a segment is not worth keeping open. */
#define LEAST_ROOM (32 * 1024)
/* The first bytes of a segment are before any value: decoders may read them. */
#define SEGMENT_START 64
/* Steps after which a clock gives up. */
#define MOST_STEPS 4096
/* Scans after which a table counts as not seen. */
#define ADMISSION_WINDOW 4096

/* ---- heat ---- */

static uint32 heat_now(const CacheSegment *segment, uint32 epoch) {
  /* Negative for a scan that began before the last one that used the segment. */
  int32 since = (int32)(epoch - pg_atomic_read_u32((pg_atomic_uint32 *)&segment->epoch));
  if (since >= 32) return 0;
  return pg_atomic_read_u32((pg_atomic_uint32 *)&segment->heat) >> Max(since, 0);
}

/* Two scans at a time may lose one of both: it is heat, not truth. */
void cache_note_use(uint32 number, uint32 scan) {
  CacheSegment *segment = segment_at(number);
  uint32 epoch = epoch_of(scan), heat;

  if (pg_atomic_read_u32(&segment->last_scan) == scan) return;
  /* The segment may have been used by a later scan than this one. */
  if ((int32)(pg_atomic_read_u32(&segment->epoch) - epoch) > 0)
    epoch = pg_atomic_read_u32(&segment->epoch);
  heat = heat_now(segment, epoch);
  pg_atomic_write_u32(&segment->last_scan, scan);
  pg_atomic_write_u32(&segment->heat, Min(heat + 1, MOST_HEAT));
  pg_atomic_write_u32(&segment->epoch, epoch);
}

uint32 column_cache_count_scan(void) { return pg_atomic_add_fetch_u32(&column_cache->scans, 1); }

bool column_cache_admits(Oid tablespace, Oid database, Oid file, uint32 scan) {
  uint32 tag = murmurhash32(tablespace ^ murmurhash32(database ^ murmurhash32(file)));
  pg_atomic_uint64 *slot = &column_cache->seen[tag % CACHE_SEEN];
  uint64 before = pg_atomic_read_u64(slot);

  tag |= 1; /* an empty slot has tag 0 */
  pg_atomic_write_u64(slot, (uint64)tag << 32 | scan);
  return (uint32)(before >> 32) == tag && scan - (uint32)before <= ADMISSION_WINDOW;
}

/* ---- segments ---- */

/* A segment that was never used, as long as there are some. */
static CachePin *take_unused(void) {
  uint32 taken = pg_atomic_read_u32(&column_cache->taken);

  do {
    if (taken >= column_cache->nsegments) return NULL;
  } while (!pg_atomic_compare_exchange_u32(&column_cache->taken, &taken, taken + 1));
  /* Another process's clock may have been faster. */
  return cache_pin_claim(taken);
}

static CachePin *take_open(void) {
  for (int i = 0; i < CACHE_OPEN_SEGMENTS; i++) {
    uint32 number = pg_atomic_exchange_u32(&column_cache->open_segments[i], 0);
    CachePin *pin;
    if (number == 0) continue;
    /* It is not evicted while is_open is set. */
    pin = cache_pin_make(number - 1);
    pg_atomic_write_u32(&segment_at(number - 1)->is_open, 0);
    if (pin) return pin;
  }
  return NULL;
}

bool cache_evict(uint32 number) {
  CacheSegment *segment = segment_at(number);
  uint32 none = 0;

  if (!pg_atomic_compare_exchange_u32(&segment->pins, &none, SEGMENT_EVICTING)) return false;
  if (pg_atomic_read_u32(&segment->is_open)) {
    pg_atomic_write_u32(&segment->pins, 0);
    return false;
  }
  for (uint32 i = 0; i < segment->nentries; i++)
    if (cache_unlink(number * SEGMENT_ENTRIES + i))
      pg_atomic_fetch_add_u64(&column_cache->evictions, 1);
  segment->nentries = 0;
  segment->used = SEGMENT_START;
  pg_atomic_write_u32(&segment->heat, 0);
  return true;
}

static CachePin *take_cold(void) {
  uint32 epoch = epoch_of(pg_atomic_read_u32(&column_cache->scans));
  uint32 steps = Min(column_cache->nsegments, MOST_STEPS);

  for (uint32 step = 0; step < steps; step++) {
    uint32 number = pg_atomic_fetch_add_u32(&column_cache->hand, 1) % column_cache->nsegments;
    CacheSegment *segment = segment_at(number);
    bool cold = heat_now(segment, epoch) == 0 || pg_atomic_read_u32(&segment->live) == 0;
    CachePin *pin;

    if (!cold || pg_atomic_read_u32(&segment->pins) != 0) continue;
    pin = cache_pin_claim(number);
    if (pin) return pin;
  }
  pg_atomic_fetch_add_u64(&column_cache->refused, 1);
  return NULL;
}

/* ---- filling ---- */

Size column_cache_largest_chunk(void) { return SEGMENT_BYTES / 2; }

static bool has_room(uint32 number, Size size) {
  const CacheSegment *segment = segment_at(number);
  return segment->used + size <= SEGMENT_BYTES && segment->nentries < SEGMENT_ENTRIES;
}

ColumnChunk *column_cache_reserve(CacheFiller *filler, Size size) {
  CacheSegment *segment;
  uint32 offset;

  size = MAXALIGN(size);
  Assert(size <= column_cache_largest_chunk());
  if (filler->pin && !has_room(filler->pin->segment, size)) column_cache_end_fill(filler);
  if (filler->pin == NULL) {
    filler->pin = take_open();
    if (filler->pin && !has_room(filler->pin->segment, size)) {
      cache_pin_drop(filler->pin);
      filler->pin = NULL;
    }
    if (filler->pin == NULL) filler->pin = take_unused();
    if (filler->pin == NULL) filler->pin = take_cold();
    if (filler->pin == NULL) return NULL;
    cache_note_use(filler->pin->segment, filler->scan);
  }
  segment = segment_at(filler->pin->segment);
  offset = segment->used;
  segment->used += (uint32)size;
  return chunk_at(filler->pin->segment, offset);
}

void column_cache_end_fill(CacheFiller *filler) {
  uint32 number;
  CacheSegment *segment;

  if (filler->pin == NULL) return;
  number = filler->pin->segment;
  segment = segment_at(number);
  if (has_room(number, LEAST_ROOM)) {
    int open = Min(CACHE_OPEN_SEGMENTS, 1 + column_cache->nsegments / SEGMENTS_OF_OPEN);
    pg_atomic_write_u32(&segment->is_open, 1);
    for (int i = 0; i <= open; i++) {
      uint32 none = 0;
      if (i == open)
        pg_atomic_write_u32(&segment->is_open, 0);
      else if (pg_atomic_compare_exchange_u32(&column_cache->open_segments[i], &none, number + 1))
        break;
    }
  }
  cache_pin_drop(filler->pin);
  filler->pin = NULL;
}
