/*
 * Addresses of the copies of a page's objects, in the order of the bits in `copied`. Private to
 * runtime/.
 *
 * Invariant: `copies` has an address for each bit of `copied`, in their order, and room for
 * copy_capacity of them, or for P3L_FEW_COPIES in the state itself.
 */
#ifndef P3L_PAGE_COPIES_H
#define P3L_PAGE_COPIES_H

#include "bits.h"
#include "page_state.h"

/* Makes room for one more copy; the next p3l_copies_put() of this state cannot fail. */
bool p3l_copies_reserve(p3l_store *store, p3l_page_state *state);
/* The same for as many copies as a page can have. */
bool p3l_copies_reserve_all(p3l_store *store, p3l_page_state *state);
void p3l_copies_put(p3l_page_state *state, uint32_t granule, void *memory);
void p3l_copies_take(p3l_store *store, p3l_page_state *state, uint32_t granule);
static inline void *p3l_copy_at(const p3l_page_state *state, uint32_t granule) {
  return state->copies[p3l_bits_before(state->copied, granule)];
}

#endif
