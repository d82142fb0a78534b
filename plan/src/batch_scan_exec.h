/*
 * BatchScan: what planning needs of execution.
 */
#ifndef CCOPT_BATCH_SCAN_EXEC_H
#define CCOPT_BATCH_SCAN_EXEC_H

#include "batch_scan.h"

extern const BatchExecMethods batch_scan_exec_methods;
extern Node *batch_scan_create_state(CustomScan *plan);

#endif
