/*
 * Loading: writes much data and makes it durable in one step. Internal to the pager.
 *
 *   p3l_pager_load_begin: checkpoint ──> commits: images, no frames ──> p3l_pager_load_end ──> as ever
 *                                          │ many of pages that         │ new pages written, synced;
 *                                          │ did not exist              │ the others' images into the log,
 *                                          └──> into the file           └ synced: all of it is committed
 *
 * Invariants:
 *  1. From begin to end the log is empty, and no page that existed at begin is written to the file.
 *     So after a crash the store is as at begin: bytes after its last page do not belong to it.
 *  2. A page that did not exist at begin may be written repeatedly, because no durable page refers
 *     to it. It is synced before the frames of the load are in the log.
 *  3. It is written with the log position of the checkpoint at begin (page.h, invariant 3), which
 *     is the base of every reader that sees the load's end.
 *  4. A failure to end the load changes nothing: p3l_pager_load_end() may be called again, or the
 *     store may be closed and is then as at begin.
 */
#ifndef P3L_LOAD_H
#define P3L_LOAD_H

#include "pager.h"

/* p3l_pager_append() while loading. Ends the transaction in any case. */
p3l_code p3l_load_append(p3l_pager_transaction *transaction, p3l_error *error);
/* p3l_pager_load_end(); the caller holds the writer's lock. */
p3l_code p3l_load_finish(p3l_pager *pager, p3l_error *error);

#endif
