/*
 * What aggregates compute: a state per group, advanced a batch at a time.
 *
 * Aggregates that compute the same thing of the same rows share a transition: sum(x), avg(x) and
 * count(x) are one. A row comes to a state in one of two ways:
 *
 *   numbers   of batches: int64 into a sum of 128 bits, exactly
 *   rows      core evaluates the argument, and core's numeric functions add it up, into an exact
 *             state that only groups with such rows have: NaN, infinity, too many digits, overflow
 *
 * The result puts both together. Its digits are core's: the display scale of a sum is the largest
 * of its inputs', and that of an expression's numbers is fixed (CASE: one per arm, noted when used).
 */
#ifndef CCOPT_TRANSITIONS_H
#define CCOPT_TRANSITIONS_H

#include "batch.h"
#include "group_table.h"
#include "qual.h"

typedef struct Transitions Transitions;

/* Planning: why an aggregate cannot be computed in batches, or NULL. Its Vars are what the child
 * gives. */
extern const char *aggregate_refusal(const Aggref *aggregate);
/* Planning: bytes of state that a group needs for the aggregates, and how many transitions. */
extern Size transitions_estimate(List *aggregates, int *ntransitions);

/* Execution. `aggregates` are Aggrefs whose Vars `column_of` finds. */
extern Transitions *transitions_create(PlanState *parent, Batch *batch, List *aggregates,
                                       ColumnOfVar column_of, void *argument);
extern Size transitions_state_size(const Transitions *transitions);
/* Once: the table where the groups will be. */
extern void transitions_attach(Transitions *transitions, GroupTable *table);
/* At each start, when the first rows are there: evaluates constants. */
extern void transitions_begin(Transitions *transitions, const Batch *batch, ExprContext *context);
/* The groups are gone. */
extern void transitions_reset(Transitions *transitions);

/*
 * Advances all states by the selected rows: `groups` by row, or NULL and the `only` group. `slot`
 * is where batch_store_slot() puts rows, and what `context` has as outer and scan tuple.
 */
extern void transitions_advance(Transitions *transitions, Batch *batch, GroupRecord **groups,
                                GroupRecord *only, TupleTableSlot *slot, ExprContext *context);

/* Result of aggregate `index` of the list, in the current memory context. */
extern Datum transitions_result(const Transitions *transitions, int index, const GroupRecord *group,
                                bool *is_null);

/*
 * The same as a number, if it is one and there is no exact state: value * 10^scale. False if it is
 * not, as for averages.
 */
extern bool transitions_number(const Transitions *transitions, int index, const GroupRecord *group,
                               int128 *number, int *scale, bool *is_null);

/* Rows that went through core's functions, each once per transition that needed it. */
extern uint64 transitions_slow_rows(const Transitions *transitions);

#endif
