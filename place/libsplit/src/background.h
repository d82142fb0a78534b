/*
 * The background (SCHED_IDLE): checks whether a thread may leave it again, and whether it has any
 * effect.
 */
#ifndef SPLIT_BACKGROUND_H
#define SPLIT_BACKGROUND_H

#include "attributes.h"

/*
 * Bits of enum split_without: reasons why this thread, with these attributes, must not enter the
 * background; 0: it may. Reads /proc.
 */
uint32_t split_background_lacks(const struct split_attributes *own);

#endif
