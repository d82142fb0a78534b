/*
 * Loading: settings, and the planner's hooks, which only decide whose door to open.
 *
 * Every hook calls its predecessor first, so that other extensions keep working whatever the order
 * of loading.
 */
#include "ccopt.h"

#include <limits.h>

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "optimizer/paths.h"
#include "reasons.h"
#include "shape_memory.h"
#include "shapes.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

bool ccopt_enabled = true;
bool ccopt_enable_batch_scan = true;
bool ccopt_enable_batch_agg = true;
bool ccopt_enable_batch_join = true;
bool ccopt_enable_adaptive_join = true;
bool ccopt_enable_bloom = true;
int ccopt_buffer = BUFFER_AUTO;
int ccopt_buffer_mode = BUFFER_RING;
int ccopt_buffer_rows = 0;
bool ccopt_force = false;
char *ccopt_require = NULL;

static const struct config_enum_entry buffer_settings[] = {{"off", BUFFER_OFF, false},
                                                           {"auto", BUFFER_AUTO, false},
                                                           {"paper", BUFFER_PAPER, false},
                                                           {"force", BUFFER_FORCE, false},
                                                           {NULL, 0, false}};
static const struct config_enum_entry buffer_modes[] = {
    {"ring", BUFFER_RING, false}, {"copy", BUFFER_COPY, false}, {NULL, 0, false}};
static const struct config_enum_entry shapes_settings[] = {{"off", SHAPES_OFF, false},
                                                           {"suspects", SHAPES_SUSPECTS, false},
                                                           {"every", SHAPES_EVERY, false},
                                                           {NULL, 0, false}};

static planner_hook_type previous_planner = NULL;
static set_rel_pathlist_hook_type previous_set_rel_pathlist = NULL;
static set_join_pathlist_hook_type previous_set_join_pathlist = NULL;
static create_upper_paths_hook_type previous_create_upper_paths = NULL;

/* Why the statement being planned is one that no operator of ours may be in; NULL: it may. */
static const char *planning_refusal = NULL;

/*
 * UPDATE ... WHERE CURRENT OF looks in the cursor's plan for the scan of its table and asks that for
 * the row (core's execCurrentOf). It looks through nothing that groups, sorts or joins.
 */
static bool may_be_updated_through(const Query *query) {
  return !query->hasAggs && !query->hasWindowFuncs && query->groupClause == NIL &&
         query->groupingSets == NIL && query->distinctClause == NIL && query->sortClause == NIL &&
         query->setOperations == NULL && list_length(query->jointree->fromlist) == 1 &&
         IsA(linitial(query->jointree->fromlist), RangeTblRef);
}

static const char *cursor_refusal(const Query *query, int cursor_options) {
  if (cursor_options & CURSOR_OPT_SCROLL) return "a scrolling cursor may go backwards";
  /* All else is of cursors that have a name: DECLARE and PL/pgSQL set this. */
  if (!(cursor_options & CURSOR_OPT_FAST_PLAN)) return NULL;
  /* Without NO SCROLL a cursor may go backwards if its plan can, so the plan has to be one that can. */
  if (!(cursor_options & CURSOR_OPT_NO_SCROLL))
    return "a cursor without NO SCROLL may go backwards";
  if (may_be_updated_through(query)) return "a row may be updated through the cursor";
  return NULL;
}

const char *statement_refusal(const PlannerInfo *root) {
  /* Subqueries of a statement that writes or locks are read under its rules (EvalPlanQual). */
  for (; root != NULL; root = root->parent_root) {
    const Query *query = root->parse;
    if (query->commandType != CMD_SELECT) return "the statement writes";
    if (query->rowMarks != NIL || root->rowMarks != NIL) return "the statement locks rows";
    if (query->hasModifyingCTE) return "a WITH query writes";
  }
  return planning_refusal;
}

/*
 * The passes over finished plans are not made for statements that take a millisecond or less, by the
 * costs and if those are wrong by ten: pgbench's select-only, say, where walking over the plan twice
 * takes a twentieth of the planning. Who asked for the paper's rule, or for all, gets it everywhere.
 */
#define SMALL_STATEMENT 50.0

static bool is_worth_passes(const PlannedStmt *plan) {
  return plan->planTree->total_cost >= SMALL_STATEMENT || ccopt_force ||
         ccopt_buffer == BUFFER_PAPER || ccopt_buffer == BUFFER_FORCE;
}

static PlannedStmt *plan_statement(Query *parse, const char *query_string, int cursor_options,
                                   ParamListInfo bound_params) {
  PlannedStmt *plan;
  Planning planning;
  ShapePlanning shape;
  const char *outer_refusal = planning_refusal;

  planning_refusal = cursor_refusal(parse, cursor_options);
  shapes_begin(&shape, parse);
  reasons_begin(&planning);
  PG_TRY();
  {
    plan = previous_planner ? previous_planner(parse, query_string, cursor_options, bound_params)
                            : standard_planner(parse, query_string, cursor_options, bound_params);
    if (ccopt_enabled && planning_refusal == NULL && is_worth_passes(plan)) {
      if (ccopt_buffer != BUFFER_OFF) buffers_insert(plan, cursor_options);
      if (ccopt_enable_adaptive_join) adaptive_joins_insert(plan, cursor_options);
      plan =
          shapes_choose(&shape, plan, previous_planner, query_string, cursor_options, bound_params);
    }
    reasons_end(plan);
  }
  PG_CATCH();
  {
    reasons_abandon();
    planning_refusal = outer_refusal;
    PG_RE_THROW();
  }
  PG_END_TRY();
  planning_refusal = outer_refusal;
  return plan;
}

static void set_rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte) {
  if (previous_set_rel_pathlist) previous_set_rel_pathlist(root, rel, rti, rte);
  if (ccopt_enabled && ccopt_enable_batch_scan) batch_scan_add_paths(root, rel, rti, rte);
}

static void set_join_pathlist(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
                              RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra) {
  if (previous_set_join_pathlist)
    previous_set_join_pathlist(root, joinrel, outerrel, innerrel, jointype, extra);
  if (ccopt_enabled && ccopt_enable_batch_join)
    batch_join_add_paths(root, joinrel, outerrel, innerrel, jointype, extra);
}

static void create_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
                               RelOptInfo *output_rel, void *extra) {
  if (previous_create_upper_paths)
    previous_create_upper_paths(root, stage, input_rel, output_rel, extra);
  if (ccopt_enabled && ccopt_enable_batch_agg && stage == UPPERREL_GROUP_AGG)
    batch_agg_add_paths(root, stage, input_rel, output_rel, extra);
}

static void define_settings(void) {
  DefineCustomBoolVariable("ccopt.enabled", "Lets ccopt take part in planning.", NULL,
                           &ccopt_enabled, true, PGC_USERSET, 0, NULL, NULL, NULL);
  DefineCustomBoolVariable("ccopt.enable_batch_scan", "Lets the planner use BatchScan.", NULL,
                           &ccopt_enable_batch_scan, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL,
                           NULL);
  DefineCustomBoolVariable("ccopt.enable_batch_agg", "Lets the planner use BatchAgg.", NULL,
                           &ccopt_enable_batch_agg, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL,
                           NULL);
  DefineCustomBoolVariable("ccopt.enable_batch_join", "Lets the planner use BatchHashJoin.", NULL,
                           &ccopt_enable_batch_join, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL,
                           NULL);
  DefineCustomBoolVariable(
      "ccopt.enable_adaptive_join", "Lets nested loops change to a hash table while they run.",
      NULL, &ccopt_enable_adaptive_join, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
  DefineCustomBoolVariable("ccopt.enable_bloom",
                           "Lets a finished hash table filter the scan that probes it.", NULL,
                           &ccopt_enable_bloom, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
  DefineCustomEnumVariable(
      "ccopt.buffer", "Where buffer nodes are put into plans.",
      "auto: where they prefetch or sort keys; paper: by the rule of CC-Optimizer 2008; force: "
      "wherever it is legal; off: nowhere.",
      &ccopt_buffer, BUFFER_AUTO, buffer_settings, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
  DefineCustomEnumVariable("ccopt.buffer_mode", "How the paper's buffers keep rows.", NULL,
                           &ccopt_buffer_mode, BUFFER_RING, buffer_modes, PGC_USERSET, GUC_EXPLAIN,
                           NULL, NULL, NULL);
  DefineCustomIntVariable("ccopt.buffer_rows", "Rows that a buffer holds; 0 lets the rule decide.",
                          NULL, &ccopt_buffer_rows, 0, 0, 1000000, PGC_USERSET, GUC_EXPLAIN, NULL,
                          NULL, NULL);
  DefineCustomEnumVariable(
      "ccopt.shapes", "Which plans are compared with PostgreSQL's own when they come again.",
      "suspects: those that take longer than PostgreSQL's was predicted to; every: others too, for "
      "little of the time; off: none, and nothing that was found holds.",
      &ccopt_shapes, SHAPES_SUSPECTS, shapes_settings, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
  DefineCustomBoolVariable("ccopt.force",
                           "Takes batch paths wherever they are legal, whatever they cost.",
                           "For tests: answers must be the same.", &ccopt_force, false, PGC_USERSET,
                           GUC_EXPLAIN | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
  DefineCustomStringVariable(
      "ccopt.require", "Names of nodes that a plan must have, or planning fails.",
      "For tests: a list such as 'BatchScan, BatchAgg'; the error says why they are missing.",
      &ccopt_require, "", PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

PGDLLEXPORT void _PG_init(void);

void _PG_init(void) {
  define_settings();
  batch_scan_register();
  batch_join_register();
  batch_agg_register();
  buffer_register();
  adaptive_join_register();
  costs_register();
  stats_register();
  shape_memory_register();
  explain_register();
  /* After all registered their own: a misspelled ccopt.* in the configuration is told now. */
  MarkGUCPrefixReserved("ccopt");

  previous_planner = planner_hook;
  planner_hook = plan_statement;
  previous_set_rel_pathlist = set_rel_pathlist_hook;
  set_rel_pathlist_hook = set_rel_pathlist;
  previous_set_join_pathlist = set_join_pathlist_hook;
  set_join_pathlist_hook = set_join_pathlist;
  previous_create_upper_paths = create_upper_paths_hook;
  create_upper_paths_hook = create_upper_paths;
}
