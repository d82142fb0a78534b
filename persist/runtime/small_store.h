/*
 * Whether a store is small enough to be treated as a whole. Private to runtime/.
 */
#ifndef P3L_SMALL_STORE_H
#define P3L_SMALL_STORE_H

#include "store.h"

/* In 32 huge pages, which frames are: about what a processor's nearest translation buffer has. */
#define P3L_SMALL_STORE_PAGES ((UINT64_C(64) << 20) / P3L_PAGE_SIZE)

/* Whether all of the store stays below its memory limit, however its objects lie. */
static inline bool p3l_fits_limit(const p3l_store *store) {
  uint64_t limit = store->options.memory_bytes;
  return limit == 0 || store->page_count * P3L_PAGE_SIZE <= limit / 2;
}

/* Whether all pages of the store are used in place: a small store, which stays in memory. */
static inline bool p3l_adopts_all(const p3l_store *store) {
  return !store->options.discovery_order && store->page_count <= P3L_SMALL_STORE_PAGES &&
         p3l_fits_limit(store);
}

#endif
