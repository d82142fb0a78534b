/*
 * Window functions over sorted rows, row after row.
 */
#ifndef CCOPT_WINDOW_FUNCTIONS_H
#define CCOPT_WINDOW_FUNCTIONS_H

#include "batch_window.h"
#include "row_sort.h"

/* What a frame that begins with the partition ends with. */
typedef enum WindowFrame {
  FRAME_TO_ROW,   /* ROWS ... CURRENT ROW */
  FRAME_TO_PEERS, /* RANGE or GROUPS ... CURRENT ROW: the last row that is equal to the current one */
  FRAME_TO_END    /* ... UNBOUNDED FOLLOWING, or no ORDER BY */
} WindowFrame;

typedef enum WindowFunctionKind {
  WINDOW_ROW_NUMBER,
  WINDOW_RANK,
  WINDOW_DENSE_RANK,
  WINDOW_PERCENT_RANK,
  WINDOW_CUME_DIST,
  WINDOW_NTILE,
  WINDOW_OFFSET, /* lag, lead */
  WINDOW_FIRST_VALUE,
  WINDOW_LAST_VALUE,
  WINDOW_NTH_VALUE,
  WINDOW_COUNT_ROWS,
  WINDOW_COUNT,
  WINDOW_SUM_INTEGER, /* bigint: of smallint, integer */
  WINDOW_SUM_NUMERIC, /* numeric: of bigint, numeric */
  WINDOW_AVERAGE,
  WINDOW_MIN,
  WINDOW_MAX,
  WINDOW_SUM_FLOAT, /* of float8 */
  WINDOW_AVERAGE_FLOAT
} WindowFunctionKind;

typedef struct WindowFunction {
  WindowFunctionKind kind;
  const StoredColumn *column; /* of its argument; NULL: none */
  int64 offset;               /* of lag (negative), lead; of ntile and nth_value their number */
  bool offset_is_null;
  Datum other; /* if there is no such row */
  bool other_is_null;

  /* of the rows of the frame so far */
  int64 count;
  int128 sum;   /* of min and max the value */
  double x, xx; /* core's state of float8 (float8_accum) */

  /* the result of the current row */
  Datum value;
  bool is_null;
} WindowFunction;

typedef struct Window {
  const RowSort *sort;
  int npartition_keys, nkeys; /* of the sort; nkeys: those of PARTITION BY and ORDER BY */
  WindowFrame frame;
  bool is_top;
  int nfunctions;
  WindowFunction *functions;
  bool has_aggregates, has_peers; /* some function needs them */
  ExprState *run_condition;       /* NULL: none */
  bool stopped;                   /* it failed in this partition */
  MemoryContext results;          /* of the current frame's aggregates */

  /* places in the order of the sort */
  uint32 start, end;       /* of the partition */
  uint32 peers, peers_end; /* of the current row's peers */
  uint32 framed;           /* the frame so far ends here */
  int64 ngroups;           /* of peers, in the partition */
  uint64 npartitions;      /* for EXPLAIN */
} Window;

/* Planning. How a function is computed; false: it is not. */
extern bool window_function_kind(Oid function, WindowFunctionKind *kind);
extern WindowFrame window_frame(int frame_options, bool ordered);

/* The rows are sorted, and will be requested from the first. */
extern void window_restart(Window *window);
/* Computes all functions of the row at a place, which must not be less than the place before. */
extern void window_at(Window *window, uint32 place);

/* ---- for window_at() ---- */

extern void window_function_begin(WindowFunction *function);
/* Adds the rows from one place to another to the frame. */
extern void window_function_add(WindowFunction *function, const RowSort *sort, uint32 from,
                                uint32 to);
/* Sets value and is_null of an aggregate; memory is the current context's. */
extern void window_function_finish(WindowFunction *function);
static inline bool window_function_is_aggregate(WindowFunctionKind kind) {
  return kind >= WINDOW_COUNT_ROWS;
}

#endif
