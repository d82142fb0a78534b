/*
 * Reads many pages at a time: p3l_pager_read_many() of pager.h and its parts. Internal to the
 * pager.
 *
 *   numbers ──> newer than the file? ─ yes ──> the pager's images ───────────────┐
 *                  │ no                                                          v
 *                  └──> sorted, neighbours merged ──> a queue of 64 ──> check ──> visit
 *                       into requests of 1..16 pages    io_uring, threads,
 *                                                       or one after the other
 *
 * Invariants:
 *  1. Only p3l_pager_read() reports a failed request (an error, too few bytes, a page that fails
 *     its check): it is called again for the page, because it handles running checkpoints, and
 *     reports file, page and cause.
 *  2. When a call returns, none of its requests is in progress, so that no buffer is freed while
 *     the kernel or a thread uses it.
 */
#ifndef P3L_READ_MANY_H
#define P3L_READ_MANY_H

#include "device.h"
#include "pager.h"
#include "read_many_engines.h"

/* The ways to carry out requests. */
typedef enum p3l_read_engine {
  P3L_READ_BEST,    /* a ring for files if the kernel supports it, otherwise threads; plain for
                       test devices */
  P3L_READ_RING,    /* io_uring; threads if it is refused, as in containers */
  P3L_READ_THREADS, /* p3l_device.read by up to P3L_READ_MANY_THREADS threads */
  P3L_READ_PLAIN    /* p3l_device.read by the caller */
} p3l_read_engine;

/* What one call did. */
typedef struct p3l_read_counts {
  uint64_t requests;    /* requests to the file */
  p3l_read_engine used; /* never P3L_READ_BEST */
} p3l_read_counts;

/* p3l_pager_read_many() with a chosen engine, for tests and statistics. `counts` may be NULL. */
p3l_code p3l_read_many_by(p3l_read_engine engine, p3l_pager *pager, const p3l_page_number *numbers,
                          size_t count, p3l_page_visitor visit, void *state,
                          p3l_read_counts *counts, p3l_error *error);

/* Called by pager_free() while the devices are open: ends the threads, frees the rings. */
void p3l_read_many_end(p3l_pager *pager);

#endif
