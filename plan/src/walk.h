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
  const char *missing; /* the value of rows older than the attribute; NULL: SQL NULL */
} WalkAttribute;

/* Some adjacent attributes, found in one loop over the rows. */
#define WALK_STEP_ATTRIBUTES 4
typedef enum WalkStepKind {
  STEP_CONSTANT, /* one, at the same place in all rows */
  STEP_FIXED,    /* of fixed length, at the same distance from the aligned end of what is before */
  STEP_VARLENA,
  STEP_CSTRING
} WalkStepKind;
typedef struct WalkStep {
  WalkStepKind kind;
  int last;  /* its last attribute, one-based */
  int start; /* to be added to the cursor first */
  int n;     /* STEP_FIXED: that are wanted; STEP_VARLENA: all; else 1 */
  const char **where[WALK_STEP_ATTRIBUTES];
  int offset[WALK_STEP_ATTRIBUTES]; /* STEP_FIXED: from the aligned start */
  uint8 alignment[WALK_STEP_ATTRIBUTES];
  int length; /* STEP_FIXED: all of it */
} WalkStep;

typedef struct Walk {
  int nattributes; /* up to the last that is wanted */
  WalkAttribute *attributes;
  int nsteps;
  WalkStep *steps;
  int next_step;
  /* No row of the batch has a NULL or ends before this attribute; from it on each is looked at. */
  int irregular_from;
  int next_attribute; /* of those; -1 while steps are taken */
  uint16 all_rows[BATCH_ROWS];
  HeapTupleHeader headers[BATCH_ROWS];
  const char *cursors[BATCH_ROWS];  /* end of what was walked over; before that, the row's data */
  const char *unwanted[BATCH_ROWS]; /* a sink for unrequested places: no branch for them */
} Walk;

/*
 * Makes a walk over rows of `descriptor` for the columns of `batch`, whose slot_attno says which
 * attributes they are. Few rows are expected to be walked on beyond attribute `stop` (0: none).
 */
extern Walk *walk_create(TupleDesc descriptor, const Batch *batch, int stop);
/* walk->headers has been filled: a batch of nrows rows begins, all selected. */
extern void walk_begin(Walk *walk, Batch *batch, int nrows);
/* Finds columns of attributes up to `attno` (one-based) for the selected rows. */
extern void walk_to(Walk *walk, Batch *batch, int attno);

#endif
