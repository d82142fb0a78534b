/*
 * Reading pages: core prepares each, we take the pin.
 */
#include "page_reader.h"

#include "access/tableam.h"
#include "access/syncscan.h"
#include "miscadmin.h"
#include "storage/bufpage.h"
#ifdef HEAP_SCAN_HAS_STREAM
#include "storage/read_stream.h"
#endif

/* A quarter of a backend's fair share of the pool, as research/plan.md 4(c) has it. */
static int pin_limit(void) {
  return Max(1, Min(PAGE_READER_MAX_PINS, NBuffers / (4 * MaxBackends)));
}

void page_reader_open(PageReader *reader, Relation relation, Snapshot snapshot) {
  memset(reader, 0, sizeof(*reader));
  reader->scan = (HeapScanDesc)table_beginscan(relation, snapshot, 0, NULL);
  /* Only snapshots for queries are seen here; others read row by row, each under the page's lock.
   */
  if (!(reader->scan->rs_base.rs_flags & SO_ALLOW_PAGEMODE))
    elog(ERROR, "BatchScan needs an MVCC snapshot");
  reader->max_pages = pin_limit();
  reader->pages_now = 1;
}

static void drop_pins(PageReader *reader) {
  for (int i = 0; i < reader->npins; i++) ReleaseBuffer(reader->pins[i]);
  reader->npins = 0;
}

#ifdef HEAP_SCAN_HAS_STREAM

static bool prepare_next_page(PageReader *reader) {
  HeapScanDesc scan = reader->scan;

  CHECK_FOR_INTERRUPTS();
  scan->rs_dir = ForwardScanDirection;
  scan->rs_cbuf = read_stream_next_buffer(scan->rs_read_stream, NULL);
  if (!BufferIsValid(scan->rs_cbuf)) return false;
  scan->rs_cblock = BufferGetBlockNumber(scan->rs_cbuf);
  heap_prepare_pagescan((TableScanDesc)scan);
  return true;
}

#else

static bool prepare_next_page(PageReader *reader) {
  HeapScanDesc scan = reader->scan;

  if (!reader->started) {
    if (scan->rs_nblocks == 0) return false;
    reader->next_block = scan->rs_startblock;
    reader->started = true;
  }
  /* Checks for interrupts, too. */
  heapgetpage((TableScanDesc)scan, reader->next_block);
  if (++reader->next_block >= scan->rs_nblocks) reader->next_block = 0;
  /* Where scans that start now shall join in. */
  if (scan->rs_base.rs_flags & SO_ALLOW_SYNC)
    ss_report_location(scan->rs_base.rs_rd, reader->next_block);
  if (reader->next_block == scan->rs_startblock) reader->finished = true;
  return true;
}

#endif

int page_reader_fill(PageReader *reader, HeapTupleHeader *headers, int capacity) {
  HeapScanDesc scan = reader->scan;
  int nrows = 0;

  Assert(capacity >= MaxHeapTuplesPerPage);
  drop_pins(reader);
  while (!reader->finished && reader->npins < reader->pages_now &&
         nrows + MaxHeapTuplesPerPage <= capacity) {
    Page page;
    int visible;

    if (!prepare_next_page(reader)) {
      reader->finished = true;
      break;
    }
    reader->pages++;
    visible = scan->rs_ntuples;
    if (visible == 0) {
      ReleaseBuffer(scan->rs_cbuf);
      scan->rs_cbuf = InvalidBuffer;
      continue;
    }
    page = BufferGetPage(scan->rs_cbuf);
    for (int i = 0; i < visible; i++) {
      HeapTupleHeader header =
          (HeapTupleHeader)PageGetItem(page, PageGetItemId(page, scan->rs_vistuples[i]));
      /* The walk comes when all pages are gathered: by then the line is here. */
      __builtin_prefetch(header);
      headers[nrows + i] = header;
    }
    nrows += visible;
    /* The scan's own pin becomes ours: it will find none to drop when it takes the next page. */
    reader->pins[reader->npins++] = scan->rs_cbuf;
    scan->rs_cbuf = InvalidBuffer;
  }
  reader->pages_now = Min(reader->pages_now * 2, reader->max_pages);
  if (nrows > 0) count_rows_returned(scan->rs_base.rs_rd, nrows);
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
