/*
 * Objects side by side. segment.h has the invariants. Private to residency*.c.
 */
#ifndef P3L_ARENA_H
#define P3L_ARENA_H

#include "segment.h"

/* Room for an object in the store's youngest arena; the caller fills it. */
p3l_code p3l_arena_add(p3l_store *store, p3l_resident object, p3l_place *place, p3l_error *error);

#endif
