/*
 * Pages as the pager has them, in frames of memory, until the policy adopts or the clock drops
 * them.
 *
 *   fresh ──> pooled ──> adopted     leaves the pool, its frame goes with it
 *              │   ^
 *              v   │
 *              empty                 dropped: by the clock, or for a commit changed the page
 *
 * Invariants:
 *   1. Frames that are pooled or empty are at most `capacity`; fresh ones cost no memory.
 *   2. Of a large store that is open for reading, a page which the page cache has is used there, in no
 *      frame at all (mapping.h): it is pooled, and stays. Nobody writes to it.
 *   3. A page is read with its neighbours, the aligned cluster of 1, 2, 4 .. 16 around it that is
 *      not yet in memory, as long as that pays: what a neighbour costs against how often one is
 *      used, both measured as the program runs. While a disk is waited for, the kernel is told what
 *      will be wanted next (soon.h).
 *
 * Called with the store's slow-path lock held. Private to runtime/.
 */
#ifndef P3L_POOL_H
#define P3L_POOL_H

#include "pager.h"
#include "residency.h"

typedef struct p3l_pool p3l_pool;

p3l_code p3l_pool_open(p3l_store *store, p3l_error *error);
/* The segments are released with all others of the store. */
void p3l_pool_close(p3l_store *store);

/* Reads a page of which nothing is in memory. Afterwards the state is known, and has a frame if the
 * page is one with objects. P3L_DANGLING: there is no page of objects of that number. */
p3l_code p3l_pool_read(p3l_store *store, p3l_page_number number, p3l_page_state *state,
                       p3l_error *error);
/* Takes over a page that somebody else read. */
p3l_code p3l_pool_put(p3l_store *store, p3l_page_number number, p3l_page_state *state,
                      const p3l_page *page, p3l_error *error);
/* Somebody came for an object of a page in the pool. */
void p3l_pool_asked(p3l_store *store, p3l_page_state *state);
/* The page is in a frame of ours, which can be adopted; copied there if it was in the page cache alone.
 * False: no memory. */
bool p3l_pool_own(p3l_store *store, p3l_page_state *state);
/* The page's frame is no longer the pool's. */
void p3l_pool_adopted(p3l_store *store, p3l_page_state *state);
/* The page of a pooled or adopted frame is forgotten; the frame is empty. */
void p3l_pool_drop(p3l_store *store, p3l_page_state *state);
/* The segment's frames are no longer the pool's. */
void p3l_pool_forget(p3l_store *store, p3l_segment *segment);
/* Whether the segment has frames of the pool and no adopted one: nothing to evict there. */
bool p3l_pool_owns(const p3l_store *store, const p3l_segment *segment);
/* How many pages it can hold at a time. */
size_t p3l_pool_frames(const p3l_store *store);
/* Pages of the store, as of the last read. */
uint64_t p3l_pool_store_pages(const p3l_store *store);

#endif
