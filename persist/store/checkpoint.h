/*
 * A checkpoint within the pager. Internal to the pager.
 *
 *   commits ──> p3l_checkpoint_begin, ──> the log is long: ──> p3l_checkpoint_locked
 *                 every MB of log           p3l_checkpoint_put_off
 *                 images that have not        512 others each time,      the images that changed
 *                 changed for a while:        until 1,024 are left, or   since: written; everything
 *                 written, the disk           commits change others      synced, log emptied
 *                 begins                      as fast
 *
 * So the commit that makes the checkpoint waits for what changed in the last commits, not for all that was
 * added, nor for all that changes often.
 *
 * Invariants:
 *  1. A page is written to the file only if the log has its image, synced, and all changes of it.
 *  2. Until the log is emptied the pages that were written before are images like others: no thread of
 *     this process reads them from the file.
 *  3. While a process reads the store, nothing is written before: only the checkpoint keeps old pages
 *     (old_pages.h).
 *  4. An image is `in_file` if the file has what is committed of it: a commit that changes it clears that,
 *     and `unwritten` counts those that are not.
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

/* Instead of a checkpoint that would write many pages: writes some of them. False: the checkpoint is to be
 * made now. The caller holds the writer's lock, and no transaction is running. */
bool p3l_checkpoint_put_off(p3l_pager *pager);

/* Makes a checkpoint; the caller holds the writer's lock. `last`: no commit will follow (log.h,
 * invariant 5). */
p3l_code p3l_checkpoint_locked(p3l_pager *pager, bool last, p3l_error *error);

#endif
