/*
 * Shapes: repeated plans with ccopt's nodes, their times, and those of core's own plan in trials. A
 * shape that loses is pinned to core's plan until it no longer loses.
 *
 * A shape is a statement with a plan, both without constants, and the order of magnitude of the
 * plan's cost: a statement whose plan changes has a shape for each plan. It is known only after the
 * plan with ccopt's nodes was made, so core's plan is a second planning: for shapes pinned to it,
 * and for trials, which are rare (shape_verdict.h has the rules).
 *
 * Statements that never had a node of ccopt's cost one test of a flag while planning, and one of a
 * list when they start to run.
 */
#ifndef CCOPT_SHAPES_H
#define CCOPT_SHAPES_H

#include "settings.h"

#include "executor/execdesc.h"
#include "optimizer/planner.h"

/* Facts about a query that are computed before planning, which changes the query. */
typedef struct ShapePlanning {
  uint32 sign; /* sign of the query; 0: not requested */
  Query *copy; /* copy for another planning, or NULL */
} ShapePlanning;

/* True if a plan with one of ccopt's nodes was made: by the server, or by this session. */
extern const bool *shapes_in_use;

extern void shapes_look_at_query(ShapePlanning *planning, Query *parse);

static inline void shapes_begin(ShapePlanning *planning, Query *parse) {
  planning->sign = 0;
  planning->copy = NULL;
  if (*shapes_in_use) shapes_look_at_query(planning, parse);
}

/*
 * The plan to run: `ours`, or core's own. `planner` made `ours`, NULL for core. The returned plan
 * is marked, so that its execution is measured.
 */
extern PlannedStmt *shapes_choose(const ShapePlanning *planning, PlannedStmt *ours,
                                  planner_hook_type planner, const char *query_string,
                                  int cursor_options, ParamListInfo bound_params);

/* To be called at the end of ExecutorStart. */
extern void shapes_measure(QueryDesc *query, int eflags);

static inline void shapes_started(QueryDesc *query, int eflags) {
  if (query->plannedstmt->invalItems != NIL) shapes_measure(query, eflags);
}

/* Removes all shapes of this database; returns their number. */
extern int shapes_forget(void);

#endif
