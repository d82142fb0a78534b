/*
 * What the files of BatchAgg's execution share.
 */
#ifndef CCOPT_BATCH_AGG_STATE_H
#define CCOPT_BATCH_AGG_STATE_H

#include "batch_agg.h"
#include "group_table.h"
#include "stats.h"
#include "transitions.h"

/* One way of grouping the rows: GROUP BY is one of all keys, each of GROUPING SETS is one. */
typedef struct AggSet {
  int nkeys;
  int *cells; /* [nkeys]: where the keys are among those of the node */
  GroupKey *keys;
  GroupTable *table;
  Transitions *transitions;
  AggSpill *spill;      /* NULL until memory is short */
  const int *functions; /* the values of GROUPING() */
} AggSet;

typedef struct BatchAggState {
  CustomScanState css;
  BatchSource *source;
  Bitmapset *columns; /* of the input, those that are used */
  int nkeys;
  int ncells; /* keys and carried columns */
  int naggregates;
  int nfunctions;   /* GROUPING() */
  List *aggregates; /* Aggref; Vars by slot_attno */
  int nsets;
  AggSet *sets;
  GroupRecord **groups;     /* [BATCH_ROWS], of the batch at hand */
  TupleTableSlot *row;      /* for rows that go through core */
  ExprContext *row_context; /* and what is evaluated for them */
  MemoryContext context;    /* of the query */
  HavingFilter *having;     /* NULL: none */
  TopN *top;                /* NULL: no sort above keeps only the first */
  int top_aggregate;        /* its key */

  bool began;     /* constants are evaluated */
  bool built;     /* the groups in memory are complete */
  int emitting;   /* the set whose groups are handed out */
  uint64 emitted; /* of those of its table */
  bool top_on;    /* the sort has a bound */
  bool noted;     /* it knows the keys of the groups in the table */

  /* for EXPLAIN */
  NodeCounts counts;
  uint64 ngroups;
  uint64 passes;
  uint64 put_off; /* rows, each time they were */
  Size memory;    /* at most */
} BatchAggState;

/* BeginCustomScan, and ExplainCustomScan. */
extern void batch_agg_begin(CustomScanState *css, EState *estate, int eflags);
extern void batch_agg_explain(CustomScanState *css, List *ancestors, ExplainState *es);

#endif
