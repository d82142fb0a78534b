/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * One block of the program and what it accesses: found by accesses.c, instrumented by
 * instrument.c.
 */
#ifndef HM_BLOCK_H
#define HM_BLOCK_H

#include "tool.h"

#define MAX_ACCESSES 256

/* When accesses have to be reported.  Their value is kept and compared at each of them: as
 * one bit it would take more code to keep and to test. */
struct guard {
  enum { ALWAYS, NEVER, UNLESS_EQUAL, UNLESS_BELOW, IF_BELOW } when;
  IRExpr *value;
  ULong limit;
};

/* One access found in the block. */
struct access {
  Int statement;   /* before which it is reported */
  IRExpr *address; /* an atom */
  IRTemp base;     /* address = base + offset; IRTemp_INVALID: constant */
  Long offset;
  Int size;
  enum hm_kind kind;
  Bool locked;
  IRExpr *guard; /* of a conditional access, or NULL */
  Addr ip;
  Int source;               /* the latest load that the address was computed from, or -1 */
  ULong flushed;            /* instructions of the block that were in the counters before it */
  Int group;                /* number of the first access of its group */
  struct guard group_guard; /* of that first one */
};

struct block {
  IRSB *in, *out;
  IRTemp *base; /* of each temporary: base + offset, as far as known */
  Long *offset;
  Int *source; /* of each temporary: the latest load of the block that went into it, or -1 */
  struct access access[MAX_ACCESSES];
  Int accesses;
  /* Counts not yet added to the counters. */
  ULong instructions, loads, stores;
  ULong flushed;   /* instructions added so far */
  Bool counts_fit; /* into the fields of the packed counter */
  /* A line of code not yet reported: its address, or 0, and the instruction that needs it. */
  Addr due_line, due_ip;
};

/* Everything in memory that the block loads and stores, in order. */
void hm_find_accesses(struct block *block);
/* Which of them share a guard. */
void hm_form_groups(struct block *block);

#endif
