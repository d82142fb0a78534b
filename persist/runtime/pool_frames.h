/*
 * Frames of the pool, side by side where a cluster is to be read into them. Private to pool*.c.
 */
#ifndef P3L_POOL_FRAMES_H
#define P3L_POOL_FRAMES_H

#include "pool.h"
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

struct p3l_pool {
  p3l_segment *filling; /* has fresh frames; NULL: none has */
  p3l_segment **segments;
  size_t count, room;
  size_t hand_segment; /* the clock's hand */
  uint32_t hand_frame;
  uint64_t loose;       /* frames pooled or empty */
  uint64_t capacity;    /* of them */
  uint64_t store_pages; /* as of the last read */
  uint32_t regions;     /* of a small store: those that the kernel was asked to fetch */
  p3l_cluster cluster;
  p3l_soon soon;
};

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
/* The same for a page that lies in no frame: nobody writes to it. */
void p3l_state_pooled(p3l_page_state *state, p3l_object_page *page, bool brought);

#endif
