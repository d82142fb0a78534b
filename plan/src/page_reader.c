/*
 * Reads pages: core prepares each page, the reader takes over its pin.
 */
#include "page_reader.h"

#include "access/tableam.h"
#include "access/syncscan.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufpage.h"
#ifdef HEAP_SCAN_HAS_STREAM
#include "storage/read_stream.h"
#endif

void page_reader_open(PageReader *reader, Relation relation, Snapshot snapshot,
                      ParallelTableScanDesc parallel) {
  memset(reader, 0, sizeof(*reader));
  reader->scan = (HeapScanDesc)(parallel ? table_beginscan_parallel(relation, parallel)
                                         : table_beginscan(relation, snapshot, 0, NULL));
  /* Only MVCC snapshots of queries are handled here; with others rows are read one by one, each
   * under the page's lock.
   */
  if (!(reader->scan->rs_base.rs_flags & SO_ALLOW_PAGEMODE))
    elog(ERROR, "BatchScan needs an MVCC snapshot");
  pin_budget_join(&reader->pins_held, RelationUsesLocalBuffers(relation));
  reader->pages_now = 1;
  reader->serializable = IsolationIsSerializable();
  reader->expect_all_visible = true;
}

static void drop_pins(PageReader *reader) {
  for (int i = 0; i < reader->npins; i++) ReleaseBuffer(reader->pins[i]);
  reader->npins = 0;
}

/* Gathers a page's rows and prefetches them: they are used after all pages are gathered. */
static inline void add_row(HeapTupleHeader *headers, int *nrows, Page page, ItemId item) {
  HeapTupleHeader header = (HeapTupleHeader)PageGetItem(page, item);
  __builtin_prefetch(header);
  headers[(*nrows)++] = header;
}

/* Gathers the rows that core found visible on the page that it prepared. */
static int gather_prepared(HeapScanDesc scan, HeapTupleHeader *headers) {
  Page page = BufferGetPage(scan->rs_cbuf);
  int nrows = 0;
  for (int i = 0, visible = scan->rs_ntuples; i < visible; i++)
    add_row(headers, &nrows, page, PageGetItemId(page, scan->rs_vistuples[i]));
  return nrows;
}

/*
 * Gathers the rows of an all-visible page; -1 if it is not all-visible. Under a snapshot taken
 * during recovery the mark does not count, since the standby may not know all transactions that the
 * primary knew; and a serializable transaction has to check for conflicts.
 */
static int gather_all_visible(PageReader *reader, Buffer buffer, HeapTupleHeader *headers) {
  Relation relation = reader->scan->rs_base.rs_rd;
  Snapshot snapshot = reader->scan->rs_base.rs_snapshot;
  Page page;
  int nrows = 0;

  if (reader->serializable || snapshot->takenDuringRecovery) return -1;
  heap_page_prune_opt(relation, buffer);
  LockBuffer(buffer, BUFFER_LOCK_SHARE);
  page = BufferGetPage(buffer);
  check_snapshot_age(snapshot, relation, page);
  if (PageIsAllVisible(page)) {
    OffsetNumber last = PageGetMaxOffsetNumber(page);
    for (OffsetNumber offset = FirstOffsetNumber; offset <= last; offset++) {
      ItemId item = PageGetItemId(page, offset);
      if (ItemIdIsNormal(item)) add_row(headers, &nrows, page, item);
    }
    if (reader->next_run) {
      const XLogRecPtr lsn = BufferGetLSNAtomic(buffer);
      reader->lsns = page_reader_mix_lsn(reader->lsns, lsn);
      /* Nothing would say later whether it is the same page. */
      if (XLogRecPtrIsInvalid(lsn)) reader->all_visible = false;
    }
  } else
    nrows = -1;
  LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
  return nrows;
}

static Buffer read_buffer(const PageReader *reader, BlockNumber block) {
  return ReadBufferExtended(reader->scan->rs_base.rs_rd, MAIN_FORKNUM, block, RBM_NORMAL,
                            reader->scan->rs_strategy);
}

#ifdef HEAP_SCAN_HAS_STREAM

/* Gathers the rows of the page in *buffer, which has a pin. */
static int read_buffered(PageReader *reader, HeapTupleHeader *headers, Buffer *buffer) {
  HeapScanDesc scan = reader->scan;
  int nrows = gather_all_visible(reader, *buffer, headers);

  if (nrows >= 0) return nrows;
  reader->all_visible = false;
  scan->rs_cbuf = *buffer;
  scan->rs_cblock = BufferGetBlockNumber(*buffer);
  heap_prepare_pagescan((TableScanDesc)scan);
  nrows = gather_prepared(scan, headers);
  /* Takes over the scan's own pin: the scan has none to drop. */
  scan->rs_cbuf = InvalidBuffer;
  return nrows;
}

/* Reads the next page and gathers its rows; *buffer has a pin. -1 at the end. */
static int read_page(PageReader *reader, HeapTupleHeader *headers, Buffer *buffer) {
  HeapScanDesc scan = reader->scan;

  scan->rs_dir = ForwardScanDirection;
  *buffer = read_stream_next_buffer(scan->rs_read_stream, NULL);
  return BufferIsValid(*buffer) ? read_buffered(reader, headers, buffer) : -1;
}

static int read_block(PageReader *reader, BlockNumber block, HeapTupleHeader *headers,
                      Buffer *buffer) {
  *buffer = read_buffer(reader, block);
  return read_buffered(reader, headers, buffer);
}

#else

/* The next block assigned to this process; InvalidBlockNumber after the last. */
static BlockNumber advance_parallel(PageReader *reader) {
  HeapScanDesc scan = reader->scan;
  Relation relation = scan->rs_base.rs_rd;
  ParallelBlockTableScanDesc shared = (ParallelBlockTableScanDesc)scan->rs_base.rs_parallel;

  if (!reader->started)
    table_block_parallelscan_startblock_init(relation, scan->rs_parallelworkerdata, shared);
  reader->started = true;
  return table_block_parallelscan_nextpage(relation, scan->rs_parallelworkerdata, shared);
}

/* The block to read; the next one is determined, too. */
static BlockNumber advance(PageReader *reader) {
  HeapScanDesc scan = reader->scan;
  BlockNumber block;

  if (scan->rs_base.rs_parallel) return advance_parallel(reader);
  if (!reader->started) reader->next_block = scan->rs_startblock;
  reader->started = true;
  block = reader->next_block;
  if (++reader->next_block >= scan->rs_nblocks) reader->next_block = 0;
  /* Records where scans that start now should begin. */
  if (scan->rs_base.rs_flags & SO_ALLOW_SYNC)
    ss_report_location(scan->rs_base.rs_rd, reader->next_block);
  if (reader->next_block == scan->rs_startblock) reader->finished = true;
  return block;
}

/* Reads a page and gathers its rows; *buffer has a pin. */
static int read_block(PageReader *reader, BlockNumber block, HeapTupleHeader *headers,
                      Buffer *buffer) {
  HeapScanDesc scan = reader->scan;
  int nrows;

  /* heapgetpage() looks up the buffer itself: a second look-up is worthwhile only where pages
   * tend to be all-visible. */
  if (reader->expect_all_visible || block % 16 == 0) {
    *buffer = read_buffer(reader, block);
    nrows = gather_all_visible(reader, *buffer, headers);
    reader->expect_all_visible = nrows >= 0;
    if (nrows >= 0) return nrows;
    heapgetpage((TableScanDesc)scan, block);
    ReleaseBuffer(*buffer);
  } else
    heapgetpage((TableScanDesc)scan, block);
  reader->all_visible = false;
  nrows = gather_prepared(scan, headers);
  /* Takes over the scan's own pin, so that the scan does not drop it when it reads the next page. */
  *buffer = scan->rs_cbuf;
  scan->rs_cbuf = InvalidBuffer;
  return nrows;
}

/* Reads the next page; -1 at the end. */
static int read_page(PageReader *reader, HeapTupleHeader *headers, Buffer *buffer) {
  BlockNumber block;

  if (reader->scan->rs_nblocks == 0) return -1;
  block = advance(reader);
  return block == InvalidBlockNumber ? -1 : read_block(reader, block, headers, buffer);
}

#endif

int page_reader_fill(PageReader *reader, HeapTupleHeader *headers, int capacity) {
  int nrows = 0;

  Assert(capacity >= MaxHeapTuplesPerPage);
  drop_pins(reader);
  while (!reader->finished && reader->npins < reader->pages_now &&
         nrows + MaxHeapTuplesPerPage <= capacity) {
    Buffer buffer;
    int visible;

    CHECK_FOR_INTERRUPTS();
    if (reader->next_run) {
      if (reader->run_block >= reader->run_end &&
          !reader->next_run(reader->next_run_state, reader, nrows > 0))
        break;
      visible = read_block(reader, reader->run_block++, headers + nrows, &buffer);
    } else
      visible = read_page(reader, headers + nrows, &buffer);
    if (visible < 0) {
      reader->finished = true;
      break;
    }
    reader->pages++;
    if (visible == 0) {
      ReleaseBuffer(buffer);
      continue;
    }
    nrows += visible;
    reader->pins[reader->npins++] = buffer;
  }
  reader->pages_now =
      pin_budget_limit(&reader->pins_held, Min(reader->pages_now * 2, PAGE_READER_MAX_PINS));
  /* SeqScan counts this row by row for pg_stat_*_tables; the macro for indexes adds a number to
   * the same counter. */
  if (nrows > 0) pgstat_count_index_tuples(reader->scan->rs_base.rs_rd, nrows);
  return nrows;
}

void page_reader_rescan(PageReader *reader) {
  drop_pins(reader);
  table_rescan((TableScanDesc)reader->scan, NULL);
  reader->started = false;
  reader->finished = false;
  reader->pages_now = 1;
}

void page_reader_close(PageReader *reader) {
  drop_pins(reader);
  table_endscan((TableScanDesc)reader->scan);
}
