/*
 * What transactions and eviction change in what is resident. Called with the store's slow-path lock
 * held. Private to runtime/.
 */
#ifndef P3L_RESIDENCY_CHANGE_H
#define P3L_RESIDENCY_CHANGE_H

#include "segment.h"

/* The transaction created an object: it is resident from now on, zeroed, in an arena or in
 * segments of its own, even before its page is committed. */
p3l_code p3l_residency_add(p3l_store *store, p3l_address address, p3l_type_id type, uint64_t bytes,
                           uint32_t flags, uint8_t generation, p3l_place *place, p3l_error *error);
/* A transaction changes the pieces of the page: an adopted frame takes over its head and type
 * ids (no byte of an object), a frame in the pool is dropped. Calling it again with the old page
 * undoes everything. Does nothing for an unknown page. */
p3l_code p3l_residency_refresh(p3l_store *store, p3l_page_number number, const p3l_page *page,
                               p3l_error *error);
/* Removes an object: deleted and committed, or created and aborted. In an arena it stays, dead;
 * the memory of a large object is freed. */
void p3l_residency_remove(p3l_store *store, p3l_address address);
/* p3l_room_forward() gives an object of `bytes` the address `to`. This reserves the memory to
 * record that while the commit can still fail; P3L_NO_MEMORY. After the commit, the object stays
 * in its memory and is found by `to`; by `from` through the forward. */
p3l_code p3l_residency_reserve(p3l_store *store, p3l_address to, uint64_t bytes, p3l_error *error);
void p3l_residency_moved(p3l_store *store, p3l_address from, p3l_address to, uint8_t generation);

/* Nothing in the segment is resident any more, and the pool has none of its frames. The caller
 * makes sure that no pointer leads there, and releases it. */
void p3l_residency_forget(p3l_store *store, p3l_segment *segment);

#endif
