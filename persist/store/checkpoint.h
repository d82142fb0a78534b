/*
 * A checkpoint within the pager. Internal to the pager.
 *
 *   commits ──> p3l_checkpoint_begin, every MB of log ──> ... ──> p3l_checkpoint_locked
 *                 images that have not changed for a while:        the other images written,
 *                 written, the disk begins                         everything synced, log emptied
 *
 * So the commit that makes the checkpoint waits for what changes often, not for all that was added.
 *
 * Invariants:
 *  1. A page is written to the file only if the log has its image, synced, and all changes of it.
 *  2. Until the log is emptied the pages that were written at the beginning are images like others:
 *     no thread of this process reads them from the file.
 *  3. While a process reads the store, nothing is written at the beginning: only the checkpoint keeps
 *     old pages (old_pages.h).
 */
#ifndef P3L_CHECKPOINT_H
#define P3L_CHECKPOINT_H

#include "pager.h"

struct p3l_image; /* images.h */

/* Sorts images by page number, the order in which they are written. */
void p3l_images_sort(struct p3l_image **images, size_t count);
/* Writes the committed contents of the images, in order, to the file, and has the disk begin; does not
 * sync. */
p3l_code p3l_images_write(p3l_pager *pager, struct p3l_image **images, size_t count,
                          p3l_error *error);
/* From now on nothing is written: pager.h, invariant 4. */
p3l_code p3l_pager_break(p3l_pager *pager, p3l_error *error);

/* True if the log is so much longer since the last p3l_checkpoint_begin() that another one is due. */
bool p3l_checkpoint_may_begin(p3l_pager *pager);
/* Writes some of the images that did not change lately. A failure is left to the checkpoint. The caller
 * holds the writer's lock, and no transaction is running. */
void p3l_checkpoint_begin(p3l_pager *pager);

/* Makes a checkpoint; the caller holds the writer's lock. `last`: no commit will follow (log.h,
 * invariant 5). */
p3l_code p3l_checkpoint_locked(p3l_pager *pager, bool last, p3l_error *error);

#endif
