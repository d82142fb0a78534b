/*
 * Nodes that need to know of each other are connected when the executor has started: a hash table's
 * owner above, and the buffer or BatchScan below that prefetches its rows or drops what has no
 * partner.
 *
 * Both are settled by the plan's shape, so that it can be done once. A table's being there, its
 * size, its end are looked at by those who use it.
 */
#include "attach.h"

#include "access/parallel.h"
#include "access/transam.h"
#include "batch_scan.h"
#include "bloom.h"
#include "executor/executor.h"
#include "hash_keys.h"
#include "hash_prefetch.h"
#include "key_sort.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "settings.h"
#include "shapes.h"
#include "top_n.h"

static ExecutorStart_hook_type previous_executor_start = NULL;

/* ---- bloom filters ---- */

/* Of such a join each row that comes out of an outer row carries that row's columns; dropping the
 * outer row drops just those, or leaves them with NULL, which is no partner either. */
static bool keeps_outer_columns(JoinType type) {
  return type == JOIN_INNER || type == JOIN_LEFT || type == JOIN_SEMI || type == JOIN_ANTI ||
         type == JOIN_RIGHT;
}

/* The outer column that an inner join makes equal to its inner column `attno`, or 0. */
static AttrNumber equal_outer_column(const PlanState *node, AttrNumber attno) {
  const HashJoin *join = (const HashJoin *)node->plan;
  ListCell *cell;

  if (!IsA(node, HashJoinState) || join->join.jointype != JOIN_INNER) return 0;
  foreach (cell, join->hashclauses) {
    const OpExpr *clause = lfirst(cell);
    const Var *outer = linitial(clause->args);
    const Var *inner = lsecond(clause->args);
    /* Equal as integers are; a user's operator class may differ. */
    if (clause->opno >= FirstGenbkiObjectId || !IsA(outer, Var) ||
        !is_hashed_as_integer(outer->vartype))
      continue;
    if (outer->varno != OUTER_VAR) continue;
    if (IsA(inner, Var) && inner->varno == INNER_VAR && inner->varattno == attno)
      return outer->varattno;
  }
  return 0;
}

/* Where a column of an outer child comes from: a BatchScan's target entry, through joins and
 * buffers. NULL if it is computed, or from elsewhere. */
static PlanState *find_scan(PlanState *node, AttrNumber *resno) {
  while (node) {
    const TargetEntry *entry = get_tle_by_resno(node->plan->targetlist, *resno);
    const Var *var = entry ? (const Var *)entry->expr : NULL;

    if (is_batch_scan(node)) return node;
    if (buffer_purpose_of(node) < 0) {
      AttrNumber attno;
      if (var == NULL || !IsA(var, Var)) return NULL;
      attno = var->varno == OUTER_VAR   ? var->varattno
              : var->varno == INNER_VAR ? equal_outer_column(node, var->varattno)
                                        : 0;
      if (attno == 0) return NULL;
      if (!IsA(node, HashJoinState) && !IsA(node, NestLoopState)) return NULL;
      if (!keeps_outer_columns(((JoinState *)node)->jointype)) return NULL;
      *resno = attno;
    }
    node = outerPlanState(node);
  }
  return NULL;
}

/* A row without a partner is nothing to these. */
static bool drops_strangers(JoinType type) {
  return type == JOIN_INNER || type == JOIN_SEMI || type == JOIN_RIGHT;
}

static void attach_bloom(HashJoinState *join, List *keys) {
  AttrNumber resno;
  PlanState *scan;

  if (!ccopt_enable_bloom || list_length(keys) != 1 || !drops_strangers(join->js.jointype)) return;
  resno = linitial_int(keys);
  scan = find_scan(outerPlanState(join), &resno);
  if (scan) bloom_attach(join, scan, resno);
}

/* ---- the walk ---- */

static void attach_to_outer(PlanState *node) {
  PlanState *outer = outerPlanState(node);
  List *keys = hashed_integer_keys(node->plan);

  if (keys == NIL) return;
  /* First what drops rows, then what works for those that are left. */
  if (IsA(node, HashJoinState)) attach_bloom((HashJoinState *)node, keys);
  if (buffer_purpose_of(outer) == BUFFER_FOR_PREFETCH) {
    BufferHelper *helper = hash_prefetch_helper(node, outer);
    if (helper) buffer_set_helper(outer, helper);
  } else if (is_batch_scan(outer) && ccopt_buffer == BUFFER_AUTO) {
    hash_prefetch_visit(node, outer);
  }
}

static void attach_to_node(PlanState *node) {
  if (IsA(node, HashJoinState) || IsA(node, AggState)) attach_to_outer(node);
  if (IsA(node, LimitState)) top_n_attach(outerPlanState(node));
  if (buffer_purpose_of(node) == BUFFER_FOR_KEY_ORDER)
    buffer_set_helper(node, key_sort_helper(node));
}

static bool attach_below(PlanState *node, void *context) {
  /* Inner joins first: their filters drop more than those of the joins above, most often. */
  bool done = planstate_tree_walker(node, attach_below, context);
  attach_to_node(node);
  return done;
}

static void executor_start(QueryDesc *query, int eflags) {
  if (previous_executor_start)
    previous_executor_start(query, eflags);
  else
    standard_ExecutorStart(query, eflags);
  if (ccopt_enabled && query->planstate) {
    attach_below(query->planstate, NULL);
    /* A bound of the leader's comes to the top node of the worker. */
    if (IsParallelWorker()) top_n_attach(query->planstate);
  }
  shapes_started(query, eflags);
}

void attach_register(void) {
  previous_executor_start = ExecutorStart_hook;
  ExecutorStart_hook = executor_start;
}
