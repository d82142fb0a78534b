/*
 * What makes two plans one shape, and two queries worth a second look.
 */
#ifndef CCOPT_SHAPE_KEY_H
#define CCOPT_SHAPE_KEY_H

#include "compat.h"

/*
 * The plan's nodes, tables, indexes and expressions without the values of constants, and the order
 * of magnitude of its cost. Never 0, in neither half.
 */
extern uint64 shape_key(const PlannedStmt *plan);

extern bool has_node_of_ours(const PlannedStmt *plan);

/* Of a query before planning: equal for equal shapes, and cheap. Never 0. */
extern uint32 query_sign(const Query *query);

#endif
