/*
 * Lookup in memory without reading pages. Called with the store's slow-path lock held. Private to
 * runtime/.
 */
#ifndef P3L_RESIDENCY_KNOWN_H
#define P3L_RESIDENCY_KNOWN_H

#include "page_state.h"

/* True if p3l_resolve() would read no page: the object is resident, or its page is in memory. */
bool p3l_residency_has(p3l_store *store, p3l_address address);

/* If byte `offset` of the page lies in a copied object, its address in the copy; otherwise NULL.
 * *upgraded: the object is longer in memory than in the page, and only the page shows whether
 * the byte belongs to another object. */
uint8_t *p3l_copied_around(const p3l_page_state *state, uint32_t offset, bool *upgraded);
/* The same, but NULL also where only the page could decide. */
uint8_t *p3l_copied_surely(const p3l_page_state *state, uint32_t offset);

#endif
