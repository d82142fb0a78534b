/*
 * ORDER BY ... LIMIT n.
 *
 *   waiting ── top_n_begin: the sort has a bound ──> collecting ── n keys ──> filtering
 *      └──── it has none, or a large one ──> off <── most rows pass ─────────────┘
 *
 * Invariants:
 *  1. `keys` are the first n of those noted, in the order of the sort, as a heap whose root is the last.
 *  2. Only keys of rows that reach the sort are noted; so the last of n noted keys is behind that of n
 *     rows which the sort has or gets, and a row whose key is behind it cannot be among the first n.
 *  3. Keys that are not numbers (NaN, too many digits) and NULL are never noted.
 */
#include "top_n.h"

#include "nodes/execnodes.h"

/* Of more rows the heap takes longer than it saves, and memory beside work_mem: this is 256 kB. */
#define MOST_ROWS 16384
/* Of this number of rows at least a quarter must have been dropped. */
#define TRIED_ROWS (64 * BATCH_ROWS)

struct TopN {
  const SortState *sort;
  bool descending, nulls_first;
  bool on;
  bool begun; /* of batches */
  int column; /* of batches: that of the key */
  int bound;  /* n */
  int nkeys;
  int capacity;
  int128 *keys; /* descending: complements, so that the smallest are first */
  uint64 tried, passed;
  uint64 dropped; /* for EXPLAIN */
};

TopN *top_n_create(const SortState *sort, bool descending) {
  TopN *top = MemoryContextAllocZero(sort->ss.ps.state->es_query_cxt, sizeof(*top));

  top->sort = sort;
  top->descending = descending;
  top->nulls_first = ((const Sort *)sort->ss.ps.plan)->nullsFirst[0];
  return top;
}

/* ---- the heap ---- */

bool top_n_begin(TopN *top) {
  top->on = top->sort->bounded && top->sort->bound > 0 && top->sort->bound <= MOST_ROWS;
  top->nkeys = 0;
  top->tried = top->passed = 0;
  if (!top->on) return false;
  top->bound = (int)top->sort->bound;
  if (top->capacity < top->bound) {
    if (top->keys) pfree(top->keys);
    top->keys =
        MemoryContextAlloc(top->sort->ss.ps.state->es_query_cxt, sizeof(*top->keys) * top->bound);
    top->capacity = top->bound;
  }
  return true;
}

static inline bool is_full(const TopN *top) { return top->nkeys == top->bound; }

static void sift_up(int128 *keys, int at, int128 key) {
  while (at > 0 && keys[(at - 1) / 2] < key) {
    keys[at] = keys[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  keys[at] = key;
}

static void replace_root(int128 *keys, int n, int128 key) {
  int at = 0;

  for (;;) {
    int child = 2 * at + 1;
    if (child >= n) break;
    if (child + 1 < n && keys[child + 1] > keys[child]) child++;
    if (keys[child] <= key) break;
    keys[at] = keys[child];
    at = child;
  }
  keys[at] = key;
}

static inline int128 in_order(const TopN *top, int128 key) { return top->descending ? ~key : key; }

void top_n_note(TopN *top, int128 key) {
  key = in_order(top, key);
  if (!is_full(top))
    sift_up(top->keys, top->nkeys++, key);
  else if (key < top->keys[0])
    replace_root(top->keys, top->nkeys, key);
}

bool top_n_admits(const TopN *top, int128 key) {
  return !is_full(top) || in_order(top, key) <= top->keys[0];
}

bool top_n_admits_null(const TopN *top) { return top->nulls_first || !is_full(top); }

void top_n_count(TopN *top, uint64 dropped) { top->dropped += dropped; }

/* ---- rows of batches ---- */

static bool is_number(const BatchColumn *column, const Batch *batch, int row) {
  return column->where[row] != NULL && !batch->odd[row];
}

static void note_rows(TopN *top, const Batch *batch, const BatchColumn *column) {
  const int64 flip = top->descending ? -1 : 0;
  int i = 0;

  for (; i < batch->nselected && !is_full(top); i++)
    if (is_number(column, batch, batch->selected[i]))
      top_n_note(top, column->number[batch->selected[i]]);
  if (i == batch->nselected) return;
  for (int64 last = (int64)top->keys[0]; i < batch->nselected; i++) {
    int row = batch->selected[i];
    if (!is_number(column, batch, row) || (column->number[row] ^ flip) >= last) continue;
    replace_root(top->keys, top->nkeys, column->number[row] ^ flip);
    last = (int64)top->keys[0];
  }
}

static void drop_rows(TopN *top, Batch *batch, const BatchColumn *column) {
  const int64 flip = top->descending ? -1 : 0;
  const int64 last = (int64)top->keys[0];
  int kept = 0;

  for (int i = 0; i < batch->nselected; i++) {
    uint16 row = batch->selected[i];
    batch->selected[kept] = row;
    if (is_number(column, batch, row))
      kept += (column->number[row] ^ flip) <= last;
    else
      kept += column->where[row] != NULL || top->nulls_first;
  }
  top->tried += batch->nselected;
  top->passed += kept;
  top->dropped += batch->nselected - kept;
  batch->nselected = kept;
  if (top->tried < TRIED_ROWS) return;
  top->on = top->passed < top->tried / 4 * 3;
  top->tried = top->passed = 0;
}

void top_n_filter(TopN *top, Batch *batch) {
  const BatchColumn *column = &batch->columns[top->column];

  if (!top->begun) {
    top_n_begin(top);
    top->begun = true;
  }
  if (!top->on) return;
  batch_decode(batch, top->column);
  /* All of the batch first: where keys come in the wrong order, each is better than those before. */
  note_rows(top, batch, column);
  if (is_full(top)) drop_rows(top, batch, column);
}

void top_n_restart(TopN *top) { top->begun = false; }

bool top_n_set_column(TopN *top, const Batch *batch, int column) {
  const ColumnKind kind = batch->columns[column].kind;

  top->column = column;
  return kind == COLUMN_INTEGER || kind == COLUMN_DECIMAL;
}

void top_n_explain(const TopN *top, ExplainState *es) {
  if (es->analyze) ExplainPropertyUInteger("Rows Removed by Top-N Filter", NULL, top->dropped, es);
}
