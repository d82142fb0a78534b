/*
 * What core's own plan of a statement would be.
 */
#ifndef CCOPT_COSTS_SECOND_OPINION_H
#define CCOPT_COSTS_SECOND_OPINION_H

#include "compat.h"

#include "optimizer/planner.h"

/* Core's plan: as `planner`, NULL for core's, makes it with ccopt.enabled off. It is on. */
extern PlannedStmt *plan_without_us(planner_hook_type planner, Query *parse,
                                    const char *query_string, int cursor_options,
                                    ParamListInfo bound_params);

/* Before ccopt.c puts its own hook in place, which then calls this one. */
extern void costs_second_opinion_register(void);

#endif
