/*
 * BatchWindow, planning: the path of a group of windows, and its plan.
 */
#include "batch_window_path.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/tlist.h"

#include "costs.h"
#include "doors.h"
#include "explain_windows.h"
#include "node_names.h"
#include "settings.h"
#include "window_functions.h"

static Plan *plan_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
                       List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {.CustomName = BATCH_WINDOW_NAME,
                                               .PlanCustomPath = plan_path};
static const CustomScanMethods scan_methods = {.CustomName = BATCH_WINDOW_NAME,
                                               .CreateCustomScanState = batch_window_create_state};

/* ---- the path ---- */

static bool adds_numerics(const WindowFunc *function) {
  WindowFunctionKind kind;
  return window_function_kind(function->winfnoid, &kind) &&
         (kind == WINDOW_SUM_NUMERIC || kind == WINDOW_AVERAGE);
}

static WindowWork work_of(const WindowLayout *layout, bool core_sorts) {
  WindowWork work = {.stock_sorts = core_sorts,
                     .columns = list_length(layout->columns),
                     .keys = list_length(layout->keys),
                     .windows = list_length(layout->windows)};
  ListCell *cell, *function;

  foreach (cell, layout->windows) {
    foreach (function, list_nth(lfirst(cell), WINDOW_CLAUSE_FUNCTIONS)) {
      work.functions++;
      work.numerics += adds_numerics(lfirst_node(WindowFunc, function));
    }
  }
  return work;
}

CustomPath *batch_window_make_path(PlannerInfo *root, RelOptInfo *rel, Path *child,
                                   const WindowGroup *group, const WindowLayout *layout, Cost core,
                                   bool core_sorts) {
  const WindowAggPath *top = llast(group->paths);
  const WindowWork work = work_of(layout, core_sorts);
  CustomPath *path = makeNode(CustomPath);

  path->path.pathtype = T_CustomScan;
  path->path.parent = rel;
  path->path.pathtarget = top->path.pathtarget;
  path->path.rows = child->rows;
  path->path.parallel_safe = rel->consider_parallel && child->parallel_safe;
  path->path.parallel_workers = child->parallel_workers;
  path->path.pathkeys = group->clauses == NIL ? child->pathkeys
                                              : make_pathkeys_for_sortclauses(
                                                    root, group->clauses, root->processed_tlist);
  cost_batch_window(child, &work, core, &path->path.startup_cost, &path->path.total_cost);
  set_disabled_nodes(&path->path, child->disabled_nodes);
  path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
  path->custom_paths = list_make1(child);
  path->custom_private = list_make3(group->paths, group->functions, group->clauses);
  path->methods = &path_methods;
  return path;
}

/* ---- the plan ---- */

typedef struct Outputs {
  List *child; /* expressions of its target list */
  List *functions;
  WindowLayout *layout;
  List *tlist;  /* custom_scan_tlist */
  List *places; /* WINDOW_PRIVATE_OUTPUT */
} Outputs;

static void add_output(Outputs *outputs, Node *expression, int place) {
  ListCell *cell;
  foreach (cell, outputs->tlist)
    if (equal(lfirst_node(TargetEntry, cell)->expr, expression)) return;
  outputs->tlist =
      lappend(outputs->tlist,
              makeTargetEntry((Expr *)expression, list_length(outputs->tlist) + 1, NULL, false));
  outputs->places = lappend_int(outputs->places, place);
}

/* Collects what an expression needs of the node's rows. */
static bool collect_outputs(Node *node, void *argument) {
  Outputs *outputs = argument;
  ListCell *cell;

  if (node == NULL) return false;
  if (IsA(node, WindowFunc)) {
    foreach (cell, outputs->functions) {
      if (!equal(lfirst(cell), node)) continue;
      add_output(outputs, node, -1 - foreach_current_index(cell));
      return false;
    }
  }
  if (!IsA(node, Const) && !IsA(node, Param) && !IsA(node, List) && !IsA(node, TargetEntry)) {
    foreach (cell, outputs->child) {
      if (!equal(lfirst(cell), node)) continue;
      add_output(
          outputs, node,
          window_layout_column(outputs->layout, outputs->child, foreach_current_index(cell) + 1));
      return false;
    }
  }
  if (IsA(node, Var) || IsA(node, PlaceHolderVar) || IsA(node, WindowFunc))
    elog(ERROR, "the input of BatchWindow lost a column that was planned");
  return expression_tree_walker(node, collect_outputs, argument);
}

static Plan *plan_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
                       List *clauses, List *custom_plans) {
  CustomScan *plan = makeNode(CustomScan);
  const WindowGroup group = {.paths = list_nth(path->custom_private, 0),
                             .functions = list_nth(path->custom_private, 1),
                             .clauses = list_nth(path->custom_private, 2)};
  WindowLayout layout;
  Outputs outputs = {.child = get_tlist_exprs(((Plan *)linitial(custom_plans))->targetlist, true),
                     .layout = &layout};
  ListCell *cell;

  if (window_layout_make(root, &group, outputs.child, &layout) != NULL)
    elog(ERROR, "the input of BatchWindow lost a column that was planned");
  foreach (cell, group.functions)
    outputs.functions = list_concat(outputs.functions, lfirst_node(List, cell));
  foreach (cell, group.paths) {
    const WindowAggPath *window = lfirst(cell);
    List *condition = copyObject(WINDOW_RUN_CONDITION(window));
    plan->custom_exprs = lappend(plan->custom_exprs, condition);
    if (!window->topwindow) continue;
    /* Core's nodes, if it comes to them, do not know the condition. */
    plan->scan.plan.qual = list_concat_copy(condition, window->qual);
  }
  collect_outputs((Node *)tlist, &outputs);
  collect_outputs((Node *)plan->scan.plan.qual, &outputs);
  collect_outputs((Node *)plan->custom_exprs, &outputs);

  plan->scan.plan.targetlist = tlist;
  plan->flags = path->flags;
  plan->custom_plans = custom_plans;
  plan->custom_scan_tlist = outputs.tlist;
  plan->custom_private =
      list_make5(layout.columns, layout.keys, layout.operators, layout.windows, outputs.places);
  /* With a point: on its way to a worker a node becomes text. */
  plan->custom_private =
      lappend(plan->custom_private, makeFloat(psprintf("%.1f", path->path.rows)));
  plan->methods = &scan_methods;
  explain_note_window_functions(outputs.tlist);
  return &plan->scan.plan;
}

void batch_window_register(void) { RegisterCustomScanMethods(&scan_methods); }
