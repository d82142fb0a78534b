/*
 * Pages that will be needed soon: code that follows one pointer of an array follows the next ones, too.
 *
 *     part ── to[0] ──> page 7    wanted now: the thread waits for the disk
 *          ├─ to[1] ──> page 93   } the disk reads them beside it, into the page cache: who comes for
 *          └─ to[2] ──> page 12   } them does not wait again
 *
 * It is a hint. Nothing becomes resident by it, and no frame is taken.
 *
 * Invariants:
 *   1. Only while unhinted pages come slowly, from a disk; not of a small store, which
 *      is fetched whole (pool.c).
 *   2. Whether hints are used is counted by the type of the object that has the slots: one whose
 *      pointers are followed here and there (an index) gets none for a while.
 *
 * Called with the store's slow-path lock held. Private to runtime/.
 */
#ifndef P3L_SOON_H
#define P3L_SOON_H

#include "p3l.h"
#include "store.h"

#define P3L_SOON_PAGES 256u /* that were hinted at, and not asked for yet; a power of two */
#define P3L_SOON_TYPES 64u
/* Hints of a type after which it is judged: half must have been used. Of a depth-first search some dozen
 * are still to be. */
#define P3L_SOON_JUDGED 128u
#define P3L_SOON_REST 2048u

typedef struct p3l_soon {
  struct p3l_soon_page {
    uint64_t page;    /* 0: the entry is free */
    p3l_type_id type; /* of the object that leads there */
  } pages[P3L_SOON_PAGES];
  struct p3l_soon_type {
    uint16_t given, used; /* hints of late */
    uint16_t rest;        /* reads to pass before it is tried again */
  } types[P3L_SOON_TYPES];
} p3l_soon;

/* `count` pages from `first` on are to be read from the disk for `store->slot`: the kernel fetches them,
 * and the clusters of `size` pages that the slot's neighbours in the array lead to. */
void p3l_soon_neighbours(p3l_store *store, p3l_soon *soon, uint64_t first, uint64_t count,
                         uint64_t size);
/* The cluster that begins with the page is read. Whether it was hinted at: then what it took says nothing of the disk. */
bool p3l_soon_came(p3l_soon *soon, uint64_t page);

#endif
