/*
 * Unions: which of their words are pointers, as the program's functions say (p3l_union). The bits
 * in which it is kept, and their invariants: objects/slots.h. Private to runtime/.
 */
#ifndef P3L_ARMS_H
#define P3L_ARMS_H

#include "segment.h"

/* A word became a pointer, or is none any more: its stored form differs even if its bytes do
 * not. */
typedef p3l_code (*p3l_arm_changed)(p3l_store *store, const p3l_place *place, uint64_t offset,
                                    p3l_error *error);

/*
 * Sets the bits of all objects that the transaction made or changed; before anything is converted.
 * P3L_MISUSE: a function named an arm that its union does not have.
 */
p3l_code p3l_arms_set(p3l_store *store, p3l_arm_changed changed, p3l_error *error);

/* Sets those of an object that an upgrade made, before it is in persistent memory. */
p3l_code p3l_arms_upgraded(const p3l_store *store, p3l_type_id type, uint8_t *object,
                           uint64_t bytes, p3l_error *error);

#endif
