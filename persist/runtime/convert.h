/*
 * Between what memory has and what the store has. Private to runtime/.
 */
#ifndef P3L_CONVERT_H
#define P3L_CONVERT_H

#include "segment.h"

/*
 * Copies bytes [from, to) of an object, whole words, as the store has them: swizzled slots become
 * surrogates. P3L_MISUSE: a slot points to what is no persistent object of this store; the message
 * names type and field.
 */
p3l_code p3l_unswizzle(const p3l_place *place, uint64_t from, uint64_t to, uint8_t *bytes,
                       p3l_error *error);
/* The surrogate for a pointer as a slot may have it (NULL, surrogate, address). */
p3l_code p3l_surrogate_of(const p3l_store *store, const void *pointer, uint64_t *surrogate,
                          p3l_error *error);

#endif
