/*
 * What the log says since the last checkpoint, carried out in memory. Inside of the pager only.
 */
#ifndef P3L_RECOVER_H
#define P3L_RECOVER_H

#include "log.h"
#include "pager.h"

/* Pages that frames changed. */
typedef struct p3l_redone {
  uint64_t *pages; /* numbers; one may be there twice */
  size_t count, capacity;
  uint64_t transactions;
} p3l_redone;
void p3l_redone_free(p3l_redone *redone);

/* Reads the log's frames behind log.end; their commits become images. */
p3l_code p3l_recover_frames(p3l_pager *pager, p3l_log_reading reading, p3l_redone *redone,
                            p3l_log_tail *tail, p3l_error *error);
/* Page 0, and what the log says of pages: checked when it is read to its end. Sets page_count. */
p3l_code p3l_recover_check(p3l_pager *pager, const p3l_redone *redone, p3l_error *error);

#endif
