/*
 * Cursors that were declared neither SCROLL nor NO SCROLL: they can move backwards if core's plan
 * can.
 */
#ifndef CCOPT_CURSORS_H
#define CCOPT_CURSORS_H

#include "compat.h"

#include "nodes/parsenodes.h"
#include "optimizer/planner.h"

/* True if the statement is of such a cursor. */
extern bool cursor_may_go_backwards(int cursor_options);
/*
 * `ours`, or core's plan of `copy` if only that can move backwards. `planner`: as in
 * plan_without_us().
 */
extern PlannedStmt *cursor_keep_backwards(PlannedStmt *ours, Query *copy, planner_hook_type planner,
                                          const char *query_string, int cursor_options,
                                          ParamListInfo bound_params);

#endif
