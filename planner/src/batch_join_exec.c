/*
 * BatchHashJoin, execution.
 */
#include "batch.h"
#include "ccopt.h"

const BatchExecMethods batch_join_exec_methods = {{.CustomName = BATCH_JOIN_NAME}};
