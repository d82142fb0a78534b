/*
 * Loading: much is built, and made durable at once. Inside of the pager only.
 *
 *   p3l_pager_load_begin: checkpoint ──> commits: images, no frames ──> p3l_pager_load_end ──> as ever
 *                                          │ many of pages that         │ new pages written, synced;
 *                                          │ did not exist              │ the others' images into the log,
 *                                          └──> into the file           └ synced: all of it is committed
 *
 * Invariants:
 *  1. From begin to end the log is empty, and no page that existed at begin is written to the file. So
 *     after a crash the store is as at begin: what lies behind its last page belongs to nothing.
 *  2. A page that did not exist at begin may be written as often as need be: nothing that is durable
 *     leads to it. It is synced before the frames of the load are in the log.
 *  3. It is written as of the checkpoint at begin (page.h, invariant 3), which is the base of every
 *     reader that sees the load's end.
 *  4. What fails leaves the load as it was: it may be ended again, or the store closed, as at begin.
 */
#ifndef P3L_LOAD_H
#define P3L_LOAD_H

#include "pager.h"

/* p3l_pager_append() while loading: ends the transaction in any case. */
p3l_code p3l_load_append(p3l_pager_transaction *transaction, p3l_error *error);
/* p3l_pager_load_end() by whoever holds the writer's lock. */
p3l_code p3l_load_finish(p3l_pager *pager, p3l_error *error);

#endif
