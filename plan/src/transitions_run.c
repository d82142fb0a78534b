/*
 * Aggregates: advancing the states by a batch.
 */
#include "transitions.h"

#include "utils/fmgrprotos.h"

#include "decimal.h"
#include "transitions_internal.h"

/* The input of an advance. */
typedef struct Advance {
  Transitions *transitions;
  Batch *batch;
  GroupRecord **groups; /* NULL: all rows belong to `only` */
  GroupRecord *only;
  TupleTableSlot *slot;
  ExprContext *context;
} Advance;

static inline void *state_of(const Transitions *transitions, const Transition *transition,
                             GroupRecord *group) {
  return (char *)group + transitions->state_offset + transition->offset;
}

static inline GroupRecord *group_of(const Advance *advance, int row) {
  return advance->groups ? advance->groups[row] : advance->only;
}

/* ---- kernels ---- */

static pg_attribute_always_inline void add_to_sum(SumState *state, int64 number) {
  if (unlikely(__builtin_add_overflow(state->sum, number, &state->sum)))
    state->high += number < 0 ? -1 : 1;
}

static void add_wide(SumState *state, int128 number) {
  int128 sum = ((int128)state->high << 64) + (int128)state->sum + number;
  state->sum = (int64)sum;
  state->high = (int64)((sum - (int128)state->sum) >> 64);
}

static void sum_of_one_group(SumState *state, const int64 *number, int64 factor, uint64 bound,
                             const uint16 *rows, int n) {
  if (bound <= PG_INT64_MAX / BATCH_ROWS) {
    int64 sum = 0;
    for (int i = 0; i < n; i++) sum += number[rows[i]];
    add_wide(state, (int128)sum * factor);
  } else {
    int128 sum = 0;
    for (int i = 0; i < n; i++) sum += number[rows[i]];
    add_wide(state, sum * factor);
  }
}

/* True if no sum can overflow: then sums are only added up, one instruction a row. */
static bool cannot_overflow(Transition *transition, uint64 bound, int n) {
  uint64 more;

  if (__builtin_mul_overflow(bound, (uint64)n, &more) ||
      __builtin_add_overflow(transition->sum_bound, more, &transition->sum_bound))
    transition->sum_bound = PG_UINT64_MAX;
  return transition->sum_bound <= PG_INT64_MAX;
}

#define SUM_AT(row) ((SumState *)((char *)groups[row] + offset))

static void sum_rows(const Advance *advance, Transition *transition, const VectorResult *value,
                     int64 factor, const uint16 *rows, int n) {
  const Size offset = advance->transitions->state_offset + transition->offset;
  const int64 *number = value->number;
  GroupRecord **groups = advance->groups;
  bool unchecked = cannot_overflow(transition, value->bound * (uint64)factor, n);

  if (value->constant) {
    int64 addend = number[0] * factor;
    if (addend == 0) return;
    if (groups == NULL)
      add_wide((SumState *)((char *)advance->only + offset), (int128)addend * n);
    else
      for (int i = 0; i < n; i++) add_to_sum(SUM_AT(rows[i]), addend);
  } else if (groups == NULL) {
    sum_of_one_group((SumState *)((char *)advance->only + offset), number, factor, value->bound,
                     rows, n);
  } else if (factor == 1 && unchecked) {
    for (int i = 0; i < n; i++) SUM_AT(rows[i])->sum += number[rows[i]];
  } else {
    for (int i = 0; i < n; i++) add_to_sum(SUM_AT(rows[i]), number[rows[i]] * factor);
  }
}

static void note_scale(const Advance *advance, const Transition *transition, int scale,
                       const uint16 *rows, int n) {
  for (int i = 0; i < n; i++) {
    SumState *state = state_of(advance->transitions, transition, group_of(advance, rows[i]));
    state->scale = Max(state->scale, scale);
  }
}

static void extreme_rows(const Advance *advance, const Transition *transition,
                         const VectorResult *value, const uint16 *rows, int n) {
  for (int i = 0; i < n; i++) {
    ExtremeState *state = state_of(advance->transitions, transition, group_of(advance, rows[i]));
    int64 number = value->number[value->constant ? 0 : rows[i]];
    bool better =
        transition->kind == TRANSITION_MAX ? number > state->value : number < state->value;
    if (better || !state->seen) {
      state->value = number;
      state->seen = true;
    }
  }
}

/* Adds to the number of rows that are missing in a state of count or sum. */
static void add_missing(const Advance *advance, const Transition *transition, const uint16 *rows,
                        int n, int64 step) {
  if (transition->kind == TRANSITION_MIN || transition->kind == TRANSITION_MAX || n == 0) return;
  if (advance->groups == NULL) {
    CountState *state = state_of(advance->transitions, transition, advance->only);
    state->missing += step * n;
    return;
  }
  for (int i = 0; i < n; i++) {
    CountState *state = state_of(advance->transitions, transition, advance->groups[rows[i]]);
    state->missing += step;
  }
}

/* ---- rows through core ---- */

static void add_exact(const Advance *advance, int index, GroupRecord *group, Datum value) {
  Transitions *transitions = advance->transitions;
  const Transition *transition = &transitions->transitions[index];
  ExactState *exact = exact_state_make(transitions, index, group);
  Numeric result = DatumGetNumeric(value);
  Numeric old;
  MemoryContext before;

  exact->count++;
  if (transition->kind == TRANSITION_SUM) {
    if (exact->value)
      result = DatumGetNumeric(
          DirectFunctionCall2(numeric_add, NumericGetDatum(exact->value), NumericGetDatum(result)));
  } else {
    ExtremeState *state = state_of(transitions, transition, group);
    /*
     * So far the state has numbers: of equal values core takes the later one, so the order must be
     * kept.
     */
    if (state->seen) {
      Numeric earlier = numeric_of_decimal(state->value, transition->scale);
      if (exact->value) earlier = numeric_extreme(transition->kind, exact->value, earlier);
      result = numeric_extreme(transition->kind, earlier, result);
      state->seen = false;
    } else if (exact->value) {
      result = numeric_extreme(transition->kind, exact->value, result);
    }
  }
  old = exact->value;
  before = MemoryContextSwitchTo(group_table_context(transitions->table));
  exact->value = DatumGetNumericCopy(NumericGetDatum(result));
  MemoryContextSwitchTo(before);
  if (old) pfree(old);
}

static void add_number(const Advance *advance, Transition *transition, GroupRecord *group,
                       Datum value) {
  void *state = state_of(advance->transitions, transition, group);

  if (transition->kind == TRANSITION_SUM) {
    add_to_sum(state, number_of_datum(transition->type, value));
    transition->sum_bound = PG_UINT64_MAX;
  } else if (transition->kind != TRANSITION_COUNT) {
    ExtremeState *extreme = state;
    int64 number = number_of_datum(transition->type, value);
    bool better =
        transition->kind == TRANSITION_MAX ? number > extreme->value : number < extreme->value;
    if (better || !extreme->seen) extreme->value = number;
    extreme->seen = true;
  }
}

/* Row by row: core evaluates the argument. */
static void advance_by_rows(const Advance *advance, int index, const uint16 *rows, int n) {
  Transition *transition = &advance->transitions->transitions[index];
  bool counts = transition->kind == TRANSITION_COUNT || transition->kind == TRANSITION_SUM;

  advance->transitions->slow_rows += n;
  for (int i = 0; i < n; i++) {
    GroupRecord *group = group_of(advance, rows[i]);
    CountState *state = state_of(advance->transitions, transition, group);
    MemoryContext before;
    Datum value;
    bool is_null;

    ResetExprContext(advance->context);
    before = MemoryContextSwitchTo(advance->context->ecxt_per_tuple_memory);
    batch_store_slot(advance->batch, rows[i], advance->slot);
    MemoryContextSwitchTo(before);
    value = ExecEvalExprSwitchContext(transition->evaluate, advance->context, &is_null);
    /* Not among the rows of the numbers, unless it is added to them. */
    if (counts && !transition->filter) state->missing++;
    if (is_null) continue;
    before = MemoryContextSwitchTo(advance->context->ecxt_per_tuple_memory);
    if (transition->numeric && transition->kind != TRANSITION_COUNT) {
      add_exact(advance, index, group, value);
    } else {
      add_number(advance, transition, group, value);
      if (counts) state->missing--;
    }
    MemoryContextSwitchTo(before);
  }
  ResetExprContext(advance->context);
}

/* ---- which rows ---- */

/* Writes the rows of a list that pass a predicate to `passed`; returns their number. */
static int run_qual(const Advance *advance, VectorQual *qual, bool never, const uint16 *rows, int n,
                    uint16 *passed) {
  Batch *batch = advance->batch;
  uint16 *selected = batch->selected;
  int nselected = batch->nselected;

  if (never || n == 0) return 0;
  memcpy(passed, rows, sizeof(*passed) * n);
  batch->selected = passed;
  batch->nselected = n;
  vector_qual_run(qual, batch, advance->slot, advance->context);
  n = batch->nselected;
  batch->selected = selected;
  batch->nselected = nselected;
  return n;
}

/* Removes `taken` from `rows`, both ascending, in place. */
static int subtract(uint16 *rows, int n, const uint16 *taken, int ntaken) {
  int kept = 0, next = 0;

  for (int i = 0; i < n; i++) {
    if (next < ntaken && taken[next] == rows[i])
      next++;
    else
      rows[kept++] = rows[i];
  }
  return kept;
}

/* Removes rows where a column is NULL; returns how many are left, in `valid` or `rows`. */
static int without_nulls(const Advance *advance, const Transition *transition,
                         const Bitmapset *columns, const uint16 **rows, int n) {
  uint16 *valid = advance->transitions->valid;
  int column = -1;

  while ((column = bms_next_member(columns, column)) >= 0) {
    const BatchColumn *values = &advance->batch->columns[column];
    uint16 nulls[BATCH_ROWS];
    int kept = 0, nnulls = 0;

    if (!values->has_nulls) continue;
    for (int i = 0; i < n; i++) {
      uint16 row = (*rows)[i];
      bool is_null = values->where[row] == NULL;
      nulls[nnulls] = row;
      nnulls += is_null;
      valid[kept] = row;
      kept += !is_null;
    }
    if (!transition->filter) add_missing(advance, transition, nulls, nnulls, 1);
    *rows = valid;
    n = kept;
  }
  return n;
}

/* ---- a transition ---- */

static void advance_arm(const Advance *advance, Transition *transition, const TransitionArm *arm,
                        const uint16 *rows, int n) {
  VectorResult value = {0};

  if (n == 0) return;
  if (arm->node >= 0) {
    value = vector_expression_result(advance->transitions->expressions, arm->node);
  } else {
    value.columns = arm->columns;
    value.is_null = arm->is_null;
  }
  if (value.is_null) {
    if (!transition->filter) add_missing(advance, transition, rows, n, 1);
    return;
  }
  n = without_nulls(advance, transition, value.columns, &rows, n);
  if (transition->filter) add_missing(advance, transition, rows, n, -1);
  if (transition->kind == TRANSITION_SUM) {
    sum_rows(advance, transition, &value, decimal_powers[transition->scale - value.scale], rows, n);
    if (transition->mixed) note_scale(advance, transition, value.scale, rows, n);
  } else if (transition->kind != TRANSITION_COUNT) {
    extreme_rows(advance, transition, &value, rows, n);
  }
}

/* True if the numbers of this batch can be used; otherwise core must compute it. */
static bool is_computable(const Advance *advance, const Transition *transition) {
  for (int a = 0; a < transition->narms; a++) {
    VectorResult value;
    uint64 bound;

    if (transition->arms[a].node < 0) continue;
    value = vector_expression_result(advance->transitions->expressions, transition->arms[a].node);
    if (!value.usable) return false;
    if (value.is_null) continue;
    if (__builtin_mul_overflow(value.bound, (uint64)decimal_powers[transition->scale - value.scale],
                               &bound) ||
        (transition->scale != value.scale && bound > PG_INT64_MAX))
      return false;
  }
  /* Of equal values with different display scales the later one counts. */
  return !(transition->numeric && advance->batch->nodd > 0 &&
           (transition->kind == TRANSITION_MIN || transition->kind == TRANSITION_MAX));
}

/* Writes the rows of a list that fit to `regular`; core processes the others. */
static int take_odd_rows(const Advance *advance, int index, const uint16 *rows, int n) {
  uint16 *regular = advance->transitions->regular, *odd = advance->transitions->odd;
  int nregular = 0, nodd = 0;

  for (int i = 0; i < n; i++) {
    if (advance->batch->odd[rows[i]])
      odd[nodd++] = rows[i];
    else
      regular[nregular++] = rows[i];
  }
  advance_by_rows(advance, index, odd, nodd);
  return nregular;
}

/* Only NULL matters, which fallback rows show, too. */
static bool needs_no_numbers(const Transition *transition) {
  return transition->narms == 1 && transition->arms[0].node < 0;
}

static void advance_transition(const Advance *advance, int index) {
  Transitions *transitions = advance->transitions;
  Transition *transition = &transitions->transitions[index];
  const uint16 *rows = advance->batch->selected;
  int n = advance->batch->nselected;
  bool has_conditions = transition->narms != 1 || transition->arms[0].when;

  if (transition->filter) {
    n = run_qual(advance, transition->filter, transition->filter_never, rows, n,
                 transitions->filtered);
    rows = transitions->filtered;
  }
  if (!needs_no_numbers(transition) || has_conditions) {
    if (!is_computable(advance, transition)) {
      advance_by_rows(advance, index, rows, n);
      return;
    }
    if (advance->batch->nodd > 0) {
      n = take_odd_rows(advance, index, rows, n);
      rows = transitions->regular;
    }
  }
  if (!has_conditions) {
    advance_arm(advance, transition, &transition->arms[0], rows, n);
    return;
  }
  memcpy(transitions->rest, rows, sizeof(*rows) * n);
  for (int a = 0; a < transition->narms; a++) {
    TransitionArm *arm = &transition->arms[a];
    int npassed;
    if (arm->when == NULL) {
      advance_arm(advance, transition, arm, transitions->rest, n);
      return;
    }
    npassed = run_qual(advance, arm->when, arm->never, transitions->rest, n, transitions->passed);
    advance_arm(advance, transition, arm, transitions->passed, npassed);
    n = subtract(transitions->rest, n, transitions->passed, npassed);
  }
  /* A CASE without ELSE is NULL. */
  if (!transition->filter) add_missing(advance, transition, transitions->rest, n, 1);
}

void transitions_advance(Transitions *transitions, Batch *batch, GroupRecord **groups,
                         GroupRecord *only, TupleTableSlot *slot, ExprContext *context) {
  Advance advance = {transitions, batch, groups, only, slot, context};
  int column = -1;

  while ((column = bms_next_member(transitions->columns, column)) >= 0) batch_decode(batch, column);
  vector_expressions_run(transitions->expressions, batch);
  for (int i = 0; i < transitions->ntransitions; i++) advance_transition(&advance, i);
}
