/*
 * Declarations shared by the files of the transitions.
 */
#ifndef CCOPT_TRANSITIONS_INTERNAL_H
#define CCOPT_TRANSITIONS_INTERNAL_H

#include "transitions.h"
#include "utils/hsearch.h"
#include "utils/numeric.h"
#include "vector_expression.h"

typedef enum TransitionKind {
  TRANSITION_COUNT,
  TRANSITION_SUM,
  TRANSITION_MIN,
  TRANSITION_MAX
} TransitionKind;

/*
 * The number of rows in a state usually equals the group's number of rows: only the difference is
 * counted, so that columns without NULL cost nothing. With FILTER a state counts its own rows, as
 * negative `missing`.
 */
typedef struct CountState {
  int64 missing;
} CountState;

/* The sum is `high` * 2^64 + sum; `high` is changed only when sum overflows. */
typedef struct SumState {
  int64 missing;
  int64 sum;
  int64 high;
  int64 scale; /* the largest scale of the arms that occurred; only if the transition is `mixed` */
} SumState;

typedef struct ExtremeState {
  int64 value;
  int64 seen;
} ExtremeState;

/* One result of a CASE; a plain argument is one arm without condition. */
typedef struct TransitionArm {
  List *condition; /* NIL: all remaining rows */
  VectorQual *when;
  bool never; /* the condition is never true: a NULL constant */
  Node *value;
  bool is_null;       /* the value is NULL */
  int node;           /* node of the expressions; -1: only counted, nothing is computed */
  Bitmapset *columns; /* for node -1: rows where one of these is NULL do not count */
} TransitionArm;

typedef struct Transition {
  TransitionKind kind;
  Node *argument; /* NULL: count(*) */
  List *filter_clauses;
  Oid type; /* of the argument */
  bool numeric;
  int offset; /* offset of the state from a group's first state */
  VectorQual *filter;
  bool filter_never;
  int narms;
  TransitionArm *arms;
  ExprState *evaluate;
  int scale;  /* scale of the numbers in the state */
  bool mixed; /* arms may have different scales */
  /* Bound of any sum's absolute value; while it fits int64 nothing can overflow. */
  uint64 sum_bound;
} Transition;

/* Sums that core computed, for groups that had such rows. */
typedef struct ExactKey {
  const GroupRecord *group;
  int64 transition;
} ExactKey;
typedef struct ExactState {
  ExactKey key;
  Numeric value; /* NULL: no row yet */
  int64 count;
} ExactState;

typedef enum ResultKind {
  RESULT_COUNT,
  RESULT_SUM_INTEGER, /* bigint: of smallint, integer */
  RESULT_SUM_NUMERIC, /* numeric: of bigint, numeric */
  RESULT_AVERAGE,
  RESULT_EXTREME
} ResultKind;

typedef struct AggResult {
  ResultKind kind;
  bool partial;   /* core's transition state is needed, for core to combine */
  int transition; /* -1: the group's number of rows */
} AggResult;

struct Transitions {
  PlanState *parent;
  VectorExpressions *expressions;
  int ntransitions;
  Transition *transitions;
  int nresults;
  AggResult *results;
  Size size;
  Bitmapset *columns; /* to be decoded before any expression is run */
  GroupTable *table;
  Size state_offset; /* offset of the first state in a group */
  HTAB *exact;       /* table of ExactState; NULL until needed */
  uint64 slow_rows;
  /* lists of rows */
  uint16 *filtered, *regular, *odd, *passed, *rest, *valid;
};

/* The transition and result of an aggregate function; false if it is not supported. */
extern bool aggregate_kind(Oid function, TransitionKind *transition, ResultKind *result);

/* The exact state of a group; if missing, it is created with `make`, otherwise NULL. */
extern ExactState *exact_state(const Transitions *transitions, int transition,
                               const GroupRecord *group);
extern ExactState *exact_state_make(Transitions *transitions, int transition,
                                    const GroupRecord *group);

/* core's max or min */
extern Numeric numeric_extreme(TransitionKind kind, Numeric a, Numeric b);

#endif
