/*
 * AdaptiveJoin, execution: its state, for the node (adaptive_join_exec.c) and for the decision
 * (adaptive_join_decide.c).
 */
#ifndef CCOPT_ADAPTIVE_JOIN_STATE_H
#define CCOPT_ADAPTIVE_JOIN_STATE_H

#include "adaptive_join.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "portability/instr_time.h"

/* Look-ups are timed during the last ADAPTIVE_TIMED_ROWS outer rows before a decision. */
#define ADAPTIVE_FIRST_DECISION 256
#define ADAPTIVE_TIMED_ROWS 64

typedef struct AdaptiveJoinState {
  CustomScanState css;

  /* the nested loop */
  JoinType join_type;
  bool single_match; /* a second inner row cannot match, or is not needed */
  bool keeps_outer;  /* outer rows without a match are results */
  ExprState *join_qual, *other_qual;
  ExprState *hash_qual; /* for rows of the hash table only */
  List *params;
  AdaptiveLookup *lookup; /* NULL: the inner plan runs as in a nested loop */
  ProjectionInfo *projection;
  TupleTableSlot *null_inner;
  bool need_outer, matched;

  /* keys */
  int nkeys;
  AttrNumber outer_keys[ADAPTIVE_MAX_KEYS], inner_keys[ADAPTIVE_MAX_KEYS];
  Oid outer_types[ADAPTIVE_MAX_KEYS], inner_types[ADAPTIVE_MAX_KEYS];

  /* the decision */
  bool force;
  double expected_rows; /* outer rows of one execution, estimated by the planner */
  double build_rows, build_ns, probe_ns, margin;
  Size build_width;  /* least bytes of a row of the table, as far as is known */
  uint64 executions; /* the first run and rescans */
  uint64 rows;       /* outer rows so far, of all executions */
  uint64 next_decision;
  bool awaits_table; /* that another process builds */
  bool settled;      /* no further decision: the table is built, or did not fit */
  bool too_large;
  bool inner_ended;                        /* the inner plan was read to its end at least once */
  instr_time lookups[ADAPTIVE_TIMED_ROWS]; /* time in the inner plan, for each outer row */
  double foreseen; /* outer rows that were expected when the table was built */
  uint64 built_after;

  /* the hash table */
  PlanState *build;           /* returns the table's rows */
  AdaptiveShared *shared;     /* NULL: the table is this process's own */
  SharedBytes *bytes_of_area; /* if shared: of all tables of the parallel plan */
  AdaptiveTable *table;
  bool attached; /* the table is in shared memory */
  bool built;    /* for EXPLAIN: a table was used; memory: its size */
  Size memory;
  TupleTableSlot *found;    /* holds the table's current row */
  const AdaptiveRow *match; /* the next candidate */

  uint64 rows_out; /* for ccopt_stats */
} AdaptiveJoinState;

/* True if the look-up of the current outer row is timed. */
static inline bool adaptive_times_lookup(const AdaptiveJoinState *state) {
  return !state->settled && state->rows + ADAPTIVE_TIMED_ROWS > state->next_decision;
}

/* False: a key is NULL, which equals nothing. */
static inline bool adaptive_read_keys(TupleTableSlot *slot, int nkeys, const AttrNumber *attributes,
                                      const Oid *types, int64 *keys) {
  for (int i = 0; i < nkeys; i++) {
    bool isnull;
    Datum value = slot_getattr(slot, attributes[i], &isnull);
    if (isnull) return false;
    keys[i] = adaptive_key(value, types[i]);
  }
  return true;
}

/* True for this node's state. */
extern bool is_adaptive_join(const PlanState *node);
/* Called at an outer row: decides whether to change to a hash table. */
extern void adaptive_decide(AdaptiveJoinState *state);
extern void adaptive_free_table(AdaptiveJoinState *state);

/* ---- callbacks ---- */

extern Size adaptive_estimate_dsm(CustomScanState *node, ParallelContext *context);
extern void adaptive_initialize_dsm(CustomScanState *node, ParallelContext *context, void *memory);
extern void adaptive_reinitialize_dsm(CustomScanState *node, ParallelContext *context,
                                      void *memory);
extern void adaptive_initialize_worker(CustomScanState *node, shm_toc *toc, void *memory);
extern void adaptive_shut_down(CustomScanState *node);

#endif
