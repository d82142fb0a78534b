/*
 * In place, or copied?
 *
 * In place costs nothing to make resident, keeps the store's order, and keeps all of a page for
 * what is used of it. Copied costs a copy, lies in the order of discovery, and keeps only what is
 * used: the processor's translation buffers and caches reach more of it. So:
 *
 *   - a store that they reach wherever its objects lie is used in place from the first;
 *   - else objects are copied, until a third of a page has been asked for: then the frame is
 *     adopted for the rest (research/persist.md 4.1);
 *   - a store that does not fit into its memory limit is always copied: a frame in place keeps 4 KB
 *     for one object that is hot (4.4: 73 against 21 ms a traversal).
 */
#include "pager.h"
#include "pool.h"
#include "residency_pages.h"
#include "store.h"

/* Two megabytes of the second level's cache and 2048 entries of its translation buffer, as
 * processors of 2023 have them. */
#define SMALL_BYTES (UINT64_C(8) << 20)
#define DENSE_PART 3 /* a third */

static bool fits_limit(const p3l_store *store, uint64_t bytes) {
  return store->options.memory_bytes == 0 || bytes <= store->options.memory_bytes / 2;
}

/* Whether all objects of the page have the program's layout. */
static bool is_current(const p3l_store *store, const p3l_object_page *page) {
  if (!store->upgrades) return true;
  for (uint32_t at = 0; at < page->count; at++) {
    p3l_type_id to;
    p3l_upgrade function;
    p3l_type_id type = p3l_piece_type(page, at);
    if (type != P3L_HOLE && type != P3L_FORWARD && p3l_types_upgrade(store, type, &to, &function))
      return false;
  }
  return true;
}

static void fill_in_place(p3l_page_state *state) {
  const p3l_object_page *page = state->frame;
  for (int word = 0; word < 4; word++)
    state->in_place[word] = page->starts[word] & ~state->copied[word];
  p3l_piece piece = {0};
  for (uint32_t at = 0; at < page->count; at++) {
    p3l_type_id type = p3l_piece_type(page, at);
    if (type != P3L_HOLE && type != P3L_FORWARD) continue;
    /* Rare: only now it matters where the piece is. */
    piece = (p3l_piece){0};
    while (p3l_piece_next(page, &piece) && piece.index < at) continue;
    state->in_place[piece.offset / P3L_GRANULE / 64] &=
        ~(UINT64_C(1) << piece.offset / P3L_GRANULE % 64);
  }
}

bool p3l_adopt(p3l_store *store, p3l_page_state *state) {
  uint64_t store_bytes = p3l_pool_store_pages(store) * P3L_PAGE_SIZE;
  if (!fits_limit(store, store_bytes)) return false;
  bool dense = (state->discovered + 1u) * DENSE_PART >= state->pieces;
  if ((!dense && store_bytes > SMALL_BYTES) || !is_current(store, state->frame)) return false;
  fill_in_place(state);
  p3l_pool_adopted(store, state);
  state->adopted = true;
  store->statistics.pages_adopted++;
  return true;
}
