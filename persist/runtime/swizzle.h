/*
 * What p3l_use() keeps for a thread. Private to runtime/.
 */
#ifndef P3L_SWIZZLE_H
#define P3L_SWIZZLE_H

#include "p3l.h"

/* The store closes; this thread may have chosen it. */
void p3l_use_no_longer(const p3l_store *store);

#endif
