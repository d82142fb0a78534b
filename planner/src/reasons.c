/*
 * Why an operator was not used: noted while planning, printed by EXPLAIN.
 */
#include "ccopt.h"

void note_refusal(PlannerInfo *root, RelOptInfo *rel, const char *node, const char *reason) {}

void reasons_begin(void) {}

void reasons_end(PlannedStmt *plan) {}

void reasons_abandon(void) {}
