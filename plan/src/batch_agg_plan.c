/*
 * BatchAgg, planning: when grouping can be done in batches, and what that costs.
 */
#include "batch_agg.h"

#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/tlist.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/typcache.h"

#include "batch_scan.h"
#include "costs.h"
#include "doors.h"
#include "group_table.h"
#include "node_names.h"
#include "reasons.h"
#include "refusal.h"
#include "settings.h"
#include "transitions.h"

/* What a grouping needs, as the planner has it, and the same over a child's target list. */
typedef struct Grouping {
  List *keys;
  List *carried;    /* Vars that follow from the keys */
  List *aggregates; /* Aggref */
  List *having;
} Grouping;

/* custom_private of the path: the lists of Grouping, in this order, and the number of groups. */
typedef enum PathPrivate {
  PATH_KEYS,
  PATH_CARRIED,
  PATH_AGGREGATES,
  PATH_HAVING,
  PATH_GROUPS
} PathPrivate;

/* ---- what is grouped ---- */

/*
 * What core found to follow from the rest is carried along. If nothing is left (since 16: all equal
 * constants) the columns are keys after all: no rows have to make no group.
 */
static List *group_clauses(const PlannerInfo *root) {
  return GROUP_CLAUSES(root) != NIL ? GROUP_CLAUSES(root) : root->parse->groupClause;
}

static bool collect_inputs(Node *node, Grouping *grouping) {
  if (node == NULL || list_member(grouping->keys, node)) return false;
  if (IsA(node, Aggref)) {
    grouping->aggregates = list_append_unique(grouping->aggregates, node);
    return false;
  }
  if (IsA(node, Var) || IsA(node, PlaceHolderVar)) {
    grouping->carried = list_append_unique(grouping->carried, node);
    return false;
  }
  return expression_tree_walker(node, collect_inputs, grouping);
}

static const char *collect_grouping(PlannerInfo *root, RelOptInfo *output_rel, Node *having,
                                    Grouping *grouping) {
  ListCell *cell;

  foreach (cell, group_clauses(root)) {
    SortGroupClause *clause = lfirst_node(SortGroupClause, cell);
    Node *key = get_sortgroupclause_expr(clause, root->processed_tlist);
    if (!clause->hashable) return "a grouping column that cannot be hashed";
    grouping->keys = list_append_unique(grouping->keys, key);
  }
  foreach (cell, output_rel->reltarget->exprs) collect_inputs(lfirst(cell), grouping);
  grouping->having = (List *)having;
  collect_inputs(having, grouping);
  if (list_length(grouping->keys) + list_length(grouping->carried) > GROUP_MAX_CELLS)
    return "too many grouping columns";
  return NULL;
}

/* ---- over a child ---- */

typedef struct Mapping {
  List *child; /* expressions of its target list */
  bool failed; /* something is not there */
} Mapping;

static Node *map_to_child(Node *node, void *argument) {
  Mapping *mapping = argument;
  ListCell *cell;

  if (node == NULL) return NULL;
  if (!IsA(node, Const) && !IsA(node, Param) && !IsA(node, List) && !IsA(node, TargetEntry)) {
    foreach (cell, mapping->child)
      if (equal(lfirst(cell), node))
        return (Node *)makeVar(OUTER_VAR, foreach_current_index(cell) + 1, exprType(node),
                               exprTypmod(node), exprCollation(node), 0);
  }
  if (IsA(node, Var) || IsA(node, PlaceHolderVar)) {
    mapping->failed = true;
    return node;
  }
  return expression_tree_mutator(node, map_to_child, argument);
}

static bool all_vars(const List *list) {
  ListCell *cell;
  foreach (cell, list)
    if (!IsA(lfirst(cell), Var)) return false;
  return true;
}

/* Over expressions `child`; NULL if these do not give all that is needed. */
static Grouping *map_grouping(const Grouping *grouping, List *child) {
  Mapping mapping = {child, false};
  Grouping *mapped = palloc0(sizeof(*mapped));

  mapped->keys = (List *)map_to_child((Node *)grouping->keys, &mapping);
  mapped->carried = (List *)map_to_child((Node *)grouping->carried, &mapping);
  mapped->aggregates = (List *)map_to_child((Node *)grouping->aggregates, &mapping);
  if (mapping.failed || !all_vars(mapped->keys) || !all_vars(mapped->carried)) return NULL;
  return mapped;
}

/* ---- whether ---- */

static const char *statement_level_refusal(PlannerInfo *root, RelOptInfo *input_rel,
                                           RelOptInfo *output_rel, GroupPathExtraData *extra) {
  const char *reason = statement_refusal(root);

  if (reason) return reason;
  if (root->parse->groupingSets != NIL) return "grouping sets";
  if (root->parse->hasTargetSRFs) return "a function that returns sets in the target list";
  if (IS_OTHER_REL(input_rel)) return "aggregation of a single partition";
  if (extra->patype == PARTITIONWISE_AGGREGATE_PARTIAL) return "partial aggregation";
  if (contain_volatile_functions((Node *)output_rel->reltarget->exprs) ||
      contain_volatile_functions(extra->havingQual))
    return "volatile functions";
  /* As for core's hashed aggregation: who switches it off counts on sorted groups. */
  if (group_clauses(root) != NIL && !enable_hashagg) return "enable_hashagg is off";
  return NULL;
}

static const char *aggregates_refusal(const List *aggregates) {
  ListCell *cell;
  foreach (cell, aggregates) {
    const char *reason = aggregate_refusal(lfirst_node(Aggref, cell));
    if (reason) return reason;
  }
  return NULL;
}

/* Bytes of a group, with what its cells point to. */
static Size bytes_per_group(const Grouping *grouping, AggWork *work) {
  List *cells = list_concat_copy(grouping->keys, grouping->carried);
  Size size = group_size(list_length(cells),
                         transitions_estimate(grouping->aggregates, &work->transitions));
  ListCell *cell;

  foreach (cell, cells) {
    const Var *var = lfirst_node(Var, cell);
    if (!get_typbyval(var->vartype))
      size += MAXALIGN(get_typavgwidth(var->vartype, var->vartypmod) + 4);
  }
  list_free(cells);
  /* And its slots: between 3/8 and 5/8 of them are in use. */
  return size + 16;
}

static int count_decimals(const Grouping *grouping) {
  List *vars = pull_var_clause((Node *)list_concat_copy(grouping->keys, grouping->aggregates),
                               PVC_RECURSE_AGGREGATES);
  List *decimals = NIL;
  ListCell *cell;

  foreach (cell, vars) {
    Var *var = lfirst_node(Var, cell);
    int scale;
    if (column_kind(var->vartype, var->vartypmod, var->varcollid, &scale) == COLUMN_DECIMAL)
      decimals = list_append_unique(decimals, var);
  }
  return list_length(decimals);
}

/* ---- paths ---- */

static Plan *plan_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
                       List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {.CustomName = BATCH_AGG_NAME,
                                               .PlanCustomPath = plan_path};
static const CustomScanMethods scan_methods = {.CustomName = BATCH_AGG_NAME,
                                               .CreateCustomScanState = batch_agg_create_state};

/* Rows that are left after HAVING, as core estimates it. */
static double result_rows(const RelOptInfo *output_rel, double groups) {
  return output_rel->pathlist != NIL ? ((Path *)linitial(output_rel->pathlist))->rows : groups;
}

/*
 * Of paths that cost the same within the planner's own fuzz, the one that loses less when there are
 * more rows than estimated. Behind a few joins estimates are too low by orders of magnitude (TPC-H
 * Q9: 143 rows, 319,404 in truth), and the sorted grouping that add_path() keeps for its order then
 * sorts them all.
 */
#define FUZZ 1.01
#define MORE_ROWS 10

static bool is_fragile(const Path *path, const Path *ours, const Path *child, Cost ours_with_more) {
  const AggPath *core = (const AggPath *)path;

  if (!IsA(path, AggPath) || core->aggsplit != AGGSPLIT_SIMPLE || path->param_info) return false;
  if (core->aggstrategy != AGG_HASHED &&
      !(core->aggstrategy == AGG_SORTED && IsA(core->subpath, SortPath)))
    return false;
  return ours->total_cost <= path->total_cost * FUZZ &&
         ours_with_more - child->total_cost < MORE_ROWS * (path->total_cost - child->total_cost);
}

static void drop_fragile_paths(PlannerInfo *root, RelOptInfo *output_rel, const Path *ours,
                               Path *child, const AggWork *work, double groups) {
  const double rows = child->rows;
  Cost startup, total;
  ListCell *cell;

  child->rows = rows * MORE_ROWS;
  cost_batch_agg(root, child, work, groups, &startup, &total);
  child->rows = rows;
  foreach (cell, output_rel->pathlist)
    if (is_fragile(lfirst(cell), ours, child, total))
      output_rel->pathlist = foreach_delete_current(output_rel->pathlist, cell);
}

/*
 * Core's cheapest path that groups rows as they come in order: from an index, say. It has no table,
 * and hands on groups before it has read all rows.
 */
static Cost cheapest_stream(const RelOptInfo *output_rel) {
  Cost cheapest = get_float8_infinity();
  ListCell *cell;

  foreach (cell, output_rel->pathlist) {
    const AggPath *path = lfirst(cell);
    if (IsA(path, AggPath) && path->aggstrategy == AGG_SORTED &&
        path->aggsplit == AGGSPLIT_SIMPLE && path->path.param_info == NULL &&
        !IsA(path->subpath, SortPath) && !IsA(path->subpath, IncrementalSortPath))
      cheapest = Min(cheapest, path->path.total_cost);
  }
  return cheapest;
}

/* With a point: on its way to a worker a node becomes text, and a Float without one an Integer. */
static Node *group_count(double groups) { return (Node *)makeFloat(psprintf("%.1f", groups)); }

static const char *add_path_over(PlannerInfo *root, RelOptInfo *output_rel, Path *child,
                                 const Grouping *grouping) {
  Grouping *mapped = map_grouping(grouping, child->pathtarget->exprs);
  AggWork work = {0};
  double groups = 1;
  const char *reason;
  CustomPath *path;

  if (mapped == NULL) return "the input does not give all that is grouped and aggregated";
  reason = aggregates_refusal(mapped->aggregates);
  if (reason) return reason;
  if (grouping->keys != NIL)
    groups = estimate_num_groups(root, grouping->keys, child->rows, NULL, NULL);
  work.state = bytes_per_group(mapped, &work);
  work.keys = list_length(grouping->keys);
  work.decimals = count_decimals(mapped);
  if (!ccopt_force && groups * work.state > get_hash_memory_limit())
    return "the groups would take more memory than hash_mem_multiplier * work_mem";
  if (!ccopt_force && work.keys > 0 &&
      cheapest_stream(output_rel) < cost_batch_agg_beside_streams(root, child, &work, groups))
    return "rows that come in order are grouped for less, without a table";

  path = makeNode(CustomPath);
  path->path.pathtype = T_CustomScan;
  path->path.parent = output_rel;
  path->path.pathtarget = output_rel->reltarget;
  path->path.rows = result_rows(output_rel, groups);
  path->path.parallel_safe = output_rel->consider_parallel && child->parallel_safe;
  cost_batch_agg(root, child, &work, groups, &path->path.startup_cost, &path->path.total_cost);
  path->path.total_cost +=
      output_rel->reltarget->cost.startup + output_rel->reltarget->cost.per_tuple * path->path.rows;
  set_disabled_nodes(&path->path, child->disabled_nodes);
  if (ccopt_force) path->path.startup_cost = path->path.total_cost = 0;
  path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
  path->custom_paths = list_make1(child);
  path->custom_private = list_make5(grouping->keys, grouping->carried, grouping->aggregates,
                                    grouping->having, group_count(groups));
  path->methods = &path_methods;
  drop_fragile_paths(root, output_rel, &path->path, child, &work, groups);
  add_path(output_rel, &path->path);
  return NULL;
}

/*
 * Whether core's plan costs less than what a BatchAgg reads, and the making of its node: a few rows by
 * index, or an empty table. Asked first, for to plan a path takes as long as such statements run.
 */
static bool is_beaten(const RelOptInfo *input_rel, const RelOptInfo *output_rel) {
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

void batch_agg_add_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
                         RelOptInfo *output_rel, void *extra) {
  GroupPathExtraData *grouping_extra = extra;
  Grouping grouping = {0};
  const char *reason;
  const char *over_scan;

  if (is_beaten(input_rel, output_rel)) return;
  reason = statement_level_refusal(root, input_rel, output_rel, grouping_extra);

  if (reason == NULL)
    reason = collect_grouping(root, output_rel, grouping_extra->havingQual, &grouping);
  if (reason == NULL && input_rel->cheapest_total_path == NULL) reason = "the input has no path";
  if (reason == NULL)
    reason = add_path_over(root, output_rel, input_rel->cheapest_total_path, &grouping);
  /* What is not possible over one path is not over the other. */
  if (reason == NULL && ccopt_enable_batch_scan && input_rel->reloptkind == RELOPT_BASEREL) {
    Path *scan = batch_scan_path(root, input_rel, false);
    over_scan = scan ? add_path_over(root, output_rel, scan, &grouping) : NULL;
    if (over_scan) note_refusal(root, output_rel, BATCH_AGG_NAME, over_scan);
  }
  if (reason) note_refusal(root, output_rel, BATCH_AGG_NAME, reason);
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
                       .aggregates = list_nth(path->custom_private, PATH_AGGREGATES)};
  List *child = get_tlist_exprs(((Plan *)linitial(custom_plans))->targetlist, true);
  Grouping *mapped = map_grouping(&grouping, child);
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
  /* So that the node is run again when one of them changes. */
  collect_params((Node *)mapped->aggregates, &params);
  plan->custom_exprs = params;
  fix_opfuncids((Node *)mapped->aggregates);
  plan->custom_private = list_make4(mapped->keys, mapped->carried, mapped->aggregates,
                                    list_nth(path->custom_private, PATH_GROUPS));
  plan->methods = &scan_methods;
  return &plan->scan.plan;
}

void batch_agg_register(void) { RegisterCustomScanMethods(&scan_methods); }
