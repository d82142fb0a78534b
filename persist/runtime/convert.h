/*
 * Conversion between memory's form of an object and the store's. Private to runtime/.
 */
#ifndef P3L_CONVERT_H
#define P3L_CONVERT_H

#include "segment.h"

/*
 * Copies bytes [from, to) of an object, whole words, in the store's form: swizzled slots become
 * surrogates. P3L_MISUSE: a slot points to something that is not a persistent object of this store;
 * the message names type and field.
 */
p3l_code p3l_unswizzle(const p3l_place *place, uint64_t from, uint64_t to, uint8_t *bytes,
                       p3l_error *error);
/* The surrogate for a slot's pointer (NULL, surrogate, or address). */
p3l_code p3l_surrogate_of(const p3l_store *store, const void *pointer, uint64_t *surrogate,
                          p3l_error *error);

#endif
