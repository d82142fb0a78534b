/*
 * The number of buffers that a node may pin at a time.
 *
 * Invariants:
 * 1. Each holder may always have one pin, like each of core's scans.
 * 2. All other pins of all holders of this backend stay below a quarter of the local buffers, or
 *    half of this backend's share of the shared ones: statements nest, cursors stay open, and core
 *    needs buffers for its own pins.
 * 3. A holder is counted until the memory context in which it was counted is reset, even if the
 *    statement fails.
 */
#ifndef CCOPT_PIN_BUDGET_H
#define CCOPT_PIN_BUDGET_H

#include "postgres.h"

#include "utils/palloc.h"
#include "utils/rel.h"

typedef struct PinHolder {
  bool local; /* pins buffers of temporary tables */
  MemoryContextCallback end;
} PinHolder;

/* Counts a holder that lives as long as the current memory context. */
extern void pin_budget_join(PinHolder *holder, bool local);

/* The number of pins that it may hold now: at least 1, at most `most`. */
extern int pin_budget_limit(const PinHolder *holder, int most);

#endif
