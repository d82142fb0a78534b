/*
 * Where objects begin in an arena. Private to segment*.c, arena.c and residency*.c.
 */
#ifndef P3L_SEGMENT_PLACES_H
#define P3L_SEGMENT_PLACES_H

#include "segment.h"

/* How many objects begin before `granule`: the index of the one that begins there. */
uint32_t p3l_arena_rank(const p3l_segment *segment, uint32_t granule);
/* The last beginning at or before `granule`; false: nothing is there. */
bool p3l_arena_start(const p3l_segment *segment, uint32_t granule, uint32_t *start);

#endif
