/*
 * BatchScan: what its planning half needs of its executing half.
 */
#ifndef CCOPT_BATCH_SCAN_EXEC_H
#define CCOPT_BATCH_SCAN_EXEC_H

#include "batch_scan.h"

extern const BatchExecMethods batch_scan_exec_methods;
extern Node *batch_scan_create_state(CustomScan *plan);

#endif
