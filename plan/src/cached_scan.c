/*
 * Scans with the column cache: when a chunk is true of its pages, reading it, and filling.
 *
 * A chunk of a run says: these are the values of one attribute in all line pointers of these 16
 * pages that hold a tuple, in order. A scan with snapshot S may use it instead of the pages if all
 * these tuples are visible to S, and no others are.
 *
 * Invariants:
 *  1. Only runs are cached whose 16 pages are all-visible in the visibility map. A scan looks at the
 *     map after its snapshot was taken, so what the map says holds for its snapshot, as for an
 *     index-only scan: each transaction that S sees cleared the bits of the pages that it changed
 *     before it committed, and VACUUM sets a bit only if no snapshot in use, S included, could see
 *     less than all tuples of the page. The map is read under the shared lock of its page, and
 *     changed under the exclusive one.
 *  2. Bits of a WAL-logged table are set with a new LSN of the map's page (visibilitymap_set()), and
 *     cleared without one. A chunk has the LSN that the map's page had, with all bits set, at some
 *     moment at which the chunk was true (map_lsn). If now all bits are set and the LSN is that one,
 *     no bit of the map's page was set since; so those of the run were not cleared, and no transaction
 *     inserted into, updated or deleted from its pages.
 *  3. What changes a page and leaves its bit set changes no row: freezing, locking of rows, hint
 *     bits. The two exceptions are excluded: system catalogs, which are updated in place; and COPY
 *     FREEZE into a table that the same transaction created or truncated, which adds rows to an
 *     all-visible page.
 *  4. If the LSN of the map's page has moved (VACUUM set some bit below it), the heap decides: the
 *     16 pages are pinned and locked in turn, and if their LSNs are those of the time of filling
 *     (heap_lsns), the chunk was true at the moment of (2)'s look at the map too; then map_lsn gets
 *     the LSN of that look. A chunk that fails is removed. The LSN of the map's page is read before
 *     those of the heap, at filling as well: a change in between moves it once more.
 *  5. Keys have the file of the table, so TRUNCATE, VACUUM FULL, CLUSTER and whatever else rewrites
 *     a table leaves its chunks behind, to be evicted. Should the number of a file be used again,
 *     (2) and (4) find other LSNs: each is a place in the log, and that is used once. A map page
 *     without LSN (all of it written with wal_level = minimal) is not trusted.
 *  6. Keys have the type and modifier of the attribute: a table may change them without a rewrite. A
 *     value that is not in the tuple (rows older than the column) is not cached: ADD COLUMN may be
 *     rolled back and come again with another default.
 *  7. Only full runs are cached: a table that grows changes none of them.
 *  8. Not used: in recovery and for snapshots taken there (the standby may not know all
 *     transactions that the primary knew), in serializable transactions (each row read must be
 *     checked for conflicts), for temporary and unlogged tables (no LSNs), with
 *     old_snapshot_threshold (a page must be asked for its age).
 *  9. All columns of a batch come from chunks that were found true by one look at the map. Their rows
 *     are the same and in the same order by (2).
 *
 * States of a scan, by the run that it is at:
 *
 *            next_run: in the cache         cached_scan_take: last rows
 *   no run ------------------------> taking ---------------------------> no run
 *     |      next_run: not in it            page_reader_fill: last page
 *     +----------------------------> reading ---------------------------> no run
 *     |      ... and may be filled          end_batch: last page, publish
 *     +----------------------------> filling ---------------------------> no run
 */
#include "cached_scan.h"

#include "access/parallel.h"
#include "access/syncscan.h"
#include "access/sysattr.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/pg_type.h"
#include "column_cache.h"
#include "column_chunk.h"
#include "settings.h"
#include "common/hashfn.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* A scan stops gathering after this number of runs with a value that cannot be cached. */
#define MOST_UNFIT_RUNS 8
/* See cache_is_large_enough(). */
#define MOST_TIMES_THE_CACHE 4
/* Runs that the planner asks about. */
#define SAMPLED_RUNS 8

/* The bits of a run in the map; a run does not cross a byte, nor a page of the map. */
#define MAP_BYTES (BLCKSZ - MAXALIGN(SizeOfPageHeaderData))
#define PAGES_OF_BYTE (BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define RUN_BYTES (CACHE_RUN_PAGES / PAGES_OF_BYTE)
#define ALL_VISIBLE_BYTE 0x55

typedef struct CachedColumn {
  int column;       /* of the batch; -1: rows are counted only */
  AttrNumber attno; /* 0: likewise */
  CacheForm form;
  uint64 hash;
  ColumnChunk *chunk; /* of the run that is being taken; NULL: not in the cache */
  ChunkBuilder builder;
} CachedColumn;

struct CachedScan {
  PageReader *reader;
  Relation relation;
  Batch *batch;
  Walk *walk;
  uint32 scan;
  CachedScanShared *shared;
  MemoryContext context;
  CachePins pins;
  CacheFiller filler;
  Buffer map; /* pinned page of the visibility map, or invalid */
  ColumnKey key;
  int ncolumns;
  CachedColumn *columns;
  int last_attno;

  /* runs of a scan of one process: all, from first_run on, in a circle */
  uint32 first_run, runs_done;

  bool taking;
  uint32 next_row, nrows; /* of the run that is being taken */
  int loaded;             /* columns of the batch that are filled */

  bool may_fill;
  bool filling;
  bool other_rows; /* the batch at hand has rows of runs before the one being filled only */
  bool failed;     /* the run cannot be cached */
  int unfit_runs;
  XLogRecPtr map_lsn; /* when the run was begun */

  uint64 hits, misses, fills;
};

/* ---- which tables ---- */

/* Created or truncated in this transaction. */
static bool is_of_this_transaction(Relation relation) {
  return relation->rd_createSubid != InvalidSubTransactionId || HAS_NEW_FILE(relation);
}

static bool may_be_cached(Relation relation) {
  return column_cache_off_reason() == NULL &&
         relation->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT &&
         RelationNeedsWAL(relation) && !IsCatalogRelation(relation) &&
         !is_of_this_transaction(relation);
}

/*
 * Where core reads ahead by a stream (17 on), a scan that uses the cache does without: not worth it
 * for a table of which the cache can hold little.
 */
static bool cache_is_large_enough(Relation relation) {
#ifdef HEAP_SCAN_HAS_STREAM
  return RelationGetNumberOfBlocks(relation) / MOST_TIMES_THE_CACHE <=
         (BlockNumber)((uint64)ccopt_cache_mb * 1024 * 1024 / BLCKSZ);
#else
  return true;
#endif
}

bool cached_scan_is_wanted(Relation relation, Snapshot snapshot, uint32 *scan) {
  if (!may_be_cached(relation)) return false;
  /* A worker does not know what its leader's transaction created or truncated. */
  if (IsParallelWorker() && TransactionIdIsValid(GetTopTransactionIdIfAny())) return false;
  if (!cache_is_large_enough(relation)) return false;
  if (!IsMVCCSnapshot(snapshot) || snapshot->takenDuringRecovery || IsolationIsSerializable() ||
      SNAPSHOTS_MAY_AGE || RecoveryInProgress())
    return false;
  if (RelationGetNumberOfBlocks(relation) < CACHE_RUN_PAGES) return false;
  *scan = column_cache_count_scan();
  return column_cache_admits(FILE_TABLESPACE(relation), FILE_DATABASE(relation),
                             FILE_NUMBER(relation), *scan);
}

/* True if the cache has an attribute of a run, in some form. */
static bool has_attribute(Relation relation, AttrNumber attno, uint32 run) {
  Form_pg_attribute attribute =
      attno > 0 ? TupleDescAttr(RelationGetDescr(relation), attno - 1) : NULL;
  ColumnKey key = {.tablespace = FILE_TABLESPACE(relation),
                   .database = FILE_DATABASE(relation),
                   .file = FILE_NUMBER(relation),
                   .run = run,
                   .type = attribute ? attribute->atttypid : InvalidOid,
                   .typmod = attribute ? attribute->atttypmod : -1,
                   .attno = attno,
                   .form = attribute ? CACHE_BYTES : CACHE_ROWS};

  if (column_cache_has(&key, column_cache_hash(&key))) return true;
  key.form = CACHE_NUMBERS;
  return attribute != NULL && attribute->atttypid == NUMERICOID &&
         column_cache_has(&key, column_cache_hash(&key));
}

double cached_scan_share(Relation relation, BlockNumber pages, const Bitmapset *attributes) {
  uint32 runs = pages / CACHE_RUN_PAGES;
  Buffer map = InvalidBuffer;
  int found = 0;

  if (runs == 0 || !may_be_cached(relation) || IsolationIsSerializable() || SNAPSHOTS_MAY_AGE ||
      RecoveryInProgress())
    return 0;
  for (uint32 i = 0; i < SAMPLED_RUNS; i++) {
    uint32 run = (uint32)(((uint64)i * 2 + 1) * runs / (2 * SAMPLED_RUNS));
    bool all = !bms_is_empty(attributes) || has_attribute(relation, 0, run);
    for (int member = -1; all && (member = bms_next_member(attributes, member)) >= 0;)
      all = has_attribute(relation, member + FirstLowInvalidHeapAttributeNumber, run);
    /* A chunk whose pages were changed stays until it is evicted. */
    for (uint32 page = 0; all && page < CACHE_RUN_PAGES; page++)
      all = VM_ALL_VISIBLE(relation, run * CACHE_RUN_PAGES + page, &map);
    found += all;
  }
  if (BufferIsValid(map)) ReleaseBuffer(map);
  return (double)found / SAMPLED_RUNS;
}

static ColumnKey key_of(const CachedScan *scan, const CachedColumn *column) {
  ColumnKey key = scan->key;

  key.attno = column->attno;
  key.form = column->form;
  key.type = InvalidOid;
  key.typmod = -1;
  if (column->column >= 0) {
    key.type = scan->batch->columns[column->column].type;
    key.typmod = scan->batch->columns[column->column].typmod;
  }
  return key;
}

/* ---- what is true ---- */

/* True if the map has all pages of the run as all-visible; the LSN of its page then. */
static bool is_all_visible(CachedScan *scan, BlockNumber first, XLogRecPtr *lsn) {
  const char *bits;
  Page page;
  bool all = true;

  StaticAssertStmt(MAP_BYTES % RUN_BYTES == 0, "a run lies in one page of the map");
  StaticAssertStmt(BITS_PER_HEAPBLOCK == 2 && VISIBILITYMAP_ALL_VISIBLE == 1, "the map's bits");
  /* Pins the page; it does not extend the map. */
  visibilitymap_get_status(scan->relation, first, &scan->map);
  if (!BufferIsValid(scan->map)) return false;
  LockBuffer(scan->map, BUFFER_LOCK_SHARE);
  page = BufferGetPage(scan->map);
  bits = PageGetContents(page) + first / PAGES_OF_BYTE % MAP_BYTES;
  for (int i = 0; i < RUN_BYTES; i++) all &= (bits[i] & ALL_VISIBLE_BYTE) == ALL_VISIBLE_BYTE;
  *lsn = PageGetLSN(page);
  LockBuffer(scan->map, BUFFER_LOCK_UNLOCK);
  return all && !XLogRecPtrIsInvalid(*lsn);
}

/* The hash of the LSNs of the run's pages; 0 if one is not all-visible. */
static uint64 look_at_pages(CachedScan *scan, BlockNumber first) {
  uint64 lsns = PAGE_READER_NO_LSNS;
  bool all = true;

  for (BlockNumber i = 0; all && i < CACHE_RUN_PAGES; i++) {
    Buffer buffer = ReadBufferExtended(scan->relation, MAIN_FORKNUM, first + i, RBM_NORMAL,
                                       scan->reader->scan->rs_strategy);
    XLogRecPtr lsn;
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    lsn = BufferGetLSNAtomic(buffer);
    /* Without LSN (written with wal_level = minimal) nothing says whether it is the same page. */
    all = PageIsAllVisible(BufferGetPage(buffer)) && !XLogRecPtrIsInvalid(lsn);
    lsns = page_reader_mix_lsn(lsns, lsn);
    UnlockReleaseBuffer(buffer);
  }
  return all ? lsns : 0;
}

/* Finds the chunks of a run; true if all columns have one that is true. */
static bool find_chunks(CachedScan *scan, uint32 run, XLogRecPtr map_lsn) {
  uint64 heap_lsns = 0;
  bool looked = false, all = true;

  scan->pins.round++;
  scan->key.run = run;
  for (int i = 0; i < scan->ncolumns; i++) {
    CachedColumn *column = &scan->columns[i];
    const ColumnKey key = key_of(scan, column);

    column->chunk = column_cache_find(&scan->pins, &key, column->hash);
    if (column->chunk && pg_atomic_read_u64(&column->chunk->map_lsn) != map_lsn) {
      if (!looked) heap_lsns = look_at_pages(scan, run * CACHE_RUN_PAGES);
      looked = true;
      if (heap_lsns != 0 && column->chunk->heap_lsns == heap_lsns) {
        pg_atomic_write_u64(&column->chunk->map_lsn, map_lsn);
      } else {
        column_cache_forget(&key, column->hash, column->chunk);
        column->chunk = NULL;
      }
    }
    all = all && column->chunk != NULL && column->chunk->nrows == scan->columns[0].chunk->nrows;
    /* The others matter if the missing ones are going to be filled. */
    if (!all && !scan->may_fill) break;
  }
  column_cache_drop_old_pins(&scan->pins);
  return all;
}

/* ---- runs ---- */

static uint32 count_runs(const CachedScan *scan) {
  BlockNumber blocks = scan->reader->scan->rs_nblocks;
  return blocks / CACHE_RUN_PAGES + (blocks % CACHE_RUN_PAGES != 0);
}

/* The next run of this process; false after the last. */
static bool advance(CachedScan *scan, uint32 *run) {
  HeapScanDesc heap = scan->reader->scan;
  uint32 runs = count_runs(scan);

  if (scan->shared) {
    *run = pg_atomic_fetch_add_u32(&scan->shared->next_run, 1);
    return *run < runs;
  }
  if (scan->runs_done >= runs) return false;
  *run = (scan->first_run + scan->runs_done++) % runs;
  if (heap->rs_base.rs_flags & SO_ALLOW_SYNC)
    ss_report_location(scan->relation, *run * CACHE_RUN_PAGES);
  return true;
}

static void begin_filling(CachedScan *scan, XLogRecPtr map_lsn, bool other_rows) {
  scan->filling = true;
  scan->failed = false;
  scan->other_rows = other_rows;
  scan->map_lsn = map_lsn;
  scan->reader->expect_all_visible = true;
  scan->reader->all_visible = true;
  scan->reader->lsns = PAGE_READER_NO_LSNS;
  for (int i = 0; i < scan->ncolumns; i++)
    if (scan->columns[i].chunk == NULL) chunk_builder_reset(&scan->columns[i].builder);
}

/* The reader's: sets the pages to read next; false if the batch has to end here. */
static bool next_run(void *state, PageReader *reader, bool has_rows) {
  CachedScan *scan = state;
  XLogRecPtr map_lsn;
  BlockNumber first;
  uint32 run;

  /* end_batch has to put it into the cache first. */
  if (scan->filling || scan->taking) return false;
  if (!advance(scan, &run)) {
    reader->finished = true;
    return false;
  }
  first = run * CACHE_RUN_PAGES;
  reader->run_block = first;
  reader->run_end = first + Min(CACHE_RUN_PAGES, reader->scan->rs_nblocks - first);
  if (reader->run_end - first < CACHE_RUN_PAGES || !is_all_visible(scan, first, &map_lsn))
    return true;
  if (find_chunks(scan, run, map_lsn)) {
    reader->run_block = reader->run_end;
    scan->taking = true;
    scan->next_row = 0;
    scan->nrows = scan->columns[0].chunk->nrows;
    scan->hits += (uint64)scan->ncolumns * CACHE_RUN_PAGES;
    return false;
  }
  scan->misses += (uint64)scan->ncolumns * CACHE_RUN_PAGES;
  if (!scan->may_fill) return true;
  begin_filling(scan, map_lsn, has_rows);
  return !has_rows;
}

/* ---- taking ---- */

int cached_scan_take(CachedScan *scan) {
  int nrows;

  if (!scan->taking) return 0;
  nrows = Min(scan->nrows - scan->next_row, BATCH_ROWS);
  scan->next_row += nrows;
  if (scan->next_row == scan->nrows) scan->taking = false;
  memcpy(scan->batch->selected, scan->walk->all_rows, sizeof(*scan->walk->all_rows) * nrows);
  scan->batch->nrows = scan->batch->nselected = nrows;
  scan->loaded = 0;
  pgstat_count_index_tuples(scan->relation, nrows);
  return nrows;
}

void cached_scan_load(CachedScan *scan, int attno) {
  Batch *batch = scan->batch;
  uint32 first = scan->next_row - batch->nrows;

  while (scan->loaded < scan->ncolumns && scan->columns[scan->loaded].attno <= attno) {
    CachedColumn *column = &scan->columns[scan->loaded++];
    if (column->column < 0) continue;
    chunk_load(column->chunk, first, &batch->columns[column->column], batch->selected,
               batch->nselected, batch->nrows);
  }
}

/* ---- filling ---- */

static void gather_columns(CachedScan *scan, int nrows) {
  Batch *batch = scan->batch;

  walk_to(scan->walk, batch, scan->last_attno);
  for (int i = 0; i < scan->ncolumns && !scan->failed; i++) {
    CachedColumn *column = &scan->columns[i];
    if (column->chunk) continue;
    if (column->attno > scan->walk->fewest_attributes) {
      scan->failed = true;
      break;
    }
    if (column->form == CACHE_NUMBERS) {
      batch_decode(batch, column->column);
      /* It may be another column's value that does not fit; then this one is not cached either. */
      if (batch->nodd > 0) scan->failed = true;
    }
    chunk_builder_add(&column->builder, column->column < 0 ? NULL : &batch->columns[column->column],
                      nrows);
    scan->failed |= column->builder.unfit;
  }
  if (scan->failed && ++scan->unfit_runs >= MOST_UNFIT_RUNS) scan->may_fill = false;
}

void cached_scan_gather(CachedScan *scan, int nrows) {
  MemoryContext before;

  if (!scan->filling || scan->failed || scan->other_rows) return;
  if (!scan->reader->all_visible) {
    scan->failed = true;
    return;
  }
  before = MemoryContextSwitchTo(scan->context);
  gather_columns(scan, nrows);
  MemoryContextSwitchTo(before);
}

/* A run with a column that has no chunk could never be taken. */
static bool all_fit(CachedScan *scan) {
  for (int i = 0; i < scan->ncolumns; i++) {
    CachedColumn *column = &scan->columns[i];
    if (!column->chunk && chunk_builder_size(&column->builder) > column_cache_largest_chunk())
      return false;
  }
  return true;
}

static void publish(CachedScan *scan) {
  if (!all_fit(scan)) {
    if (++scan->unfit_runs >= MOST_UNFIT_RUNS) scan->may_fill = false;
    return;
  }
  for (int i = 0; i < scan->ncolumns; i++) {
    CachedColumn *column = &scan->columns[i];
    const ColumnKey key = key_of(scan, column);
    ColumnChunk *chunk;
    Size size;

    if (column->chunk) continue;
    size = chunk_builder_size(&column->builder);
    chunk = column_cache_reserve(&scan->filler, size);
    if (chunk == NULL) {
      scan->may_fill = false;
      return;
    }
    chunk_builder_write(&column->builder, chunk, size);
    chunk->heap_lsns = scan->reader->lsns;
    pg_atomic_write_u64(&chunk->map_lsn, scan->map_lsn);
    column_cache_publish(&scan->filler, &key, column->hash, chunk);
    scan->fills += CACHE_RUN_PAGES;
  }
}

void cached_scan_end_batch(CachedScan *scan) {
  if (!scan->filling) return;
  scan->other_rows = false;
  if (scan->reader->run_block < scan->reader->run_end) return;
  scan->filling = false;
  if (scan->failed || !scan->reader->all_visible) return;
  for (int i = 0; i < scan->ncolumns; i++)
    if (scan->columns[i].chunk == NULL) {
      if (scan->columns[i].builder.nrows > 0) publish(scan);
      return;
    }
}

/* ---- beginning and end ---- */

static void add_column(CachedScan *scan, int index, CacheForm form) {
  CachedColumn *column = &scan->columns[scan->ncolumns++];
  const BatchColumn *values = index < 0 ? NULL : &scan->batch->columns[index];
  ColumnKey key;

  column->column = index;
  column->attno = values ? values->slot_attno : 0;
  column->form = form;
  key = key_of(scan, column);
  column->hash = column_cache_hash(&key);
  chunk_builder_init(&column->builder, values, form);
  scan->last_attno = Max(scan->last_attno, column->attno);
}

static void begin_runs(CachedScan *scan) {
  HeapScanDesc heap = scan->reader->scan;

  scan->first_run = heap->rs_base.rs_parallel ? 0 : heap->rs_startblock / CACHE_RUN_PAGES;
  scan->runs_done = 0;
  scan->reader->run_block = scan->reader->run_end = 0;
  scan->taking = scan->filling = false;
}

CachedScan *cached_scan_open(PageReader *reader, Batch *batch, Walk *walk, const Bitmapset *numbers,
                             uint32 number, CachedScanShared *shared) {
  CachedScan *scan = palloc0(sizeof(*scan));
  Relation relation = reader->scan->rs_base.rs_rd;

  scan->reader = reader;
  scan->relation = relation;
  scan->batch = batch;
  scan->walk = walk;
  scan->scan = number;
  scan->shared = shared;
  scan->context = CurrentMemoryContext;
  scan->map = InvalidBuffer;
  scan->may_fill = true;
  scan->filler.scan = number;
  scan->key = (ColumnKey){.tablespace = FILE_TABLESPACE(relation),
                          .database = FILE_DATABASE(relation),
                          .file = FILE_NUMBER(relation)};
  scan->columns = palloc0(sizeof(*scan->columns) * Max(batch->ncolumns, 1));
  for (int i = 0; i < batch->ncolumns; i++)
    add_column(scan, i,
               batch->columns[i].kind == COLUMN_DECIMAL && bms_is_member(i, numbers) ? CACHE_NUMBERS
                                                                                     : CACHE_BYTES);
  if (batch->ncolumns == 0) add_column(scan, -1, CACHE_ROWS);
  column_cache_init_pins(&scan->pins, number, scan->ncolumns);
  reader->next_run = next_run;
  reader->next_run_state = scan;
  begin_runs(scan);
  return scan;
}

static void let_go(CachedScan *scan) {
  column_cache_drop_all_pins(&scan->pins);
  column_cache_end_fill(&scan->filler);
  if (BufferIsValid(scan->map)) ReleaseBuffer(scan->map);
  scan->map = InvalidBuffer;
}

void cached_scan_rescan(CachedScan *scan) {
  let_go(scan);
  begin_runs(scan);
}

void cached_scan_close(CachedScan *scan) {
  let_go(scan);
  column_cache_count(scan->hits, scan->misses, scan->fills);
  scan->reader->next_run = NULL;
}

uint64 cached_scan_hits(const CachedScan *scan) { return scan->hits; }

uint64 cached_scan_fills(const CachedScan *scan) { return scan->fills; }
