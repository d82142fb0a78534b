/*
 * BatchAgg, planning.
 */
#include "ccopt.h"

void batch_agg_add_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
                         RelOptInfo *output_rel, void *extra) {}

void batch_agg_register(void) {}
