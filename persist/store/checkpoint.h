/*
 * A checkpoint within the pager. Inside of the pager only.
 */
#ifndef P3L_CHECKPOINT_H
#define P3L_CHECKPOINT_H

#include "pager.h"

/* A checkpoint by whoever holds the writer's lock. `last`: nothing is going to be committed any more
 * (log.h, invariant 5). */
p3l_code p3l_checkpoint_locked(p3l_pager *pager, bool last, p3l_error *error);

#endif
