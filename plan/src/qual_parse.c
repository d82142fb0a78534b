/*
 * Which clauses can be run on batches, and the tree they become.
 *
 * Supported are only clauses that cannot fail and that core computes the same way under any
 * settings: comparisons of core's own btree operators on whole columns.
 */
#include "qual_internal.h"

#include "access/stratnum.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "qual.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

static QualNode *make_node(QualKind kind, bool negated) {
  QualNode *node = palloc0(sizeof(*node));
  node->kind = kind;
  node->negated = negated;
  node->column = node->other_column = -1;
  return node;
}

/* The operators of varchar treat it as text. */
static Node *without_relabel(Node *expr) {
  while (IsA(expr, RelabelType)) expr = (Node *)((RelabelType *)expr)->arg;
  return expr;
}

static bool is_column(Node *expr) {
  return IsA(expr, Var) && ((Var *)expr)->varattno > 0 && ((Var *)expr)->varlevelsup == 0;
}

/* True if it does not change during a scan. Excludes volatile functions and subplans. */
static bool is_constant(Node *expr) {
  return !contain_var_clause(expr) && !contain_subplans(expr) && !contain_volatile_functions(expr);
}

static Comparison swapped(Comparison comparison) {
  switch (comparison) {
    case LESS: return GREATER;
    case LESS_EQUAL: return GREATER_EQUAL;
    case GREATER: return LESS;
    case GREATER_EQUAL: return LESS_EQUAL;
    default: return comparison;
  }
}

static Comparison opposite(Comparison comparison) {
  switch (comparison) {
    case LESS: return GREATER_EQUAL;
    case LESS_EQUAL: return GREATER;
    case GREATER: return LESS_EQUAL;
    case GREATER_EQUAL: return LESS;
    case EQUAL: return NOT_EQUAL;
    default: return EQUAL;
  }
}

/* The comparison of an operator, in the default btree family of `type`. */
static bool comparison_of(Oid opno, Oid type, Comparison *comparison) {
  Oid family = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
  int strategy;

  if (!OidIsValid(family)) return false;
  strategy = get_op_opfamily_strategy(opno, family);
  switch (strategy) {
    case BTLessStrategyNumber: *comparison = LESS; return true;
    case BTLessEqualStrategyNumber: *comparison = LESS_EQUAL; return true;
    case BTEqualStrategyNumber: *comparison = EQUAL; return true;
    case BTGreaterEqualStrategyNumber: *comparison = GREATER_EQUAL; return true;
    case BTGreaterStrategyNumber: *comparison = GREATER; return true;
    default:
      opno = get_negator(opno);
      *comparison = NOT_EQUAL;
      return OidIsValid(opno) && get_op_opfamily_strategy(opno, family) == BTEqualStrategyNumber;
  }
}

static bool is_int(Oid type) { return type == INT2OID || type == INT4OID || type == INT8OID; }

/* True if a column of a type can be compared with a constant of another, as numbers. */
static bool comparable(Oid column, Oid constant) {
  return column == constant || (is_int(column) && is_int(constant)) ||
         (column == DATEOID && constant == TIMESTAMPOID);
}

/* Strings are compared as bytes of one type: text_ops includes `name`, too, which has no header. */
static bool comparable_strings(ColumnKind column, Oid constant) {
  constant = getBaseType(constant);
  return column == COLUMN_BPCHAR ? constant == BPCHAROID
                                 : constant == TEXTOID || constant == VARCHAROID;
}

static bool is_string(ColumnKind kind) { return kind == COLUMN_TEXT || kind == COLUMN_BPCHAR; }

static void set_var(QualNode *node, Var *var) {
  node->var = var;
  node->column_kind = column_kind(var->vartype, var->vartypmod, var->varcollid, &node->scale);
}

static const char *parse_like(Var *var, Node *constant, Oid collation, bool negated,
                              QualNode **node) {
  const char *pattern;
  int scale;
  Const *literal = (Const *)constant;

  if (!is_string(column_kind(var->vartype, var->vartypmod, collation, &scale)))
    return "LIKE with a collation that is not deterministic";
  if (!IsA(constant, Const)) return "LIKE with a pattern that is not a literal";
  /*
   * In these encodings characters begin at distinguishable bytes: a piece of a pattern is found
   * only where it really is.
   */
  if (pg_database_encoding_max_length() > 1 && GetDatabaseEncoding() != PG_UTF8)
    return "LIKE in a multibyte encoding other than UTF8";
  *node = make_node(QUAL_LIKE, negated);
  set_var(*node, var);
  if (!is_string((*node)->column_kind)) return "LIKE on a column that is not text";
  (*node)->constant = (Expr *)literal;
  (*node)->constant_type = literal->consttype;
  if (literal->constisnull) return NULL;
  pattern = TextDatumGetCString(literal->constvalue);
  if (strpbrk(pattern, "_\\")) return "LIKE with a pattern of more than %";
  return NULL;
}

static const char *parse_operator(OpExpr *expr, bool negate, QualNode **node) {
  Node *left, *right;
  Comparison comparison;
  Var *var;
  Oid like = expr->opno;
  bool like_negated = negate;

  if (list_length(expr->args) != 2) return "an operator other than a comparison";
  left = without_relabel(linitial(expr->args));
  right = without_relabel(lsecond(expr->args));

  if (like != OID_TEXT_LIKE_OP && like != OID_BPCHAR_LIKE_OP) {
    like = get_negator(like);
    like_negated = !negate;
  }
  if (like == OID_TEXT_LIKE_OP || like == OID_BPCHAR_LIKE_OP) {
    if (!is_column(left)) return "LIKE on an expression";
    return parse_like((Var *)left, right, expr->inputcollid, like_negated, node);
  }

  if (is_column(left) && is_column(right)) {
    QualNode *other = make_node(QUAL_COLUMNS, false);
    *node = make_node(QUAL_COLUMNS, false);
    set_var(*node, (Var *)left);
    set_var(other, (Var *)right);
    (*node)->other = (Var *)right;
    if (!comparison_of(expr->opno, (*node)->var->vartype, &comparison))
      return "an operator other than a comparison";
    (*node)->comparison = negate ? opposite(comparison) : comparison;
    if ((*node)->column_kind != other->column_kind || (*node)->column_kind == COLUMN_OPAQUE)
      return "a comparison of columns of different kinds";
    if ((*node)->column_kind == COLUMN_INTEGER &&
        !((is_int((*node)->var->vartype) && is_int((*node)->other->vartype)) ||
          (*node)->var->vartype == (*node)->other->vartype))
      return "a comparison of columns of different types";
    if ((*node)->column_kind == COLUMN_DECIMAL && (*node)->scale != other->scale)
      return "a comparison of decimals of different scales";
    if (is_string((*node)->column_kind)) {
      if (comparison != EQUAL && comparison != NOT_EQUAL) return "an order of text";
      if (column_kind((*node)->var->vartype, -1, expr->inputcollid, &other->scale) == COLUMN_OPAQUE)
        return "a collation that is not deterministic";
    }
    return NULL;
  }

  if (is_column(left) && is_constant(right)) {
    var = (Var *)left;
  } else if (is_column(right) && is_constant(left)) {
    Node *swap = left;
    left = right;
    right = swap;
    var = (Var *)left;
  } else
    return "a comparison of expressions";
  if (!comparison_of(expr->opno, var->vartype, &comparison))
    return "an operator other than a comparison";
  if (left != without_relabel(linitial(expr->args))) comparison = swapped(comparison);
  if (negate) comparison = opposite(comparison);
  *node = make_node(QUAL_COMPARE, false);
  set_var(*node, var);
  (*node)->constant = (Expr *)right;
  (*node)->constant_type = exprType(right);
  (*node)->comparison = comparison;
  switch ((*node)->column_kind) {
    case COLUMN_INTEGER:
    case COLUMN_DECIMAL:
      if (!comparable(var->vartype, (*node)->constant_type))
        return "a comparison of different types";
      return NULL;
    case COLUMN_TEXT:
    case COLUMN_BPCHAR:
      if (comparison != EQUAL && comparison != NOT_EQUAL) return "an order of text";
      if (!comparable_strings((*node)->column_kind, (*node)->constant_type))
        return "a comparison of different types";
      if (column_kind(var->vartype, -1, expr->inputcollid, &(*node)->scale) == COLUMN_OPAQUE)
        return "a collation that is not deterministic";
      (*node)->kind = QUAL_TEXT_IN;
      (*node)->negated = comparison == NOT_EQUAL;
      return NULL;
    default: return "a column of an unsupported type";
  }
}

static const char *parse_array(ScalarArrayOpExpr *expr, bool negate, QualNode **node) {
  Node *left = without_relabel(linitial(expr->args));
  Node *right = without_relabel(lsecond(expr->args));
  Comparison comparison;
  Oid element;
  int scale;

  if (!is_column(left) || !is_constant(right)) return "a list of expressions";
  if (!comparison_of(expr->opno, ((Var *)left)->vartype, &comparison) ||
      comparison != (expr->useOr ? EQUAL : NOT_EQUAL))
    return "a list with an operator other than IN or NOT IN";
  *node = make_node(QUAL_IN, negate ? expr->useOr : !expr->useOr);
  set_var(*node, (Var *)left);
  element = get_base_element_type(exprType(right));
  if (!OidIsValid(element)) return "a list that is not an array";
  (*node)->constant = (Expr *)right;
  (*node)->constant_type = element;
  (*node)->is_array = true;
  switch ((*node)->column_kind) {
    case COLUMN_INTEGER:
    case COLUMN_DECIMAL:
      if (!comparable((*node)->var->vartype, element)) return "a list of another type";
      return NULL;
    case COLUMN_TEXT:
    case COLUMN_BPCHAR:
      if (!comparable_strings((*node)->column_kind, element)) return "a list of another type";
      if (column_kind((*node)->var->vartype, -1, expr->inputcollid, &scale) == COLUMN_OPAQUE)
        return "a collation that is not deterministic";
      (*node)->kind = QUAL_TEXT_IN;
      return NULL;
    default: return "a column of an unsupported type";
  }
}

static const char *parse_connective(BoolExpr *expr, bool negate, QualNode **node) {
  ListCell *cell;
  bool is_and;

  if (expr->boolop == NOT_EXPR) return qual_parse(linitial(expr->args), !negate, node);
  is_and = (expr->boolop == AND_EXPR) != negate;
  *node = make_node(is_and ? QUAL_AND : QUAL_OR, false);
  foreach (cell, expr->args) {
    QualNode *child;
    const char *reason = qual_parse(lfirst(cell), negate, &child);
    if (reason) return reason;
    /* Children of the same type are merged into this node. */
    if (child->kind == (*node)->kind)
      (*node)->children = list_concat((*node)->children, child->children);
    else
      (*node)->children = lappend((*node)->children, child);
  }
  return NULL;
}

/* A boolean column as a condition: it is true, or (negated) false. */
static QualNode *bool_column(Var *var, bool negated) {
  QualNode *node = make_node(QUAL_COMPARE, false);
  set_var(node, var);
  node->comparison = EQUAL;
  node->constant = (Expr *)makeBoolConst(!negated, false);
  node->constant_type = BOOLOID;
  return node;
}

const char *qual_parse(Node *clause, bool negate, QualNode **node) {
  switch (nodeTag(clause)) {
    case T_BoolExpr: return parse_connective((BoolExpr *)clause, negate, node);
    case T_OpExpr: return parse_operator((OpExpr *)clause, negate, node);
    case T_ScalarArrayOpExpr: return parse_array((ScalarArrayOpExpr *)clause, negate, node);
    case T_NullTest: {
      NullTest *test = (NullTest *)clause;
      Node *argument = without_relabel((Node *)test->arg);
      if (!is_column(argument) || test->argisrow) return "a NULL test of an expression";
      *node = make_node(QUAL_NULL, (test->nulltesttype == IS_NOT_NULL) != negate);
      set_var(*node, (Var *)argument);
      return NULL;
    }
    case T_Var:
      if (!is_column(clause) || ((Var *)clause)->vartype != BOOLOID)
        return "a column that is not boolean";
      *node = bool_column((Var *)clause, negate);
      return NULL;
    case T_BooleanTest: {
      BooleanTest *test = (BooleanTest *)clause;
      Node *argument = (Node *)test->arg;
      if (!is_column(argument) || negate ||
          (test->booltesttype != IS_TRUE && test->booltesttype != IS_FALSE))
        return "a test of a boolean expression";
      *node = bool_column((Var *)argument, test->booltesttype == IS_FALSE);
      return NULL;
    }
    case T_Const: {
      Const *literal = (Const *)clause;
      bool passes;
      if (literal->consttype != BOOLOID) return "a literal that is not boolean";
      passes = !literal->constisnull && DatumGetBool(literal->constvalue) != negate;
      *node = make_node(passes ? QUAL_ALWAYS : QUAL_NEVER, false);
      return NULL;
    }
    default: return "an expression other than a comparison";
  }
}

const char *vector_qual_refusal(Node *clause) {
  QualNode *node;
  return qual_parse(clause, false, &node);
}
