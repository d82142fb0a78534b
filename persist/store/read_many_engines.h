/*
 * The ways to carry out requests of p3l_pager_read_many(): io_uring (read_many_ring.c) and threads
 * (read_many_threads.c). read_many.h has the invariants. Internal to the pager.
 *
 *   slot: at rest ── ..._start ──> under way ── ..._finish ──> at rest, `failed` says how it went
 */
#ifndef P3L_READ_MANY_ENGINES_H
#define P3L_READ_MANY_ENGINES_H

#include "device.h"
#include "page.h"

#define P3L_READ_DEPTH 64u       /* requests in progress */
#define P3L_READ_MERGED 16u      /* maximum number of pages of one request */
#define P3L_READ_PAGES 128u      /* pages in progress, not counting the last request */
#define P3L_READ_MANY_THREADS 16 /* kept until the pager is closed, once started */

/* A request. Its slot has space for P3L_READ_MERGED pages. */
typedef struct p3l_read_slot {
  p3l_file_offset at;
  size_t length; /* bytes */
  p3l_page *pages;
  int failed; /* after the end: 0 or an errno value, as from p3l_device.read */
  struct p3l_read_slot *next;
} p3l_read_slot;

typedef struct p3l_ring p3l_ring;
/* Opens a ring. NULL: the kernel refuses, or does not support io_uring. */
p3l_ring *p3l_ring_open(void);
void p3l_ring_close(p3l_ring *ring);
/* Starts a request. There is always space: at most P3L_READ_DEPTH are in progress. */
void p3l_ring_start(p3l_ring *ring, int descriptor, p3l_read_slot *slot);
/* Waits for any one request; at least one must be under way. */
p3l_read_slot *p3l_ring_finish(p3l_ring *ring);

typedef struct p3l_crew p3l_crew;
/* NULL: no memory. At most `threads` threads are started when needed; 0: the caller reads. */
p3l_crew *p3l_crew_open(int threads);
void p3l_crew_close(p3l_crew *crew);
void p3l_crew_start(p3l_crew *crew, p3l_device *device, p3l_read_slot *slot);
p3l_read_slot *p3l_crew_finish(p3l_crew *crew);

#endif
