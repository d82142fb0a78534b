/*
 * Swizzling a whole page after many of its objects were requested. swizzle_page.c has the rules.
 * Private to runtime/.
 */
#ifndef P3L_SWIZZLE_PAGE_H
#define P3L_SWIZZLE_PAGE_H

#include "page_state.h"

/* `found` of a page that was swizzled whole, or that will not be. */
#define P3L_FOUND_ENOUGH UINT8_MAX
/* A slow path has led to an object of the adopted page again; called without the lock. */
void p3l_page_found(p3l_store *store, p3l_page_state *state);

#endif
