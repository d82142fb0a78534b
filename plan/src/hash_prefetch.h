/*
 * Prefetches a hash table before its rows arrive: a probe of a table larger than the caches costs
 * two dependent misses, 350 ns at 8 MB; if the rows of a batch are known, their misses overlap (93
 * ns).
 *
 * The hash table belongs to core's HashJoin or hashed Agg; it is only read.
 */
#ifndef CCOPT_HASH_PREFETCH_H
#define CCOPT_HASH_PREFETCH_H

#include "batch.h"
#include "buffer.h"
#include "buffer_rows.h"

/* The attributes of the outer child that a node hashes, if all are integers; otherwise NIL. For
 * HashJoin and Agg. Takes the plan, so that it can be called before there is a state. */
extern List *hashed_integer_keys(const Plan *parent);

/* The helper of a prefetching Buffer; NULL if the parent's state cannot be used. */
extern BufferHelper *hash_prefetch_helper(PlanState *parent, PlanState *buffer);
/* Adds prefetching to a BatchScan below the parent, without copying rows. False if that is not
 * possible. */
extern bool hash_prefetch_visit(PlanState *parent, PlanState *scan);

/* Compares ccopt's hash value of one tuple in core's hash table of a join with the stored one.
 * True if the table is empty. */
extern bool hash_values_agree(HashJoinState *join);

#endif
