/*
 * A scan that takes the runs of pages that the column cache has from there, and all others from the
 * heap. Its owner (batch_scan_exec.c) does, for each batch:
 *
 *   rows = cached_scan_take()           > 0: rows of a cached run; cached_scan_load() finds columns
 *   rows = page_reader_fill()           otherwise: rows of the heap, up to a run that is cached
 *   cached_scan_gather()                keeps them if their run is to be cached
 */
#ifndef CCOPT_CACHED_SCAN_H
#define CCOPT_CACHED_SCAN_H

#include "batch.h"
#include "page_reader.h"
#include "walk.h"

#include "port/atomics.h"

typedef struct CachedScan CachedScan;

/* What the processes of a parallel scan share. */
typedef struct CachedScanShared {
  bool in_use; /* the processes divide runs, not pages */
  uint32 scan; /* column_cache_count_scan() */
  pg_atomic_uint32 next_run;
} CachedScanShared;

/*
 * True if the table may be cached and was scanned not long ago; the number of the scan. To be asked
 * once a scan, by its leader.
 */
extern bool cached_scan_is_wanted(Relation relation, Snapshot snapshot, uint32 *scan);

/*
 * For the planner: the share of the table's runs of which all these attributes (with the offset of
 * pull_varattnos()) are in the cache, by a sample; 0 without a cache. Whether they are still true is
 * not examined.
 */
extern double cached_scan_share(Relation relation, BlockNumber pages, const Bitmapset *attributes);

/*
 * `numbers`: decimal columns for which numbers suffice. `shared`: NULL for a scan of one process.
 * Lives in the current memory context.
 */
extern CachedScan *cached_scan_open(PageReader *reader, Batch *batch, Walk *walk,
                                    const Bitmapset *numbers, uint32 scan,
                                    CachedScanShared *shared);
extern void cached_scan_rescan(CachedScan *scan);
extern void cached_scan_close(CachedScan *scan);

/* Begins a batch of rows of a cached run, all selected; returns their number, 0 if there is none. */
extern int cached_scan_take(CachedScan *scan);
/* Fills the columns of attributes up to `attno` for the selected rows of that batch. */
extern void cached_scan_load(CachedScan *scan, int attno);
/* After walk_begin() for rows of the heap, before any is removed. */
extern void cached_scan_gather(CachedScan *scan, int nrows);
/* If that was the last of a run: puts it into the cache. Call it after each page_reader_fill(). */
extern void cached_scan_end_batch(CachedScan *scan);

/* Columns of pages that came from the cache, and that were put into it. */
extern uint64 cached_scan_hits(const CachedScan *scan);
extern uint64 cached_scan_fills(const CachedScan *scan);

#endif
