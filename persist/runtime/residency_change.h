/*
 * What transactions and eviction change in what is resident. Called with the store's slow-path lock
 * held. Private to runtime/.
 */
#ifndef P3L_RESIDENCY_CHANGE_H
#define P3L_RESIDENCY_CHANGE_H

#include "segment.h"

/* The transaction made an object: it is resident from now on, in an arena or in segments of its
 * own, zeroed, also before its page is committed. */
p3l_code p3l_residency_add(p3l_store *store, p3l_address address, p3l_type_id type, uint64_t bytes,
                           uint32_t flags, uint8_t generation, p3l_place *place, p3l_error *error);
/* A transaction changes what pieces the page has: an adopted frame takes over its head and type ids
 * (no byte of an object), a frame in the pool is dropped. Called again with the page as it was, it
 * takes everything back. A page of which nothing is known: nothing to do. */
p3l_code p3l_residency_refresh(p3l_store *store, p3l_page_number number, const p3l_page *page,
                               p3l_error *error);
/* The object is gone: deleted and committed, or made and aborted. In an arena it stays, dead; the
 * memory of a large one goes back. */
void p3l_residency_remove(p3l_store *store, p3l_address address);
/* p3l_room_forward() gives an object of `bytes` the address `to`: before the commit can no longer
 * fail, room to note that; P3L_NO_MEMORY. Then, once it is committed: the object stays where it is
 * in memory, and is found by `to`; by `from` through the forward. */
p3l_code p3l_residency_reserve(p3l_store *store, p3l_address to, uint64_t bytes, p3l_error *error);
void p3l_residency_moved(p3l_store *store, p3l_address from, p3l_address to, uint8_t generation);

/* Nothing in the segment is resident any more, none of its frames is of the pool; the caller has
 * seen to it that nobody points there, and releases it. */
void p3l_residency_forget(p3l_store *store, p3l_segment *segment);

#endif
