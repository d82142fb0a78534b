/*
 * A checkpoint within the pager. Internal to the pager.
 */
#ifndef P3L_CHECKPOINT_H
#define P3L_CHECKPOINT_H

#include "pager.h"

struct p3l_image; /* images.h */

/* Sorts images by page number, the order in which they are written. */
void p3l_images_sort(struct p3l_image **images, size_t count);
/* Writes the committed contents of the images, in order, to the file; does not sync. */
p3l_code p3l_images_write(p3l_pager *pager, struct p3l_image **images, size_t count,
                          p3l_error *error);
/* From now on nothing is written: pager.h, invariant 4. */
p3l_code p3l_pager_break(p3l_pager *pager, p3l_error *error);

/* Makes a checkpoint; the caller holds the writer's lock. `last`: no commit will follow (log.h,
 * invariant 5). */
p3l_code p3l_checkpoint_locked(p3l_pager *pager, bool last, p3l_error *error);

#endif
