/*
 * BatchHashJoin: what its files share.
 *
 *     plan   batch_join_path.c     which joins, which children, what it costs
 *            batch_join_query.c    facts about a query for all its joins
 *            batch_join_plan.c     a chosen path becomes a plan node
 *     run    batch_join_exec.c     the node: the phases of a join, rows by slot, rescan
 *            batch_join_build.c    the inner side becomes the hash table
 *            batch_join_probe.c    a batch of the probing side becomes batches of joined rows
 *            batch_join_spill.c    both sides in files, a part at a time, if memory is short
 *            batch_join_shared.c   one table for all processes of a parallel plan
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
#include "shared_memory.h"
#include "stats.h"
#include "storage/buffile.h"
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
  bool pairs;      /* pairs of rows that match are results */
  bool fill_outer; /* outer rows without a match are results */
  bool fill_inner;
  bool once_outer; /* only one match of an outer row is needed */
  bool once_inner;
} BatchJoinTraits;
extern const BatchJoinTraits batch_join_traits[];

/* ---- from path to plan ---- */

/* Whose hash table it is in a parallel plan, and who reads the inner side. */
typedef enum JoinSharing {
  JOIN_PRIVATE, /* each process its own, of all inner rows */
  JOIN_DIVIDED, /* one for all: each process reads a share of the inner rows */
  JOIN_ONCE     /* one for all: one process reads the inner rows */
} JoinSharing;

/* custom_private of the path: a list of these. Lists of clauses are bare expressions. */
typedef enum JoinPathPrivate {
  JOIN_PATH_KIND,         /* Integer: BatchJoinKind */
  JOIN_PATH_INNER_UNIQUE, /* Integer */
  JOIN_PATH_FILTERS,      /* Integer: a filter below the outer side may drop rows */
  JOIN_PATH_TARGET,       /* the expressions of the join relation */
  JOIN_PATH_HASH_CLAUSES,
  JOIN_PATH_SHARING,     /* Integer: JoinSharing */
  JOIN_PATH_QUALS,       /* the join's other clauses */
  JOIN_PATH_OTHER_QUALS, /* clauses on rows that an outer join has extended with NULL */
  JOIN_PATH_LENGTH
} JoinPathPrivate;

extern Plan *batch_join_make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
                                  List *target, List *clauses, List *children);
/* The two sides of a hash clause, without relabelling. */
extern void batch_join_clause_sides(const OpExpr *clause, Node **left, Node **right);
/* The position of a column among expressions or target entries (0-based), or -1. Markers of
 * outer joins below, which may have made it NULL, are not compared: it is the same column. */
extern int batch_join_find_column(const List *columns, const Node *column);

/* Facts about a query as a whole (batch_join_query.c). */
typedef struct JoinQuery JoinQuery;
extern JoinQuery *batch_join_query(PlannerInfo *root);
/* The reason why rows of these tables must not be read more often or earlier, or NULL. */
extern const char *batch_join_volatile_refusal(PlannerInfo *root, Relids relids);
/* The reason why a join must not read rows before they are requested, or NULL. This also applies
 * to the hashed side: a plan of core's might have read it row by row. */
extern const char *batch_join_read_ahead_refusal(PlannerInfo *root, const RelOptInfo *joinrel);
/* BatchScan's path for a table whose parent takes batches; NULL if there is none. */
extern Path *batch_join_scan_path(PlannerInfo *root, RelOptInfo *rel);
/* The same for a path that is divided among processes. */
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
  JOIN_PLAN_SHARING,       /* Integer */
  JOIN_PLAN_NHASH_CLAUSES, /* Integer: number of clauses among custom_exprs */
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

/* The source of a column of the output batch. */
typedef struct JoinColumn {
  bool of_inner;
  bool needed;                /* needed by any consumer */
  bool for_quals;             /* needed by the join's quals: filled in before they run */
  int column;                 /* column of the outer or the inner batch */
  const StoredColumn *stored; /* for inner columns that are needed */
} JoinColumn;

/* Whether the rows of a shared table went to files, and for want of what. */
typedef enum JoinShortage { SHORT_OF_NOTHING, SHORT_OF_WORK_MEM, SHORT_OF_SHM } JoinShortage;

typedef struct JoinSpill JoinSpill;
typedef struct SharedJoin SharedJoin;

typedef struct BatchJoinState {
  CustomScanState css; /* must be first */
  BatchSource source;  /* the node as a source for its parent */
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
  KeyFilter *filter; /* filter in the scan below the outer side, or NULL */
  JoinSpill *spill;  /* files with both sides, or NULL */
  JoinSharing sharing;
  SharedJoin *shared; /* with the other processes; NULL: there are none, or the table is private */
  SharedBytes *bytes_of_area; /* if shared: of all tables of the parallel plan */
  JoinShortage shortage;      /* for EXPLAIN */
  Size memory_limit;
  int64 inner_rows;  /* rows of the present table */
  NodeCounts counts; /* for ccopt_stats */
  int partitions;    /* largest number of partitions, for EXPLAIN */
  Size peak;

  List *hash_clauses, *join_quals; /* for EXPLAIN */
  VectorQual *vector_quals;
  ExprState *row_quals, *hash_quals;
  bool impossible; /* a qual is NULL: no pair passes */

  JoinPhase phase;
  bool table_ready;   /* the table can be used again after a rescan */
  bool outer_seen;    /* the outer side has returned rows: from now on build the table first */
  Batch *batch;       /* batch of the outer side that is being probed */
  bool batch_pending; /* `batch` was fetched before the table was built */
  bool has_checks;    /* pairs of this batch must be checked by quals */
  bool final_pass;    /* outer rows that had no match so far have none at all */
  uint8 *matched;     /* by row of `batch`: own_matched, or the result of earlier passes */
  uint8 *own_matched;
  JoinRowScan unmatched; /* scan for PHASE_UNMATCHED_INNER */

  /* rows by slot */
  TopN *top; /* NULL: no sort above keeps only the first */
  int next_selected;
  int nresult; /* plain target list: column of each entry; 0: use the projection */
  int *result_columns;
} BatchJoinState;

/* Builds the table, or puts the inner side into files. (batch_join_build.c) */
extern void batch_join_build(BatchJoinState *state);
/* Adds a batch of the inner side to the table. */
extern void batch_join_add_inner(BatchJoinState *state, Batch *batch);
/* Moves the table's rows to files if they are too many, or others are there. */
extern void batch_join_check_memory(BatchJoinState *state);

/* Begins with another batch of the outer side. (batch_join_probe.c) */
extern void batch_join_probe_begin(BatchJoinState *state);
/* Fills `out` with joined rows that pass all quals; false: no more for this batch. */
extern bool batch_join_next_pairs(BatchJoinState *state);
/* Fills `out` with the batch's rows without a match; false: there are none. */
extern bool batch_join_unmatched_outer(BatchJoinState *state);
/* Fills `out` with some of the table's rows without a match; false: there are no more. */
extern bool batch_join_unmatched_inner(BatchJoinState *state);

/* ---- files (batch_join_spill.c) ---- */

/* The table has grown too large: moves its rows to files; rows added from now on also go there. */
extern void join_spill_begin(BatchJoinState *state);
/* Moves the rows that are in the table to files. */
extern void join_spill_inner(BatchJoinState *state);
/* Puts the rows of an outer batch into files. */
extern void join_spill_outer(BatchJoinState *state, Batch *batch);
/* Loads the next part of the inner side as the table; false: all parts are done. */
extern bool join_spill_next_pass(BatchJoinState *state);
/* Fetches the next batch of the part's outer side: fills outer_vector, batch and matched; false:
 * no more.
 */
extern bool join_spill_next_outer(BatchJoinState *state);
extern void join_spill_end(BatchJoinState *state);

/* Adds a file's next row to the table; false: there are no more. */
extern bool join_spill_read_row(BufFile *file, JoinTable *table);
extern void join_spill_write_row(BufFile *file, JoinRow *row);

/* ---- a table for all processes (batch_join_shared.c) ---- */

/* Builds it together with the other processes, or waits until it is built: then the table is
 * state->table, or, if memory is short, all its rows are in files as with a private one. */
extern void join_shared_build(BatchJoinState *state);
/* Takes over what EXPLAIN shows of the table, which this process may not have helped to build. */
extern void join_shared_note(BatchJoinState *state);
/* Callbacks of the node. */
extern Size join_shared_estimate(CustomScanState *node, ParallelContext *context);
extern void join_shared_initialize(CustomScanState *node, ParallelContext *context, void *shared);
extern void join_shared_reinitialize(CustomScanState *node, ParallelContext *context, void *shared);
extern void join_shared_worker(CustomScanState *node, shm_toc *toc, void *shared);

/* ---- for other operators of ccopt ---- */

/* True if `node` is a BatchHashJoin whose target entry `resno` is a column of its outer side,
 * below which rows can be dropped. Then sets *resno to the entry there. */
extern bool batch_join_passes_outer(PlanState *node, int *resno, PlanState **outer);
/* Joined rows that cannot be among the first of a sort above, by target entry `resno`, are not handed on.
 * False if `node` is no BatchHashJoin. */
extern bool batch_join_set_top_n(PlanState *node, TopN *top, AttrNumber resno);
extern void batch_join_explain(CustomScanState *node, List *ancestors, ExplainState *es);

#endif
