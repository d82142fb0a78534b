/*
 * Predicates on batches: from clauses to a list of conjuncts, and running them.
 *
 * Each conjunct first gets the numbers it needs; rows with a value that does not fit are evaluated
 * by core's expression of the same clause, one by one, and merged back in order.
 */
#include "qual.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "qual_internal.h"

typedef struct Conjunct {
  QualNode *root;
  Node *clause;
  ExprState *row_state; /* core's; created for the first fallback row */
  int ncolumns;
  int *columns; /* columns that are used */
  int nnumbers;
  int *numbers; /* those to be decoded */
} Conjunct;

struct VectorQual {
  PlanState *parent;
  int nconjuncts;
  Conjunct *conjuncts;
  Bitmapset *columns;
  MemoryContext constants; /* values of constants, until the next start */
  MemoryContext strings;   /* detoasted strings of a batch */
  uint16 *regular;         /* selected rows that fit, and those of them that pass */
};

/* ---- compiling ---- */

static bool is_simple(Expr *constant) {
  Node *expr = (Node *)constant;
  while (IsA(expr, RelabelType)) expr = (Node *)((RelabelType *)expr)->arg;
  /* The parameter of an initplan runs that plan when it is first evaluated: core does this with
   * a row. */
  return IsA(expr, Const) || (IsA(expr, Param) && ((Param *)expr)->paramkind == PARAM_EXTERN);
}

static int bind_var(Var *var, ColumnOfVar column_of, void *argument) {
  int column = column_of(var, argument);
  if (column < 0) elog(ERROR, "attribute %d is no column of the batch", var->varattno);
  return column;
}

static void bind_node(QualNode *node, ColumnOfVar column_of, void *argument, PlanState *parent) {
  ListCell *cell;

  if (node->var) node->column = bind_var(node->var, column_of, argument);
  if (node->other) node->other_column = bind_var(node->other, column_of, argument);
  if (node->constant) {
    node->constant_state = ExecInitExpr(node->constant, parent);
    node->simple = is_simple(node->constant);
  } else {
    node->run = node->kind;
    node->negated_run = node->negated;
    node->ready = true;
  }
  if (node->kind == QUAL_OR) node->scratch = palloc(sizeof(*node->scratch) * BATCH_ROWS * 3);
  foreach (cell, node->children) bind_node(lfirst(cell), column_of, argument, parent);
}

static void collect_columns(const QualNode *node, Bitmapset **columns, Bitmapset **numbers) {
  ListCell *cell;
  bool decodes = node->column_kind == COLUMN_INTEGER || node->column_kind == COLUMN_DECIMAL;

  if (node->column >= 0) {
    *columns = bms_add_member(*columns, node->column);
    if (decodes && node->kind != QUAL_NULL) *numbers = bms_add_member(*numbers, node->column);
  }
  if (node->other_column >= 0) {
    *columns = bms_add_member(*columns, node->other_column);
    if (decodes) *numbers = bms_add_member(*numbers, node->other_column);
  }
  foreach (cell, node->children) collect_columns(lfirst(cell), columns, numbers);
}

static int *members(const Bitmapset *set, int *n) {
  int *list = palloc(sizeof(int) * Max(bms_num_members(set), 1));
  *n = 0;
  for (int member = -1; (member = bms_next_member(set, member)) >= 0;) list[(*n)++] = member;
  return list;
}

/* A rough cost of a row: cheap conjuncts run first. */
static int weight(const QualNode *node) {
  int sum = 0;
  ListCell *cell;
  switch (node->kind) {
    case QUAL_AND:
    case QUAL_OR:
      foreach (cell, node->children) sum += weight(lfirst(cell));
      return sum;
    case QUAL_TEXT_IN: return 10;
    case QUAL_LIKE: return 40;
    case QUAL_COMPARE:
    case QUAL_COLUMNS:
    case QUAL_IN:
      return node->column_kind == COLUMN_INTEGER ? 2 : node->column_kind == COLUMN_DECIMAL ? 6 : 10;
    default: return 1;
  }
}

/* A constant that may fail is not evaluated before cheaper ones that cannot. */
static bool all_simple(const QualNode *node) {
  ListCell *cell;
  if (node->constant && !node->simple) return false;
  foreach (cell, node->children)
    if (!all_simple(lfirst(cell))) return false;
  return true;
}

static void order_conjuncts(VectorQual *qual) {
  for (int i = 1; i < qual->nconjuncts; i++)
    for (int j = i; j > 0; j--) {
      Conjunct *one = &qual->conjuncts[j - 1], *two = &qual->conjuncts[j];
      Conjunct swap = *one;
      int first = weight(one->root) + (all_simple(one->root) ? 0 : 1000000);
      int second = weight(two->root) + (all_simple(two->root) ? 0 : 1000000);
      if (first <= second) break;
      *one = *two;
      *two = swap;
    }
}

VectorQual *vector_qual_compile(List *clauses, Batch *batch, ColumnOfVar column_of, void *argument,
                                PlanState *parent) {
  VectorQual *qual = palloc0(sizeof(*qual));
  ListCell *cell;
  List *flat = NIL;

  foreach (cell, clauses) flat = list_concat(flat, make_ands_implicit(lfirst(cell)));
  qual->parent = parent;
  qual->conjuncts = palloc0(sizeof(*qual->conjuncts) * Max(list_length(flat), 1));
  foreach (cell, flat) {
    Conjunct *conjunct = &qual->conjuncts[qual->nconjuncts++];
    Bitmapset *columns = NULL, *numbers = NULL;
    const char *reason;

    conjunct->clause = lfirst(cell);
    reason = qual_parse(conjunct->clause, false, &conjunct->root);
    if (reason) elog(ERROR, "a predicate that was planned for batches cannot be run: %s", reason);
    bind_node(conjunct->root, column_of, argument, parent);
    collect_columns(conjunct->root, &columns, &numbers);
    conjunct->columns = members(columns, &conjunct->ncolumns);
    conjunct->numbers = members(numbers, &conjunct->nnumbers);
    qual->columns = bms_add_members(qual->columns, columns);
  }
  order_conjuncts(qual);
  qual->constants =
      AllocSetContextCreate(CurrentMemoryContext, "BatchScan constants", ALLOCSET_SMALL_SIZES);
  qual->strings =
      AllocSetContextCreate(CurrentMemoryContext, "BatchScan strings", ALLOCSET_DEFAULT_SIZES);
  qual->regular = palloc(sizeof(*qual->regular) * BATCH_ROWS * 2);
  return qual;
}

Bitmapset *vector_qual_columns(const VectorQual *qual) { return qual->columns; }

/* ---- constants ---- */

static void evaluate(VectorQual *qual, QualNode *node, ExprContext *context) {
  bool is_null;
  Datum value = ExecEvalExprSwitchContext(node->constant_state, context, &is_null);
  MemoryContext before = MemoryContextSwitchTo(qual->constants);
  qual_set_constant(node, value, is_null);
  MemoryContextSwitchTo(before);
}

static void forget_constants(QualNode *node) {
  ListCell *cell;
  if (node->constant) node->ready = false;
  foreach (cell, node->children) forget_constants(lfirst(cell));
}

static void begin_node(VectorQual *qual, QualNode *node, ExprContext *context) {
  ListCell *cell;
  if (node->constant && node->simple) evaluate(qual, node, context);
  foreach (cell, node->children) begin_node(qual, lfirst(cell), context);
}

static bool never(const QualNode *node) {
  ListCell *cell;
  if (!node->ready) return false;
  if (node->run == QUAL_AND) {
    foreach (cell, node->children)
      if (never(lfirst(cell))) return true;
    return false;
  }
  if (node->run == QUAL_OR) {
    foreach (cell, node->children)
      if (!never(lfirst(cell))) return false;
    return true;
  }
  return node->run == QUAL_NEVER && !node->for_odd;
}

bool vector_qual_begin(VectorQual *qual, ExprContext *context) {
  bool possible = true;

  MemoryContextReset(qual->constants);
  for (int i = 0; i < qual->nconjuncts; i++) {
    forget_constants(qual->conjuncts[i].root);
    begin_node(qual, qual->conjuncts[i].root, context);
    if (never(qual->conjuncts[i].root)) possible = false;
  }
  /* Merges two ranges of one column. */
  for (int i = 0; i < qual->nconjuncts; i++)
    for (int j = i + 1; j < qual->nconjuncts; j++) {
      QualNode *one = qual->conjuncts[i].root, *two = qual->conjuncts[j].root;
      if (!one->ready || !two->ready || one->run != QUAL_COMPARE || two->run != QUAL_COMPARE ||
          one->column != two->column || one->negated_run || two->negated_run)
        continue;
      one->low = Max(one->low, two->low);
      one->high = Min(one->high, two->high);
      /* The rows that reach it are not NULL. */
      two->run = QUAL_ALWAYS;
      if (one->low > one->high) {
        one->run = QUAL_NEVER;
        if (!one->for_odd) possible = false;
      }
    }
  return possible;
}

/* ---- running ---- */

static int run_node(VectorQual *qual, QualNode *node, const Batch *batch, ExprContext *context,
                    const uint16 *in, int n, uint16 *out);

static int run_and(VectorQual *qual, QualNode *node, const Batch *batch, ExprContext *context,
                   const uint16 *in, int n, uint16 *out) {
  ListCell *cell;
  foreach (cell, node->children) {
    n = run_node(qual, lfirst(cell), batch, context, in, n, out);
    if (n == 0) return 0;
    in = out;
  }
  return n;
}

/* Writes those of `rows` that are not in `taken` (both ascending) to `rest`, which may be
 * `rows`. */
static int subtract(const uint16 *rows, int n, const uint16 *taken, int ntaken, uint16 *rest) {
  int kept = 0, next = 0;
  for (int i = 0; i < n; i++) {
    if (next < ntaken && taken[next] == rows[i]) {
      next++;
      continue;
    }
    rest[kept++] = rows[i];
  }
  return kept;
}

/* Merges two ascending lists and removes duplicates; `out` overlaps neither. */
static int merge(const uint16 *a, int na, const uint16 *b, int nb, uint16 *out) {
  int kept = 0, i = 0, j = 0;
  while (i < na && j < nb) out[kept++] = a[i] < b[j] ? a[i++] : b[j++];
  while (i < na) out[kept++] = a[i++];
  while (j < nb) out[kept++] = b[j++];
  return kept;
}

/* Each child is evaluated for the rows that none before accepted, as in core. */
static int run_or(VectorQual *qual, QualNode *node, const Batch *batch, ExprContext *context,
                  const uint16 *in, int n, uint16 *out) {
  uint16 *open = node->scratch, *passed = open + BATCH_ROWS, *accepted = passed + BATCH_ROWS;
  int nopen = n, naccepted = 0;
  ListCell *cell;

  memcpy(open, in, sizeof(*open) * n);
  foreach (cell, node->children) {
    int npassed = run_node(qual, lfirst(cell), batch, context, open, nopen, passed);
    if (npassed == 0) continue;
    nopen = subtract(open, nopen, passed, npassed, open);
    naccepted = merge(accepted, naccepted, passed, npassed, out);
    if (nopen == 0) return naccepted;
    memcpy(accepted, out, sizeof(*accepted) * naccepted);
  }
  memmove(out, accepted, sizeof(*out) * naccepted);
  return naccepted;
}

static int run_null(const QualNode *node, const BatchColumn *column, const uint16 *in, int n,
                    uint16 *out) {
  int kept = 0;
  for (int i = 0; i < n; i++) {
    int row = in[i];
    bool is_null = column->has_nulls && column->where[row] == NULL;
    out[kept] = (uint16)row;
    kept += is_null != node->negated;
  }
  return kept;
}

static int run_node(VectorQual *qual, QualNode *node, const Batch *batch, ExprContext *context,
                    const uint16 *in, int n, uint16 *out) {
  if (n == 0) return 0;
  if (unlikely(!node->ready)) evaluate(qual, node, context);
  switch (node->run) {
    case QUAL_NEVER: return 0;
    case QUAL_ALWAYS:
      if (in != out) memmove(out, in, sizeof(*out) * n);
      return n;
    case QUAL_AND: return run_and(qual, node, batch, context, in, n, out);
    case QUAL_OR: return run_or(qual, node, batch, context, in, n, out);
    case QUAL_NULL: return run_null(node, &batch->columns[node->column], in, n, out);
    case QUAL_COMPARE:
    case QUAL_IN: return qual_run_numbers(node, batch, in, n, out);
    case QUAL_TEXT_IN:
    case QUAL_LIKE: return qual_run_strings(node, batch, in, n, out);
    case QUAL_COLUMNS:
      return node->column_kind == COLUMN_INTEGER || node->column_kind == COLUMN_DECIMAL
                 ? qual_run_numbers(node, batch, in, n, out)
                 : qual_run_strings(node, batch, in, n, out);
  }
  pg_unreachable();
}

/* Evaluates core's expression for a row; only the conjunct's columns are in the slot. */
static bool row_passes(VectorQual *qual, Conjunct *conjunct, const Batch *batch, int row,
                       TupleTableSlot *slot, ExprContext *context) {
  if (conjunct->row_state == NULL) {
    MemoryContext before = MemoryContextSwitchTo(GetMemoryChunkContext(qual));
    conjunct->row_state = ExecInitQual(list_make1(conjunct->clause), qual->parent);
    MemoryContextSwitchTo(before);
  }
  ExecClearTuple(slot);
  for (int i = 0; i < conjunct->ncolumns; i++) {
    const BatchColumn *column = &batch->columns[conjunct->columns[i]];
    bool is_null = column->where[row] == NULL;
    slot->tts_isnull[column->slot_attno - 1] = is_null;
    if (!is_null) slot->tts_values[column->slot_attno - 1] = batch_datum(column, row);
  }
  ExecStoreVirtualTuple(slot);
  ResetExprContext(context);
  return ExecQual(conjunct->row_state, context);
}

static void run_with_odd_rows(VectorQual *qual, Conjunct *conjunct, Batch *batch,
                              TupleTableSlot *slot, ExprContext *context) {
  uint16 *regular = qual->regular, *passed = regular + BATCH_ROWS;
  int nregular = 0, npassed, next = 0, kept = 0;

  for (int i = 0; i < batch->nselected; i++) {
    regular[nregular] = batch->selected[i];
    nregular += !batch->odd[batch->selected[i]];
  }
  npassed = run_node(qual, conjunct->root, batch, context, regular, nregular, passed);
  for (int i = 0; i < batch->nselected; i++) {
    uint16 row = batch->selected[i];
    if (batch->odd[row]) {
      if (row_passes(qual, conjunct, batch, row, slot, context)) batch->selected[kept++] = row;
    } else if (next < npassed && passed[next] == row) {
      batch->selected[kept++] = row;
      next++;
    }
  }
  batch->nselected = kept;
}

void vector_qual_run(VectorQual *qual, Batch *batch, TupleTableSlot *slot, ExprContext *context) {
  MemoryContext before;

  MemoryContextReset(qual->strings);
  before = MemoryContextSwitchTo(qual->strings);
  for (int i = 0; i < qual->nconjuncts && batch->nselected > 0; i++) {
    Conjunct *conjunct = &qual->conjuncts[i];
    /* Nothing to do, and nothing to decode for it. (This includes a range that was merged into
     * another one: core's expression of its own clause is only needed for fallback rows.) */
    if (batch->nodd == 0 && conjunct->root->ready && conjunct->root->run == QUAL_ALWAYS) continue;
    for (int j = 0; j < conjunct->nnumbers; j++) batch_decode(batch, conjunct->numbers[j]);
    if (unlikely(batch->nodd > 0))
      run_with_odd_rows(qual, conjunct, batch, slot, context);
    else
      batch->nselected = run_node(qual, conjunct->root, batch, context, batch->selected,
                                  batch->nselected, batch->selected);
  }
  MemoryContextSwitchTo(before);
}
