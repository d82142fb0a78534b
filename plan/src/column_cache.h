/*
 * The column cache: decoded columns of all-visible heap pages, in shared memory.
 *
 * It maps a key (file of the table, run of pages, attribute, form) to a chunk: the values of one
 * attribute in all rows of a run of 16 heap pages. This part knows keys, chunks as bytes, memory and
 * eviction. Whether a chunk is still true of its pages is the business of cached_scan.c.
 *
 * A chunk that column_cache_find() returned stays in place until its pin is dropped.
 */
#ifndef CCOPT_COLUMN_CACHE_H
#define CCOPT_COLUMN_CACHE_H

#include "compat.h"

#include "port/atomics.h"
#include "utils/rel.h"
#include "utils/resowner.h"

/* Heap pages of a run: some 800 rows of an ordinary table, so that a run makes a batch. */
#define CACHE_RUN_PAGES 16

typedef enum CacheForm {
  CACHE_BYTES,   /* values as they lie in a tuple */
  CACHE_NUMBERS, /* decimals as integers (COLUMN_DECIMAL) */
  CACHE_ROWS     /* no values: the number of rows only */
} CacheForm;

/* Without padding: compared as bytes. */
typedef struct ColumnKey {
  Oid tablespace, database, file;
  uint32 run; /* heap block / CACHE_RUN_PAGES */
  Oid type;
  int32 typmod;
  int16 attno;
  uint16 form; /* CacheForm */
} ColumnKey;

/* How the values of a chunk lie. */
typedef enum ChunkLayout {
  CHUNK_STRIDE,  /* value i at i * stride */
  CHUNK_OFFSETS, /* value i at offsets[i]; 0 is NULL */
  CHUNK_INT32,   /* numbers */
  CHUNK_INT64
} ChunkLayout;

/* Followed by the values; eight bytes before a value can be read. */
typedef struct ColumnChunk {
  pg_atomic_uint64
      map_lsn;      /* LSN of the visibility map's page when the chunk was last found true */
  uint64 heap_lsns; /* hash of the LSNs of the run's pages */
  uint64 magnitude; /* numbers: the absolute values, or-ed */
  uint32 size;      /* bytes, with this header */
  uint32 nrows;
  uint32 values_at; /* bytes from the start of the chunk */
  uint32 nulls_at;  /* bitmap of NULLs, except in CHUNK_OFFSETS; 0: no value is NULL */
  uint16 stride;
  uint8 layout;
  bool has_nulls;
} ColumnChunk;

/* ---- setting up ---- */

/* NULL if the cache can be used in this session, otherwise why not. */
extern const char *column_cache_off_reason(void);

/* ---- scans ---- */

/* Counts a scan; the number orders scans by time. */
extern uint32 column_cache_count_scan(void);
/* True if this table was scanned not long ago: only then is it worth memory. */
extern bool column_cache_admits(Oid tablespace, Oid database, Oid file, uint32 scan);

/* The pins of a scan: one for each segment of the arena that it reads. */
typedef struct CachePin CachePin;
typedef struct CachePins {
  uint32 scan;
  uint32 round; /* pins of earlier rounds are dropped by column_cache_drop_old_pins() */
  int npins, capacity;
  CachePin **pins;
} CachePins;

/*
 * In the current memory context; for rounds of one column_cache_find() for each of `ncolumns`, each
 * with column_cache_drop_old_pins() at its end.
 */
extern void column_cache_init_pins(CachePins *pins, uint32 scan, int ncolumns);
/* The hash of a key with run 0: the part that is the same for all runs of a scan. */
extern uint64 column_cache_hash(const ColumnKey *key);
/* The chunk of a key, pinned; NULL if there is none. `hash`: column_cache_hash(). */
extern ColumnChunk *column_cache_find(CachePins *pins, const ColumnKey *key, uint64 hash);
/* True if there is a chunk of the key. */
extern bool column_cache_has(const ColumnKey *key, uint64 hash);
/* Removes a chunk that is no longer true. */
extern void column_cache_forget(const ColumnKey *key, uint64 hash, const ColumnChunk *chunk);
extern void column_cache_drop_old_pins(CachePins *pins);
extern void column_cache_drop_all_pins(CachePins *pins);

/* ---- filling ---- */

/* The segment that a scan fills. */
typedef struct CacheFiller {
  uint32 scan;
  CachePin *pin; /* NULL: none */
} CacheFiller;

/* Largest chunk. */
extern Size column_cache_largest_chunk(void);
/* Space for a chunk that no one else sees; NULL if none can be had without evicting what is used. */
extern ColumnChunk *column_cache_reserve(CacheFiller *filler, Size size);
/* Publishes the chunk reserved last; it may not be changed after that. */
extern void column_cache_publish(CacheFiller *filler, const ColumnKey *key, uint64 hash,
                                 const ColumnChunk *chunk);
extern void column_cache_end_fill(CacheFiller *filler);

/* ---- counts ---- */

/* Adds to the server's counts; each is of columns of pages. */
extern void column_cache_count(uint64 hits, uint64 misses, uint64 fills);

#endif
