/*
 * Core's transition states, in the form that its aggregates pass from a worker to the leader: a
 * BatchAgg in a worker returns them for core's Finalize Aggregate to combine.
 *
 *   aggregate                              state                        of no row
 *   count                                  bigint                       0
 *   sum of smallint, integer               bigint                       NULL
 *   min, max                               the value                    NULL
 *   avg of smallint, integer               bigint[2]: rows, sum         {0,0}
 *   sum, avg of bigint                     bytea of int8_avg_serialize       NULL
 *   sum, avg of numeric                    bytea of numeric_avg_serialize    NULL
 *
 * Only the last three need more than a result; they are built here.
 */
#ifndef CCOPT_TRANSITION_STATES_H
#define CCOPT_TRANSITION_STATES_H

#include "compat.h"

#include "utils/numeric.h"

extern Datum partial_average(int64 sum, int64 rows);
/* `type`: INT8OID or NUMERICOID, the type of the summands; `rows` > 0. */
extern Datum partial_sum(Oid type, Numeric sum, int64 rows);

#endif
