/*
 * From rows to columns: where each row's attributes lie, found column by column.
 *
 * A heap tuple has to be walked, since the place of an attribute depends on the lengths of those
 * before it. The walk is done for all rows one attribute at a time (the rows' loads are independent
 * of each other, so the processor overlaps them) and in stages: first as far as predicates need,
 * later on for the rows that are left.
 */
#ifndef CCOPT_WALK_H
#define CCOPT_WALK_H

#include "batch.h"

#include "access/htup_details.h"

typedef struct WalkAttribute {
  int16 length;        /* attlen */
  uint8 alignment;     /* in bytes */
  int column;          /* the batch's column that wants it, or -1 */
  int32 offset;        /* from the start of the row's data if that is the same in all rows, or -1 */
  const char *missing; /* the value of rows older than the attribute; NULL: SQL NULL */
} WalkAttribute;

typedef struct Walk {
  int nattributes; /* up to the last that is wanted */
  WalkAttribute *attributes;
  int next;       /* the attribute that the cursors stand before */
  bool irregular; /* some row has NULLs or fewer attributes: every row's attributes are looked at */
  HeapTupleHeader headers[BATCH_ROWS];
  const char *cursors[BATCH_ROWS]; /* end of the attribute before `next` */
} Walk;

/* Makes a walk over rows of `descriptor` for the columns of `batch`, whose slot_attno says which
 * attributes they are. */
extern Walk *walk_create(TupleDesc descriptor, const Batch *batch);
/* walk->headers has been filled: a batch of nrows rows begins, all selected. */
extern void walk_begin(Walk *walk, Batch *batch, int nrows);
/* Finds columns of attributes up to `attno` (one-based) for the selected rows. */
extern void walk_to(Walk *walk, Batch *batch, int attno);

#endif
