/*
 * Shapes: plans with nodes of ours that came again, what they took, and what core's own plan took
 * when it was tried; a shape that loses is left to core until it no longer would.
 *
 * A shape is a statement with a plan, both without constants, and the order of magnitude of the plan's
 * cost: a statement whose plan changes has a shape for each plan. It is known once
 * the plan with our nodes is there, and so core's plan is a second planning: made for shapes that
 * are pinned to it, and for trials, which are rare (shape_verdict.h has the rules).
 *
 * Statements that never got a node of ours pay one test of a flag while planning, and one of a list
 * when they start to run.
 */
#ifndef CCOPT_SHAPES_H
#define CCOPT_SHAPES_H

#include "settings.h"

#include "executor/execdesc.h"
#include "optimizer/planner.h"

/* What has to be known of a statement before planning, which changes the query. */
typedef struct ShapePlanning {
  uint32 sign; /* of the query, coarse; 0: not requested */
  Query *copy; /* to plan again, or NULL */
} ShapePlanning;

/* Whether any plan with one of ccopt's nodes was seen: by the server, or by this session. */
extern const bool *shapes_in_use;

extern void shapes_look_at_query(ShapePlanning *planning, Query *parse);

static inline void shapes_begin(ShapePlanning *planning, Query *parse) {
  planning->sign = 0;
  planning->copy = NULL;
  if (*shapes_in_use) shapes_look_at_query(planning, parse);
}

/*
 * The plan to run: `ours`, or core's own. `planner` is who made `ours`, NULL for core. What comes
 * back is marked, so that its execution is measured.
 */
extern PlannedStmt *shapes_choose(const ShapePlanning *planning, PlannedStmt *ours,
                                  planner_hook_type planner, const char *query_string,
                                  int cursor_options, ParamListInfo bound_params);

/* At the end of ExecutorStart. */
extern void shapes_measure(QueryDesc *query, int eflags);

static inline void shapes_started(QueryDesc *query, int eflags) {
  if (query->plannedstmt->invalItems != NIL) shapes_measure(query, eflags);
}

/* Forgets what is known of the shapes of this database; how many there were. */
extern int shapes_forget(void);

#endif
