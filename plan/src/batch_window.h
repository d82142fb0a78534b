/*
 * BatchWindow: window functions over rows that it sorts itself; what planning hands to execution.
 *
 * One node does what core does in a Sort and the WindowAggs above it that need no other order:
 *
 *     WindowAgg    sum(x) OVER (PARTITION BY a)
 *       WindowAgg    row_number() OVER (PARTITION BY a ORDER BY b)     are one BatchWindow
 *         Sort         a, b
 */
#ifndef CCOPT_BATCH_WINDOW_H
#define CCOPT_BATCH_WINDOW_H

#include "batch.h"
#include "nodes/extensible.h"

/*
 * custom_private of the plan node. custom_exprs has a list of run conditions for each window, NIL if it
 * has none.
 */
typedef enum WindowPrivate {
  WINDOW_PRIVATE_COLUMNS,   /* List of Var(OUTER_VAR, resno): what is kept of each row */
  WINDOW_PRIVATE_KEYS,      /* List of IntList, by WindowKeyPrivate: what the rows are sorted by */
  WINDOW_PRIVATE_OPERATORS, /* List of OidList, by WindowKeyOperator: of each key */
  WINDOW_PRIVATE_WINDOWS,   /* List of List, by WindowClausePrivate: the lowest first */
  WINDOW_PRIVATE_OUTPUT,    /* IntList: of each entry of custom_scan_tlist, its column, or -1 - n of
                               function n, counted over all windows */
  WINDOW_PRIVATE_ROWS,      /* Float: how many are expected */
  WINDOW_PRIVATE_LENGTH
} WindowPrivate;

typedef enum WindowKeyPrivate {
  WINDOW_KEY_COLUMN, /* of WINDOW_PRIVATE_COLUMNS */
  WINDOW_KEY_DESCENDING,
  WINDOW_KEY_NULLS_FIRST
} WindowKeyPrivate;

typedef enum WindowKeyOperator {
  WINDOW_KEY_ORDER, /* < or > */
  WINDOW_KEY_EQUAL,
  WINDOW_KEY_COLLATION
} WindowKeyOperator;

typedef enum WindowClausePrivate {
  WINDOW_CLAUSE_NUMBERS,  /* IntList, by WindowNumber */
  WINDOW_CLAUSE_FUNCTIONS /* List of WindowFunc, over Var(OUTER_VAR, resno) */
} WindowClausePrivate;

typedef enum WindowNumber {
  WINDOW_PARTITION_KEYS, /* the first of the sort's keys */
  WINDOW_ORDER_KEYS,     /* those behind them */
  WINDOW_FRAME,          /* frameOptions */
  WINDOW_REFERENCE,      /* winref */
  WINDOW_IS_TOP          /* of its query: rows that fail the run condition are dropped */
} WindowNumber;

extern Node *batch_window_create_state(CustomScan *plan);

/* Planning: why a function over a window cannot be computed, or NULL. Its arguments are mapped to the child. */
extern const char *window_function_refusal(const WindowFunc *function);
extern const char *window_frame_refusal(int frame_options);

#endif
