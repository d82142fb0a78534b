/*
 * Expressions on batches.
 */
#include "vector_expression.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"

#include "decimal.h"

typedef enum NodeKind {
  NODE_COLUMN,
  NODE_CONSTANT,
  NODE_ADD,
  NODE_SUBTRACT,
  NODE_MULTIPLY
} NodeKind;

typedef struct VectorNode {
  NodeKind kind;
  Node *expression;    /* for finding equal expressions */
  int left, right;     /* indices of nodes */
  int column;          /* NODE_COLUMN */
  ExprState *constant; /* NODE_CONSTANT */
  Oid type;            /* type of the result: determines which overflow core would report */
  Bitmapset *columns;

  /* set by begin */
  bool possible; /* can be computed on batches */
  bool is_null;
  bool fixed; /* number[0] is the only value */
  int scale;
  int64 left_factor, right_factor; /* bring the operands of + and - to one scale */

  /* set by run */
  bool usable;
  uint64 bound;
  const int64 *number;
  int64 *own; /* [BATCH_ROWS], target of `number` unless that is a column's */
} VectorNode;

struct VectorExpressions {
  PlanState *parent;
  ColumnOfVar column_of;
  void *argument;
  int nnodes;
  int capacity;
  VectorNode *nodes; /* operands before operators */
};

/* ---- core's functions ---- */

typedef enum Operation {
  OPERATION_NONE,
  OPERATION_ADD,
  OPERATION_SUBTRACT,
  OPERATION_MULTIPLY,
  OPERATION_NEGATE,
  OPERATION_SAME /* a cast that keeps the value, unary plus */
} Operation;

static Operation operation_of(Oid function) {
  switch (function) {
    case F_INT2PL:
    case F_INT4PL:
    case F_INT8PL:
    case F_INT24PL:
    case F_INT42PL:
    case F_INT28PL:
    case F_INT82PL:
    case F_INT48PL:
    case F_INT84PL:
    case F_NUMERIC_ADD: return OPERATION_ADD;
    case F_INT2MI:
    case F_INT4MI:
    case F_INT8MI:
    case F_INT24MI:
    case F_INT42MI:
    case F_INT28MI:
    case F_INT82MI:
    case F_INT48MI:
    case F_INT84MI:
    case F_NUMERIC_SUB: return OPERATION_SUBTRACT;
    case F_INT2MUL:
    case F_INT4MUL:
    case F_INT8MUL:
    case F_INT24MUL:
    case F_INT42MUL:
    case F_INT28MUL:
    case F_INT82MUL:
    case F_INT48MUL:
    case F_INT84MUL:
    case F_NUMERIC_MUL: return OPERATION_MULTIPLY;
    case F_INT2UM:
    case F_INT4UM:
    case F_INT8UM:
    case F_NUMERIC_UMINUS: return OPERATION_NEGATE;
    case F_INT2UP:
    case F_INT4UP:
    case F_INT8UP:
    case F_NUMERIC_UPLUS:
    case F_INT4_INT2:
    case F_INT8_INT2:
    case F_INT8_INT4:
    /* Narrowing: core checks the range, and the limit of the result's type does the same. */
    case F_INT2_INT4:
    case F_INT4_INT8:
    case F_INT2_INT8:
    case F_NUMERIC_INT2:
    case F_NUMERIC_INT4:
    case F_NUMERIC_INT8: return OPERATION_SAME;
    default: return OPERATION_NONE;
  }
}

/* The operation of `node`, with its operands. */
static Operation operation(const Node *node, List **operands) {
  Oid function;

  if (IsA(node, OpExpr)) {
    const OpExpr *expression = (const OpExpr *)node;
    function =
        OidIsValid(expression->opfuncid) ? expression->opfuncid : get_opcode(expression->opno);
    *operands = expression->args;
  } else if (IsA(node, FuncExpr)) {
    function = ((const FuncExpr *)node)->funcid;
    *operands = ((const FuncExpr *)node)->args;
  } else {
    return OPERATION_NONE;
  }
  return operation_of(function);
}

static bool is_constant(const Node *node) { return IsA(node, Const) || IsA(node, Param); }

static bool is_integer_type(Oid type) {
  return type == INT2OID || type == INT4OID || type == INT8OID;
}

static bool is_number_type(Oid type) { return is_integer_type(type) || type == NUMERICOID; }

/* Larger absolute values are an overflow, in core or in the numbers here. */
static uint64 type_limit(Oid type) {
  switch (type) {
    case INT2OID: return PG_INT16_MAX;
    case INT4OID: return PG_INT32_MAX;
    default: return PG_INT64_MAX;
  }
}

const char *vector_expression_refusal(const Node *expression) {
  List *operands;
  ListCell *cell;

  if (IsA(expression, Var)) {
    const Var *var = (const Var *)expression;
    int scale;
    switch (column_kind(var->vartype, var->vartypmod, var->varcollid, &scale)) {
      case COLUMN_INTEGER:
      case COLUMN_DECIMAL: return NULL;
      default: break;
    }
    return var->vartype == NUMERICOID
               ? "a numeric without precision, or with too many digits, has no fixed scale"
               : "a type that has no numbers";
  }
  if (is_constant(expression))
    return is_number_type(exprType(expression)) ? NULL : "a constant of a type without numbers";
  if (operation(expression, &operands) == OPERATION_NONE)
    return "an expression other than + - * of integers and decimals";
  foreach (cell, operands) {
    const char *reason = vector_expression_refusal(lfirst(cell));
    if (reason) return reason;
  }
  return NULL;
}

/* ---- building ---- */

VectorExpressions *vector_expressions_create(PlanState *parent, ColumnOfVar column_of,
                                             void *argument) {
  VectorExpressions *expressions = palloc0(sizeof(*expressions));
  expressions->parent = parent;
  expressions->column_of = column_of;
  expressions->argument = argument;
  return expressions;
}

static int add_node(VectorExpressions *expressions, const VectorNode *node) {
  if (expressions->nnodes == expressions->capacity) {
    expressions->capacity = Max(8, 2 * expressions->capacity);
    expressions->nodes = expressions->nodes ? repalloc(expressions->nodes,
                                                       sizeof(VectorNode) * expressions->capacity)
                                            : palloc(sizeof(VectorNode) * expressions->capacity);
  }
  expressions->nodes[expressions->nnodes] = *node;
  return expressions->nnodes++;
}

int vector_expression_add(VectorExpressions *expressions, const Batch *batch, Node *expression) {
  VectorNode node = {.expression = expression, .type = exprType(expression)};
  List *operands = NIL;

  for (int i = 0; i < expressions->nnodes; i++)
    if (equal(expressions->nodes[i].expression, expression)) return i;

  if (IsA(expression, Var)) {
    node.kind = NODE_COLUMN;
    node.column = expressions->column_of((Var *)expression, expressions->argument);
    if (node.column < 0) elog(ERROR, "a column of the input is missing");
    node.columns = bms_make_singleton(node.column);
    return add_node(expressions, &node);
  }
  if (is_constant(expression)) {
    node.kind = NODE_CONSTANT;
    node.constant = ExecInitExpr((Expr *)expression, expressions->parent);
    node.own = palloc(sizeof(int64));
    return add_node(expressions, &node);
  }
  switch (operation(expression, &operands)) {
    case OPERATION_ADD: node.kind = NODE_ADD; break;
    case OPERATION_SUBTRACT: node.kind = NODE_SUBTRACT; break;
    case OPERATION_MULTIPLY: node.kind = NODE_MULTIPLY; break;
    case OPERATION_NEGATE: {
      /* 0 - x: numeric zero has no sign, and the limit below excludes the one integer that
       * cannot be negated. */
      Node *zero = (Node *)makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(0),
                                     false, FLOAT8PASSBYVAL);
      node.kind = NODE_SUBTRACT;
      node.left = vector_expression_add(expressions, batch, zero);
      node.right = vector_expression_add(expressions, batch, linitial(operands));
      break;
    }
    case OPERATION_SAME: {
      Node *zero = (Node *)makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(0),
                                     false, FLOAT8PASSBYVAL);
      int operand = vector_expression_add(expressions, batch, linitial(operands));
      /* Only narrowing can fail. */
      if (type_limit(node.type) >= type_limit(expressions->nodes[operand].type)) return operand;
      node.kind = NODE_ADD;
      node.left = operand;
      node.right = vector_expression_add(expressions, batch, zero);
      break;
    }
    case OPERATION_NONE: elog(ERROR, "an expression that cannot be computed on batches");
  }
  if (list_length(operands) == 2) {
    node.left = vector_expression_add(expressions, batch, linitial(operands));
    node.right = vector_expression_add(expressions, batch, lsecond(operands));
  }
  node.columns =
      bms_union(expressions->nodes[node.left].columns, expressions->nodes[node.right].columns);
  node.own = palloc0(sizeof(int64) * BATCH_ROWS);
  return add_node(expressions, &node);
}

Bitmapset *vector_expressions_columns(const VectorExpressions *expressions) {
  Bitmapset *columns = NULL;
  for (int i = 0; i < expressions->nnodes; i++)
    if (expressions->nodes[i].kind == NODE_COLUMN)
      columns = bms_add_member(columns, expressions->nodes[i].column);
  return columns;
}

/* ---- starting ---- */

static uint64 absolute(int64 number) {
  return number < 0 ? (uint64)0 - (uint64)number : (uint64)number;
}

static void begin_constant(VectorNode *node, ExprContext *context) {
  bool is_null;
  Datum value = ExecEvalExprSwitchContext(node->constant, context, &is_null);

  node->fixed = true;
  node->is_null = is_null;
  node->scale = 0;
  node->possible = true;
  node->number = node->own;
  *node->own = 0;
  node->bound = 0;
  if (is_null) return;
  switch (node->type) {
    case INT2OID: *node->own = DatumGetInt16(value); break;
    case INT4OID: *node->own = DatumGetInt32(value); break;
    case INT8OID: *node->own = DatumGetInt64(value); break;
    default:
      node->possible = decimal_of_numeric(DatumGetNumeric(value), node->own, &node->scale);
      break;
  }
  node->bound = absolute(*node->own);
}

/* Brings two operands to the larger of their scales. */
static void common_scale(VectorNode *node, const VectorNode *left, const VectorNode *right) {
  node->scale = Max(left->scale, right->scale);
  node->left_factor = decimal_powers[node->scale - left->scale];
  node->right_factor = decimal_powers[node->scale - right->scale];
}

static void begin_operator(VectorNode *node, const VectorNode *nodes) {
  const VectorNode *left = &nodes[node->left];
  const VectorNode *right = &nodes[node->right];

  node->number = node->own;
  node->fixed = left->fixed && right->fixed;
  node->is_null = left->is_null || right->is_null;
  node->left_factor = node->right_factor = 1;
  node->possible = left->possible && right->possible;
  if (!node->possible) return;
  if (node->kind == NODE_MULTIPLY) {
    node->scale = left->scale + right->scale;
    node->possible = node->scale <= DECIMAL_MAX_POWER;
  } else {
    common_scale(node, left, right);
  }
}

void vector_expressions_begin(VectorExpressions *expressions, const Batch *batch,
                              ExprContext *context) {
  for (int i = 0; i < expressions->nnodes; i++) {
    VectorNode *node = &expressions->nodes[i];
    switch (node->kind) {
      case NODE_COLUMN:
        node->possible = true;
        node->fixed = false;
        node->is_null = false;
        node->scale = batch->columns[node->column].scale;
        break;
      case NODE_CONSTANT: begin_constant(node, context); break;
      default: begin_operator(node, expressions->nodes);
    }
  }
}

/* ---- running ---- */

static bool bounded_product(uint64 *bound, uint64 a, uint64 b) {
  return !__builtin_mul_overflow(a, b, bound) && *bound <= PG_INT64_MAX;
}

/* Computes a bound of the result; false if it may not fit, or if core may report an overflow. */
static bool bound_of(VectorNode *node, const VectorNode *left, const VectorNode *right) {
  uint64 a, b;

  if (node->kind == NODE_MULTIPLY) {
    if (!bounded_product(&node->bound, left->bound, right->bound)) return false;
  } else {
    if (!bounded_product(&a, left->bound, node->left_factor) ||
        !bounded_product(&b, right->bound, node->right_factor))
      return false;
    node->bound = a + b;
  }
  return node->bound <= type_limit(node->type);
}

/*
 * The kernels compute on unsigned numbers: rows that are NULL or do not fit hold any value, and
 * their results are ignored. If most rows are selected, all are computed, which needs no
 * indirection.
 */
#define FOR_ROWS(statement)                        \
  do {                                             \
    if (list == NULL)                              \
      for (int row = 0; row < n; row++) statement; \
    else                                           \
      for (int i = 0; i < n; i++) {                \
        int row = list[i];                         \
        statement;                                 \
      }                                            \
  } while (0)

static pg_attribute_always_inline void compute_rows(const VectorNode *node, const VectorNode *left,
                                                    const VectorNode *right, const uint16 *list,
                                                    int n) {
  uint64 *restrict to = (uint64 *)node->own;
  const uint64 *restrict a = (const uint64 *)left->number;
  const uint64 *restrict b = (const uint64 *)right->number;
  const uint64 fa = node->left_factor, fb = node->right_factor;

  if (left->fixed && node->kind == NODE_MULTIPLY) {
    const uint64 c = *a;
    FOR_ROWS(to[row] = c * b[row]);
  } else if (left->fixed) {
    const uint64 c = *a * fa;
    const uint64 factor = node->kind == NODE_SUBTRACT ? (uint64)0 - fb : fb;
    if (factor == 1)
      FOR_ROWS(to[row] = c + b[row]);
    else if (factor == ~UINT64CONST(0))
      FOR_ROWS(to[row] = c - b[row]);
    else
      FOR_ROWS(to[row] = c + factor * b[row]);
  } else if (right->fixed && node->kind == NODE_MULTIPLY) {
    const uint64 c = *b;
    FOR_ROWS(to[row] = a[row] * c);
  } else if (right->fixed) {
    const uint64 c = node->kind == NODE_SUBTRACT ? (uint64)0 - *b * fb : *b * fb;
    if (fa == 1)
      FOR_ROWS(to[row] = a[row] + c);
    else
      FOR_ROWS(to[row] = a[row] * fa + c);
  } else if (node->kind == NODE_MULTIPLY) {
    FOR_ROWS(to[row] = a[row] * b[row]);
  } else if (fa != 1 || fb != 1) {
    const uint64 factor = node->kind == NODE_SUBTRACT ? (uint64)0 - fb : fb;
    FOR_ROWS(to[row] = a[row] * fa + b[row] * factor);
  } else if (node->kind == NODE_ADD) {
    FOR_ROWS(to[row] = a[row] + b[row]);
  } else {
    FOR_ROWS(to[row] = a[row] - b[row]);
  }
}

static void compute(VectorNode *node, const VectorNode *nodes, const Batch *batch) {
  const VectorNode *left = &nodes[node->left];
  const VectorNode *right = &nodes[node->right];

  node->usable = node->possible && left->usable && right->usable && bound_of(node, left, right);
  if (!node->usable || node->is_null) return;
  if (node->fixed)
    compute_rows(node, left, right, NULL, 1);
  else if (batch->nselected * 2 >= batch->nrows)
    compute_rows(node, left, right, NULL, batch->nrows);
  else
    compute_rows(node, left, right, batch->selected, batch->nselected);
}

void vector_expressions_run(VectorExpressions *expressions, const Batch *batch) {
  for (int i = 0; i < expressions->nnodes; i++) {
    VectorNode *node = &expressions->nodes[i];
    switch (node->kind) {
      case NODE_COLUMN: {
        const BatchColumn *column = &batch->columns[node->column];
        Assert(column->decoded);
        node->number = column->number;
        node->bound = column->magnitude;
        node->usable = true;
        break;
      }
      case NODE_CONSTANT: node->usable = node->possible; break;
      default: compute(node, expressions->nodes, batch);
    }
  }
}

VectorResult vector_expression_result(const VectorExpressions *expressions, int index) {
  const VectorNode *node = &expressions->nodes[index];
  return (VectorResult){.possible = node->possible,
                        .usable = node->usable,
                        .is_null = node->is_null,
                        .constant = node->fixed,
                        .number = node->number,
                        .bound = node->bound,
                        .scale = node->scale,
                        .columns = node->columns};
}
