/*
 * Functions over windows in the lists of columns of ccopt's nodes, as EXPLAIN writes them.
 *
 * To write a WindowFunc, EXPLAIN of PostgreSQL 18 looks for the WindowAgg that computes it, and fails
 * where there is none: "could not find window clause for winref 1". The entries of custom_scan_tlist
 * are written and never computed, so once all of a statement is planned a call without OVER can stand
 * for the function. Not earlier: until then core compares the entries with the expressions above.
 */
#ifndef CCOPT_EXPLAIN_WINDOWS_H
#define CCOPT_EXPLAIN_WINDOWS_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* A plan node with this custom_scan_tlist is made. */
extern void explain_note_window_functions(const List *tlist);

/* Begins a statement; returns what explain_end_window_functions() needs: planning may plan others within it. */
extern bool explain_begin_window_functions(void);
/* The statement is planned. Does nothing if none of its nodes has such a function. */
extern void explain_write_window_functions(PlannedStmt *statement);
/* Ends a statement, planned or failed. */
extern void explain_end_window_functions(bool outer);

#endif
