/*
 * Pages as the pager has them, in frames of memory, until the policy adopts or the clock drops
 * them.
 *
 *   fresh ──> pooled ──> adopted     p3l_pool_adopted: leaves the pool, its frame goes with it
 *              │   ^ p3l_frame_put
 *              v   │
 *              empty                 dropped: by the clock (p3l_frames_find), or for a commit changed
 *                                    the page (p3l_pool_drop)
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
 * Called with the store's slow-path lock held. Private to runtime/; struct p3l_pool to pool*.c.
 */
#ifndef P3L_POOL_FRAMES_H
#define P3L_POOL_FRAMES_H

#include "page_state.h"
#include "segment.h"
#include "soon.h"

/* How many pages to read at a time; pool.c. */
typedef struct p3l_cluster {
  uint32_t pages;   /* 1, 2, 4 .. P3L_LONGEST_CLUSTER */
  uint32_t brought; /* neighbours read of late */
  uint32_t used;    /* of them asked for */
  uint32_t reads;   /* requests of late */
  uint32_t
      adjacent; /* of them next to a cluster that was read before: a longer one would have had it */
  uint64_t nanoseconds; /* that a request takes, lately */
} p3l_cluster;

#define P3L_LONGEST_CLUSTER 16u

typedef struct p3l_pool {
  p3l_segment *filling; /* has fresh frames; NULL: none has */
  p3l_segment **segments;
  size_t count, room;
  size_t hand_segment; /* the clock's hand */
  uint32_t hand_frame;
  uint64_t loose;    /* frames pooled or empty */
  uint64_t capacity; /* of them */
  uint32_t regions;  /* of a small store: those that the kernel was asked to fetch */
  p3l_cluster cluster;
  p3l_soon soon;
} p3l_pool;

p3l_code p3l_pool_open(p3l_store *store, p3l_error *error);
/* The segments are released with all others of the store. */
void p3l_pool_close(p3l_store *store);

/* Somebody came for an object of a page in the pool. */
void p3l_pool_asked(p3l_store *store, p3l_page_state *state);
/* The page is in a frame of ours, which can be adopted; copied there if it was in the page cache alone.
 * False: no memory. */
/* An adopted frame has other pieces than before. */
void p3l_frame_refreshed(p3l_page_state *state);
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

typedef struct p3l_frame_run {
  p3l_segment *segment;
  uint32_t first, count;
} p3l_frame_run;

/* Empty frames, `count` of them or fewer. */
p3l_code p3l_frames_find(p3l_store *store, uint32_t count, p3l_frame_run *run, p3l_error *error);
/* Where the page of frame `index` of a run is. */
static inline p3l_object_page *p3l_frame_page(p3l_frame_run run, uint32_t index) {
  return (p3l_object_page *)(run.segment->memory + (uint64_t)(run.first + index) * P3L_PAGE_SIZE);
}
/* A frame of a run has a page of objects from now on; `brought`: as a neighbour. */
void p3l_frame_put(p3l_frame_run run, uint32_t index, p3l_page_number number, p3l_page_state *state,
                   bool brought);
/* As above, for a page that lies in no frame: it is not written. */
void p3l_state_pooled(p3l_page_state *state, p3l_object_page *page, bool brought);

#endif
