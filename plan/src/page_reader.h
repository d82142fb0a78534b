/*
 * The visible rows of a heap table, some pages at a time.
 *
 * Core handles visibility, pruning, serializable conflicts, the ring of a big scan and the start of
 * a synchronized scan: it prepares each page as it does for SeqScan. The only exception: on pages
 * marked all-visible, all rows are visible, as in core, without a check of each row. The pages of a
 * batch stay pinned, one pin a page, so that pointers to their rows stay valid until the next
 * batch.
 */
#ifndef CCOPT_PAGE_READER_H
#define CCOPT_PAGE_READER_H

#include "compat.h"
#include "pin_budget.h"

#include "access/htup_details.h"
#include "storage/bufmgr.h"

#define PAGE_READER_MAX_PINS 64

typedef struct PageReader PageReader;
/*
 * Sets run_block and run_end to the pages to read next, or `finished`; false if the batch has to end
 * here. `has_rows`: it has some already.
 */
typedef bool (*NextRun)(void *state, PageReader *reader, bool has_rows);

struct PageReader {
  HeapScanDesc scan;
  bool started;
  bool finished;
  BlockNumber next_block; /* only without a read stream */
  PinHolder pins_held;    /* with more pins, other scans would lack buffers in a small pool */
  int pages_now; /* of one batch; grows, so that a consumer of few rows (LIMIT) reads few */
  int npins;
  Buffer pins[PAGE_READER_MAX_PINS];
  bool serializable; /* core checks each row for conflicts */
  bool expect_all_visible;
  uint64 pages; /* pages read since it was opened */

  /* With next_run, which pages are read in which order is for its owner to say (cached_scan.c). */
  NextRun next_run;
  void *next_run_state;
  BlockNumber run_block, run_end; /* the pages from run_block on are read next */
  /* Of the pages since the owner set them: all were all-visible; their LSNs as a hash. */
  bool all_visible;
  uint64 lsns;
};

/* The hash of no LSNs, and with a further one; it is never 0. */
#define PAGE_READER_NO_LSNS 1
static inline uint64 page_reader_mix_lsn(uint64 lsns, XLogRecPtr lsn) {
  return (lsns ^ (uint64)lsn ^ lsns >> 29) * UINT64CONST(0xBF58476D1CE4E5B9) | 1;
}

/*
 * `parallel`: the scan whose pages are divided among processes; NULL: this reader reads all pages.
 */
extern void page_reader_open(PageReader *reader, Relation relation, Snapshot snapshot,
                             ParallelTableScanDesc parallel);
/*
 * Drops the pins of the previous batch and gathers the headers of the next rows, at most `capacity`
 * (at least a page's MaxHeapTuplesPerPage). Returns their number; 0 at the end.
 */
extern int page_reader_fill(PageReader *reader, HeapTupleHeader *headers, int capacity);
extern void page_reader_rescan(PageReader *reader);
extern void page_reader_close(PageReader *reader);

#endif
