/*
 * Which of the store's objects are in memory, and where: from a surrogate to an address.
 *
 *   surrogate ──> page state ──> in place? ─ yes ──> frame + offset
 *                    │ no
 *                    ├─ copied? ─ yes ─────────────> arena
 *                    │ no
 *                    └─ page in the pool? ─ no ──> read it, with neighbours if worth it
 *                           │ yes                  (pool.h)
 *                           └──> the page's use so far decides: copy this object into the arena, or
 *                                adopt the frame for all later ones (residency_policy.c)
 *
 * Invariants:
 *   1. An object is resident at most once: in an arena (its granule's bit in `copied` is set) or in
 *      its page's adopted frame (its bit in `in_place`). Objects that were copied before the page
 *      was adopted stay in the arena; their bytes in the frame are dead, also after the copy is
 *      evicted: then the page is read once more.
 *   2. A frame of the pool equals the pager's page, and no address leads into it. It may therefore
 *      be dropped at any time, and is dropped when a commit changes its page.
 *   3. In adopted frames and arenas, the bytes are current, including changes that p3l_commit() has
 *      not yet written to the pager; slots may be healed.
 *   4. A pointer into the middle of a copied object is resolved by the arena's `starts`, one into
 *      an object in place by the frame's. A page state needs none, and works when its page is not
 *      in memory.
 *   5. Objects whose layout the program has changed are never in place; their pages are not
 *      adopted.
 *
 * Everything here is called with the store's slow-path lock held, unless it says otherwise.
 */
#ifndef P3L_RESIDENCY_H
#define P3L_RESIDENCY_H

#include "page_state.h"

/*
 * Makes the object that a surrogate leads to resident; *memory is the address of the byte it leads
 * to. Follows forwards. P3L_DANGLING: nothing is there, or an object of another generation;
 * P3L_CORRUPT, P3L_IO, ...
 */
p3l_code p3l_resolve(p3l_store *store, uint64_t surrogate, void **memory, p3l_error *error);

/* For prefetching: puts a page that the caller has already read into the pool, so that
 * p3l_resolve() finds it there. Does nothing if the page is there already. */
p3l_code p3l_residency_offer(p3l_store *store, p3l_page_number number, const p3l_page *page,
                             p3l_error *error);
#endif
