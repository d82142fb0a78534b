/*
 * Aggregates: the supported ones, and their transitions.
 */
#include "transitions.h"

#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"

#include "decimal.h"
#include "transitions_internal.h"

bool aggregate_kind(Oid function, TransitionKind *transition, ResultKind *result) {
  switch (function) {
    case F_COUNT_:
    case F_COUNT_ANY:
      *transition = TRANSITION_COUNT;
      *result = RESULT_COUNT;
      return true;
    case F_SUM_INT2:
    case F_SUM_INT4:
      *transition = TRANSITION_SUM;
      *result = RESULT_SUM_INTEGER;
      return true;
    case F_SUM_INT8:
    case F_SUM_NUMERIC:
      *transition = TRANSITION_SUM;
      *result = RESULT_SUM_NUMERIC;
      return true;
    case F_AVG_INT2:
    case F_AVG_INT4:
    case F_AVG_INT8:
    case F_AVG_NUMERIC:
      *transition = TRANSITION_SUM;
      *result = RESULT_AVERAGE;
      return true;
    case F_MIN_INT2:
    case F_MIN_INT4:
    case F_MIN_INT8:
    case F_MIN_NUMERIC:
    case F_MIN_OID:
    case F_MIN_DATE:
    case F_MIN_TIMESTAMP:
    case F_MIN_TIMESTAMPTZ:
      *transition = TRANSITION_MIN;
      *result = RESULT_EXTREME;
      return true;
    case F_MAX_INT2:
    case F_MAX_INT4:
    case F_MAX_INT8:
    case F_MAX_NUMERIC:
    case F_MAX_OID:
    case F_MAX_DATE:
    case F_MAX_TIMESTAMP:
    case F_MAX_TIMESTAMPTZ:
      *transition = TRANSITION_MAX;
      *result = RESULT_EXTREME;
      return true;
    default: return false;
  }
}

static Node *argument_of(const Aggref *aggregate) {
  if (aggregate->args == NIL) return NULL;
  return (Node *)linitial_node(TargetEntry, aggregate->args)->expr;
}

static bool is_null_constant(const Node *node) {
  return IsA(node, Const) && ((const Const *)node)->constisnull;
}

/* ---- planning ---- */

/* For counting, only whether a value is NULL matters. */
static bool is_only_counted(const Node *value, TransitionKind kind) {
  return kind == TRANSITION_COUNT && (IsA(value, Var) || IsA(value, Const));
}

static const char *value_refusal(const Node *value, TransitionKind kind) {
  if (is_null_constant(value) || is_only_counted(value, kind)) return NULL;
  return vector_expression_refusal(value);
}

static const char *argument_refusal(const Node *argument, TransitionKind kind) {
  const CaseExpr *expression = (const CaseExpr *)argument;
  ListCell *cell;
  const char *reason;

  if (!IsA(argument, CaseExpr)) return value_refusal(argument, kind);

  if (expression->arg != NULL) return "CASE with an operand";
  /* Between equal values of different display scales the order of rows decides. */
  if (exprType(argument) == NUMERICOID && kind != TRANSITION_SUM && kind != TRANSITION_COUNT)
    return "min or max of CASE";
  foreach (cell, expression->args) {
    const CaseWhen *when = lfirst_node(CaseWhen, cell);
    reason = vector_qual_refusal((Node *)when->expr);
    if (reason == NULL) reason = value_refusal((Node *)when->result, kind);
    if (reason) return reason;
  }
  return expression->defresult ? value_refusal((Node *)expression->defresult, kind) : NULL;
}

static const char *function_refusal(Oid function) {
  TransitionKind transition;
  ResultKind result;

  if (aggregate_kind(function, &transition, &result)) return NULL;
  switch (function) {
    case F_SUM_FLOAT4:
    case F_SUM_FLOAT8:
    case F_AVG_FLOAT4:
    case F_AVG_FLOAT8: return "the order of rows decides the last bits of a sum of floats";
    case F_MIN_TEXT:
    case F_MAX_TEXT:
    case F_MIN_BPCHAR:
    case F_MAX_BPCHAR: return "min or max of text";
    default: return "an aggregate other than count, sum, avg, min, max of integers, numeric, dates";
  }
}

const char *aggregate_refusal(const Aggref *aggregate) {
  TransitionKind transition;
  ResultKind result;
  const char *reason = function_refusal(aggregate->aggfnoid);
  ListCell *cell;

  if (reason) return reason;
  if (aggregate->aggkind != AGGKIND_NORMAL || aggregate->aggdirectargs != NIL)
    return "an ordered-set aggregate";
  if (aggregate->aggsplit != AGGSPLIT_SIMPLE && aggregate->aggsplit != AGGSPLIT_INITIAL_SERIAL)
    return "partial aggregation";
  if (aggregate->aggdistinct != NIL) return "DISTINCT in an aggregate";
  if (aggregate->aggorder != NIL) return "ORDER BY in an aggregate";
  foreach (cell, make_ands_implicit(aggregate->aggfilter)) {
    reason = vector_qual_refusal(lfirst(cell));
    if (reason) return reason;
  }
  aggregate_kind(aggregate->aggfnoid, &transition, &result);
  return aggregate->args ? argument_refusal(argument_of(aggregate), transition) : NULL;
}

/* ---- building ---- */

/*
 * Sets the list of CASE's arms, or a single arm. `mixed` if they may have different display scales.
 */
static void set_arms(Transition *transition) {
  Node *argument = transition->argument;
  CaseExpr *expression = (CaseExpr *)argument;
  TransitionArm *arm;
  ListCell *cell;

  if (argument == NULL || !IsA(argument, CaseExpr)) {
    transition->narms = 1;
    transition->arms = palloc0(sizeof(*transition->arms));
    transition->arms[0].value = argument;
    return;
  }
  transition->arms = palloc0(sizeof(*arm) * (list_length(expression->args) + 1));
  foreach (cell, expression->args) {
    CaseWhen *when = lfirst_node(CaseWhen, cell);
    arm = &transition->arms[transition->narms++];
    arm->condition = make_ands_implicit(when->expr);
    arm->value = (Node *)when->result;
  }
  if (expression->defresult && !is_null_constant((Node *)expression->defresult))
    transition->arms[transition->narms++].value = (Node *)expression->defresult;
  transition->mixed = transition->numeric && transition->kind == TRANSITION_SUM;
}

static Transition transition_of(const Aggref *aggregate, TransitionKind kind) {
  Transition transition = {.kind = kind};

  transition.argument = argument_of(aggregate);
  /* count(1) is count(*) */
  if (kind == TRANSITION_COUNT && transition.argument && IsA(transition.argument, Const) &&
      !is_null_constant(transition.argument))
    transition.argument = NULL;
  transition.filter_clauses = make_ands_implicit(aggregate->aggfilter);
  if (transition.argument) {
    transition.type = exprType(transition.argument);
    transition.numeric = transition.type == NUMERICOID;
  }
  set_arms(&transition);
  return transition;
}

static Size state_size(const Transition *transition) {
  switch (transition->kind) {
    case TRANSITION_COUNT: return sizeof(CountState);
    case TRANSITION_SUM: return transition->mixed ? sizeof(SumState) : offsetof(SumState, scale);
    default: return sizeof(ExtremeState);
  }
}

/* True if a state of `have` contains what `want` needs; sum(x) contains count(x). */
static bool serves(const Transition *have, const Transition *want) {
  if (have->kind != want->kind && !(have->kind == TRANSITION_SUM && want->kind == TRANSITION_COUNT))
    return false;
  return equal(have->argument, want->argument) && equal(have->filter_clauses, want->filter_clauses);
}

/*
 * Collects the transitions of a list of Aggrefs without duplicates: sums first, since counts may be
 * part of them. results[i] belongs to the i-th Aggref; `transitions` has room for one each.
 */
static int collect(List *aggregates, Transition *transitions, AggResult *results) {
  int n = 0;

  for (int pass = 0; pass < 2; pass++) {
    ListCell *cell;
    foreach (cell, aggregates) {
      const Aggref *aggregate = lfirst_node(Aggref, cell);
      AggResult *result = &results[foreach_current_index(cell)];
      TransitionKind kind;
      Transition transition;
      int i;

      if (!aggregate_kind(aggregate->aggfnoid, &kind, &result->kind))
        elog(ERROR, "function %u is no aggregate of batches", aggregate->aggfnoid);
      result->partial = DO_AGGSPLIT_SKIPFINAL(aggregate->aggsplit);
      if ((kind == TRANSITION_COUNT) != (pass == 1)) continue;
      transition = transition_of(aggregate, kind);
      result->transition = -1;
      if (transition.argument == NULL && transition.filter_clauses == NIL) continue;
      for (i = 0; i < n; i++)
        if (serves(&transitions[i], &transition)) break;
      if (i == n) transitions[n++] = transition;
      result->transition = i;
    }
  }
  return n;
}

Size transitions_estimate(List *aggregates, int *ntransitions) {
  int naggregates = list_length(aggregates);
  Transition *transitions = palloc(sizeof(*transitions) * Max(naggregates, 1));
  AggResult *results = palloc(sizeof(*results) * Max(naggregates, 1));
  Size size = 0;

  *ntransitions = collect(aggregates, transitions, results);
  for (int i = 0; i < *ntransitions; i++) size += state_size(&transitions[i]);
  return size;
}

static void bind_arm(Transitions *transitions, const Transition *transition, TransitionArm *arm,
                     Batch *batch, ColumnOfVar column_of, void *argument) {
  if (arm->condition) {
    arm->when =
        vector_qual_compile(arm->condition, batch, column_of, argument, transitions->parent);
    transitions->columns = bms_add_members(transitions->columns, vector_qual_columns(arm->when));
  }
  arm->node = -1;
  if (arm->value == NULL) return;
  arm->is_null = is_null_constant(arm->value);
  if (arm->is_null) return;
  if (!is_only_counted(arm->value, transition->kind))
    arm->node = vector_expression_add(transitions->expressions, batch, arm->value);
  else if (IsA(arm->value, Var))
    arm->columns = bms_make_singleton(column_of((Var *)arm->value, argument));
}

Transitions *transitions_create(PlanState *parent, Batch *batch, List *aggregates,
                                ColumnOfVar column_of, void *argument) {
  Transitions *transitions = palloc0(sizeof(*transitions));
  int naggregates = list_length(aggregates);
  Bitmapset *decoded = NULL;
  int column = -1;

  transitions->parent = parent;
  transitions->expressions = vector_expressions_create(parent, column_of, argument);
  transitions->transitions = palloc0(sizeof(Transition) * Max(naggregates, 1));
  transitions->results = palloc0(sizeof(AggResult) * Max(naggregates, 1));
  transitions->nresults = naggregates;
  transitions->ntransitions = collect(aggregates, transitions->transitions, transitions->results);
  for (int i = 0; i < transitions->ntransitions; i++) {
    Transition *transition = &transitions->transitions[i];
    transition->offset = (int)transitions->size;
    transitions->size += state_size(transition);
    if (transition->argument)
      transition->evaluate = ExecInitExpr((Expr *)transition->argument, parent);
    if (transition->filter_clauses) {
      transition->filter =
          vector_qual_compile(transition->filter_clauses, batch, column_of, argument, parent);
      transitions->columns =
          bms_add_members(transitions->columns, vector_qual_columns(transition->filter));
    }
    for (int a = 0; a < transition->narms; a++)
      bind_arm(transitions, transition, &transition->arms[a], batch, column_of, argument);
  }

  /* Of the columns that are used, those with numbers. */
  while ((column = bms_next_member(transitions->columns, column)) >= 0) {
    ColumnKind kind = batch->columns[column].kind;
    if (kind == COLUMN_INTEGER || kind == COLUMN_DECIMAL) decoded = bms_add_member(decoded, column);
  }
  transitions->columns = bms_union(decoded, vector_expressions_columns(transitions->expressions));

  transitions->filtered = palloc(sizeof(uint16) * BATCH_ROWS * 6);
  transitions->regular = transitions->filtered + BATCH_ROWS;
  transitions->odd = transitions->regular + BATCH_ROWS;
  transitions->passed = transitions->odd + BATCH_ROWS;
  transitions->rest = transitions->passed + BATCH_ROWS;
  transitions->valid = transitions->rest + BATCH_ROWS;
  return transitions;
}

Size transitions_state_size(const Transitions *transitions) { return transitions->size; }

void transitions_attach(Transitions *transitions, GroupTable *table) {
  transitions->table = table;
  transitions->state_offset = group_table_state_offset(table);
}

void transitions_begin(Transitions *transitions, const Batch *batch, ExprContext *context) {
  vector_expressions_begin(transitions->expressions, batch, context);
  for (int i = 0; i < transitions->ntransitions; i++) {
    Transition *transition = &transitions->transitions[i];
    transition->scale = 0;
    transition->sum_bound = 0;
    transition->filter_never =
        transition->filter && !vector_qual_begin(transition->filter, context);
    for (int a = 0; a < transition->narms; a++) {
      TransitionArm *arm = &transition->arms[a];
      VectorResult value;
      arm->never = arm->when && !vector_qual_begin(arm->when, context);
      if (arm->node < 0) continue;
      value = vector_expression_result(transitions->expressions, arm->node);
      if (value.possible) transition->scale = Max(transition->scale, value.scale);
    }
  }
}

void transitions_reset(Transitions *transitions) {
  /* Its memory belonged to the groups. */
  transitions->exact = NULL;
}

uint64 transitions_slow_rows(const Transitions *transitions) { return transitions->slow_rows; }

/* ---- exact states ---- */

Numeric numeric_extreme(TransitionKind kind, Numeric a, Numeric b) {
  return DatumGetNumeric(
      DirectFunctionCall2(kind == TRANSITION_MAX ? numeric_larger : numeric_smaller,
                          NumericGetDatum(a), NumericGetDatum(b)));
}

ExactState *exact_state(const Transitions *transitions, int transition, const GroupRecord *group) {
  ExactKey key = {group, transition};
  if (transitions->exact == NULL) return NULL;
  return hash_search(transitions->exact, &key, HASH_FIND, NULL);
}

ExactState *exact_state_make(Transitions *transitions, int transition, const GroupRecord *group) {
  ExactKey key = {group, transition};
  ExactState *state;
  bool found;

  if (transitions->exact == NULL) {
    HASHCTL control = {.keysize = sizeof(ExactKey),
                       .entrysize = sizeof(ExactState),
                       .hcxt = group_table_context(transitions->table)};
    transitions->exact =
        hash_create("ccopt exact states", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
  }
  state = hash_search(transitions->exact, &key, HASH_ENTER, &found);
  if (!found) {
    state->value = NULL;
    state->count = 0;
  }
  return state;
}
