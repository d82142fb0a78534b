/*
 * Core's own plan of a statement, for comparison.
 */
#ifndef CCOPT_COSTS_SECOND_OPINION_H
#define CCOPT_COSTS_SECOND_OPINION_H

#include "compat.h"

#include "optimizer/planner.h"

/*
 * True for statements that take at most a millisecond according to their costs, with a margin of ten
 * for wrong costs.
 */
static inline bool is_small_statement(const PlannedStmt *plan) {
  return plan->planTree->total_cost < 50.0;
}

/*
 * Plans with ccopt.enabled off, by `planner`, or by core if that is NULL. ccopt.enabled must be on.
 */
extern PlannedStmt *plan_without_us(planner_hook_type planner, Query *parse,
                                    const char *query_string, int cursor_options,
                                    ParamListInfo bound_params);

/* Call this before ccopt.c sets its own hook, which then calls this one. */
extern void costs_second_opinion_register(void);

#endif
