/*
 * The identity of a plan's shape, and a cheap sign of queries that may have one.
 */
#ifndef CCOPT_SHAPE_KEY_H
#define CCOPT_SHAPE_KEY_H

#include "compat.h"

/*
 * The StatementId (ground/statement) of the planned text; for a statement within EXPLAIN, PREPARE
 * or DECLARE CURSOR, that of the inner statement. 0: there is no text.
 */
extern uint64 statement_id_of(const PlannedStmt *plan, const char *query_string);

/*
 * A hash of the statement and of its plan: nodes, tables, indexes and expressions without the
 * values of constants, and the order of magnitude of the cost. Never 0, in neither half.
 */
extern uint64 shape_key(const PlannedStmt *plan, uint64 statement_id);

/* The statement's text within its packet's text, and its length. */
extern const char *statement_text(const PlannedStmt *plan, const char *query_string,
                                  size_t *length);

extern bool has_node_of_ours(const PlannedStmt *plan);

/* A cheap hash of a query before planning: equal for equal shapes. Never 0. */
extern uint32 query_sign(const Query *query);

#endif
