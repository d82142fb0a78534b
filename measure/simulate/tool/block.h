/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * One block of the program and what it accesses: found by accesses.c, instrumented by
 * instrument.c.
 */
#ifndef HM_BLOCK_H
#define HM_BLOCK_H

#include "tool.h"

#define MAX_ACCESSES 256

/* Condition for reporting accesses. Its value is kept and compared at each of them: as a single
 * bit it would take more code to keep and test. */
struct guard {
  enum { ALWAYS, NEVER, UNLESS_EQUAL, UNLESS_BELOW, IF_BELOW } when;
  IRExpr *value;
  ULong limit;
};

/* One access found in the block. */
struct access {
  Int statement;   /* the statement before which it is reported */
  IRExpr *address; /* address = base + offset; IRTemp_INVALID: constant */
  IRTemp base;     /* condition of a conditional access, or NULL */
  Long offset;
  Int size;
  enum hm_kind kind;
  Bool locked;
  Bool updates;  /* a load: the block stores this word later, and has no way out between the two */
  IRExpr *guard; /* the latest load that the address was computed from, or -1 */
  Addr ip;
  Int source;               /* instructions of the block that were in the counters before it */
  ULong flushed;            /* number of the first access of its group */
  Int group;                /* number of the first access of its group */
  struct guard group_guard; /* of that first one */
};

struct block {
  IRSB *in, *out;
  IRTemp *base; /* for each temporary: base + offset, if known */
  Long *offset;
  Int *source; /* for each temporary: the block's latest load that it depends on, or -1 */
  struct access access[MAX_ACCESSES];
  Int accesses;
  Int latest_exit; /* the statement, or -1 */
  /* Counts not yet added to the counters. */
  ULong instructions, loads, stores;
  ULong flushed;   /* number of instructions added so far */
  Bool counts_fit; /* they fit into the fields of the packed counter */
  /* A line of code not yet reported: its address, or 0, and the instruction that needs it. */
  Addr due_line, due_ip;
};

/* All loads and stores of the block, in order. */
void hm_find_accesses(struct block *block);
/* Finds the accesses that share a guard. */
void hm_form_groups(struct block *block);

#endif
