/*
 * What residency.c and its neighbours share: where copies are noted in a page's state, how an
 * object comes out of a page. Private to residency*.c and pool.c.
 */
#ifndef P3L_RESIDENCY_PAGES_H
#define P3L_RESIDENCY_PAGES_H

#include "residency.h"

static inline bool p3l_bit(const uint64_t *words, uint32_t index) {
  return words[index / 64] >> index % 64 & 1;
}

/* Bits before `index`. */
static inline uint32_t p3l_bits_before(const uint64_t words[4], uint32_t index) {
  uint32_t count = 0;
  for (uint32_t word = 0; word < index / 64; word++)
    count += (uint32_t)__builtin_popcountll(words[word]);
  return count +
         (uint32_t)__builtin_popcountll(words[index / 64] & ((UINT64_C(1) << index % 64) - 1));
}

/* The last bit set at or before `index`. */
static inline bool p3l_bit_at_or_before(const uint64_t words[4], uint32_t index, uint32_t *found) {
  uint64_t mask = ~UINT64_C(0) >> (63 - index % 64);
  for (uint32_t word = index / 64;; word--) {
    uint64_t left = words[word] & mask;
    if (left != 0) {
      *found = word * 64 + 63 - (uint32_t)__builtin_clzll(left);
      return true;
    }
    if (word == 0) return false;
    mask = ~UINT64_C(0);
  }
}

/* 0: not a page of the object layer. */
static inline unsigned p3l_page_use_of(const p3l_page *page) {
  return page->kind == P3L_PAGE_DATA ? ((const p3l_object_page *)page)->use : 0;
}

/* ---- residency_pages.c ---- */

/* Makes room for one more copy; the next p3l_copies_put() of this state cannot fail. */
bool p3l_copies_reserve(p3l_store *store, p3l_page_state *state);
/* The same for as many as a page can have. */
bool p3l_copies_reserve_all(p3l_store *store, p3l_page_state *state);
void p3l_copies_put(p3l_page_state *state, uint32_t granule, void *memory);
void p3l_copies_take(p3l_store *store, p3l_page_state *state, uint32_t granule);
static inline void *p3l_copy_at(const p3l_page_state *state, uint32_t granule) {
  return state->copies[p3l_bits_before(state->copied, granule)];
}

/* ---- residency_load.c ---- */

/* Copies the object at `piece` of the page into an arena, upgraded if need be. */
p3l_code p3l_load_object(p3l_store *store, p3l_page_state *state, p3l_address address,
                         const p3l_object_page *page, const p3l_piece *piece, uint8_t **memory,
                         p3l_error *error);
/* Makes the large object whose first page that is resident; *memory is its first byte. NULL: it has
 * moved to *forward. */
p3l_code p3l_load_large(p3l_store *store, p3l_page_number first, uint8_t **memory,
                        p3l_address *forward, p3l_error *error);
/* Every page of it knows where it begins, for pointers into its middle. False: no memory for the
 * first of them; the others may be read again. */
bool p3l_large_note(p3l_store *store, uint64_t first, uint64_t bytes, uint8_t *memory);
/* Memory for a large object of the transaction, or one that is being loaded. */
p3l_code p3l_large_take(p3l_store *store, p3l_resident object, uint64_t bytes, uint8_t **memory,
                        p3l_error *error);

/* ---- residency_policy.c ---- */

/* Whether the page in the pool is adopted for an object that has just been asked for; if so,
 * `in_place` is filled. */
bool p3l_adopt(p3l_store *store, p3l_page_state *state);
#endif
