/*
 * BatchWindow, planning: when window functions can be computed by it, and its paths.
 *
 * The hook does not get the windows in the order in which core computes them; the path of core has them:
 *
 *     WindowAggPath   w2                         BatchWindow   w1, w2
 *       WindowAggPath   w1          becomes        the input
 *         SortPath      of w1
 *           the input
 *
 * Windows above that need another order are a BatchWindow of their own. It is all of them or none: where
 * one has a frame or a function that is not computed here, core computes them all.
 */
#include "batch_window_path.h"

#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/tlist.h"
#include "utils/float.h"

#include "batch_scan.h"
#include "costs.h"
#include "doors.h"
#include "node_names.h"
#include "reasons.h"
#include "refusal.h"
#include "row_sort.h"
#include "settings.h"

/* ---- core's path ---- */

typedef struct CoreChain {
  List *windows; /* copies of WindowAggPath, the lowest first */
  Path *input;
  bool sorts;
} CoreChain;

/* add_path() frees paths of core that are worse than a BatchWindow. */
static WindowAggPath *copy_window(const Path *path) {
  WindowAggPath *copy = palloc(sizeof(*copy));
  memcpy(copy, path, sizeof(*copy));
  return copy;
}

static bool find_chain(const RelOptInfo *output_rel, CoreChain *chain) {
  ListCell *cell;

  foreach (cell, output_rel->pathlist) {
    Path *path = lfirst(cell);
    memset(chain, 0, sizeof(*chain));
    while (IsA(path, WindowAggPath) || IsA(path, SortPath) || IsA(path, IncrementalSortPath)) {
      if (IsA(path, WindowAggPath)) {
        chain->windows = lcons(copy_window(path), chain->windows);
        path = ((WindowAggPath *)path)->subpath;
      } else {
        chain->sorts = true;
        path = ((SortPath *)path)->subpath;
      }
    }
    chain->input = path;
    if (chain->windows != NIL) return true;
  }
  return false;
}

/* ---- groups of windows ---- */

static bool begins_with(const List *clauses, const List *prefix) {
  ListCell *cell;

  if (list_length(prefix) > list_length(clauses)) return false;
  foreach (cell, prefix) {
    const SortGroupClause *a = lfirst_node(SortGroupClause, cell);
    const SortGroupClause *b = list_nth(clauses, foreach_current_index(cell));
    if (a->tleSortGroupRef != b->tleSortGroupRef || a->sortop != b->sortop ||
        a->nulls_first != b->nulls_first)
      return false;
  }
  return true;
}

static List *clauses_of(const WindowAggPath *path) {
  return list_concat_copy(path->winclause->partitionClause, path->winclause->orderClause);
}

static List *group_windows(PlannerInfo *root, const CoreChain *chain) {
  WindowFuncLists *functions =
      find_window_functions((Node *)root->processed_tlist, list_length(root->parse->windowClause));
  List *groups = NIL;
  WindowGroup *group = NULL;
  ListCell *cell;

  foreach (cell, chain->windows) {
    WindowAggPath *path = lfirst(cell);
    List *clauses = clauses_of(path);
    if (group == NULL || !begins_with(group->clauses, clauses)) {
      group = palloc0(sizeof(*group));
      group->clauses = clauses;
      groups = lappend(groups, group);
    }
    group->paths = lappend(group->paths, path);
    group->functions = lappend(group->functions, functions->windowFuncs[path->winclause->winref]);
  }
  return groups;
}

/* ---- whether ---- */

static const char *statement_level_refusal(PlannerInfo *root, const RelOptInfo *input_rel) {
  const char *reason = statement_refusal(root);

  if (reason) return reason;
  if (root->parse->hasTargetSRFs) return "a function that returns sets in the target list";
  if (contain_volatile_functions((Node *)root->processed_tlist)) return "volatile functions";
  if (!enable_sort) return "enable_sort is off";
  if (input_rel->cheapest_total_path == NULL) return "the input has no path";
  return NULL;
}

/* Whether core's plan costs less than the input and the making of a node. */
static bool is_beaten(const RelOptInfo *output_rel, const CoreChain *chain) {
  Cost core = get_float8_infinity();
  ListCell *cell;

  if (ccopt_force || reasons_are_wanted()) return false;
  foreach (cell, output_rel->pathlist) core = Min(core, ((Path *)lfirst(cell))->total_cost);
  return core < (chain->sorts ? chain->input->total_cost : 0) + batch_setup_cost();
}

static const char *memory_refusal(const Path *child) {
  double row = child->pathtarget->width + sizeof(Datum) * list_length(child->pathtarget->exprs) +
               ROW_SORT_BYTES;
  if (ccopt_force || child->rows * row <= work_mem * 1024.0) return NULL;
  return "the rows would take more memory than work_mem";
}

/* ---- paths ---- */

static const char *add_path_over(PlannerInfo *root, RelOptInfo *output_rel, Path *child,
                                 const List *groups, const CoreChain *chain) {
  const WindowAggPath *top = llast(chain->windows);
  Cost core = top->path.total_cost - chain->input->total_cost;
  const char *reason = memory_refusal(child);
  ListCell *cell;

  foreach (cell, groups) {
    const WindowGroup *group = lfirst(cell);
    WindowLayout layout;
    if (reason == NULL) reason = window_layout_make(root, group, child->pathtarget->exprs, &layout);
    if (reason) return reason;
    child = &batch_window_make_path(root, output_rel, child, group, &layout,
                                    core / list_length(groups), chain->sorts)
                 ->path;
  }
  add_path(output_rel, child);
  return NULL;
}

void batch_window_add_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel) {
  CoreChain chain;
  const char *reason;
  List *groups;

  if (!find_chain(output_rel, &chain) || is_beaten(output_rel, &chain)) return;
  reason = statement_level_refusal(root, input_rel);
  if (reason == NULL) {
    groups = group_windows(root, &chain);
    reason = add_path_over(root, output_rel, input_rel->cheapest_total_path, groups, &chain);
  }
  if (reason == NULL && ccopt_enable_batch_scan && input_rel->reloptkind == RELOPT_BASEREL) {
    Path *scan = batch_scan_path(root, input_rel, false);
    if (scan) reason = add_path_over(root, output_rel, scan, groups, &chain);
  }
  if (reason) note_refusal(root, output_rel, BATCH_WINDOW_NAME, reason);
}
