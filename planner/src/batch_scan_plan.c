/*
 * BatchScan, planning: when a heap table can be read in batches, and what that costs.
 */
#include "batch_scan.h"

void batch_scan_add_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte) {}

Path *batch_scan_path(PlannerInfo *root, RelOptInfo *rel, bool emits_rows) { return NULL; }

void batch_scan_register(void) {}
