/*
 * ORDER BY ... LIMIT n: rows that cannot be among the first n are dropped before they become rows.
 *
 *     Limit
 *       Sort           core's; keeps the first n (its bound)
 *         BatchScan       drops rows whose first sort key is behind that of n rows that were there before
 *      or BatchHashJoin   does so with joined rows
 *      or BatchAgg        does so with groups, before their results are made
 *
 * The sort stays core's, and so do the order of equal keys, NULLs and further keys: what is dropped here
 * it would have dropped itself.
 */
#ifndef CCOPT_TOP_N_H
#define CCOPT_TOP_N_H

#include "batch.h"

typedef struct TopN TopN;

/* Of a sort by a key whose order is that of its numbers. Lives as long as the query. */
extern TopN *top_n_create(const SortState *sort, bool descending);

/* Of batches: which column has the key, false if it has no numbers; drops rows; the input starts again. */
extern bool top_n_set_column(TopN *top, const Batch *batch, int column);
extern void top_n_filter(TopN *top, Batch *batch);
extern void top_n_restart(TopN *top);

/* Of groups. The input starts: takes the sort's bound; false if it has none. */
extern bool top_n_begin(TopN *top);
/* A key that is there, and whether rows with a key may still be among the first. */
extern void top_n_note(TopN *top, int128 key);
extern bool top_n_admits(const TopN *top, int128 key);
extern bool top_n_admits_null(const TopN *top);
/* Counts rows that were dropped. */
extern void top_n_count(TopN *top, uint64 dropped);
extern void top_n_explain(const TopN *top, ExplainState *es);

#endif
