/*
 * BatchAgg: what planning hands to execution, and the spilling that the latter is made with.
 */
#ifndef CCOPT_BATCH_AGG_H
#define CCOPT_BATCH_AGG_H

#include "batch.h"
#include "nodes/extensible.h"
#include "top_n.h"
#include "transitions.h"

/*
 * custom_private of the plan node. Expressions are over the child's target list, with
 * Var(OUTER_VAR, resno). custom_scan_tlist has the same, as the planner knows them: keys, carried
 * columns, aggregates, in this order; then GROUPING() of grouping sets.
 */
typedef enum AggPrivate {
  AGG_PRIVATE_KEYS,       /* List of Var */
  AGG_PRIVATE_CARRIED,    /* List of Var: not compared, since they follow from the keys */
  AGG_PRIVATE_AGGREGATES, /* List of Aggref */
  AGG_PRIVATE_GROUPS,     /* Float: how many are expected */
  AGG_PRIVATE_STEP,       /* Integer: AggStep */
  AGG_PRIVATE_SETS, /* List of List: grouping sets, by AggSetPrivate; NIL: GROUP BY of all keys */
  AGG_PRIVATE_LENGTH
} AggPrivate;

typedef enum AggSetPrivate {
  AGG_SET_KEYS,     /* IntList: which of the keys */
  AGG_SET_GROUPING, /* IntList: the values of GROUPING() */
  AGG_SET_GROUPS    /* Float: how many are expected */
} AggSetPrivate;

extern Node *batch_agg_create_state(CustomScan *plan);

/* Groups that cannot be among the first of a sort above, by entry `resno` of the target list, are not handed
 * out. Nothing if `node` is no BatchAgg, or the entry no aggregate. */
extern void batch_agg_set_top_n(PlanState *node, TopN *top, AttrNumber resno);

/* ---- HAVING on numbers ---- */

/*
 * Conditions of HAVING that compare an aggregate with a constant, on the states as they are: a group
 * that fails one needs no results. Those that pass go through HAVING as it is. NULL if there is no
 * such condition in `qual` (whose Vars are entries of custom_scan_tlist).
 */
typedef struct HavingFilter HavingFilter;
extern HavingFilter *having_filter_create(List *qual, int ncells, int naggregates,
                                          PlanState *parent);
/* At each start: constants are to be evaluated again, when the first group comes. */
extern void having_filter_reset(HavingFilter *filter);
extern bool having_filter_passes(HavingFilter *filter, const Transitions *transitions,
                                 const GroupRecord *group, ExprContext *context);

/* ---- rows whose group does not fit ---- */

typedef struct AggSpill AggSpill;

/* `layout`: the columns of the input, `columns`: the used ones; `descriptor`: of the slots that
 * are put. Lives in the current memory context. */
extern AggSpill *agg_spill_create(const Batch *layout, const Bitmapset *columns,
                                  TupleDesc descriptor, int npartitions);
extern void agg_spill_put(AggSpill *spill, TupleTableSlot *slot, uint32 hash);
/*
 * The next partition to be aggregated, or NULL when all are done. What was put since the last call
 * becomes partitions first.
 */
extern BatchSource *agg_spill_next(AggSpill *spill);
/* Whether dividing the partition at hand once more is of no use: its rows have one hash. */
extern bool agg_spill_is_deep(const AggSpill *spill);
extern void agg_spill_end(AggSpill *spill);

#endif
