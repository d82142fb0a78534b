/*
 * BatchHashJoin, planning.
 */
#include "ccopt.h"

void batch_join_add_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
                          RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra) {}

void batch_join_register(void) {}
