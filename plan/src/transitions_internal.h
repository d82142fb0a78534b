/*
 * What the files of the transitions share.
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
 * How many rows a state has seen is mostly how many rows its group has: what is counted is the
 * difference, so that columns without NULL count nothing. With FILTER a state counts its own
 * rows, as negative `missing`.
 */
typedef struct CountState {
  int64 missing;
} CountState;

/* The sum is `high` * 2^64 + sum; `high` is touched only when sum overflows. */
typedef struct SumState {
  int64 missing;
  int64 sum;
  int64 high;
  int64 scale; /* the largest of the arms that came; only there if the transition is `mixed` */
} SumState;

typedef struct ExtremeState {
  int64 value;
  int64 seen;
} ExtremeState;

/* One result of a CASE; a plain argument is one arm without condition. */
typedef struct TransitionArm {
  List *condition; /* NIL: all rows that are left */
  VectorQual *when;
  bool never; /* the condition cannot be true: a NULL constant */
  Node *value;
  bool is_null;       /* the value is NULL */
  int node;           /* of the expressions; -1: nothing is computed, only counted */
  Bitmapset *columns; /* with node -1: rows where one is NULL do not count */
} TransitionArm;

typedef struct Transition {
  TransitionKind kind;
  Node *argument; /* NULL: count(*) */
  List *filter_clauses;
  Oid type; /* of the argument */
  bool numeric;
  int offset; /* of the state, from the first state of a group */
  VectorQual *filter;
  bool filter_never;
  int narms;
  TransitionArm *arms;
  ExprState *evaluate;
  int scale;  /* of the numbers in the state */
  bool mixed; /* arms may have different scales */
  /* No sum can be larger, in absolute value; while that fits int64 nothing can overflow. */
  uint64 sum_bound;
} Transition;

/* What core added up, of groups that had such rows. */
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
  bool partial;   /* core's transition state is wanted, for core to combine */
  int transition; /* -1: rows of the group */
} AggResult;

struct Transitions {
  PlanState *parent;
  VectorExpressions *expressions;
  int ntransitions;
  Transition *transitions;
  int nresults;
  AggResult *results;
  Size size;
  Bitmapset *columns; /* to be decoded before anything is run */
  GroupTable *table;
  Size state_offset; /* of the first state in a group */
  HTAB *exact;       /* of ExactState; NULL until needed */
  uint64 slow_rows;
  /* rows at hand */
  uint16 *filtered, *regular, *odd, *passed, *rest, *valid;
};

/* The transition and result of an aggregate function; false if not supported. */
extern bool aggregate_kind(Oid function, TransitionKind *transition, ResultKind *result);

/* The exact state of a group, created if missing and `make`; else NULL. */
extern ExactState *exact_state(const Transitions *transitions, int transition,
                               const GroupRecord *group);
extern ExactState *exact_state_make(Transitions *transitions, int transition,
                                    const GroupRecord *group);

/* core's max or min */
extern Numeric numeric_extreme(TransitionKind kind, Numeric a, Numeric b);

#endif
