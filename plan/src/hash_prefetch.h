/*
 * Touching a hash table before its rows get there: a probe of a table beyond the caches costs two
 * dependent misses, 350 ns at 8 MB; with the rows of a batch known, their misses overlap (93 ns).
 *
 * The hash table belongs to core's HashJoin or hashed Agg; it is only read.
 */
#ifndef CCOPT_HASH_PREFETCH_H
#define CCOPT_HASH_PREFETCH_H

#include "batch.h"
#include "buffer.h"
#include "buffer_rows.h"

/* The attributes of the outer child that a node hashes, all integers; NIL if it does not. For
 * HashJoin and Agg; of the plan, so that it holds before there is a state. */
extern List *hashed_integer_keys(const Plan *parent);

/* For a prefetching Buffer; NULL if the parent's state cannot be used. */
extern BufferHelper *hash_prefetch_helper(PlanState *parent, PlanState *buffer);
/* For a BatchScan below the parent: nothing is copied. False if it cannot be done. */
extern bool hash_prefetch_visit(PlanState *parent, PlanState *scan);

/* One stored tuple of core's hash table of a join: does our hash value agree with the stored one?
 * True if the table is empty. */
extern bool hash_values_agree(HashJoinState *join);

#endif
