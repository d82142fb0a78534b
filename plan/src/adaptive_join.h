/*
 * AdaptiveJoin: a nested loop with look-ups, as core planned it, until many more rows than core
 * expected turn out to need a look-up. It then reads the inner table once into a hash table and
 * continues with that, in the same order of outer rows.
 *
 *     AdaptiveJoin                         outer rows: 98 expected
 *       -> outer plan (as before)             64 seen when the scan below is at 0.02 % of its rows:
 *       -> inner plan: Index Scan             300,000 to come
 *       -> build plan: BatchScan            300,000 look-ups cost more than reading the table
 *
 *     plan    adaptive_join_plan.c    which nested loops can be one, what building would cost
 *     run     adaptive_join_exec.c    look up, or find in the hash table
 *             adaptive_join_decide.c  when to change, and building
 *             adaptive_lookup.c       rows by index
 *             adaptive_shared.c       one table for all processes of a parallel plan
 *             adaptive_table.c        the hash table
 *     print   adaptive_join_explain.c
 */
#ifndef CCOPT_ADAPTIVE_JOIN_H
#define CCOPT_ADAPTIVE_JOIN_H

#include "compat.h"

#include "nodes/execnodes.h"
#include "shared_memory.h"
#include "utils/dsa.h"

/* Joins with more key columns than this are left to core. */
#define ADAPTIVE_MAX_KEYS 4

/* custom_private: a list of these; plans are copied, cached, printed. */
typedef enum AdaptivePrivate {
  ADAPTIVE_JOIN_TYPE,  /* Integer: JoinType: inner, left, semi or anti */
  ADAPTIVE_UNIQUE,     /* Integer: at most one inner row matches */
  ADAPTIVE_FORCE,      /* Integer: switch at once (ccopt.force) */
  ADAPTIVE_JOIN_QUAL,  /* List: of outer and inner row, as the nested loop had it */
  ADAPTIVE_OTHER_QUAL, /* List */
  ADAPTIVE_HASH_QUAL,  /* List: conditions of look-ups on both rows, for rows of the hash table */
  ADAPTIVE_SHOWN_QUAL, /* List: the same over the inner table's own columns, for EXPLAIN */
  ADAPTIVE_PARAMS,     /* List of NestLoopParam */
  ADAPTIVE_OUTER_KEYS, /* IntList: attributes of the outer row */
  ADAPTIVE_INNER_KEYS, /* IntList: of the row from which the hash table is built */
  ADAPTIVE_KEY_TYPES,  /* OidList: type of each outer key, then of each inner one */
  ADAPTIVE_OUTER_ROWS, /* Float: number of outer rows that the planner expects */
  ADAPTIVE_BUILD_ROWS, /* Float: number of rows that the hash table would hold */
  ADAPTIVE_BUILD_NS,   /* Float: nanoseconds to build it */
  ADAPTIVE_PROBE_NS,   /* Float: nanoseconds to probe it */
  ADAPTIVE_MARGIN,     /* Float: building must save this many times its time */
  ADAPTIVE_LENGTH
} AdaptivePrivate;

static inline List *adaptive_private_list(const CustomScan *plan, AdaptivePrivate item) {
  return (List *)list_nth(plan->custom_private, item);
}

extern Node *adaptive_join_create_state(CustomScan *plan);
/* Prints what core does not print of the plan. Call it before core explains the children. */
extern void adaptive_explain_plan(CustomScanState *node, List *ancestors, ExplainState *es);

/* ---- look-ups by index ---- */

typedef struct AdaptiveLookup AdaptiveLookup;

/* NULL if the inner plan has to be run like any other. */
extern AdaptiveLookup *adaptive_lookup_create(PlanState *inner);
/* Starts a look-up with the current parameters; then returns its rows, NULL at the end. */
extern void adaptive_lookup_start(AdaptiveLookup *lookup);
extern TupleTableSlot *adaptive_lookup_next(AdaptiveLookup *lookup);

/* ---- the hash table ---- */

typedef struct AdaptiveTable AdaptiveTable;
typedef struct AdaptiveRow AdaptiveRow;

/* True for an integer type that may be a key. */
extern bool is_adaptive_key_type(Oid type);
extern int64 adaptive_key(Datum value, Oid type);

/* Created in a memory context of its own below the current one. */
extern AdaptiveTable *adaptive_table_create(int nkeys);
/* Copies the row. False if the table would then take more than `limit` bytes. */
extern bool adaptive_table_add(AdaptiveTable *table, const int64 *keys, TupleTableSlot *slot,
                               Size limit);
/* Bytes that a row of this width takes, without its bucket. */
extern Size adaptive_row_size(int nkeys, int width);
/* After the last row: makes the table ready to be searched. */
extern void adaptive_table_link(AdaptiveTable *table);
/*
 * Instead: copies the table to a block of adaptive_table_block_size() bytes, which other processes
 * attach to, with the number of its rows.
 */
extern Size adaptive_table_block_size(const AdaptiveTable *table);
extern void adaptive_table_copy(const AdaptiveTable *table, void *block);
extern uint64 adaptive_table_rows(const AdaptiveTable *table);
extern AdaptiveTable *adaptive_table_attach(int nkeys, void *block, Size size, uint64 nrows);
/* The first row with these keys, then the next; NULL at the end. */
extern const AdaptiveRow *adaptive_table_find(const AdaptiveTable *table, const int64 *keys);
extern const AdaptiveRow *adaptive_table_next(const AdaptiveTable *table, const AdaptiveRow *row);
extern MinimalTuple adaptive_row_tuple(const AdaptiveTable *table, const AdaptiveRow *row);
extern Size adaptive_table_memory(const AdaptiveTable *table);
extern void adaptive_table_free(AdaptiveTable *table);

/* ---- one table for all processes ---- */

typedef struct AdaptiveShared AdaptiveShared;

/* What a process has to do that would build the table. */
typedef enum AdaptiveTask {
  ADAPTIVE_BUILD_SHARED,  /* build it for all */
  ADAPTIVE_BUILD_PRIVATE, /* build one for itself: there is no shared memory for it */
  ADAPTIVE_LOOK_UP,       /* look up for now: another process builds it */
  ADAPTIVE_GIVE_UP        /* it does not fit into work_mem */
} AdaptiveTask;

extern Size adaptive_shared_size(void);
extern void adaptive_shared_init(AdaptiveShared *shared, int workers);
/* Between two runs of the workers: a finished table stays. */
extern void adaptive_shared_reset(AdaptiveShared *shared);
/* Number of processes by which the planner divided the outer rows. */
extern double adaptive_shared_processes(const AdaptiveShared *shared);
extern bool adaptive_shared_is_ready(AdaptiveShared *shared);
/* True if the builder ended without a table for all. */
extern bool adaptive_shared_has_failed(AdaptiveShared *shared);
extern AdaptiveTask adaptive_shared_claim(AdaptiveShared *shared);
/*
 * After ADAPTIVE_BUILD_SHARED: publishes the table (NULL: it did not fit). False if there is no memory
 * for it: then the table is this process's own.
 */
extern bool adaptive_shared_publish(AdaptiveShared *shared, const AdaptiveTable *table,
                                    dsa_area *area, SharedBytes *bytes_of_area);
extern AdaptiveTable *adaptive_shared_attach(AdaptiveShared *shared, int nkeys, dsa_area *area);

#endif
