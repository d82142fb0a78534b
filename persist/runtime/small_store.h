/*
 * Whether a store is small enough to be treated as a whole. Private to runtime/.
 */
#ifndef P3L_SMALL_STORE_H
#define P3L_SMALL_STORE_H

#include "store.h"

/* 64 MB, in frames of 32 huge pages: about the capacity of a first-level TLB. */
#define P3L_SMALL_STORE_PAGES ((UINT64_C(64) << 20) / P3L_PAGE_SIZE)

/* True if the whole store fits its memory limit in any layout of its objects. */
static inline bool p3l_fits_limit(const p3l_store *store) {
  uint64_t limit = store->options.memory_bytes;
  return limit == 0 || store->page_count * P3L_PAGE_SIZE <= limit / 2;
}

/* True if all pages of the store are used in place: a small store that stays in memory. */
static inline bool p3l_adopts_all(const p3l_store *store) {
  return !store->options.discovery_order && store->page_count <= P3L_SMALL_STORE_PAGES &&
         p3l_fits_limit(store);
}

#endif
