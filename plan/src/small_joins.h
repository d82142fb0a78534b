/*
 * Patterns of joins that have always been small in this session: cheap, and without a node of ccopt.
 * A program sends these short statements repeatedly, with other values; ccopt then leaves their
 * planning to core.
 *
 *   unknown ── small_join_learn(true), SMALL_JOIN_RUN times in succession ──> expected to be small
 *      │                                                                          │
 *      └────── small_join_learn(false) ──> may be large, until the session ends <─┘
 *
 * Invariants:
 *  1. A pattern whose planning was not small once in this session is never expected to be small,
 *     unless another pattern has taken its place in the table since.
 *  2. Values of constants and parameters are no part of a pattern, what they are compared with is.
 *  3. Two joins that differ only in HAVING, in WITH, or in expressions of the result share a pattern: the
 *     answer is the same, but if one of them is large, both are planned by ccopt.
 */
#ifndef CCOPT_SMALL_JOINS_H
#define CCOPT_SMALL_JOINS_H

#include "compat.h"

#include "nodes/parsenodes.h"

#define SMALL_JOIN_RUN 8

/* A hash of a query before planning: tables, conditions, numbers of columns. */
extern uint64 small_join_pattern(const Query *query);

/* True if the last SMALL_JOIN_RUN plannings of the pattern were small, and no earlier one large. */
extern bool small_join_expected(uint64 pattern);
/* Records the outcome of a planning. */
extern void small_join_learn(uint64 pattern, bool small);

#endif
