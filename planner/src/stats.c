/*
 * ccopt_stats: how often each operator ran, on how many batches, rows, odd rows.
 */
#include "ccopt.h"

void stats_register(void) {}
