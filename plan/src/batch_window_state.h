/*
 * What the files of BatchWindow's execution share.
 */
#ifndef CCOPT_BATCH_WINDOW_STATE_H
#define CCOPT_BATCH_WINDOW_STATE_H

#include "batch_window.h"
#include "stats.h"
#include "window_functions.h"

typedef struct CoreWindows CoreWindows;

typedef struct BatchWindowState {
  CustomScanState css;
  BatchSource *source;
  List *private; /* of the plan */
  int ncolumns;
  StoredColumn *columns;
  RowStore *store;
  int nkeys;
  SortKey *keys;
  RowSort *sort;
  int nwindows;
  Window *windows;
  int nfunctions;             /* of all windows */
  WindowFunction **functions; /* [nfunctions]: in the order of WINDOW_PRIVATE_OUTPUT */
  int nout;
  int *output; /* [nout]: of the scan tuple, as WINDOW_PRIVATE_OUTPUT */

  bool built;        /* the rows are sorted, or with core */
  bool with_core;    /* not in the store */
  uint32 place;      /* of the next row in the store */
  CoreWindows *core; /* NULL: rows were never with core */

  /* for EXPLAIN */
  NodeCounts counts;
  const char *left_because; /* why core got the rows at last */
  Size memory;              /* at most */
  bool by_digits;
  uint64 partitions;
} BatchWindowState;

/* BeginCustomScan, and ExplainCustomScan. */
extern void batch_window_begin(CustomScanState *css, EState *estate, int eflags);
extern void batch_window_explain(CustomScanState *css, List *ancestors, ExplainState *es);

/* ---- with core's nodes ---- */

/*
 * Hands the rows of the store, then those of `batch`, then those that the source still has to core's Sort
 * and WindowAggs (state->core, made at the first time). The store is empty afterwards.
 */
extern void core_windows_begin(BatchWindowState *state, Batch *batch);
/* The next row, with the columns first and then the functions in their order; NULL: there is none. */
extern TupleTableSlot *core_windows_next(CoreWindows *core);
/* No more rows are wanted; memory and files are freed. */
extern void core_windows_stop(CoreWindows *core);
extern void core_windows_end(CoreWindows *core);

#endif
