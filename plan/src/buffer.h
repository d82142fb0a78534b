/*
 * Buffer: runs its child many times, then returns the rows one by one. Declarations shared by its
 * files and helpers.
 *
 *     plan    buffer_plan.c    the pass over a finished plan: statement, edges, node
 *             buffer_legal.c   where a buffer changes only the order of work
 *             buffer_paper.c   where CC-Optimizer 2008 puts one
 *             plan_tree.h      children and expressions of a plan node
 *     run     buffer_exec.c    the node: refill, hand on, rescan, EXPLAIN
 *             buffer_rows.c    how rows are kept: pinned pages, values, copies
 */
#ifndef CCOPT_BUFFER_H
#define CCOPT_BUFFER_H

#include "compat.h"

#include "nodes/execnodes.h"

typedef enum BufferPurpose {
  BUFFER_FOR_INSTRUCTIONS, /* the paper's: run the child's code repeatedly before the parent's */
  BUFFER_FOR_PREFETCH,     /* touch the parent's hash table before the rows arrive there */
  BUFFER_FOR_KEY_ORDER     /* sort rows by the key that the parent looks up */
} BufferPurpose;

/* A possible place of a buffer: between `parent` and the child that its `link` points to. */
typedef struct BufferPlace {
  Plan *parent;
  Plan **link;
  BufferPurpose purpose;
  int rows;         /* most rows that it holds; 0: a share of the statement's limit */
  List *keys;       /* integers: the attributes that the parent hashes, or the one to sort by */
  Bitmapset *needs; /* attributes that the parent uses; NULL: all of them */
} BufferPlace;

/* What the nodes above a node imply for it. */
typedef struct PlanPosition {
  bool may_stop; /* a node above may not read all rows: LIMIT, EXISTS, a merge join, a cursor */
  bool order_matters; /* a node above, or the client, sees the order of the rows */
  bool ties_matter;   /* if rows are sorted: the order of equal rows matters, too */
  bool limited;       /* a LIMIT is above */
  bool rescanned;     /* below the inner side of a nested loop, or in a subplan */
} PlanPosition;

/* True if an aggregation returns the same digits for any order of rows (key_sort_plan.c). */
extern bool aggregates_ignore_order(const Plan *plan);

/* Facts about the whole plan. */
typedef struct PlanFacts {
  PlannedStmt *statement;
  bool is_cursor;         /* UPDATE ... WHERE CURRENT OF may look for its scan in the plan */
  Bitmapset *init_params; /* parameters that initplans set once; others change between rescans */
} PlanFacts;

/* ---- where (buffer_legal.c) ---- */

/* The child that a node reads by link, and its role. */
typedef enum ChildRole { CHILD_OUTER, CHILD_INNER, CHILD_MEMBER } ChildRole;

/* What is known about the child's position. */
extern PlanPosition position_below(const Plan *parent, ChildRole role, PlanPosition position);
/* The reason why no row of the plan may be read before it is requested, or NULL. */
extern const char *read_ahead_refusal(const PlannedStmt *plan, int cursor_options);
/* The reason why the whole plan must be left alone, or NULL. */
extern const char *buffer_statement_refusal(const PlannedStmt *plan, int cursor_options);
/* The reason why no buffer can stand between these two, or NULL. */
extern const char *buffer_edge_refusal(const PlanFacts *facts, const Plan *parent, ChildRole role,
                                       const Plan *child, PlanPosition position);

/* ---- the paper (buffer_paper.c) ---- */

/* The reason why the rule of figures 9 and 10 puts no buffer here, or NULL. */
extern const char *paper_refusal(const Plan *parent, const Plan *child);
/* Most rows that all buffers of a statement hold together. */
#define PAPER_TOTAL_ROWS 2000

/* ---- prefetch and key order, planning ---- */

/* Fills in purpose, rows, keys and needs, or returns the reason why not. */
extern const char *prefetch_refusal(const Plan *parent, ChildRole role, const Plan *child,
                                    BufferPlace *place);
extern const char *key_order_refusal(const PlanFacts *facts, const Plan *parent, ChildRole role,
                                     const Plan *child, PlanPosition position, BufferPlace *place);

/* ---- the node ---- */

/* custom_private: a list of these, and nothing else; plans are copied, cached, printed. */
typedef enum BufferPrivate {
  BUFFER_PRIVATE_PURPOSE, /* Integer */
  BUFFER_PRIVATE_MODE,    /* Integer: BufferMode */
  BUFFER_PRIVATE_ROWS,    /* Integer */
  BUFFER_PRIVATE_KEYS,    /* IntList */
  BUFFER_PRIVATE_NEEDS,   /* IntList; empty: all */
  BUFFER_PRIVATE_LENGTH
} BufferPrivate;

extern const CustomScanMethods buffer_scan_methods;

/* The purpose of a Buffer's state, or -1 if `node` is not a Buffer. */
extern int buffer_purpose_of(const PlanState *node);

/*
 * What a buffer does with gathered rows, set when the executor starts (attach.c). `ready` is called
 * before each refill: it returns NULL, or the reason why the buffer should return rows unbuffered,
 * and after how many rows to call it again. `gathered` is called with the rows of a refill.
 */
struct BufferRows;
typedef struct BufferHelper {
  const char *(*ready)(struct BufferHelper *helper, int *ask_again);
  void (*gathered)(struct BufferHelper *helper, struct BufferRows *rows);
} BufferHelper;
extern void buffer_set_helper(PlanState *node, BufferHelper *helper);
/* The attributes in custom_private's keys. */
extern List *buffer_keys(const PlanState *node);

#endif
