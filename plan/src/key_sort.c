/*
 * Sorts a buffer's rows by key: execution. If the first rows are in order already, sorting gains
 * nothing, and the buffer passes rows through from then on.
 */
#include "key_sort.h"

#include "executor/executor.h"
#include "hash_keys.h"

/* Share of neighbours in order above which sorting is not worthwhile. */
#define SORTED_SHARE 0.9

#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)

typedef struct KeySort {
  BufferHelper helper; /* must be first */
  AttrNumber attno;
  Oid type;
  bool looked; /* the first rows were checked */
  bool in_order;
  /* arrays of `room` rows */
  int room;
  uint64 *keys;
  int *order;
  int *scratch;
} KeySort;

static const char *ready(BufferHelper *helper, int *ask_again) {
  const KeySort *sort = (const KeySort *)helper;
  if (!sort->in_order) return NULL;
  *ask_again = INT_MAX;
  return "the rows come in order of the key";
}

static void make_room(KeySort *sort, BufferRows *rows) {
  MemoryContext context = rows->arena.blocks;
  if (rows->nrows <= sort->room) return;
  if (sort->room > 0) {
    pfree(sort->keys);
    pfree(sort->order);
    pfree(sort->scratch);
  }
  sort->room = rows->room;
  sort->keys = MemoryContextAlloc(context, sizeof(*sort->keys) * sort->room);
  sort->order = MemoryContextAlloc(context, sizeof(*sort->order) * sort->room);
  sort->scratch = MemoryContextAlloc(context, sizeof(*sort->scratch) * sort->room);
}

/* Reads keys as unsigned numbers in the same order; NULL, which is never found, comes first.
 * Returns the number of neighbours in order. */
static int read_keys(KeySort *sort, BufferRows *rows) {
  int in_order = 0;
  for (int i = 0; i < rows->nrows; i++) {
    bool isnull;
    Datum value = buffer_rows_value(rows, i, sort->attno, &isnull);
    sort->keys[i] =
        isnull ? 0 : (uint64)integer_of_datum(value, sort->type) ^ (UINT64CONST(1) << 63);
    in_order += i > 0 && sort->keys[i] >= sort->keys[i - 1];
  }
  return in_order;
}

/* Radix sort, least digit first, over the digits in which keys differ; equal keys keep their
 * order. */
static void sort_rows(KeySort *sort, int n) {
  uint64 least = PG_UINT64_MAX;
  uint64 most = 0;

  for (int i = 0; i < n; i++) {
    /* NULLs would widen the range of keys to all 64 bits. */
    if (sort->keys[i] == 0) continue;
    least = Min(least, sort->keys[i]);
    most = Max(most, sort->keys[i]);
  }
  for (int i = 0; i < n; i++) {
    sort->keys[i] = sort->keys[i] > least ? sort->keys[i] - least : 0;
    sort->order[i] = i;
  }
  for (int shift = 0; shift < 64 && most > least && (most - least) >> shift > 0;
       shift += DIGIT_BITS) {
    int starts[DIGITS + 1] = {0};
    int *swap;
    for (int i = 0; i < n; i++) starts[(sort->keys[i] >> shift & (DIGITS - 1)) + 1]++;
    for (int digit = 1; digit <= DIGITS; digit++) starts[digit] += starts[digit - 1];
    for (int i = 0; i < n; i++) {
      int row = sort->order[i];
      sort->scratch[starts[sort->keys[row] >> shift & (DIGITS - 1)]++] = row;
    }
    swap = sort->order;
    sort->order = sort->scratch;
    sort->scratch = swap;
  }
}

static void gathered(BufferHelper *helper, BufferRows *rows) {
  KeySort *sort = (KeySort *)helper;
  int in_order;

  make_room(sort, rows);
  in_order = read_keys(sort, rows);
  if (!sort->looked) {
    sort->looked = true;
    sort->in_order = in_order >= SORTED_SHARE * (rows->nrows - 1);
  }
  rows->order = NULL;
  if (sort->in_order) return;
  sort_rows(sort, rows->nrows);
  rows->order = sort->order;
}

BufferHelper *key_sort_helper(PlanState *buffer) {
  KeySort *sort = MemoryContextAllocZero(buffer->state->es_query_cxt, sizeof(*sort));
  sort->attno = linitial_int(buffer_keys(buffer));
  sort->type = TupleDescAttr(ExecGetResultType(buffer), sort->attno - 1)->atttypid;
  sort->helper = (BufferHelper){.ready = ready, .gathered = gathered};
  return &sort->helper;
}
