/*
 * BatchHashJoin: what its files share.
 *
 *     plan   batch_join_path.c     which joins, which children, what it costs
 *            batch_join_query.c    what is known of a query for all its joins
 *            batch_join_plan.c     a chosen path becomes a plan node
 *     run    batch_join_exec.c     the node: build, the phases of a join, rows by slot, rescan
 *            batch_join_probe.c    a batch of the probing side becomes batches of joined rows
 *            batch_join_spill.c    both sides in files, a part at a time, if memory does not do
 *            batch_join_explain.c
 *            join_table.h          the hash table
 *
 * The *outer* child probes, the *inner* child is hashed. Semi and anti joins can have either side
 * as the inner one.
 */
#ifndef CCOPT_BATCH_JOIN_H
#define CCOPT_BATCH_JOIN_H

#include "batch.h"
#include "compat.h"
#include "join_table.h"
#include "qual.h"
#include "stats.h"
#include "top_n.h"

typedef enum BatchJoinKind {
  BATCH_JOIN_INNER,
  BATCH_JOIN_LEFT,       /* and outer rows without a match */
  BATCH_JOIN_RIGHT,      /* and inner rows without a match */
  BATCH_JOIN_FULL,       /* and both */
  BATCH_JOIN_SEMI,       /* outer rows with a match, once */
  BATCH_JOIN_ANTI,       /* outer rows without a match */
  BATCH_JOIN_RIGHT_SEMI, /* inner rows with a match, once */
  BATCH_JOIN_RIGHT_ANTI  /* inner rows without a match */
} BatchJoinKind;

typedef struct BatchJoinTraits {
  const char *name;
  bool pairs;      /* rows that match are handed on */
  bool fill_outer; /* outer rows without a match are handed on */
  bool fill_inner;
  bool once_outer; /* a matching outer row is wanted once */
  bool once_inner;
} BatchJoinTraits;
extern const BatchJoinTraits batch_join_traits[];

/* ---- from path to plan ---- */

/* custom_private of the path: a list of these. Lists of clauses are bare expressions. */
typedef enum JoinPathPrivate {
  JOIN_PATH_KIND,         /* Integer: BatchJoinKind */
  JOIN_PATH_INNER_UNIQUE, /* Integer */
  JOIN_PATH_FILTERS,      /* Integer: a filter below the outer side may drop rows */
  JOIN_PATH_TARGET,       /* the expressions of the join relation */
  JOIN_PATH_HASH_CLAUSES,
  JOIN_PATH_QUALS,       /* the join's other clauses */
  JOIN_PATH_OTHER_QUALS, /* for rows that an outer join has made */
  JOIN_PATH_LENGTH
} JoinPathPrivate;

extern Plan *batch_join_make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
                                  List *target, List *clauses, List *children);
/* The two sides of a hash clause, relabelling cut off. */
extern void batch_join_clause_sides(const OpExpr *clause, Node **left, Node **right);
/* Where among expressions or target entries a column is (0-based), or -1. What outer joins may have
 * made NULL below is not compared: it is the same column. */
extern int batch_join_find_column(const List *columns, const Node *column);

/* What is known of a query as a whole (batch_join_query.c). */
typedef struct JoinQuery JoinQuery;
extern JoinQuery *batch_join_query(PlannerInfo *root);
/* Why a join must not read rows before they are asked for, or NULL. Also of the hashed side: a plan
 * of core's might have read that one row by row. */
extern const char *batch_join_read_ahead_refusal(PlannerInfo *root, const RelOptInfo *joinrel);
/* BatchScan's path for a table when its rows are taken in batches; NULL if there is none. */
extern Path *batch_join_scan_path(PlannerInfo *root, RelOptInfo *rel);
/* The same for the share of one of several processes. */
extern Path *batch_join_partial_scan_path(PlannerInfo *root, RelOptInfo *rel);

/* ---- from plan to execution ---- */

/*
 * custom_scan_tlist has the join's columns, its entries are the columns of the output batch, and
 * custom_exprs are over them: hash clauses, then quals that run on batches, then quals for rows.
 */
typedef enum JoinPlanPrivate {
  JOIN_PLAN_KIND,          /* Integer */
  JOIN_PLAN_INNER_UNIQUE,  /* Integer */
  JOIN_PLAN_FILTERS,       /* Integer */
  JOIN_PLAN_NHASH_CLAUSES, /* Integer: how many of custom_exprs */
  JOIN_PLAN_NVECTOR_QUALS, /* Integer */
  JOIN_PLAN_SIDES,         /* IntList, for each column: 0 outer, 1 inner */
  JOIN_PLAN_RESNOS,        /* IntList, for each column: target entry of that child */
  JOIN_PLAN_OUTER_KEYS,    /* IntList, for each hash clause: target entry of the outer child */
  JOIN_PLAN_INNER_KEYS,    /* IntList */
  JOIN_PLAN_LENGTH
} JoinPlanPrivate;

extern const CustomScanMethods batch_join_scan_methods;
extern const BatchExecMethods batch_join_exec_methods;

/* ---- execution ---- */

typedef enum JoinPhase {
  PHASE_START,
  PHASE_OUTER,           /* fetch a batch of the outer side */
  PHASE_PAIRS,           /* its matches */
  PHASE_UNMATCHED_OUTER, /* its rows without one */
  PHASE_UNMATCHED_INNER, /* the table's rows without one */
  PHASE_NEXT_PASS,       /* another part of both sides, from files */
  PHASE_DONE
} JoinPhase;

/* Where a column of the output batch comes from. */
typedef struct JoinColumn {
  bool of_inner;
  bool needed;                /* by any consumer */
  bool for_quals;             /* by the join's quals: filled in before they run */
  int column;                 /* of the outer batch, or of the inner batch */
  const StoredColumn *stored; /* of inner columns that are needed */
} JoinColumn;

typedef struct JoinSpill JoinSpill;

typedef struct BatchJoinState {
  CustomScanState css; /* first */
  BatchSource source;  /* what we are to our parent */
  Batch out;           /* column i is entry i+1 of custom_scan_tlist */
  JoinColumn *columns;

  BatchJoinKind kind;
  const BatchJoinTraits *traits;
  bool inner_unique;
  int nkeys;
  JoinKey *outer_keys, *inner_keys;

  PlanState *outer_node, *inner_node;
  BatchSource *outer, *inner;
  KeyVector *outer_vector, *inner_vector;
  RowLayout *layout; /* of inner rows */
  JoinTable *table;
  JoinProbe *probe;
  KeyFilter *filter; /* in the scan below the outer side, or NULL */
  JoinSpill *spill;  /* both sides are in files, or NULL */
  Size memory_limit;
  int64 inner_rows;  /* of the present table */
  NodeCounts counts; /* for ccopt_stats */
  int partitions;    /* the most, for EXPLAIN */
  Size peak;

  List *hash_clauses, *join_quals; /* for EXPLAIN */
  VectorQual *vector_quals;
  ExprState *row_quals, *hash_quals;
  bool impossible; /* a qual is NULL: no pair passes */

  JoinPhase phase;
  bool table_ready;   /* can be used again after a rescan */
  bool outer_seen;    /* the outer side has had rows: build first from now on */
  Batch *batch;       /* of the outer side, being probed */
  bool batch_pending; /* `batch` was fetched before the table was built */
  bool has_checks;    /* pairs of this batch have to pass quals */
  bool final_pass;    /* outer rows without a match so far have none */
  uint8 *matched;     /* by row of `batch`: own_matched, or what earlier passes have left */
  uint8 *own_matched;
  JoinRowScan unmatched; /* of PHASE_UNMATCHED_INNER */

  /* rows by slot */
  TopN *top; /* NULL: no sort above keeps only the first */
  int next_selected;
  int nresult; /* plain target list: column of each entry; 0: use the projection */
  int *result_columns;
} BatchJoinState;

/* Another batch of the outer side: begins with it. (batch_join_probe.c) */
extern void batch_join_probe_begin(BatchJoinState *state);
/* Fills `out` with joined rows that pass all quals; false: this batch has no more. */
extern bool batch_join_next_pairs(BatchJoinState *state);
/* Fills `out` with the batch's rows without a match; false: there are none. */
extern bool batch_join_unmatched_outer(BatchJoinState *state);
/* Fills `out` with some of the table's rows without a match; false: there are no more. */
extern bool batch_join_unmatched_inner(BatchJoinState *state);

/* ---- files (batch_join_spill.c) ---- */

/* The table has grown too large: its rows, and all that are added from now on, go to files. */
extern void join_spill_begin(BatchJoinState *state);
/* Moves the rows that are in the table to files. */
extern void join_spill_inner(BatchJoinState *state);
/* Puts the rows of an outer batch into files. */
extern void join_spill_outer(BatchJoinState *state, Batch *batch);
/* Makes the next part of the inner side the table; false: all is done. */
extern bool join_spill_next_pass(BatchJoinState *state);
/* The next batch of the part's outer side: fills outer_vector, batch and matched; false: no more.
 */
extern bool join_spill_next_outer(BatchJoinState *state);
extern void join_spill_end(BatchJoinState *state);

/* ---- for other operators of ccopt ---- */

/* Is `node` a BatchHashJoin whose target entry `resno` is a column of its outer side, and one that
 * rows can be dropped from below? Then what it is there. */
extern bool batch_join_passes_outer(PlanState *node, int *resno, PlanState **outer);
/* Joined rows that cannot be among the first of a sort above, by target entry `resno`, are not handed on.
 * False if `node` is no BatchHashJoin. */
extern bool batch_join_set_top_n(PlanState *node, TopN *top, AttrNumber resno);
extern void batch_join_explain(CustomScanState *node, List *ancestors, ExplainState *es);

#endif
