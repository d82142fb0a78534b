/*
 * ccopt_cache: limit, contents and counts of the column cache.
 */
#include "column_cache_internal.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

enum { LIMIT, USED, COLUMNS, HITS, MISSES, FILLS, STALE, EVICTED, REFUSED, PINNED, NUMBERS };

/* Version 15's macro declares it without visibility. */
PGDLLEXPORT Datum ccopt_cache(PG_FUNCTION_ARGS);
PG_FUNCTION_INFO_V1(ccopt_cache);

static void read_contents(uint64 *numbers) {
  for (uint32 i = 0; i < column_cache->nsegments; i++) {
    const CacheSegment *segment = segment_at(i);
    numbers[USED] += segment->used;
    numbers[PINNED] += pg_atomic_read_u32((pg_atomic_uint32 *)&segment->pins) != 0;
    numbers[COLUMNS] += pg_atomic_read_u32((pg_atomic_uint32 *)&segment->live);
  }
}

/* One row; without a cache all numbers are 0, and `state` says why. */
Datum ccopt_cache(PG_FUNCTION_ARGS) {
  ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;
  const char *reason = column_cache_off_reason();
  uint64 numbers[NUMBERS] = {0};
  Datum values[NUMBERS + 1];
  bool nulls[NUMBERS + 1] = {false};

  if (column_cache) {
    numbers[LIMIT] = column_cache->total;
    read_contents(numbers);
    numbers[HITS] = pg_atomic_read_u64(&column_cache->hits);
    numbers[MISSES] = pg_atomic_read_u64(&column_cache->misses);
    numbers[FILLS] = pg_atomic_read_u64(&column_cache->fills);
    numbers[STALE] = pg_atomic_read_u64(&column_cache->stale);
    numbers[EVICTED] = pg_atomic_read_u64(&column_cache->evictions);
    numbers[REFUSED] = pg_atomic_read_u64(&column_cache->refused);
  }
  InitMaterializedSRF(fcinfo, 0);
  values[0] = CStringGetTextDatum(reason ? reason : "on");
  for (int i = 0; i < NUMBERS; i++) values[1 + i] = Int64GetDatum((int64)numbers[i]);
  tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
  return (Datum)0;
}
