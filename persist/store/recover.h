/*
 * Repeats in memory the changes that the log records since the last checkpoint.
 *
 *   frame ──> the page has no committed image: it gets one, private until the commit ─┐
 *        └──> it has one: the change is kept aside until the commit ──────────────────┴─> commit: made
 *
 * Invariants:
 *  1. A committed image changes only when the commit frame was read, and then nothing can fail: each
 *     change was checked, and each page has its image.
 *  2. So the work for a page is that of the bytes that changed, not of the page: a reader that polls
 *     (p3l_pager_refresh()) copies no page that it has an image of.
 *
 * Internal to the pager.
 */
#ifndef P3L_RECOVER_H
#define P3L_RECOVER_H

#include "log.h"
#include "pager.h"

/* Pages that frames changed. */
typedef struct p3l_redone {
  p3l_news_page *pages; /* in the order of the frames; a page may occur several times */
  size_t count, capacity;
  uint64_t transactions;
} p3l_redone;
void p3l_redone_free(p3l_redone *redone);

/* Reads the log's frames from log.end on, and converts their commits to images. */
p3l_code p3l_recover_frames(p3l_pager *pager, p3l_log_reading reading, p3l_redone *redone,
                            p3l_log_tail *tail, p3l_error *error);
/* Checks page 0 and the pages named by the log after it was read completely. Sets page_count. */
p3l_code p3l_recover_check(p3l_pager *pager, const p3l_redone *redone, p3l_error *error);

#endif
