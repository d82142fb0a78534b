/*
 * Checks plans of joins: is the plan with ccopt's nodes better because of measured costs, or
 * because of costs that core underestimates?
 *
 * Cheap batch joins change join orders, and so can bring in index look-ups by the million that core
 * would not have used without them. Core's cost for look-ups is low if random_page_cost is low: a
 * plan that seemed 2 % cheaper took 2.3 times as long (TPC-H Q5). ccopt's constants do not cover
 * core's look-ups. So a plan with many more look-ups than core's own plan, or with other ones, has
 * to be cheaper by the whole margin; otherwise core's plan is taken.
 *
 * This needs core's plan, and therefore a second planning. It is done only for statements that
 * join, get one of ccopt's nodes and index look-ups, and cost enough for another planning not to
 * matter; also if workers are allowed and ccopt's plan has none, since core's plan may then even
 * cost less.
 *
 * Planning changes a query, so a second one needs a copy, which is made before the first: 5 % of all
 * instructions of a join of one row. Joins that are small each time (small_joins.h) are planned by
 * core alone, which needs no second opinion. If such a join turns out to be large for once, it runs by
 * core's plan; the plan cache keeps that only until a transaction has ended.
 */
#include "costs_in_force.h"

#include "costs_second_opinion.h"

#include "catalog/pg_class.h"
#include "costs.h"
#include "miscadmin.h"
#include "node_names.h"
#include "optimizer/cost.h"
#include "optimizer/planner.h"
#include "reasons.h"
#include "settings.h"
#include "shape_key.h"
#include "small_joins.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* An upper bound of the time of a planning, in units of cost. */
#define WORTH_PLANNING_AGAIN 2000.0
/*
 * A number of look-ups that does not matter, and the factor above which ccopt's plan has many more
 * than core's.
 */
#define FEW_LOOKUPS 10000.0
#define MORE_LOOKUPS 2.0

static planner_hook_type previous_planner = NULL;

/* ---- look-ups by index ---- */

typedef struct IndexUse {
  Oid index;
  double rows; /* estimated rows, over all loops */
} IndexUse;

static IndexUse *use_of(List **uses, Oid index) {
  ListCell *cell;
  IndexUse *use;

  foreach (cell, *uses) {
    use = lfirst(cell);
    if (use->index == index) return use;
  }
  use = palloc0(sizeof(*use));
  use->index = index;
  *uses = lappend(*uses, use);
  return use;
}

static void collect(Plan *plan, double loops, List **uses);

static void collect_list(List *plans, double loops, List **uses) {
  ListCell *cell;
  foreach (cell, plans) collect(lfirst(cell), loops, uses);
}

/* Adds up the rows that a plan fetches by index if it runs `loops` times. */
static void collect(Plan *plan, double loops, List **uses) {
  if (plan == NULL) return;
  check_stack_depth();
  switch (nodeTag(plan)) {
    case T_IndexScan:
      use_of(uses, ((IndexScan *)plan)->indexid)->rows += loops * plan->plan_rows;
      break;
    case T_IndexOnlyScan:
      use_of(uses, ((IndexOnlyScan *)plan)->indexid)->rows += loops * plan->plan_rows;
      break;
    case T_BitmapIndexScan:
      use_of(uses, ((BitmapIndexScan *)plan)->indexid)->rows += loops * plan->plan_rows;
      break;
    case T_BitmapAnd: collect_list(((BitmapAnd *)plan)->bitmapplans, loops, uses); break;
    case T_BitmapOr: collect_list(((BitmapOr *)plan)->bitmapplans, loops, uses); break;
    case T_Append: collect_list(((Append *)plan)->appendplans, loops, uses); break;
    case T_MergeAppend: collect_list(((MergeAppend *)plan)->mergeplans, loops, uses); break;
    case T_SubqueryScan: collect(((SubqueryScan *)plan)->subplan, loops, uses); break;
    case T_CustomScan: collect_list(((CustomScan *)plan)->custom_plans, loops, uses); break;
    case T_NestLoop:
      collect(plan->lefttree, loops, uses);
      collect(plan->righttree, loops * Max(plan->lefttree->plan_rows, 1), uses);
      return;
    case T_Material:
      loops = 1;
      break; /* Material reads its child once */
    /* Below, a plan's rows are those of one process. */
    case T_Gather: loops *= process_divisor(((Gather *)plan)->num_workers); break;
    case T_GatherMerge: loops *= process_divisor(((GatherMerge *)plan)->num_workers); break;
    default: break;
  }
  collect(plan->lefttree, loops, uses);
  collect(plan->righttree, loops, uses);
}

static List *index_uses(PlannedStmt *plan) {
  List *uses = NIL;
  ListCell *cell;

  collect(plan->planTree, 1, &uses);
  /* The plan does not show how often a subplan runs. */
  foreach (cell, plan->subplans) collect(lfirst(cell), 1, &uses);
  return uses;
}

/*
 * The index that `ours` looks up much more often than `core` does, the one with most rows;
 * otherwise InvalidOid.
 */
static Oid leaned_on(List *ours, List *core) {
  const IndexUse *most = NULL;
  ListCell *cell;

  foreach (cell, ours) {
    const IndexUse *use = lfirst(cell);
    if (use->rows > FEW_LOOKUPS + MORE_LOOKUPS * use_of(&core, use->index)->rows &&
        (most == NULL || use->rows > most->rows))
      most = use;
  }
  return most ? most->index : InvalidOid;
}

/* ---- deciding ---- */

/*
 * The number of tables that a query and the subqueries in its FROM read. An INSERT does not read the
 * table that it inserts into, and a view names itself among its tables (OLD and NEW of its rule).
 */
static int tables_read(const Query *query) {
  int tables = 0;
  ListCell *cell;

  check_stack_depth();
  foreach (cell, query->rtable) {
    const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
    const Query *subquery = entry->rtekind == RTE_SUBQUERY ? entry->subquery : NULL;

    if (foreach_current_index(cell) + 1 == query->resultRelation) continue;
    if (entry->rtekind == RTE_RELATION && entry->relkind != RELKIND_VIEW) tables++;
    if (subquery == NULL) continue;
    tables += tables_read(subquery);
    /* Queries in its expressions and in its WITH are not searched: they may join. */
    if (subquery->hasSubLinks || subquery->cteList != NIL) tables += 2;
  }
  return tables;
}

static bool joins(const Query *query) {
  if (query->commandType != CMD_SELECT && query->commandType != CMD_INSERT) return false;
  return tables_read(query) > 1;
}

static PlannedStmt *plan_by_previous(Query *parse, const char *query_string, int cursor_options,
                                     ParamListInfo bound_params) {
  return previous_planner ? previous_planner(parse, query_string, cursor_options, bound_params)
                          : standard_planner(parse, query_string, cursor_options, bound_params);
}

PlannedStmt *plan_without_us(planner_hook_type planner, Query *parse, const char *query_string,
                             int cursor_options, ParamListInfo bound_params) {
  PlannedStmt *plan;

  ccopt_enabled = false;
  PG_TRY();
  {
    plan = planner ? planner(parse, query_string, cursor_options, bound_params)
                   : standard_planner(parse, query_string, cursor_options, bound_params);
  }
  PG_FINALLY();
  { ccopt_enabled = true; }
  PG_END_TRY();
  return plan;
}

/*
 * Core drops a partial path of a join as soon as some path without workers costs less, even if it
 * would win further up, where it has few rows. ccopt's paths without workers can thereby hide whole
 * plans with workers.
 */
static bool may_hide_workers(const PlannedStmt *ours, int cursor_options) {
  return max_parallel_workers_per_gather > 0 && (cursor_options & CURSOR_OPT_PARALLEL_OK) &&
         !ours->parallelModeNeeded;
}

/* The reason to take core's plan, or NULL. */
static const char *core_is_better(PlannedStmt *ours, List *uses, PlannedStmt *core) {
  Oid index;

  if (core->planTree->total_cost < ours->planTree->total_cost)
    return "PostgreSQL's plan, which it would hide, costs less";
  index = leaned_on(uses, index_uses(core));
  if (!OidIsValid(index) ||
      ours->planTree->total_cost * cost_constants()->margin < core->planTree->total_cost)
    return NULL;
  return psprintf(
      "the plan with it needs many look-ups by index %s and is not cheaper "
      "by the margin",
      quote_identifier(get_rel_name(index)));
}

/* Plans a join, and again without ccopt if the result is doubtful. */
static PlannedStmt *plan_twice(Query *parse, const char *query_string, int cursor_options,
                               ParamListInfo bound_params) {
  static const char *const nodes[] = {BATCH_SCAN_NAME, BATCH_AGG_NAME, BATCH_JOIN_NAME,
                                      BATCH_WINDOW_NAME};
  Query *copy = copyObject(parse);
  PlannedStmt *ours = plan_by_previous(parse, query_string, cursor_options, bound_params);
  PlannedStmt *core;
  bool has_ours = false;
  const char *reason;
  List *uses;

  if (ours->planTree->total_cost < WORTH_PLANNING_AGAIN) return ours;
  for (int i = 0; i < (int)lengthof(nodes); i++)
    has_ours = has_ours || plan_has_node(ours, nodes[i]);
  if (!has_ours) return ours;
  uses = index_uses(ours);
  if (!OidIsValid(leaned_on(uses, NIL)) && !may_hide_workers(ours, cursor_options)) return ours;

  core = plan_without_us(previous_planner, copy, query_string, cursor_options, bound_params);
  reason = core_is_better(ours, uses, core);
  if (reason == NULL) return ours;
  forget_offers();
  for (int i = 0; i < (int)lengthof(nodes); i++)
    if (plan_has_node(ours, nodes[i])) note_refusal(NULL, NULL, nodes[i], reason);
  return core;
}

static PlannedStmt *plan_statement(Query *parse, const char *query_string, int cursor_options,
                                   ParamListInfo bound_params) {
  PlannedStmt *plan;
  uint64 pattern;

  if (!ccopt_enabled || ccopt_force || !joins(parse))
    return plan_by_previous(parse, query_string, cursor_options, bound_params);
  /* EXPLAIN shows what ccopt would do with a large join. */
  if (reasons_are_wanted()) return plan_twice(parse, query_string, cursor_options, bound_params);

  pattern = small_join_pattern(parse);
  if (small_join_expected(pattern)) {
    plan = plan_without_us(previous_planner, parse, query_string, cursor_options, bound_params);
    plan->transientPlan |= !is_small_statement(plan);
  } else {
    plan = plan_twice(parse, query_string, cursor_options, bound_params);
  }
  small_join_learn(pattern, is_small_statement(plan) && !has_node_of_ours(plan));
  return plan;
}

void costs_second_opinion_register(void) {
  previous_planner = planner_hook;
  planner_hook = plan_statement;
}
