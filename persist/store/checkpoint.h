/*
 * A checkpoint within the pager. Inside of the pager only.
 */
#ifndef P3L_CHECKPOINT_H
#define P3L_CHECKPOINT_H

#include "pager.h"

/* Makes a checkpoint; the caller holds the writer's lock. `last`: there will be no further
 * commit (log.h, invariant 5). */
p3l_code p3l_checkpoint_locked(p3l_pager *pager, bool last, p3l_error *error);

#endif
