/*
 * Predicates on batches: each shortens the selection. Supported are clauses that cannot fail and
 * return what core returns:
 *
 *   column < <= = <> >= > constant, column op column (of one kind), BETWEEN,
 *   column [NOT] IN (constants), IS [NOT] NULL, [NOT] LIKE with a literal pattern of % only,
 *   AND, OR, NOT of these
 *
 * for integers, decimals, text and bpchar. A constant is an expression that does not change during
 * a scan: literals, parameters, stable functions of them; it is evaluated when the scan begins.
 */
#ifndef CCOPT_QUAL_H
#define CCOPT_QUAL_H

#include "batch.h"

/* The batch's column for a Var, or -1. */
typedef int (*ColumnOfVar)(const Var *var, void *argument);
typedef struct VectorQual VectorQual;

/* Planning: the reason why `clause` cannot be run on batches, or NULL. */
extern const char *vector_qual_refusal(Node *clause);

/*
 * Execution: compiles a predicate from a list of clauses, implicitly and-ed. `slot` is a virtual
 * slot that batch_store_slot() can fill, for fallback rows; the caller's expression context has it
 * as scan (or outer) tuple.
 */
extern VectorQual *vector_qual_compile(List *clauses, Batch *batch, ColumnOfVar column_of,
                                       void *argument, PlanState *parent);
/* At each start and rescan: evaluates the constants. False: no row can pass (a NULL constant). */
extern bool vector_qual_begin(VectorQual *qual, ExprContext *context);
/* Removes rows that do not pass from the selection. `slot` and `context` are for fallback rows. */
extern void vector_qual_run(VectorQual *qual, Batch *batch, TupleTableSlot *slot,
                            ExprContext *context);
/* The columns it uses, so that a scan can find those first. */
extern Bitmapset *vector_qual_columns(const VectorQual *qual);

#endif
