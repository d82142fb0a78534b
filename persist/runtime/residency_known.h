/*
 * What is in memory, without a look at pages. Called with the store's slow-path lock held. Private to
 * runtime/.
 */
#ifndef P3L_RESIDENCY_KNOWN_H
#define P3L_RESIDENCY_KNOWN_H

#include "page_state.h"

/* Whether p3l_resolve() would read no page: the object is resident, or its page in memory. */
bool p3l_residency_has(p3l_store *store, p3l_address address);

/* Byte `offset` of the page lies in an object that was copied: where? NULL: in none. *upgraded: it is
 * longer in memory than in the page, and only the page says whether the byte is another object's. */
uint8_t *p3l_copied_around(const p3l_page_state *state, uint32_t offset, bool *upgraded);
/* The same, NULL also where only the page could say. */
uint8_t *p3l_copied_surely(const p3l_page_state *state, uint32_t offset);

#endif
