/*
 * Sorting a buffer's rows by the key that a nested loop will look up in an index: neighbours are
 * then found on the same pages, while they are in the cache.
 */
#ifndef CCOPT_KEY_SORT_H
#define CCOPT_KEY_SORT_H

#include "buffer.h"
#include "buffer_rows.h"

/* For a Buffer of that purpose. */
extern BufferHelper *key_sort_helper(PlanState *buffer);

#endif
