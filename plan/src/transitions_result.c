/*
 * Aggregates: the results of a group.
 */
#include "transitions.h"

#include "catalog/pg_type.h"
#include "utils/fmgrprotos.h"

#include "decimal.h"
#include "transition_states.h"
#include "transitions_internal.h"

/* Number of rows in the numbers of a count's or sum's state: both begin with `missing`. */
static int64 rows_of(const Transition *transition, const GroupRecord *group, const char *state) {
  return (transition->filter ? 0 : group->rows) - ((const CountState *)state)->missing;
}

static int128 sum_of(const SumState *state) {
  return ((int128)state->high << 64) + (int128)state->sum;
}

/* The sum of all rows as core computes it; there must be a row. */
static Numeric sum_as_numeric(const Transition *transition, const SumState *state, int64 rows,
                              const ExactState *exact) {
  Numeric sum = NULL;

  if (rows > 0) {
    sum = numeric_of_decimal(sum_of(state), transition->scale);
    if (transition->mixed && state->scale < transition->scale)
      sum = numeric_with_scale(sum, (int)state->scale);
  }
  if (exact == NULL || exact->value == NULL) return sum;
  if (sum == NULL) return exact->value;
  return DatumGetNumeric(
      DirectFunctionCall2(numeric_add, NumericGetDatum(sum), NumericGetDatum(exact->value)));
}

/* The state that a worker passes to the leader. */
static Datum partial_sum_of(const Transition *transition, const SumState *state, int64 rows,
                            int64 all, const ExactState *exact, bool *is_null) {
  bool is_small = transition->type == INT2OID || transition->type == INT4OID;

  if (is_small) return partial_average(state->sum, all);
  *is_null = all == 0;
  if (*is_null) return (Datum)0;
  return partial_sum(transition->type, sum_as_numeric(transition, state, rows, exact), all);
}

static Datum extreme_of(const Transition *transition, const ExtremeState *state,
                        const ExactState *exact, bool *is_null) {
  Numeric value;

  if (exact == NULL || exact->value == NULL) {
    *is_null = !state->seen;
    return state->seen ? datum_of_number(transition->type, transition->scale, state->value)
                       : (Datum)0;
  }
  value = exact->value;
  /* Rows in the numbers came after those in the exact state (transitions_run.c). */
  if (state->seen)
    value = numeric_extreme(transition->kind, value,
                            numeric_of_decimal(state->value, transition->scale));
  return NumericGetDatum(value);
}

Datum transitions_result(const Transitions *transitions, int index, const GroupRecord *group,
                         bool *is_null) {
  const AggResult *result = &transitions->results[index];
  const Transition *transition;
  const char *state;
  const ExactState *exact = NULL;
  int64 rows, all;

  *is_null = false;
  if (result->transition < 0) return Int64GetDatum(group->rows);
  transition = &transitions->transitions[result->transition];
  state = (const char *)group + transitions->state_offset + transition->offset;
  if (transition->numeric) exact = exact_state(transitions, result->transition, group);
  if (result->kind == RESULT_EXTREME)
    return extreme_of(transition, (const ExtremeState *)state, exact, is_null);

  rows = rows_of(transition, group, state);
  all = rows + (exact ? exact->count : 0);
  if (result->kind == RESULT_COUNT) return Int64GetDatum(all);
  if (result->partial && result->kind != RESULT_SUM_INTEGER)
    return partial_sum_of(transition, (const SumState *)state, rows, all, exact, is_null);
  if (all == 0) {
    *is_null = true;
    return (Datum)0;
  }
  switch (result->kind) {
    case RESULT_SUM_INTEGER: return Int64GetDatum(((const SumState *)state)->sum);
    case RESULT_SUM_NUMERIC:
      return NumericGetDatum(sum_as_numeric(transition, (const SumState *)state, rows, exact));
    default:
      return DirectFunctionCall2(
          numeric_div,
          NumericGetDatum(sum_as_numeric(transition, (const SumState *)state, rows, exact)),
          NumericGetDatum(int64_to_numeric(all)));
  }
}

bool transitions_number(const Transitions *transitions, int index, const GroupRecord *group,
                        int128 *number, int *scale, bool *is_null) {
  const AggResult *result = &transitions->results[index];
  const Transition *transition;
  const char *state;
  int64 rows;

  *is_null = false;
  *scale = 0;
  *number = group->rows;
  if (result->transition < 0) return true;
  transition = &transitions->transitions[result->transition];
  if (transition->numeric && exact_state(transitions, result->transition, group)) return false;
  state = (const char *)group + transitions->state_offset + transition->offset;
  *scale = transition->scale;
  if (result->kind == RESULT_EXTREME) {
    *is_null = !((const ExtremeState *)state)->seen;
    *number = ((const ExtremeState *)state)->value;
    return true;
  }
  rows = rows_of(transition, group, state);
  switch (result->kind) {
    case RESULT_COUNT:
      *number = rows;
      *scale = 0;
      return true;
    case RESULT_SUM_INTEGER:
    case RESULT_SUM_NUMERIC:
      *number = result->kind == RESULT_SUM_INTEGER ? ((const SumState *)state)->sum
                                                   : sum_of((const SumState *)state);
      *is_null = rows == 0;
      return true;
    default: return false;
  }
}
