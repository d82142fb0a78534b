/*
 * Words of unions that are pointers no more in a reader's next version. Private to refresh.c.
 *
 * The store's bytes of such a word may be those that the pointer had: then no unit of them changed,
 * and the reader's memory has the address that the pointer was swizzled to. Its stored bytes must
 * come back, as the word is not a slot.
 */
#ifndef P3L_REFRESH_ARMS_H
#define P3L_REFRESH_ARMS_H

#include "segment.h"

/*
 * The units of an object page to take over when `units` changed: of objects with unions all or none. Slots in
 * them become surrogates.
 */
uint64_t p3l_arms_units(const p3l_store *store, const p3l_page *page, uint64_t units);

/*
 * Takes over the words that the bits on `page`, a page of a large object, say are pointers no more; before the
 * bits are taken over.
 */
p3l_code p3l_arms_refresh_large(p3l_store *store, const p3l_place *place, const p3l_page *page,
                                p3l_error *error);

#endif
