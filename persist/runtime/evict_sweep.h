/*
 * Sweeps: how objects are evicted when memory is short, although pointers to them are plain
 * addresses. Private to runtime/.
 *
 *   oldest                                                youngest
 *   +--------+--------+--------+--------+--------+--------+--------+
 *   | victim | victim | pinned | victim | arena  | frames | arena  |     about half of what is held goes
 *   +--------+--------+--------+--------+--------+--------+--------+
 *       ^        ^        |        ^        |                 |
 *       +--------+--------+--------+--------+-----------------+       every slot of what stays that
 *                                                                     leads to a victim becomes a
 *                                                                     surrogate again: one linear pass
 *
 * As with a copying collector, the cost of a sweep depends on what stays, not on what is evicted,
 * so sweeps are rare and each evicts much. Objects that are used again are read again, into the
 * youngest arena: hot objects gather there. A hot object in an old segment has to be read once more
 * after a sweep: plain pointers do not record when they are used.
 *
 * Invariants:
 *  1. A sweep happens only while no thread is within the store (`scopes` is held exclusively) and
 *     no transaction is under way. Threads therefore hold addresses of pinned objects only, the
 *     bytes of every object equal the pager's except in healed slots, and no card is marked.
 *  2. Addresses of resident objects are in exactly these places: slots of resident objects (some
 *     lead into the middle of an object), page states, the table of segments. A sweep converts the
 *     slots and removes the other entries (p3l_residency_forget).
 *  3. Segments with pinned objects stay whole. Their slots are swept like all others.
 *  4. A slot that leads to a place in a victim where no object ever was has no surrogate; that
 *     segment then stays. Commits refuse such slots, so only programs that broke p3l.h's first
 *     promise without committing have them, and a sweep must not cause a second error.
 *  5. Memory is a soft limit: a scope or transaction that needs more goes over it, until it ends.
 */
#ifndef P3L_EVICT_SWEEP_H
#define P3L_EVICT_SWEEP_H

#include "store.h"

/* The result of a sweep. */
typedef struct p3l_swept {
  uint64_t objects;  /* evicted */
  uint64_t segments; /* released */
  uint64_t slots;    /* turned into surrogates */
} p3l_swept;

/* Sweeps until `bytes` or less are held, as far as pins allow. The caller holds `scopes` exclusively
 * and `slow`. P3L_NO_MEMORY: nothing has changed. */
p3l_code p3l_sweep(p3l_store *store, uint64_t bytes, p3l_swept *swept, p3l_error *error);

#endif
