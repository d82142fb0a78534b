/*
 * Look-ups of an adaptive join: core's index scan, but ccopt fetches the rows.
 *
 * Core alternates between index and table for each row, and waits for the memory of each of the
 * table's pages. In a look-up with many rows ccopt reads row identifiers ahead; while one row is
 * processed, the pages and rows after it are prefetched into the cache.
 *
 *     identifiers   i                i+6              i+12
 *                   row is fetched   row prefetched   page found; it and its descriptor prefetched
 *
 * Core still decides what a row is (visibility, HOT chains, predicate locks): index_fetch_heap().
 * Under an MVCC snapshot identifiers may be older than the fetch, as in a bitmap scan: a place that
 * was vacuumed and reused holds a row that the snapshot does not see.
 *
 * The first rows of a look-up are fetched as core does: short look-ups read no row in vain, and
 * index entries of dead rows are marked as dead.
 */
#include "adaptive_join.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "catalog/pg_am_d.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "executor/nodeIndexscan.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#define ROWS_ALONE 4
/* Identifiers read at a time: at first, and at most. A join that stops at the first match stops
 * early. */
#define FIRST_READ 16
#define MOST_READ 256
#define PAGE_DISTANCE 12
#define ROW_DISTANCE 6
/* Nothing is prefetched for a table of fewer pages, which the processor's caches hold, nor after
 * this many pages were not in a buffer: the look-ups then wait for the disk, and searching the
 * buffer table twice for a page costs time. */
#define LEAST_PAGES 1024
#define PAGES_MISSING 16

struct AdaptiveLookup {
  IndexScanState *scan;
  ScanDirection direction;
  bool by_core; /* the first look-up: core opens the index in it */
  bool ended;   /* the index has no more rows; asking again would start it again */
  int alone;    /* number of rows fetched one by one */
  int most;     /* identifiers to read next */
  int chances;  /* pages that may still be missing; 0: no prefetching; -1: not known yet */
  int count, next;
  ItemPointerData ids[MOST_READ];
  Page pages[MOST_READ]; /* not pinned: for prefetching only */
};

AdaptiveLookup *adaptive_lookup_create(PlanState *inner) {
  IndexScanState *scan = (IndexScanState *)inner;
  AdaptiveLookup *lookup;

  if (!IsA(inner, IndexScanState) || inner->initPlan != NIL || inner->subPlan != NIL) return NULL;
  /* NULL: EXPLAIN without running. B-trees return exactly the rows that match a key. */
  if (scan->iss_RelationDesc == NULL || scan->iss_RelationDesc->rd_rel->relam != BTREE_AM_OID)
    return NULL;
  if (scan->iss_NumOrderByKeys > 0 || !IsMVCCSnapshot(inner->state->es_snapshot) ||
      inner->state->es_epq_active != NULL)
    return NULL;
  lookup = palloc0(sizeof(*lookup));
  lookup->scan = scan;
  lookup->chances = -1;
  lookup->direction = ScanDirectionIsBackward(((const IndexScan *)inner->plan)->indexorderdir)
                          ? BackwardScanDirection
                          : ForwardScanDirection;
  return lookup;
}

void adaptive_lookup_start(AdaptiveLookup *lookup) {
  PlanState *node = &lookup->scan->ss.ps;

  /* For an index scan, which has no children, ExecReScan() would allocate a set of changed
   * parameters, without a check, and free it: a noticeable part of a short look-up. */
  if (node->instrument) InstrEndLoop(node->instrument);
  ExecReScanIndexScan(lookup->scan);
  lookup->by_core = lookup->scan->iss_ScanDesc == NULL;
  lookup->ended = false;
  lookup->alone = lookup->count = lookup->next = 0;
  lookup->most = FIRST_READ;
}

/* ---- prefetching ---- */

static void prefetch_page(AdaptiveLookup *lookup, int which) {
  const ItemPointerData *id = &lookup->ids[which];
  BlockNumber block = ItemPointerGetBlockNumberNoCheck(id);

  lookup->pages[which] = NULL;
  if (lookup->chances == 0) return;
  if (which > 0 && ItemPointerGetBlockNumberNoCheck(&lookup->ids[which - 1]) == block) {
    lookup->pages[which] = lookup->pages[which - 1];
  } else {
    Buffer buffer =
        PrefetchBuffer(lookup->scan->ss.ss_currentRelation, MAIN_FORKNUM, block).recent_buffer;
    lookup->pages[which] = BufferIsValid(buffer) ? BufferGetPage(buffer) : NULL;
    if (!BufferIsValid(buffer)) lookup->chances--;
    if (lookup->pages[which]) __builtin_prefetch(lookup->pages[which]);
    if (buffer > 0) __builtin_prefetch(GetBufferDescriptor(buffer - 1), 1);
  }
  if (lookup->pages[which])
    __builtin_prefetch(PageGetItemId(lookup->pages[which], ItemPointerGetOffsetNumberNoCheck(id)));
}

/*
 * The page is not pinned, and its buffer may hold another page by now: what is read is used only as
 * an address to prefetch, which is harmless for any value.
 */
static void prefetch_row(const AdaptiveLookup *lookup, int which) {
  OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(&lookup->ids[which]);
  const char *page = lookup->pages[which];
  const char *row;

  if (page == NULL || offset > MaxHeapTuplesPerPage) return;
  row = page + ItemIdGetOffset(PageGetItemId((Page)page, offset));
  __builtin_prefetch(row);
  __builtin_prefetch(row + 64);
}

static bool read_ahead(AdaptiveLookup *lookup) {
  lookup->count = lookup->next = 0;
  while (!lookup->ended && lookup->count < lookup->most) {
    ItemPointer id = index_getnext_tid(lookup->scan->iss_ScanDesc, lookup->direction);
    if (id)
      lookup->ids[lookup->count++] = *id;
    else
      lookup->ended = true;
  }
  lookup->most = Min(lookup->most * 2, MOST_READ);
  if (lookup->chances < 0)
    lookup->chances = RelationGetNumberOfBlocks(lookup->scan->ss.ss_currentRelation) < LEAST_PAGES
                          ? 0
                          : PAGES_MISSING;
  for (int i = 0; i < Min(lookup->count, PAGE_DISTANCE); i++) prefetch_page(lookup, i);
  for (int i = 0; i < Min(lookup->count, ROW_DISTANCE); i++) prefetch_row(lookup, i);
  return lookup->count > 0;
}

/* The next identifier; prefetches for the ones after it. */
static ItemPointerData take_id(AdaptiveLookup *lookup) {
  int which = lookup->next++;
  if (which + PAGE_DISTANCE < lookup->count) prefetch_page(lookup, which + PAGE_DISTANCE);
  if (which + ROW_DISTANCE < lookup->count) prefetch_row(lookup, which + ROW_DISTANCE);
  return lookup->ids[which];
}

/* ---- rows ---- */

/* The next row of the table with the key. */
static bool fetch_row(AdaptiveLookup *lookup, TupleTableSlot *slot) {
  IndexScanDesc index = lookup->scan->iss_ScanDesc;
  bool found = false;

  while (!found) {
    bool alone = lookup->alone < ROWS_ALONE;
    CHECK_FOR_INTERRUPTS();
    if (alone) {
      lookup->alone++;
      if (lookup->ended || index_getnext_tid(index, lookup->direction) == NULL) {
        lookup->ended = true;
        return false;
      }
    } else {
      if (lookup->next == lookup->count && !read_ahead(lookup)) return false;
      index->xs_heaptid = take_id(lookup);
    }
    found = index_fetch_heap(index, slot);
    /* It would mark the index entry that was read last as dead. */
    if (!alone) index->kill_prior_tuple = false;
  }
  return true;
}

static TupleTableSlot *next_row(AdaptiveLookup *lookup) {
  PlanState *node = &lookup->scan->ss.ps;
  TupleTableSlot *slot = lookup->scan->ss.ss_ScanTupleSlot;
  ExprContext *context = node->ps_ExprContext;

  while (fetch_row(lookup, slot)) {
    ResetExprContext(context);
    context->ecxt_scantuple = slot;
    if (node->qual && !ExecQual(node->qual, context)) {
      InstrCountFiltered1(node, 1);
      continue;
    }
    return node->ps_ProjInfo ? ExecProject(node->ps_ProjInfo) : slot;
  }
  /* As core's scan does at its end: no page stays pinned. */
  table_index_fetch_reset(lookup->scan->iss_ScanDesc->xs_heapfetch);
  ExecClearTuple(slot);
  return NULL;
}

TupleTableSlot *adaptive_lookup_next(AdaptiveLookup *lookup) {
  PlanState *node = &lookup->scan->ss.ps;
  TupleTableSlot *slot;

  if (lookup->by_core) return ExecProcNode(node);
  if (node->instrument == NULL) return next_row(lookup);
  InstrStartNode(node->instrument);
  slot = next_row(lookup);
  InstrStopNode(node->instrument, slot ? 1.0 : 0.0);
  return slot;
}
