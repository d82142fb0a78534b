/*
 * When a store is swept: at a safe point, above its limit, without scopes. evict_sweep.h has the
 * invariants. Private to runtime/.
 */
#ifndef P3L_EVICT_H
#define P3L_EVICT_H

#include "p3l.h"

/* At a safe point: evicts if the store is above its limit. Takes the locks itself, and gives up
 * if any thread is within the store. */
void p3l_evict_if_needed(p3l_store *store);

#endif
