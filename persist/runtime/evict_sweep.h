/*
 * Sweeps: how objects go when memory is short, although pointers to them are plain addresses.
 * Private to runtime/.
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
 * As with a copying collector, what it costs depends on what stays, not on what goes: so it is done
 * seldom, and then much goes. Objects that are used again come again, and lie in the youngest arena
 * then: what is hot gathers there. What is hot and old has to be read once more after a sweep; that
 * is the price of plain pointers, which do not tell when they are used.
 *
 * Invariants:
 *  1. A sweep happens only while nobody is within the store (`scopes` is held exclusively) and no
 *     transaction is under way: so no thread has an address but of pinned objects, the bytes of
 *     every object are those of the pager, or slots that were healed, and no card is marked.
 *  2. Addresses of resident objects are in exactly these places: slots of resident objects (also
 *     such as lead into the middle of one), page states, the table of segments. A sweep passes over
 *     the first and has the others forgotten (p3l_residency_forget).
 *  3. Segments with pinned objects stay whole. Their slots are swept like all others.
 *  4. A slot that leads to a victim where no object ever was cannot be mended; then that segment is
 *     no victim. Commits refuse such slots, so this is for programs that broke p3l.h's first promise
 *     without committing, and must not turn their error into another.
 *  5. Memory is a soft limit: a scope or transaction that needs more goes over it, until it ends.
 */
#ifndef P3L_EVICT_SWEEP_H
#define P3L_EVICT_SWEEP_H

#include "store.h"

/* What a sweep did. */
typedef struct p3l_swept {
  uint64_t objects;  /* that went */
  uint64_t segments; /* likewise */
  uint64_t slots;    /* that became surrogates */
} p3l_swept;

/* Sweeps until `bytes` or less are held, as far as pins allow. The caller holds `scopes` exclusively
 * and `slow`. P3L_NO_MEMORY: nothing has changed. */
p3l_code p3l_sweep(p3l_store *store, uint64_t bytes, p3l_swept *swept, p3l_error *error);

#endif
