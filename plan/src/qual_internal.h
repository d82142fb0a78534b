/*
 * Predicates on batches, private part: the tree of a clause.
 *
 * NOT is pushed down to the leaves while parsing, so that a node's rows are those for which it is
 * true, and false need not be distinguished from NULL: a leaf drops the rows whose value is NULL,
 * unless it is IS [NOT] NULL.
 */
#ifndef CCOPT_QUAL_INTERNAL_H
#define CCOPT_QUAL_INTERNAL_H

#include "batch.h"

typedef enum QualKind {
  QUAL_AND,     /* all children */
  QUAL_OR,      /* any child */
  QUAL_NEVER,   /* no row */
  QUAL_ALWAYS,  /* all rows, also those with NULL */
  QUAL_NULL,    /* var IS [NOT] NULL */
  QUAL_COMPARE, /* var comparison constant, of numbers */
  QUAL_COLUMNS, /* var comparison other_var */
  QUAL_IN,      /* var [NOT] IN array, of numbers */
  QUAL_TEXT_IN, /* var [NOT] IN array, or = <> constant, of strings */
  QUAL_LIKE     /* var [NOT] LIKE pattern */
} QualKind;

typedef enum Comparison { LESS, LESS_EQUAL, EQUAL, GREATER_EQUAL, GREATER, NOT_EQUAL } Comparison;

typedef struct QualString {
  const char *data;
  int length;
} QualString;

typedef struct QualNode QualNode;
struct QualNode {
  QualKind kind;
  bool negated; /* QUAL_NULL: IS NOT NULL; QUAL_IN, QUAL_TEXT_IN, QUAL_LIKE: NOT */
  Comparison comparison;
  Var *var, *other;
  ColumnKind column_kind;
  int scale;
  Expr *constant;    /* a scalar or an array */
  Oid constant_type; /* of the scalar or of the array's elements */
  bool is_array;
  List *children; /* QualNode */

  /* set when bound to a batch */
  int column, other_column;
  ExprState *constant_state;
  bool simple; /* the constant is a literal or a parameter: it cannot fail */

  /* set with the constant: the kind to run (QUAL_NEVER, QUAL_ALWAYS or kind) */
  bool ready;
  QualKind run;
  bool negated_run;
  bool for_odd;    /* QUAL_NEVER for numbers: NaN may still pass; core's expression decides */
  int64 low, high; /* QUAL_COMPARE: low <= number <= high, or outside of that if negated_run */
  int nvalues;
  int64 *values;       /* QUAL_IN: sorted, without duplicates */
  uint64 *bitmap;      /* bits of values[0] .. values[nvalues - 1]; NULL if the range is too wide */
  QualString *strings; /* QUAL_TEXT_IN: without duplicates; QUAL_LIKE: pieces between % */
  uint32 *buckets;     /* QUAL_TEXT_IN with many strings: open addressing, index + 1 */
  uint32 bucket_mask;
  bool anchored_start, anchored_end; /* QUAL_LIKE */

  uint16 *scratch; /* QUAL_OR: rows not yet accepted; rows accepted by one child */
};

/* Parses a clause to a tree, or returns the reason why it cannot be run on batches (then *node
 * is undefined). */
extern const char *qual_parse(Node *clause, bool negate, QualNode **node);

/* Sets the value of the node's constant: computes run and the data it needs, allocated in the
 * current memory context. */
extern void qual_set_constant(QualNode *node, Datum value, bool is_null);
extern void qual_set_strings(QualNode *node, Datum *values, bool *nulls, int nvalues);
extern void qual_set_pattern(QualNode *node, Datum value);

/*
 * Leaves: writes the rows of in[0 .. n-1] that pass to out[] (may be the same array) in order;
 * returns their number. Columns are decoded if necessary.
 */
extern int qual_run_numbers(const QualNode *node, const Batch *batch, const uint16 *in, int n,
                            uint16 *out);
/* Detoasted strings live in the current memory context. */
extern int qual_run_strings(const QualNode *node, const Batch *batch, const uint16 *in, int n,
                            uint16 *out);

#endif
