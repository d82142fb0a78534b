/*
 * Unchanged pages of the pager in frames of memory, until the policy adopts or the clock drops
 * them.
 *
 *   fresh ──> pooled ──> adopted     p3l_pool_adopted: leaves the pool with its frame
 *              │   ^ p3l_frame_put
 *              v   │
 *              empty                 dropped: by the clock (p3l_frames_find), or because a commit
 *                                    changed the page (p3l_pool_drop)
 *
 * Invariants:
 *   1. At most `capacity` frames are pooled or empty; fresh ones cost no memory.
 *   2. In a large store that is open for reading, a page that is in the page cache is used there,
 *      without a frame (mapping.h): it is pooled, and stays. No thread writes to it.
 *   3. A page is read with its neighbours, the aligned cluster of 1, 2, 4 .. 16 around it that is
 *      not yet in memory, while that saves time: the cost of a neighbour against how often one is
 *      used, both measured while the program runs. During a wait for a disk, the kernel gets hints
 *      for the pages needed next (soon.h).
 *
 * Called with the store's slow-path lock held. Private to runtime/; struct p3l_pool is private to
 * pool*.c.
 */
#ifndef P3L_POOL_FRAMES_H
#define P3L_POOL_FRAMES_H

#include "page_state.h"
#include "segment.h"
#include "soon.h"

/* How many pages to read at a time; pool.c. */
typedef struct p3l_cluster {
  uint32_t pages;   /* 1, 2, 4 .. P3L_LONGEST_CLUSTER */
  uint32_t brought; /* neighbours read recently */
  uint32_t used;    /* those that were asked for */
  uint32_t reads;   /* recent requests */
  uint32_t
      adjacent; /* those next to a cluster that was read before: a longer one would include them */
  uint64_t nanoseconds; /* recent duration of a request */
} p3l_cluster;

#define P3L_LONGEST_CLUSTER 16u

typedef struct p3l_pool {
  p3l_segment *filling; /* has fresh frames; NULL: no segment has */
  p3l_segment **segments;
  size_t count, room;
  size_t hand_segment; /* position of the clock's hand */
  uint32_t hand_frame;
  uint64_t loose;    /* number of frames that are pooled or empty */
  uint64_t capacity; /* limit of `loose` */
  uint32_t regions;  /* in a small store: regions that the kernel was asked to fetch */
  p3l_cluster cluster;
  p3l_soon soon;
} p3l_pool;

p3l_code p3l_pool_open(p3l_store *store, p3l_error *error);
/* The segments are released with the store's other segments. */
void p3l_pool_close(p3l_store *store);

/* Records that an object of a page in the pool was requested. */
void p3l_pool_asked(p3l_store *store, p3l_page_state *state);
/* Records that the pieces of an adopted frame have changed. */
void p3l_frame_refreshed(p3l_page_state *state);
/* Ensures that the page is in a frame of the pool, which can be adopted; copies it if it was
 * only in the page cache. False: no memory. */
bool p3l_pool_own(p3l_store *store, p3l_page_state *state);
/* Removes the page's frame from the pool. */
void p3l_pool_adopted(p3l_store *store, p3l_page_state *state);
/* Removes the page from its pooled or adopted frame, which is empty afterwards. */
void p3l_pool_drop(p3l_store *store, p3l_page_state *state);
/* The segment's frames are no longer the pool's. */
void p3l_pool_forget(p3l_store *store, p3l_segment *segment);
/* True if the segment has frames of the pool and no adopted one: nothing to evict there. */
bool p3l_pool_owns(const p3l_store *store, const p3l_segment *segment);
/* Number of pages that the pool can hold. */
size_t p3l_pool_frames(const p3l_store *store);

typedef struct p3l_frame_run {
  p3l_segment *segment;
  uint32_t first, count;
} p3l_frame_run;

/* Finds empty frames, at most `count`. */
p3l_code p3l_frames_find(p3l_store *store, uint32_t count, p3l_frame_run *run, p3l_error *error);
/* The address of frame `index` of a run. */
static inline p3l_object_page *p3l_frame_page(p3l_frame_run run, uint32_t index) {
  return (p3l_object_page *)(run.segment->memory + (uint64_t)(run.first + index) * P3L_PAGE_SIZE);
}
/* Puts a page of objects into a frame of a run; `brought`: read as a neighbour. */
void p3l_frame_put(p3l_frame_run run, uint32_t index, p3l_page_number number, p3l_page_state *state,
                   bool brought);
/* The same for a page without a frame, which is never written. */
void p3l_state_pooled(p3l_page_state *state, p3l_object_page *page, bool brought);

#endif
