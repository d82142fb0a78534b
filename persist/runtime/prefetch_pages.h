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

/* Reserves space for one more element of an array; false: no memory. */
bool p3l_prefetch_room(void **array, size_t count, size_t *capacity, size_t each);

/* Reads the pages of the list, many at a time. The list may be unordered and have duplicates; it
 * is sorted afterwards, and may be longer. Pages that fail are left to p3l_resolve(), which
 * reports the error. */
void p3l_prefetch_pages(p3l_store *store, p3l_page_list *list);

/* True if the store is so small that reading all of it costs no more than a part. */
bool p3l_prefetch_is_small(p3l_store *store);
/* Reads all of a small store and adopts it, so that its objects need not be looked up one by
 * one. */
void p3l_prefetch_whole(p3l_store *store);

#endif
