/*
 * Allocates space for objects in the store: a page, and a piece of it. Within a transaction of the
 * pager, so that a crash or an abort reverts it.
 *
 *   catalog.holes ──> page 7 ──next──> page 3 ──next──> page 9        catalog.filled ──> page 12
 *                     7 <──previous──       <──previous──
 *
 * New objects go, in this order: to the page of `near`, to the page filled last, to the first few
 * pages of the list of holes, to a new page, which is the one filled from then on.
 *
 * Invariants:
 *  1. The list has pages that had space for P3L_LISTED_ROOM bytes, in a piece of at least
 *     P3L_USEFUL_ROOM, when a deletion or the next filled page put them there; until an allocation
 *     finds no useful space there. A page is on it once, the filled page never.
 *  2. There is no object page without an object.
 */
#ifndef P3L_ALLOCATE_H
#define P3L_ALLOCATE_H

#include "catalog.h"

#define P3L_LISTED_ROOM (P3L_PAGE_SIZE / 4)
#define P3L_USEFUL_ROOM 256u

/* Zeroed space for an object of `bytes` (any size: large ones get pages of their own). near.byte
 * 0: anywhere. */
p3l_code p3l_room_take(p3l_pager_transaction *transaction, p3l_type_id type, uint64_t bytes,
                       p3l_address near, p3l_address *address, p3l_error *error);
/* Frees the object that begins at `address`, and if it has moved, its new place. P3L_DANGLING:
 * there is none. A page without objects is returned to the pager. */
p3l_code p3l_room_give(p3l_pager_transaction *transaction, p3l_address address, p3l_error *error);
/* The generation of an object that the transaction took room for. */
uint8_t p3l_room_generation(p3l_pager_transaction *transaction, p3l_address address);
/* Only what begins there: a forward without its object, which others may still lead to. */
p3l_code p3l_room_give_piece(p3l_pager_transaction *transaction, p3l_address address,
                             p3l_error *error);
/* The object at `from` has moved to `to`: its piece becomes a P3L_FORWARD, the rest of it zero. */
p3l_code p3l_room_forward(p3l_pager_transaction *transaction, p3l_address from, p3l_address to,
                          p3l_error *error);

#endif
