/*
 * The place of a row in its window: its partition and peers, and what functions say of it.
 *
 *     place     0     1     2     3     4     5     6     7
 *     key       a 1   a 2   a 2   a 3   b 1   b 1   b 2   c 1
 *               start                   end                        of the partition of place 2
 *                     peers       peers_end
 *                                 framed (FRAME_TO_PEERS)
 *
 * Invariants:
 *  1. start <= peers <= place < peers_end <= end; all four are of the row that was requested last. Without
 *     has_peers, peers and peers_end are not kept.
 *  2. Aggregates have the rows from start to framed.
 */
#include "window_functions.h"

#include "miscadmin.h"
#include "utils/fmgroids.h"

/* ---- planning ---- */

bool window_function_kind(Oid function, WindowFunctionKind *kind) {
  switch (function) {
    case F_ROW_NUMBER: *kind = WINDOW_ROW_NUMBER; return true;
    case F_RANK_: *kind = WINDOW_RANK; return true;
    case F_DENSE_RANK_: *kind = WINDOW_DENSE_RANK; return true;
    case F_PERCENT_RANK_: *kind = WINDOW_PERCENT_RANK; return true;
    case F_CUME_DIST_: *kind = WINDOW_CUME_DIST; return true;
    case F_NTILE: *kind = WINDOW_NTILE; return true;
    case F_LAG_ANYELEMENT:
    case F_LAG_ANYELEMENT_INT4:
    case F_LAG_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE:
    case F_LEAD_ANYELEMENT:
    case F_LEAD_ANYELEMENT_INT4:
    case F_LEAD_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE: *kind = WINDOW_OFFSET; return true;
    case F_FIRST_VALUE: *kind = WINDOW_FIRST_VALUE; return true;
    case F_LAST_VALUE: *kind = WINDOW_LAST_VALUE; return true;
    case F_NTH_VALUE: *kind = WINDOW_NTH_VALUE; return true;
    case F_COUNT_: *kind = WINDOW_COUNT_ROWS; return true;
    case F_COUNT_ANY: *kind = WINDOW_COUNT; return true;
    case F_SUM_INT2:
    case F_SUM_INT4: *kind = WINDOW_SUM_INTEGER; return true;
    case F_SUM_INT8:
    case F_SUM_NUMERIC: *kind = WINDOW_SUM_NUMERIC; return true;
    case F_AVG_INT2:
    case F_AVG_INT4:
    case F_AVG_INT8:
    case F_AVG_NUMERIC: *kind = WINDOW_AVERAGE; return true;
    case F_MIN_INT2:
    case F_MIN_INT4:
    case F_MIN_INT8:
    case F_MIN_NUMERIC:
    case F_MIN_DATE:
    case F_MIN_TIMESTAMP:
    case F_MIN_TIMESTAMPTZ: *kind = WINDOW_MIN; return true;
    case F_MAX_INT2:
    case F_MAX_INT4:
    case F_MAX_INT8:
    case F_MAX_NUMERIC:
    case F_MAX_DATE:
    case F_MAX_TIMESTAMP:
    case F_MAX_TIMESTAMPTZ: *kind = WINDOW_MAX; return true;
    case F_SUM_FLOAT8: *kind = WINDOW_SUM_FLOAT; return true;
    case F_AVG_FLOAT8: *kind = WINDOW_AVERAGE_FLOAT; return true;
    default: return false;
  }
}

WindowFrame window_frame(int frame_options, bool ordered) {
  if (frame_options & FRAMEOPTION_END_UNBOUNDED_FOLLOWING) return FRAME_TO_END;
  if (frame_options & FRAMEOPTION_ROWS) return FRAME_TO_ROW;
  return ordered ? FRAME_TO_PEERS : FRAME_TO_END;
}

/* ---- partitions and peers ---- */

static uint32 count_of(const Window *window) { return window->sort->store->nrows; }

static void begin_partition(Window *window, uint32 start) {
  uint32 end = start + 1;

  while (end < count_of(window) &&
         row_sort_equal(window->sort, end - 1, end, window->npartition_keys))
    end++;
  window->start = start;
  window->end = end;
  window->peers = window->peers_end = start;
  window->framed = start;
  window->ngroups = 0;
  window->stopped = false;
  window->npartitions++;
  for (int i = 0; i < window->nfunctions; i++) window_function_begin(&window->functions[i]);
  CHECK_FOR_INTERRUPTS();
}

static void begin_peers(Window *window) {
  uint32 end = window->peers_end + 1;

  while (end < window->end && row_sort_equal(window->sort, end - 1, end, window->nkeys)) end++;
  window->peers = window->peers_end;
  window->peers_end = end;
  window->ngroups++;
}

static uint32 frame_end(const Window *window, uint32 place) {
  switch (window->frame) {
    case FRAME_TO_ROW: return place + 1;
    case FRAME_TO_PEERS: return window->peers_end;
    default: return window->end;
  }
}

/* ---- the functions ---- */

static void extend_frame(Window *window, uint32 end) {
  MemoryContext before;

  if (end == window->framed) return;
  MemoryContextReset(window->results);
  before = MemoryContextSwitchTo(window->results);
  for (int i = 0; i < window->nfunctions; i++) {
    WindowFunction *function = &window->functions[i];
    if (!window_function_is_aggregate(function->kind)) continue;
    window_function_add(function, window->sort, window->framed, end);
    window_function_finish(function);
  }
  MemoryContextSwitchTo(before);
  window->framed = end;
}

static void take_value(WindowFunction *function, const RowSort *sort, uint32 place) {
  const uint32 row = sort->rows[place].row;

  function->is_null = stored_is_null(function->column, row);
  function->value = function->is_null ? (Datum)0 : function->column->value[row];
}

static void take_offset(WindowFunction *function, const Window *window, uint32 place) {
  const int64 wanted = (int64)place + function->offset;

  if (function->offset_is_null) {
    function->is_null = true;
    function->value = (Datum)0;
  } else if (wanted >= window->start && wanted < window->end) {
    take_value(function, window->sort, (uint32)wanted);
  } else {
    function->is_null = function->other_is_null;
    function->value = function->other;
  }
}

static void take_nth(WindowFunction *function, const Window *window, uint32 end) {
  const int64 wanted = (int64)window->start + function->offset - 1;

  if (wanted < end) {
    take_value(function, window->sort, (uint32)wanted);
  } else {
    function->is_null = true;
    function->value = (Datum)0;
  }
}

/* The first n % buckets have a row more than the others. */
static int32 bucket_of(int64 at, int64 n, int64 buckets) {
  const int64 each = n / buckets, larger = n % buckets;

  if (at < larger * (each + 1)) return (int32)(at / (each + 1) + 1);
  return (int32)(larger + (at - larger * (each + 1)) / each + 1);
}

static Datum ranked(const WindowFunction *function, const Window *window, uint32 place) {
  const int64 n = window->end - window->start;
  const int64 before = window->peers - window->start;

  switch (function->kind) {
    case WINDOW_ROW_NUMBER: return Int64GetDatum((int64)place - window->start + 1);
    case WINDOW_RANK: return Int64GetDatum(before + 1);
    case WINDOW_DENSE_RANK: return Int64GetDatum(window->ngroups);
    case WINDOW_PERCENT_RANK: return Float8GetDatum(n > 1 ? (double)before / (double)(n - 1) : 0.0);
    case WINDOW_CUME_DIST:
      return Float8GetDatum((double)(window->peers_end - window->start) / (double)n);
    default: return Int32GetDatum(bucket_of((int64)place - window->start, n, function->offset));
  }
}

void window_at(Window *window, uint32 place) {
  uint32 end;

  while (place >= window->end) begin_partition(window, window->end);
  if (window->has_peers)
    while (place >= window->peers_end) begin_peers(window);
  end = frame_end(window, place);
  if (window->has_aggregates) extend_frame(window, end);
  for (int i = 0; i < window->nfunctions; i++) {
    WindowFunction *function = &window->functions[i];
    switch (function->kind) {
      case WINDOW_OFFSET: take_offset(function, window, place); break;
      case WINDOW_FIRST_VALUE: take_value(function, window->sort, window->start); break;
      case WINDOW_LAST_VALUE: take_value(function, window->sort, end - 1); break;
      case WINDOW_NTH_VALUE: take_nth(function, window, end); break;
      default:
        if (window_function_is_aggregate(function->kind)) break;
        function->is_null = false;
        function->value = ranked(function, window, place);
        break;
    }
  }
}

void window_restart(Window *window) {
  window->start = window->end = 0;
  window->peers = window->peers_end = 0;
  window->framed = 0;
  window->stopped = false;
}
