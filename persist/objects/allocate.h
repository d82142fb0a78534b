/*
 * Room for objects in the store: which page, which piece of it. Within a transaction of the pager,
 * so that a crash or an abort takes it back.
 *
 * A page that a deletion left with holes of at least a quarter of it is on the catalog's list of
 * holes (by its head's `next`), until an allocation finds it full. New objects go, in this order: to
 * the page of `near`, to the page filled last, to the first few pages of that list, to a new page.
 */
#ifndef P3L_ALLOCATE_H
#define P3L_ALLOCATE_H

#include "catalog.h"

/* Zeroed room for an object of `bytes` (of any size: large ones get pages of their own). near.byte
 * 0: anywhere. */
p3l_code p3l_room_take(p3l_pager_transaction *transaction, p3l_type_id type, uint64_t bytes,
                       p3l_address near, p3l_address *address, p3l_error *error);
/* The object that begins at `address`. P3L_DANGLING: none does. A page without objects goes back to
 * the pager. */
p3l_code p3l_room_give(p3l_pager_transaction *transaction, p3l_address address, p3l_error *error);
/* The object at `from` has moved to `to`: its piece becomes a P3L_FORWARD, the rest of it zero. */
p3l_code p3l_room_forward(p3l_pager_transaction *transaction, p3l_address from, p3l_address to,
                          p3l_error *error);

#endif
