/*
 * The visible rows of a heap table, some pages at a time.
 *
 * Visibility, pruning, serializable conflicts, the ring of a big scan and where a synchronized scan
 * starts are core's own: it prepares each page as it does for SeqScan. Only of pages that are marked
 * all-visible, the mark is taken for each of its rows, as core does, without asking row by row. The pages of a batch stay
 * pinned, one pin a page, so that pointers to their rows stay right until the next batch.
 */
#ifndef CCOPT_PAGE_READER_H
#define CCOPT_PAGE_READER_H

#include "compat.h"
#include "pin_budget.h"

#include "access/htup_details.h"
#include "storage/bufmgr.h"

#define PAGE_READER_MAX_PINS 64

typedef struct PageReader {
  HeapScanDesc scan;
  bool started;
  bool finished;
  BlockNumber next_block; /* without a read stream only */
  PinHolder pins_held;    /* more pins would starve others of a small buffer pool */
  int pages_now; /* of one batch; grows: a consumer of few rows (LIMIT, EXISTS) pays for few */
  int npins;
  Buffer pins[PAGE_READER_MAX_PINS];
  bool serializable; /* core looks at each row for conflicts */
  bool expect_all_visible;
  uint64 pages; /* read since it was opened */
} PageReader;

/* `parallel`: the scan whose pages are divided among processes; NULL: all pages are this reader's. */
extern void page_reader_open(PageReader *reader, Relation relation, Snapshot snapshot,
                             ParallelTableScanDesc parallel);
/*
 * Drops the pins of the batch before and gathers the headers of the next rows, at most `capacity`
 * (at least a page's MaxHeapTuplesPerPage). Returns how many; 0 is the end.
 */
extern int page_reader_fill(PageReader *reader, HeapTupleHeader *headers, int capacity);
extern void page_reader_rescan(PageReader *reader);
extern void page_reader_close(PageReader *reader);

#endif
