/*
 * Cursors that were declared neither SCROLL nor NO SCROLL: they go backwards where core's plan can.
 */
#ifndef CCOPT_CURSORS_H
#define CCOPT_CURSORS_H

#include "compat.h"

#include "nodes/parsenodes.h"
#include "optimizer/planner.h"

/* Whether the statement is such a cursor's. */
extern bool cursor_may_go_backwards(int cursor_options);
/* `ours`, or core's plan of `copy` if only that can go backwards. `planner`: as of plan_without_us(). */
extern PlannedStmt *cursor_keep_backwards(PlannedStmt *ours, Query *copy, planner_hook_type planner,
                                          const char *query_string, int cursor_options,
                                          ParamListInfo bound_params);

#endif
