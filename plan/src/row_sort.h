/*
 * Sorts stored rows by up to ROW_SORT_KEYS columns, and compares neighbours in that order.
 *
 * Rows with equal keys come in the order in which core's sort in memory (tuplesort.c) leaves them, so
 * that row_number() of peers is what it is in core's plan.
 */
#ifndef CCOPT_ROW_SORT_H
#define CCOPT_ROW_SORT_H

#include "row_store.h"

#define ROW_SORT_KEYS 16

typedef struct SortKey {
  int column; /* of the store */
  bool descending;
  bool nulls_first;
} SortKey;

typedef struct SortedRow {
  uint64 code;
  uint32 row;
} SortedRow;

typedef struct RowSort RowSort;
struct RowSort {
  const RowStore *store;
  int nkeys;
  const SortKey *keys;
  int npacked;                  /* leading keys that code has completely */
  int shift[ROW_SORT_KEYS + 1]; /* code >> shift[n]: the first n keys; 64: there are none */
  uint64 least[ROW_SORT_KEYS];  /* of each key */
  uint64 most[ROW_SORT_KEYS];
  bool has_nulls[ROW_SORT_KEYS];
  const uint32 *ranks[ROW_SORT_KEYS]; /* of text */
  SortedRow *rows;                    /* [store->nrows] */
  bool by_digits; /* for EXPLAIN: no two rows were equal, and digits were sorted */
};

extern RowSort *row_sort_create(const RowStore *store, const SortKey *keys, int nkeys);
/* Sorts all rows; `rows` is in the store's context. */
extern void row_sort_run(RowSort *sort);
/* Bytes that a row takes while it is sorted. */
#define ROW_SORT_BYTES (2 * sizeof(SortedRow))

extern bool row_sort_equal_rest(const RowSort *sort, uint32 a, uint32 b, int nkeys);

/* Whether two rows, by their places in the order, have the same first `nkeys` keys. */
static inline bool row_sort_equal(const RowSort *sort, uint32 a, uint32 b, int nkeys) {
  const SortedRow *first = &sort->rows[a], *second = &sort->rows[b];

  if (nkeys == 0) return true;
  if (likely(nkeys <= sort->npacked))
    return sort->shift[nkeys] == 64 || (first->code ^ second->code) >> sort->shift[nkeys] == 0;
  return first->code == second->code && row_sort_equal_rest(sort, first->row, second->row, nkeys);
}

#endif
