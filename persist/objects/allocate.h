/*
 * Allocates space for objects in the store: a page, and a piece of it. It runs within a transaction
 * of the pager, so that a crash or an abort reverts it.
 *
 *   catalog.holes ──> page 7 ──next──> page 3 ──next──> page 9        catalog.filled ──> page 12
 *                     7 <──previous──       <──previous──
 *
 * A new object is placed on the first of these that has space: the page of `near`, the page filled
 * last, the first few pages of the list of holes, a new page. New pages are filled from then on.
 *
 * Invariants:
 *  1. A page joins the list after a deletion, or when the next filled page replaces it, if it then
 *     has space for P3L_LISTED_ROOM bytes in a piece of at least P3L_USEFUL_ROOM. It leaves the
 *     list when an allocation finds no useful space on it. No page is on the list twice, and the
 *     filled page is never on it.
 *  2. Every object page has at least one object.
 */
#ifndef P3L_ALLOCATE_H
#define P3L_ALLOCATE_H

#include "catalog.h"

#define P3L_LISTED_ROOM (P3L_PAGE_SIZE / 4)
#define P3L_USEFUL_ROOM 256u

/* Takes zeroed space for an object of `bytes` (of any size: a large object gets pages of its
 * own). near.byte 0: anywhere. */
p3l_code p3l_room_take(p3l_pager_transaction *transaction, p3l_type_id type, uint64_t bytes,
                       p3l_address near, p3l_address *address, p3l_error *error);
/* Frees the object that begins at `address`, and also its new place if it has moved.
 * P3L_DANGLING: no object begins there. A page without objects is returned to the pager. */
p3l_code p3l_room_give(p3l_pager_transaction *transaction, p3l_address address, p3l_error *error);
/* The generation of an object for which the transaction took space. */
uint8_t p3l_room_generation(p3l_pager_transaction *transaction, p3l_address address);
/* Frees only the piece that begins there: a forward without its object, to which other forwards
 * may still lead. */
p3l_code p3l_room_give_piece(p3l_pager_transaction *transaction, p3l_address address,
                             p3l_error *error);
/* Marks the object at `from` as moved to `to`: its piece becomes a P3L_FORWARD, the rest of it
 * zero. */
p3l_code p3l_room_forward(p3l_pager_transaction *transaction, p3l_address from, p3l_address to,
                          p3l_error *error);

#endif
