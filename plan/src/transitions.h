/*
 * What aggregates compute: a state per group, advanced a batch at a time.
 *
 * Aggregates that need the same sums of the same rows share a transition: sum(x), avg(x) and
 * count(x) are one. A row is added to a state in one of two ways:
 *
 *   numbers   of batches: int64 into a sum of 128 bits, exactly
 *   rows      core evaluates the argument, and core's numeric functions add it up, into an exact
 *             state that only groups with such rows have: NaN, infinity, too many digits, overflow
 *
 * The result combines both. Its digits equal core's: the display scale of a sum is the largest of
 * its inputs', and that of an expression's numbers is fixed (CASE: one per arm, recorded when
 * used).
 */
#ifndef CCOPT_TRANSITIONS_H
#define CCOPT_TRANSITIONS_H

#include "batch.h"
#include "group_table.h"
#include "qual.h"

typedef struct Transitions Transitions;

/* Planning: the reason why an aggregate cannot be computed in batches, or NULL. Its Vars refer
 * to the child's output. */
extern const char *aggregate_refusal(const Aggref *aggregate);
/* Planning: bytes of state that a group needs for the aggregates, and the number of transitions. */
extern Size transitions_estimate(List *aggregates, int *ntransitions);

/* Execution. `aggregates` are Aggrefs; `column_of` maps their Vars to columns. */
extern Transitions *transitions_create(PlanState *parent, Batch *batch, List *aggregates,
                                       ColumnOfVar column_of, void *argument);
extern Size transitions_state_size(const Transitions *transitions);
/* Called once: sets the table of the groups. */
extern void transitions_attach(Transitions *transitions, GroupTable *table);
/* Called at each start, when the first rows arrive: evaluates constants. */
extern void transitions_begin(Transitions *transitions, const Batch *batch, ExprContext *context);
/* The groups were removed. */
extern void transitions_reset(Transitions *transitions);

/*
 * Advances all states by the selected rows: `groups` by row, or NULL for the `only` group.
 * batch_store_slot() stores rows in `slot`, which `context` has as outer and scan tuple.
 */
extern void transitions_advance(Transitions *transitions, Batch *batch, GroupRecord **groups,
                                GroupRecord *only, TupleTableSlot *slot, ExprContext *context);

/* Result of aggregate `index` of the list, in the current memory context. */
extern Datum transitions_result(const Transitions *transitions, int index, const GroupRecord *group,
                                bool *is_null);

/*
 * The same as a number (value * 10^scale), if it is one and there is no exact state; otherwise
 * false, as for averages.
 */
extern bool transitions_number(const Transitions *transitions, int index, const GroupRecord *group,
                               int128 *number, int *scale, bool *is_null);

/* Rows that were evaluated by core's functions, counted once for each transition that needed it. */
extern uint64 transitions_slow_rows(const Transitions *transitions);

#endif
