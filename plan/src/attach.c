/*
 * Connects nodes that depend on each other after the executor has started: the owner of a hash
 * table above, and the buffer or BatchScan below that prefetches its rows or drops rows without a
 * partner.
 *
 * The structure of the plan determines both, so this is done once. The nodes that use a table check
 * whether it exists, its size, and when it ends.
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
#include "top_n_attach.h"

static ExecutorStart_hook_type previous_executor_start = NULL;

/* ---- bloom filters ---- */

/* In such a join, each result that an outer row contributes to has that row's columns; dropping
 * the outer row drops exactly these results, or leaves NULL in its columns, which has no partner
 * either. */
static bool keeps_outer_columns(JoinType type) {
  return type == JOIN_INNER || type == JOIN_LEFT || type == JOIN_SEMI || type == JOIN_ANTI ||
         type == JOIN_RIGHT;
}

/* The outer column that an inner join equates with its inner column `attno`, or 0. */
static AttrNumber equal_outer_column(const PlanState *node, AttrNumber attno) {
  const HashJoin *join = (const HashJoin *)node->plan;
  ListCell *cell;

  if (!IsA(node, HashJoinState) || join->join.jointype != JOIN_INNER) return 0;
  foreach (cell, join->hashclauses) {
    const OpExpr *clause = lfirst(cell);
    const Var *outer = linitial(clause->args);
    const Var *inner = lsecond(clause->args);
    /* Equality of integers; a user's operator class may differ. */
    if (clause->opno >= FirstGenbkiObjectId || !IsA(outer, Var) ||
        !is_hashed_as_integer(outer->vartype))
      continue;
    if (outer->varno != OUTER_VAR) continue;
    if (IsA(inner, Var) && inner->varno == INNER_VAR && inner->varattno == attno)
      return outer->varattno;
  }
  return 0;
}

/* The origin of an outer child's column: a target entry of a BatchScan, traced through joins and
 * buffers. NULL if it is computed or comes from another node. */
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

/* True for joins that drop outer rows without a partner. */
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
  /* First filters that drop rows, then prefetching for the rows that are left. */
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
  /* Inner joins first: usually their filters drop more rows than those of the joins above. */
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
