/*
 * Loading, and the planner's hooks, which only decide which operator's function to call.
 *
 * Every hook calls its predecessor first, so other extensions work in any order of loading.
 */
#include "compat.h"

#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "utils/guc.h"

#include "attach.h"
#include "costs_in_force.h"
#include "costs_second_opinion.h"
#include "cursors.h"
#include "doors.h"
#include "explain_windows.h"
#include "reasons.h"
#include "refusal.h"
#include "settings.h"
#include "shape_memory.h"
#include "shapes.h"

PG_MODULE_MAGIC;

static planner_hook_type previous_planner = NULL;
static set_rel_pathlist_hook_type previous_set_rel_pathlist = NULL;
static set_join_pathlist_hook_type previous_set_join_pathlist = NULL;
static create_upper_paths_hook_type previous_create_upper_paths = NULL;

/*
 * The passes over finished plans are skipped for small statements. In pgbench's select-only, for
 * example, two walks over the plan take a twentieth of the planning time. Settings that ask for the
 * paper's rule or for forced buffers apply to all statements.
 */
static bool is_worth_passes(const PlannedStmt *plan) {
  return !is_small_statement(plan) || ccopt_force || ccopt_buffer == BUFFER_PAPER ||
         ccopt_buffer == BUFFER_FORCE;
}

/* For a cursor whose plan may have to be core's: a copy of the query, to be planned again. */
static Query *copy_for_cursor(Query *parse, int cursor_options) {
  return ccopt_enabled && planning_refusal == NULL && cursor_may_go_backwards(cursor_options)
             ? copyObject(parse)
             : NULL;
}

static PlannedStmt *plan_statement(Query *parse, const char *query_string, int cursor_options,
                                   ParamListInfo bound_params) {
  PlannedStmt *plan;
  Planning planning;
  ShapePlanning shape;
  const char *outer_refusal = planning_refusal;
  const bool outer_functions = explain_begin_window_functions();

  planning_refusal = cursor_refusal(parse, cursor_options);
  Query *const copy = copy_for_cursor(parse, cursor_options);
  shapes_begin(&shape, parse);
  reasons_begin(&planning);
  PG_TRY();
  {
    plan = previous_planner ? previous_planner(parse, query_string, cursor_options, bound_params)
                            : standard_planner(parse, query_string, cursor_options, bound_params);
    if (copy)
      plan = cursor_keep_backwards(plan, copy, previous_planner, query_string, cursor_options,
                                   bound_params);
    if (ccopt_enabled && planning_refusal == NULL && is_worth_passes(plan)) {
      if (ccopt_buffer != BUFFER_OFF) buffers_insert(plan, cursor_options);
      if (ccopt_enable_adaptive_join) adaptive_joins_insert(plan, cursor_options);
      plan =
          shapes_choose(&shape, plan, previous_planner, query_string, cursor_options, bound_params);
    }
    explain_write_window_functions(plan);
    reasons_end(plan);
  }
  PG_CATCH();
  {
    explain_end_window_functions(outer_functions);
    reasons_abandon();
    planning_refusal = outer_refusal;
    PG_RE_THROW();
  }
  PG_END_TRY();
  explain_end_window_functions(outer_functions);
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
  if (ccopt_enabled && ccopt_force) force_add_materials(joinrel);
}

static void create_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
                               RelOptInfo *output_rel, void *extra) {
  if (previous_create_upper_paths)
    previous_create_upper_paths(root, stage, input_rel, output_rel, extra);
  if (ccopt_enabled && ccopt_enable_batch_agg && stage == UPPERREL_GROUP_AGG)
    batch_agg_add_paths(root, stage, input_rel, output_rel, extra);
  if (ccopt_enabled && ccopt_enable_batch_agg && stage == UPPERREL_DISTINCT)
    batch_agg_add_distinct_paths(root, input_rel, output_rel);
  if (ccopt_enabled && ccopt_enable_batch_window && stage == UPPERREL_WINDOW)
    batch_window_add_paths(root, input_rel, output_rel);
}

PGDLLEXPORT void _PG_init(void);

void _PG_init(void) {
  settings_define();
  batch_scan_register();
  batch_join_register();
  batch_agg_register();
  batch_window_register();
  buffer_register();
  attach_register();
  adaptive_join_register();
  costs_register();
  costs_second_opinion_register();
  stats_register();
  column_cache_register();
  shape_memory_register();
  explain_register();
  /*
   * Called after all settings were defined: a misspelled ccopt.* in the configuration is reported
   * now.
   */
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
