/*
 * BatchScan, execution.
 */
#include "batch_scan.h"

const BatchExecMethods batch_scan_exec_methods = {{.CustomName = BATCH_SCAN_NAME}};

bool is_batch_scan(const PlanState *node) {
  return IsA(node, CustomScanState) &&
         ((const CustomScanState *)node)->methods == &batch_scan_exec_methods.base;
}

bool batch_scan_add_visitor(PlanState *node, BatchVisitor visitor, void *state) { return false; }

int batch_scan_column_of_resno(PlanState *node, AttrNumber resno) { return -1; }
