/*
 * Which of the store's objects are in memory, and where: the way from a surrogate to an address.
 *
 *   surrogate ──> page state ──> copied? ─ yes ──> arena
 *                    │ no
 *                    ├─ adopted frame? ─ yes ───> in place
 *                    │ no
 *                    └─ page in the pool? ─ no ──> read it, and its neighbours while that pays
 *                           │ yes                  (clusters of 1, 2, 4 .. 16 pages)
 *                           └──> the page's use so far decides: copy this object into the arena, or
 *                                adopt the frame for all that are yet to come
 *
 * Invariants:
 *  1. An object is resident at most once: in an arena (its granule's bit in `copied` is set) or in
 *     its page's adopted frame. Objects that were copied before the page was adopted stay where they
 *     are, and their bytes in the frame are dead.
 *  2. A frame of the pool is as the pager has it; nobody has an address in it. So it may be dropped at
 *     any time, and is when a commit changes its page.
 *  3. In an adopted frame and in arenas, the bytes are the truth for everything but what
 *     p3l_commit() has not yet written to the pager; slots may be healed.
 *  4. `starts` is a copy of the page's, so that interior pointers are resolved when the page is no
 *     longer in the pool.
 */
#ifndef P3L_RESIDENCY_H
#define P3L_RESIDENCY_H

#include "segment.h"

typedef struct p3l_page_state {
  bool known;             /* starts, use are valid */
  uint8_t use;            /* p3l_page_use */
  uint16_t pieces;        /* objects, when it was read */
  uint16_t discovered;    /* of them resident, here or there */
  uint16_t copy_capacity; /* of `copies` */
  uint64_t starts[4];
  uint64_t copied[4]; /* by granule of the page */
  uint32_t *copies;   /* [rank in copied]: granule of the memory range, see p3l_memory_granule() */
  p3l_object_page *frame; /* adopted, or in the pool; NULL: neither */
  bool adopted;
  uint8_t *large; /* P3L_USE_LARGE: of the object's first byte, in the state of its first page */
} p3l_page_state;

/* All page states of a store. A state never moves. */
typedef struct p3l_page_states p3l_page_states;
/* NULL: no memory. Made when first asked for. */
p3l_page_state *p3l_page_state_of(p3l_store *store, p3l_page_number number);
/* The same, NULL if nothing is known of the page. */
p3l_page_state *p3l_page_state_known(p3l_store *store, p3l_page_number number);

/*
 * Makes the object that `address` lies in resident; *memory is where that byte is. Follows
 * forwards. The caller holds the store's slow-path lock. P3L_DANGLING, P3L_CORRUPT, P3L_IO, ...
 */
p3l_code p3l_resolve(p3l_store *store, p3l_address address, void **memory, p3l_error *error);

/* The same for a page that the caller has already read: puts it into the pool, so that p3l_resolve()
 * finds it there. For prefetching. */
p3l_code p3l_residency_offer(p3l_store *store, p3l_page_number number, const p3l_page *page,
                             p3l_error *error);

/* The transaction made an object: it is resident in an arena from now on. */
p3l_code p3l_residency_add(p3l_store *store, p3l_address address, p3l_type_id type, uint64_t bytes,
                           uint32_t flags, void **memory, p3l_error *error);
/* A committed or aborted transaction changed what pieces the page has: takes over its starts, and
 * its head in an adopted frame; drops it from the pool. */
p3l_code p3l_residency_refresh(p3l_store *store, p3l_page_number number, const p3l_page *page,
                               p3l_error *error);
/* The object is gone: deleted and committed, or made and aborted. */
void p3l_residency_remove(p3l_store *store, p3l_address address);

#endif
