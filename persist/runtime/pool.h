/*
 * Reading pages into the pool, with their neighbours while that saves time. pool_frames.h has the
 * invariants. Called with the store's slow-path lock held. Private to runtime/.
 */
#ifndef P3L_POOL_H
#define P3L_POOL_H

#include "page_state.h"

/* Reads a page that is not in memory. Afterwards the state is known, and has a frame if the page
 * has objects. P3L_DANGLING: there are no objects in a page of that number. */
p3l_code p3l_pool_read(p3l_store *store, p3l_page_number number, p3l_page_state *state,
                       p3l_error *error);
/* Puts a page into the pool that another function read. */
p3l_code p3l_pool_put(p3l_store *store, p3l_page_number number, p3l_page_state *state,
                      const p3l_page *page, p3l_error *error);

#endif
