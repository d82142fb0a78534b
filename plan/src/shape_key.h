/*
 * What makes two plans one shape, and two queries worth a second look.
 */
#ifndef CCOPT_SHAPE_KEY_H
#define CCOPT_SHAPE_KEY_H

#include "compat.h"

/*
 * The StatementId (ground/statement) of the text that was planned; of what is explained, prepared or
 * declared as a cursor, that of the statement within. 0: there is no text.
 */
extern uint64 statement_id_of(const PlannedStmt *plan, const char *query_string);

/*
 * The statement, and of its plan the nodes, tables, indexes and expressions without the values of
 * constants, and the order of magnitude of the cost. Never 0, in neither half.
 */
extern uint64 shape_key(const PlannedStmt *plan, uint64 statement_id);

/* Where the text of the statement lies within that of its packet, and how long it is. */
extern const char *statement_text(const PlannedStmt *plan, const char *query_string,
                                  size_t *length);

extern bool has_node_of_ours(const PlannedStmt *plan);

/* Of a query before planning: equal for equal shapes, and cheap. Never 0. */
extern uint32 query_sign(const Query *query);

#endif
