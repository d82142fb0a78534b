/*
 * The store that p3l_use() sets for a thread. Private to runtime/.
 */
#ifndef P3L_SWIZZLE_H
#define P3L_SWIZZLE_H

#include "p3l.h"

/* The store closes: clears it if this thread has chosen it. */
void p3l_use_no_longer(const p3l_store *store);

#endif
