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
 * have, the same for every row. Equal subexpressions are one node, computed once per batch. For
 * each batch, each node has a bound of its absolute values; if the bound does not fit, or if core
 * might report an overflow, the batch is left to core's functions.
 */
#ifndef CCOPT_VECTOR_EXPRESSION_H
#define CCOPT_VECTOR_EXPRESSION_H

#include "batch.h"
#include "qual.h"

typedef struct VectorExpressions VectorExpressions;

/*
 * Planning: the reason why `expression` cannot be computed on batches, or NULL. Its Vars refer to
 * the child's output.
 */
extern const char *vector_expression_refusal(const Node *expression);

/* Execution: creates an empty set. The expressions use the parameters of `parent`. */
extern VectorExpressions *vector_expressions_create(PlanState *parent, ColumnOfVar column_of,
                                                    void *argument);
/* Adds an expression, and returns the number of its node. */
extern int vector_expression_add(VectorExpressions *expressions, const Batch *batch,
                                 Node *expression);

/* Called at each start: evaluates the constants, which determine the scales. */
extern void vector_expressions_begin(VectorExpressions *expressions, const Batch *batch,
                                     ExprContext *context);
/*
 * Computes all nodes for the selected rows that are not NULL and fit. Columns must be decoded
 * before: vector_expressions_columns().
 */
extern void vector_expressions_run(VectorExpressions *expressions, const Batch *batch);
/* The columns whose numbers are used. */
extern Bitmapset *vector_expressions_columns(const VectorExpressions *expressions);

/* The type of a node, set by begin, and its result, set by run. */
typedef struct VectorResult {
  bool possible;       /* set by begin; false: core must compute it */
  bool usable;         /* set by run; false: core must compute it for this batch */
  bool is_null;        /* a constant NULL */
  bool constant;       /* number[0] is every row's value */
  const int64 *number; /* indexed by row */
  uint64 bound;        /* bound of the absolute values */
  int scale;           /* set by begin, if possible */
  Bitmapset *columns;  /* a row's value is NULL if one of these is */
} VectorResult;
extern VectorResult vector_expression_result(const VectorExpressions *expressions, int node);

#endif
