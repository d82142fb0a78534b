/*
 * Functions over windows in the lists of columns of ccopt's nodes, as EXPLAIN writes them.
 */
#include "explain_windows.h"

#include "nodes/extensible.h"
#include "nodes/makefuncs.h"

#include "node_names.h"
#include "plan_tree.h"

/* Whether a list with such a function was made for the statement that is being planned. */
static bool have_functions;

bool explain_begin_window_functions(void) {
  bool outer = have_functions;
  have_functions = false;
  return outer;
}

void explain_end_window_functions(bool outer) { have_functions = outer; }

void explain_note_window_functions(const List *tlist) {
  ListCell *cell;
  foreach (cell, tlist)
    if (IsA(lfirst_node(TargetEntry, cell)->expr, WindowFunc)) have_functions = true;
}

static bool write_functions(Plan *plan, void *argument) {
  ListCell *cell;

  if (!IsA(plan, CustomScan)) return false;
  /* Another extension may compute what its list says. */
  if (strcmp(((const CustomScan *)plan)->methods->CustomName, BATCH_AGG_NAME) != 0 &&
      strcmp(((const CustomScan *)plan)->methods->CustomName, BATCH_WINDOW_NAME) != 0)
    return false;
  foreach (cell, ((const CustomScan *)plan)->custom_scan_tlist) {
    TargetEntry *entry = lfirst_node(TargetEntry, cell);
    const WindowFunc *function = (const WindowFunc *)entry->expr;

    if (!IsA(function, WindowFunc)) continue;
    entry->expr =
        (Expr *)makeFuncExpr(function->winfnoid, function->wintype, function->args,
                             function->wincollid, function->inputcollid, COERCE_EXPLICIT_CALL);
  }
  return false;
}

void explain_write_window_functions(PlannedStmt *statement) {
  if (!have_functions) return;
  statement_any(statement, write_functions, NULL);
}
