/*
 * Recognizes joins that are small each time (small_joins.h).
 */
#include "small_joins.h"

#include "miscadmin.h"
#include "nodes/nodeFuncs.h"

/* ---- patterns ---- */

static void mix(uint64 *hash, uint64 value) {
  *hash = (*hash ^ value) * UINT64CONST(0x9e3779b97f4a7c15);
  *hash ^= *hash >> 32;
}

static void mix_query(const Query *query, uint64 *hash);

static bool mix_condition(Node *node, void *context) {
  uint64 *hash = context;

  if (node == NULL) return false;
  mix(hash, nodeTag(node));
  switch (nodeTag(node)) {
    case T_Var:
      mix(hash, (uint64)((Var *)node)->varno << 32 | (uint16)((Var *)node)->varattno);
      break;
    case T_FuncExpr: mix(hash, ((FuncExpr *)node)->funcid); break;
    case T_OpExpr:
    case T_DistinctExpr:
    case T_NullIfExpr: mix(hash, ((OpExpr *)node)->opno); break;
    case T_ScalarArrayOpExpr: mix(hash, ((ScalarArrayOpExpr *)node)->opno); break;
    case T_BoolExpr: mix(hash, ((BoolExpr *)node)->boolop); break;
    case T_NullTest: mix(hash, ((NullTest *)node)->nulltesttype); break;
    case T_JoinExpr: mix(hash, ((JoinExpr *)node)->jointype); break;
    case T_RangeTblRef: mix(hash, ((RangeTblRef *)node)->rtindex); break;
    case T_Query: mix_query((const Query *)node, hash); return false;
    default: break;
  }
  return expression_tree_walker(node, mix_condition, context);
}

static void mix_query(const Query *query, uint64 *hash) {
  ListCell *cell;

  check_stack_depth();
  foreach (cell, query->rtable) {
    const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
    mix(hash, (uint64)entry->rtekind << 32 | entry->relid);
    if (entry->rtekind == RTE_SUBQUERY && entry->subquery) mix_query(entry->subquery, hash);
  }
  mix(hash, list_length(query->targetList));
  mix(hash, list_length(query->groupClause) << 16 | list_length(query->sortClause));
  mix(hash, query->hasAggs << 2 | query->hasWindowFuncs << 1 | (query->limitCount != NULL));
  mix_condition((Node *)query->jointree, hash);
}

uint64 small_join_pattern(const Query *query) {
  uint64 hash = MyDatabaseId;

  mix_query(query, &hash);
  return hash;
}

/* ---- the table ---- */

#define PLACES 256
#define MAY_BE_LARGE UINT32_MAX

typedef struct Known {
  uint64 pattern;
  uint32 run; /* small plannings in succession, up to SMALL_JOIN_RUN, or MAY_BE_LARGE */
} Known;

static Known known[PLACES];

bool small_join_expected(uint64 pattern) {
  const Known *place = &known[pattern % PLACES];
  return place->pattern == pattern && place->run == SMALL_JOIN_RUN;
}

void small_join_learn(uint64 pattern, bool small) {
  Known *place = &known[pattern % PLACES];

  if (place->pattern != pattern) *place = (Known){.pattern = pattern};
  if (!small)
    place->run = MAY_BE_LARGE;
  else if (place->run < SMALL_JOIN_RUN)
    place->run++;
}
