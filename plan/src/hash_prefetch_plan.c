/*
 * Prefetching buffers, planning: placed below a HashJoin's outer side and below a hashed Agg, if
 * the hash table is expected to be so large that the saved misses outweigh the cost of keeping
 * rows.
 */
#include "hash_prefetch.h"

#include "costs.h"
#include "costs_in_force.h"
#include "executor/hashjoin.h"
#include "executor/nodeHash.h"
#include "hash_keys.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"

/* 128 to 512 rows were equally fast (docs/design/plan.md, 3.1); these fit L1 with their tuples'
 * headers. */
#define PREFETCH_ROWS 256
/* Cost of a row through a buffer: 140 instructions. */
#define COPY_NS 25
#define SETUP_NS 100000
/* Required ratio of expected savings to cost. Estimates can be wrong by more, but the size of
 * the real table is checked before a row is kept. */
#define WORTH 2

static List *join_keys(const HashJoin *join) {
  List *keys = NIL;
  ListCell *cell;

  foreach (cell, join->hashkeys) {
    const Var *key = lfirst(cell);
    if (!IsA(key, Var) || key->varno != OUTER_VAR || !is_hashed_as_integer(key->vartype))
      return NIL;
    keys = lappend_int(keys, key->varattno);
  }
  return keys;
}

static List *group_keys(const Agg *agg) {
  List *keys = NIL;

  if (agg->aggstrategy != AGG_HASHED || agg->groupingSets != NIL || agg->chain != NIL) return NIL;
  if (agg->aggsplit != AGGSPLIT_SIMPLE) return NIL;
  for (int i = 0; i < agg->numCols; i++) {
    TargetEntry *entry = list_nth(outerPlan(agg)->targetlist, agg->grpColIdx[i] - 1);
    if (!is_hashed_as_integer(exprType((Node *)entry->expr))) return NIL;
    keys = lappend_int(keys, agg->grpColIdx[i]);
  }
  return keys;
}

List *hashed_integer_keys(const Plan *parent) {
  List *keys = IsA(parent, HashJoin) ? join_keys((const HashJoin *)parent)
               : IsA(parent, Agg)    ? group_keys((const Agg *)parent)
                                     : NIL;
  return list_length(keys) <= HASH_KEYS_MOST ? keys : NIL;
}

static double table_bytes(const Plan *parent) {
  const double bucket = sizeof(void *);
  if (IsA(parent, HashJoin)) {
    const Plan *inner = innerPlan(parent);
    return inner->plan_rows *
           (HJTUPLE_OVERHEAD + SizeofMinimalTupleHeader + MAXALIGN(inner->plan_width) + bucket);
  }
  /* An entry of the table, a tuple of the keys, a transition state; half of the entries are free.
   */
  return parent->plan_rows * (2.0 * 24 + SizeofMinimalTupleHeader + 2 * sizeof(Datum) +
                              (double)((const Agg *)parent)->transitionSpace + 32);
}

const char *prefetch_refusal(const Plan *parent, ChildRole role, const Plan *child,
                             BufferPlace *place) {
  const CostConstants *costs = cost_constants();
  double bytes;
  double saved;

  if (role != CHILD_OUTER || !(IsA(parent, HashJoin) || IsA(parent, Agg)))
    return "the parent has no hash table to prefetch";
  place->keys = hashed_integer_keys(parent);
  if (place->keys == NIL) return "keys are not up to four integers";
  if (IsA(child, CustomScan)) return "batches are prefetched for without a buffer";
  bytes = table_bytes(parent);
  if (bytes > get_hash_memory_limit()) return "the hash table does not fit hash_mem";
  saved = memory_ns(costs->probe_plain, bytes) - memory_ns(costs->probe_prefetched, bytes);
  if (child->plan_rows * saved < WORTH * (child->plan_rows * COPY_NS + SETUP_NS))
    return "the hash table is too small, or probed too seldom, to miss caches much";
  place->purpose = BUFFER_FOR_PREFETCH;
  place->rows = PREFETCH_ROWS;
  return NULL;
}
