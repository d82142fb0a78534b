/*
 * From rows to columns: finds the attributes of all rows, column by column.
 *
 * A heap tuple has to be walked, since the place of an attribute depends on the lengths of those
 * before it. The walk is done for all rows one attribute at a time (the rows' loads are independent
 * of each other, so the processor overlaps them) and in stages: first the attributes that
 * predicates need, later the others for the remaining rows.
 */
#ifndef CCOPT_WALK_H
#define CCOPT_WALK_H

#include "batch.h"

#include "access/htup_details.h"

typedef struct WalkAttribute {
  int16 length;        /* attlen */
  uint8 alignment;     /* in bytes */
  int column;          /* the batch's column for it, or -1 */
  const char *missing; /* the value in rows older than the attribute; NULL: SQL NULL */
} WalkAttribute;

/* A step finds at most this many adjacent attributes, in one loop over the rows. */
#define WALK_STEP_ATTRIBUTES 4
typedef enum WalkStepKind {
  STEP_CONSTANT, /* one attribute, at the same place in all rows */
  STEP_FIXED,    /* of fixed length, at a fixed distance from the aligned end of those before */
  STEP_VARLENA,
  STEP_CSTRING
} WalkStepKind;
typedef struct WalkStep {
  WalkStepKind kind;
  int last;  /* its last attribute, one-based */
  int start; /* added to the cursor first */
  int n;     /* STEP_FIXED: number of needed ones; STEP_VARLENA: of all; else 1 */
  const char **where[WALK_STEP_ATTRIBUTES];
  int offset[WALK_STEP_ATTRIBUTES]; /* STEP_FIXED: offsets from the aligned start */
  uint8 alignment[WALK_STEP_ATTRIBUTES];
  int length; /* STEP_FIXED: total length */
} WalkStep;

typedef struct Walk {
  int nattributes; /* number of attributes up to the last needed one */
  WalkAttribute *attributes;
  int nsteps;
  WalkStep *steps;
  int next_step;
  /*
   * No row of the batch has a NULL or ends before this attribute; from it on each row is checked.
   */
  int irregular_from;
  int fewest_attributes; /* of a row of the batch, at most nattributes */
  int next_attribute;    /* next of these; -1 while steps are used */
  uint16 all_rows[BATCH_ROWS];
  HeapTupleHeader headers[BATCH_ROWS];
  const char *cursors[BATCH_ROWS];  /* end of the walked attributes; at first, the row's data */
  const char *unwanted[BATCH_ROWS]; /* target for places that are not needed: saves a branch */
} Walk;

/*
 * Creates a walk over rows of `descriptor` for the columns of `batch`, whose slot_attno are the
 * attributes. Few rows are expected to be walked beyond attribute `stop` (0: none).
 */
extern Walk *walk_create(TupleDesc descriptor, const Batch *batch, int stop);
/* To be called after walk->headers was filled: begins a batch of nrows rows, all selected. */
extern void walk_begin(Walk *walk, Batch *batch, int nrows);
/* Finds columns of attributes up to `attno` (one-based) for the selected rows. */
extern void walk_to(Walk *walk, Batch *batch, int attno);

#endif
