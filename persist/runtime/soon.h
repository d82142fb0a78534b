/*
 * Hints for pages that will be needed soon: code that follows one pointer of an array usually
 * follows the next ones.
 *
 *     part ── to[0] ──> page 7    wanted now: the thread waits for the disk
 *          ├─ to[1] ──> page 93   } the disk reads them meanwhile, into the page cache: the thread
 *          └─ to[2] ──> page 12   } does not wait for them again
 *
 * A hint makes nothing resident and takes no frame.
 *
 * Invariants:
 *   1. Hints are given only while pages without a hint come slowly, from a disk; not for a small
 *      store, which is fetched whole (pool.c).
 *   2. Use of hints is counted by the type of the object with the slots: a type whose pointers are
 *      followed at random (an index) gets none for a while.
 *
 * Called with the store's slow-path lock held. Private to runtime/.
 */
#ifndef P3L_SOON_H
#define P3L_SOON_H

#include "p3l.h"
#include "store.h"

#define P3L_SOON_PAGES 256u /* hints not yet used; a power of two */
#define P3L_SOON_TYPES 64u
/* Number of a type's hints after which it is judged: half must have been used. In a depth-first
 * search, some dozen are still pending. */
#define P3L_SOON_JUDGED 128u
#define P3L_SOON_REST 2048u

typedef struct p3l_soon {
  struct p3l_soon_page {
    uint64_t page;    /* 0: the entry is free */
    p3l_type_id type; /* type of the object with the slot */
  } pages[P3L_SOON_PAGES];
  struct p3l_soon_type {
    uint16_t given, used; /* recent hints */
    uint16_t rest;        /* reads until it is tried again */
  } types[P3L_SOON_TYPES];
} p3l_soon;

/* `count` pages from `first` on will be read from the disk for `store->slot`: asks the kernel to
 * fetch them, and the clusters of `size` pages that the next slots of the array lead to. */
void p3l_soon_neighbours(p3l_store *store, p3l_soon *soon, uint64_t first, uint64_t count,
                         uint64_t size);
/* Removes the hint for the cluster that begins with this page. True if there was one: the time
 * of the read then does not show the disk's speed. */
bool p3l_soon_came(p3l_soon *soon, uint64_t page);

#endif
