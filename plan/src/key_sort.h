/*
 * Sorts a buffer's rows by the key that a nested loop looks up in an index: neighbouring keys are
 * found on the same pages while these are in the cache.
 */
#ifndef CCOPT_KEY_SORT_H
#define CCOPT_KEY_SORT_H

#include "buffer.h"
#include "buffer_rows.h"

/* The helper of a key-sorting Buffer. */
extern BufferHelper *key_sort_helper(PlanState *buffer);

#endif
