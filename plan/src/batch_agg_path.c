/*
 * BatchAgg, planning: a path of any kind of grouping, what it costs, and its plan.
 */
#include "batch_agg_path.h"

#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "utils/float.h"
#include "utils/selfuncs.h"

#include "doors.h"
#include "explain_windows.h"
#include "node_names.h"
#include "reasons.h"
#include "settings.h"
#include "transitions.h"

/* custom_private of the path: the lists of Grouping, in this order, the number of groups, the
 * AggStep, and the grouping sets as the plan has them. */
typedef enum PathPrivate {
  PATH_KEYS,
  PATH_CARRIED,
  PATH_AGGREGATES,
  PATH_HAVING,
  PATH_FUNCTIONS,
  PATH_GROUPS,
  PATH_STEP,
  PATH_SETS
} PathPrivate;

static const char *aggregates_refusal(const List *aggregates) {
  ListCell *cell;
  foreach (cell, aggregates) {
    const char *reason = aggregate_refusal(lfirst_node(Aggref, cell));
    if (reason) return reason;
  }
  return NULL;
}

static Plan *plan_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
                       List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {.CustomName = BATCH_AGG_NAME,
                                               .PlanCustomPath = plan_path};
static const CustomScanMethods scan_methods = {.CustomName = BATCH_AGG_NAME,
                                               .CreateCustomScanState = batch_agg_create_state};

/* Rows that are left after HAVING, as core estimates it. */
double batch_agg_result_rows(const RelOptInfo *output_rel, double groups) {
  return output_rel->pathlist != NIL ? ((Path *)linitial(output_rel->pathlist))->rows : groups;
}

/*
 * Core's cheapest path that groups rows as they come in order: from an index, say. It has no table,
 * and hands on groups before it has read all rows.
 */
Cost batch_agg_cheapest_stream(const RelOptInfo *output_rel) {
  Cost cheapest = get_float8_infinity();
  ListCell *cell;

  foreach (cell, output_rel->pathlist) {
    const Path *path = lfirst(cell);
    const Path *input = NULL;
    if (path->param_info != NULL) continue;
    if (IsA(path, AggPath) && ((const AggPath *)path)->aggstrategy == AGG_SORTED &&
        ((const AggPath *)path)->aggsplit == AGGSPLIT_SIMPLE)
      input = ((const AggPath *)path)->subpath;
    else if (IsA(path, GroupingSetsPath) &&
             ((const GroupingSetsPath *)path)->aggstrategy == AGG_SORTED &&
             list_length(((const GroupingSetsPath *)path)->rollups) == 1)
      input = ((const GroupingSetsPath *)path)->subpath;
    else if (IsA(path, UpperUniquePath))
      input = ((const UpperUniquePath *)path)->subpath;
    if (input != NULL && !IsA(input, SortPath) && !IsA(input, IncrementalSortPath))
      cheapest = Min(cheapest, path->total_cost);
  }
  return cheapest;
}

/* With a point: on its way to a worker a node becomes text, and a Float without one an Integer. */
Node *batch_agg_group_count(double groups) { return (Node *)makeFloat(psprintf("%.1f", groups)); }

const char *batch_agg_offer(PlannerInfo *root, Path *child, const Grouping *grouping, AggStep step,
                            AggOffer *offer) {
  Grouping *mapped = grouping_over(root, grouping, child->pathtarget->exprs, step);
  const char *reason;

  if (mapped == NULL) return "the input lacks a column that is grouped or aggregated";
  reason = aggregates_refusal(mapped->aggregates);
  if (reason) return reason;
  offer->child = child;
  offer->work = grouping_work(mapped);
  offer->work.step = step;
  offer->groups = 1;
  if (grouping->keys != NIL)
    offer->groups = estimate_num_groups(root, grouping->keys, child->rows, NULL, NULL);
  if (!ccopt_force && offer->groups * offer->work.state > get_hash_memory_limit())
    return "the groups would take more memory than hash_mem_multiplier * work_mem";
  return NULL;
}

CustomPath *batch_agg_make_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target,
                                const Grouping *grouping, List *sets, const AggOffer *offer,
                                double rows) {
  CustomPath *path = makeNode(CustomPath);
  const Path *child = offer->child;

  path->path.pathtype = T_CustomScan;
  path->path.parent = rel;
  path->path.pathtarget = target;
  path->path.rows = rows;
  path->path.parallel_safe = rel->consider_parallel && child->parallel_safe;
  path->path.parallel_workers = child->parallel_workers;
  cost_batch_agg(root, child, &offer->work, offer->groups, &path->path.startup_cost,
                 &path->path.total_cost);
  path->path.total_cost += target->cost.startup + target->cost.per_tuple * path->path.rows;
  set_disabled_nodes(&path->path, child->disabled_nodes);
  if (ccopt_force) path->path.startup_cost = path->path.total_cost = 0;
  path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
  path->custom_paths = list_make1(offer->child);
  path->custom_private = list_make5(grouping->keys, grouping->carried, grouping->aggregates,
                                    grouping->having, grouping->functions);
  path->custom_private = lappend(path->custom_private, batch_agg_group_count(offer->groups));
  path->custom_private = lappend(path->custom_private, makeInteger(offer->work.step));
  path->custom_private = lappend(path->custom_private, sets);
  path->methods = &path_methods;
  return path;
}

bool batch_agg_is_beaten(const RelOptInfo *input_rel, const RelOptInfo *output_rel) {
  Cost input = get_float8_infinity();
  Cost core = get_float8_infinity();
  ListCell *cell;

  if (ccopt_force || reasons_are_wanted()) return false;
  foreach (cell, output_rel->pathlist) core = Min(core, ((Path *)lfirst(cell))->total_cost);
  foreach (cell, input_rel->pathlist) input = Min(input, ((Path *)lfirst(cell))->total_cost);
  /* A BatchScan that hands on batches is not in the list; its pages cost as much as core's. */
  if (input_rel->reloptkind == RELOPT_BASEREL && input_rel->rtekind == RTE_RELATION)
    input = Min(input, input_rel->pages * seq_page_cost);
  return core < input + batch_setup_cost();
}

/* ---- the plan ---- */

static bool collect_params(Node *node, List **params) {
  if (node == NULL) return false;
  if (IsA(node, Param)) *params = list_append_unique(*params, node);
  return expression_tree_walker(node, collect_params, params);
}

static List *add_entries(List *tlist, const List *expressions) {
  ListCell *cell;
  foreach (cell, expressions)
    tlist = lappend(tlist, makeTargetEntry(lfirst(cell), list_length(tlist) + 1, NULL, false));
  return tlist;
}

static Plan *plan_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
                       List *clauses, List *custom_plans) {
  CustomScan *plan = makeNode(CustomScan);
  Grouping grouping = {.keys = list_nth(path->custom_private, PATH_KEYS),
                       .carried = list_nth(path->custom_private, PATH_CARRIED),
                       .aggregates = list_nth(path->custom_private, PATH_AGGREGATES),
                       .functions = list_nth(path->custom_private, PATH_FUNCTIONS)};
  List *child = get_tlist_exprs(((Plan *)linitial(custom_plans))->targetlist, true);
  Grouping *mapped = grouping_over(root, &grouping, child,
                                   (AggStep)intVal(list_nth(path->custom_private, PATH_STEP)));
  List *params = NIL;

  if (mapped == NULL) elog(ERROR, "the input of BatchAgg lost a column that was planned");
  plan->scan.plan.targetlist = tlist;
  plan->scan.plan.qual = list_nth(path->custom_private, PATH_HAVING);
  plan->scan.scanrelid = 0;
  plan->flags = path->flags;
  plan->custom_plans = custom_plans;
  plan->custom_scan_tlist = add_entries(NIL, grouping.keys);
  plan->custom_scan_tlist = add_entries(plan->custom_scan_tlist, grouping.carried);
  plan->custom_scan_tlist = add_entries(plan->custom_scan_tlist, grouping.aggregates);
  plan->custom_scan_tlist = add_entries(plan->custom_scan_tlist, grouping.functions);
  explain_note_window_functions(plan->custom_scan_tlist);
  /* So that the node is run again when one of them changes. */
  collect_params((Node *)mapped->aggregates, &params);
  plan->custom_exprs = params;
  fix_opfuncids((Node *)mapped->aggregates);
  plan->custom_private = list_make5(mapped->keys, mapped->carried, mapped->aggregates,
                                    list_nth(path->custom_private, PATH_GROUPS),
                                    list_nth(path->custom_private, PATH_STEP));
  plan->custom_private = lappend(plan->custom_private, list_nth(path->custom_private, PATH_SETS));
  plan->methods = &scan_methods;
  return &plan->scan.plan;
}

void batch_agg_register(void) { RegisterCustomScanMethods(&scan_methods); }
