/*
 * A checkpoint within the pager. Inside of the pager only.
 */
#ifndef P3L_CHECKPOINT_H
#define P3L_CHECKPOINT_H

#include "pager.h"

struct p3l_image; /* images.h */

/* By number, as they are written. */
void p3l_images_sort(struct p3l_image **images, size_t count);
/* Writes what is committed of them, in order, to the file; not synced. */
p3l_code p3l_images_write(p3l_pager *pager, struct p3l_image **images, size_t count,
                          p3l_error *error);
/* Nothing is written any more: pager.h, invariant 4. */
p3l_code p3l_pager_break(p3l_pager *pager, p3l_error *error);

/* A checkpoint by whoever holds the writer's lock. `last`: nothing is going to be committed any more
 * (log.h, invariant 5). */
p3l_code p3l_checkpoint_locked(p3l_pager *pager, bool last, p3l_error *error);

#endif
