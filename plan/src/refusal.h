/*
 * Statements that are left alone as a whole.
 *
 *   outside ── plan_statement() ──> planning, planning_refusal set from the cursor's options
 *      ^                                │ plannings nest: the caller restores the outer one's
 *      └────────────────────────────────┘ also when planning fails
 *
 * Invariant: planning_refusal belongs to the innermost running planning, NULL outside.
 */
#ifndef CCOPT_REFUSAL_H
#define CCOPT_REFUSAL_H

#include "compat.h"

#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"

/* The reason why the statement being planned may contain no operator of ccopt; NULL: it may. */
extern const char *planning_refusal;

/* The value of planning_refusal for a statement. */
extern const char *cursor_refusal(const Query *query, int cursor_options);

/*
 * The reason why the whole statement being planned is left alone, or NULL. Only in planner hooks.
 * The rules: SELECT, and the query of an INSERT, only without row marks and data-modifying CTEs
 * (EvalPlanQual expects core's nodes); no cursor that scrolls (docs/design/plan.md, 4);
 * ccopt.enabled.
 */
extern const char *statement_refusal(const PlannerInfo *root);

#endif
