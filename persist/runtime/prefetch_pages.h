/*
 * Reading pages into the pool before they are requested. Private to prefetch*.c.
 */
#ifndef P3L_PREFETCH_PAGES_H
#define P3L_PREFETCH_PAGES_H

#include "pager.h"
#include "residency.h"

typedef struct p3l_page_list {
  p3l_page_number *pages;
  size_t count, capacity;
} p3l_page_list;

/* Space for one more in an array; false: no memory. */
bool p3l_prefetch_room(void **array, size_t count, size_t *capacity, size_t each);

/* Reads the pages of the list, in any order and each as often as it likes, many at a time; the list
 * is sorted afterwards, and may be longer. What fails is left to p3l_resolve(), which tells it. */
void p3l_prefetch_pages(p3l_store *store, p3l_page_list *list);

/* True if the store is so small that reading all of it costs no more than a part. */
bool p3l_prefetch_is_small(p3l_store *store);
/* Reads all of a small store, and adopts it: no object of it need be looked for one by one. */
void p3l_prefetch_whole(p3l_store *store);

#endif
