/*
 * BatchScan, execution: the state of the node.
 */
#ifndef CCOPT_BATCH_SCAN_STATE_H
#define CCOPT_BATCH_SCAN_STATE_H

#include "batch_scan.h"
#include "batch_scan_rows.h"
#include "cached_scan.h"
#include "page_reader.h"
#include "qual.h"
#include "stats.h"
#include "walk.h"

typedef struct Visitor {
  BatchVisitor visit;
  BatchVisitorExplain explain;
  BatchVisitorRestart restart; /* may be NULL */
  void *state;
  struct Visitor *next;
} Visitor;

typedef struct BatchScanState {
  CustomScanState css;
  BatchSource source;
  Batch batch;
  Walk *walk;
  PageReader reader;
  CachedScan *cached;         /* NULL: the column cache is not used */
  Bitmapset *numbers_suffice; /* columns of which the parent needs numbers only */
  bool opened; /* the relation's scan has begun, which happens when the first row is asked for */
  bool begun;  /* the constants of predicates are evaluated */
  bool done;
  bool from_cache; /* the rows of the batch */

  VectorQual *qual; /* NULL: none */
  int qual_attno;   /* the last attribute that predicates use */
  int last_attno;
  Visitor *visitors, **last_visitor, *newest_visitor;
  int visited_attno; /* the last attribute that visitors asked for */

  /* returning rows */
  Batch *current;
  int next; /* index in current->selected */
  /* the target list is plain columns and there are no row quals: rows go straight to the result
   * slot */
  bool plain;
  int nresult;
  int *result_columns; /* the batch's column of each target entry */
  RowWriter writer;    /* writes to the result slot if `plain`, else to the scan slot */

  /*
   * Counts of this process, for ccopt_stats and EXPLAIN. What EXPLAIN shows for all processes is in
   * the node's Instrumentation, which core sums over workers: nfiltered2 has the rows that
   * predicates removed, ntuples2 the batches.
   */
  NodeCounts counts;
  uint64 visitor_filtered; /* rows that visitors removed */
} BatchScanState;

/* batch_scan_explain.c */
extern void batch_scan_explain(CustomScanState *node, List *ancestors, ExplainState *es);

#endif
