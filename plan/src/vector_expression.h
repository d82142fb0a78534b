/*
 * Expressions on batches: + - * and unary minus of integers and decimals, exactly as core computes
 * them.
 *
 *     l_extendedprice * (1 - l_discount)          node  what              scale  numbers
 *                                                   0   column              2    of the batch
 *                                                   1   constant 1          0    one
 *                                                   2   column              2    of the batch
 *                                                   3   1 * 10^2 - node 2   2    computed
 *                                                   4   node 0 * node 3     4    computed
 *
 * A value is number * 10^-scale, and the scale is also the display scale that core's numeric would
 * have, the same for every row. Equal subexpressions are one node, computed once per batch. Each
 * node knows per batch a bound of its absolute values; where the bound does not fit, or where core
 * would possibly report an overflow, the batch is left to core's functions.
 */
#ifndef CCOPT_VECTOR_EXPRESSION_H
#define CCOPT_VECTOR_EXPRESSION_H

#include "batch.h"
#include "qual.h"

typedef struct VectorExpressions VectorExpressions;

/*
 * Planning: why `expression` cannot be computed on batches, or NULL. Its Vars are what the child
 * gives.
 */
extern const char *vector_expression_refusal(const Node *expression);

/* Execution: none yet. `parent` is whose parameters they use. */
extern VectorExpressions *vector_expressions_create(PlanState *parent, ColumnOfVar column_of,
                                                    void *argument);
/* Adds one, and returns the number of its node. */
extern int vector_expression_add(VectorExpressions *expressions, const Batch *batch,
                                 Node *expression);

/* At each start: evaluates the constants, from which the scales follow. */
extern void vector_expressions_begin(VectorExpressions *expressions, const Batch *batch,
                                     ExprContext *context);
/*
 * Computes all nodes for the selected rows that are neither NULL nor odd. Columns must be decoded
 * before: vector_expressions_columns().
 */
extern void vector_expressions_run(VectorExpressions *expressions, const Batch *batch);
/* The columns whose numbers are used. */
extern Bitmapset *vector_expressions_columns(const VectorExpressions *expressions);

/* What a node is, after begin, and gave, after run. */
typedef struct VectorResult {
  bool possible;       /* after begin; false: core must compute it */
  bool usable;         /* after run; false: core must compute it for this batch */
  bool is_null;        /* a constant NULL */
  bool constant;       /* number[0] is every row's value */
  const int64 *number; /* by row */
  uint64 bound;        /* no absolute value is larger */
  int scale;           /* valid after begin, if possible */
  Bitmapset *columns;  /* a row's value is NULL if one of these is */
} VectorResult;
extern VectorResult vector_expression_result(const VectorExpressions *expressions, int node);

#endif
