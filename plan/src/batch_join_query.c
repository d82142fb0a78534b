/*
 * BatchHashJoin, planning: facts about a query that are the same for all its joins.
 *
 * The planner tries up to 2^n joins for n tables; the facts here are computed once.
 */
#include "batch_join.h"

#include "batch_scan.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/placeholder.h"
#include "utils/memutils.h"

struct JoinQuery {
  const PlannerInfo *root;
  JoinQuery *next;
  MemoryContextCallback forget;
  bool may_stop;       /* the consumer of the joins' rows may stop early */
  bool quals_may_fail; /* some condition or placeholder of the query may fail */
  /* indexed by relation: */
  Path **scans; /* BatchScan's path for a parent that takes batches */
  bool *scan_known;
  Path **partial_scans; /* the same, divided among processes */
  bool *partial_scan_known;
  bool *computes; /* true for a subquery or WITH that computes each row when it is asked for */
};

/* Queries being planned; subqueries are planned while their parents are. */
static JoinQuery *queries = NULL;

static void forget_query(void *argument) {
  JoinQuery **link = &queries;

  while (*link != NULL && *link != argument) link = &(*link)->next;
  if (*link != NULL) *link = (*link)->next;
}

/* ---- reading ahead ---- */

/*
 * True if evaluating the clause may raise an error or have another visible effect. Batch kernels
 * cannot; for everything else core only knows what it calls leakproof.
 */
static bool may_fail(Node *clause) {
  return vector_qual_refusal(clause) != NULL && contain_leaked_vars(clause);
}

static bool some_may_fail(List *clauses) {
  ListCell *cell;

  foreach (cell, clauses)
    if (may_fail(lfirst(cell))) return true;
  return false;
}

static bool quals_may_fail(Node *from) {
  if (from == NULL || IsA(from, RangeTblRef)) return false;
  if (IsA(from, JoinExpr)) {
    JoinExpr *join = (JoinExpr *)from;
    return some_may_fail((List *)join->quals) || quals_may_fail(join->larg) ||
           quals_may_fail(join->rarg);
  }
  if (IsA(from, FromExpr)) {
    ListCell *cell;
    if (some_may_fail((List *)((FromExpr *)from)->quals)) return true;
    foreach (cell, ((FromExpr *)from)->fromlist)
      if (quals_may_fail(lfirst(cell))) return true;
    return false;
  }
  return true;
}

static bool placeholders_may_fail(const PlannerInfo *root) {
  ListCell *cell;

  foreach (cell, root->placeholder_list) {
    PlaceHolderInfo *placeholder = lfirst_node(PlaceHolderInfo, cell);
    if (may_fail((Node *)placeholder->ph_var->phexpr)) return true;
  }
  return false;
}

/* Batches have no order, so a node that groups or sorts them reads all of them first. */
static bool may_stop(const PlannerInfo *root) {
  const Query *query = root->parse;

  return !query->hasAggs && query->groupClause == NIL && query->groupingSets == NIL &&
         query->distinctClause == NIL && root->query_pathkeys == NIL;
}

static bool computes_rows(const RangeTblEntry *entry) {
  switch (entry->rtekind) {
    case RTE_SUBQUERY:
    case RTE_CTE: return true;
    case RTE_VALUES: return contain_leaked_vars((Node *)entry->values_lists);
    default: return false;
  }
}

const char *batch_join_read_ahead_refusal(PlannerInfo *root, const RelOptInfo *joinrel) {
  const JoinQuery *query = batch_join_query(root);
  int relid = -1;

  if (!query->may_stop) return NULL;
  if (query->quals_may_fail) return "rows that are not requested could fail";
  while ((relid = bms_next_member(joinrel->relids, relid)) >= 0)
    if (query->computes[relid]) return "rows that are not requested could fail";
  return NULL;
}

/* Rows are read ahead, so side effects would happen more often. */
const char *batch_join_volatile_refusal(PlannerInfo *root, Relids relids) {
  int relid = -1;

  while ((relid = bms_next_member(relids, relid)) >= 0) {
    const RelOptInfo *rel = root->simple_rel_array[relid];
    const RangeTblEntry *entry = root->simple_rte_array[relid];

    if (rel == NULL) continue;
    if (contain_volatile_functions((Node *)rel->baserestrictinfo) ||
        contain_volatile_functions((Node *)rel->reltarget->exprs))
      return "a condition of its tables is volatile";
    if ((entry->rtekind == RTE_SUBQUERY && contain_volatile_functions((Node *)entry->subquery)) ||
        (entry->rtekind == RTE_FUNCTION && contain_volatile_functions((Node *)entry->functions)))
      return "a subquery or function it reads is volatile";
  }
  return NULL;
}

/* ---- the query ---- */

JoinQuery *batch_join_query(PlannerInfo *root) {
  JoinQuery *query;
  MemoryContext caller;
  int n = root->simple_rel_array_size;

  for (query = queries; query != NULL; query = query->next)
    if (query->root == root) return query;

  /* GEQO plans joins in a context with a shorter life. */
  caller = MemoryContextSwitchTo(root->planner_cxt);
  query = palloc0(sizeof(*query));
  query->root = root;
  query->may_stop = may_stop(root);
  query->quals_may_fail =
      quals_may_fail((Node *)root->parse->jointree) || placeholders_may_fail(root);
  query->scans = palloc0(sizeof(*query->scans) * n);
  query->scan_known = palloc0(sizeof(*query->scan_known) * n);
  query->partial_scans = palloc0(sizeof(*query->partial_scans) * n);
  query->partial_scan_known = palloc0(sizeof(*query->partial_scan_known) * n);
  query->computes = palloc0(sizeof(*query->computes) * n);
  for (int i = 1; i < n; i++)
    if (root->simple_rel_array[i] != NULL && root->simple_rte_array[i] != NULL)
      query->computes[i] = computes_rows(root->simple_rte_array[i]);
  MemoryContextSwitchTo(caller);

  query->forget.func = forget_query;
  query->forget.arg = query;
  MemoryContextRegisterResetCallback(root->planner_cxt, &query->forget);
  query->next = queries;
  queries = query;
  return query;
}

Path *batch_join_scan_path(PlannerInfo *root, RelOptInfo *rel) {
  JoinQuery *query = batch_join_query(root);

  if (!query->scan_known[rel->relid]) {
    MemoryContext caller = MemoryContextSwitchTo(root->planner_cxt);
    query->scans[rel->relid] = batch_scan_path(root, rel, false);
    query->scan_known[rel->relid] = true;
    MemoryContextSwitchTo(caller);
  }
  return query->scans[rel->relid];
}

Path *batch_join_partial_scan_path(PlannerInfo *root, RelOptInfo *rel) {
  JoinQuery *query = batch_join_query(root);

  if (!query->partial_scan_known[rel->relid]) {
    MemoryContext caller = MemoryContextSwitchTo(root->planner_cxt);
    query->partial_scans[rel->relid] = batch_scan_partial_path(root, rel, false);
    query->partial_scan_known[rel->relid] = true;
    MemoryContextSwitchTo(caller);
  }
  return query->partial_scans[rel->relid];
}
