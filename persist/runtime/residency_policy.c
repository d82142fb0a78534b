/*
 * In place, or copied?
 *
 * Use in place makes objects resident at no cost and keeps the store's order, but keeps a whole
 * page even if little of it is used. Copying costs the copy, lays objects out in the order of
 * discovery, and keeps only used objects: TLB and caches then cover more of them. So:
 *
 *   - a small store, which they cover in any layout, is used in place from the start; after some of
 *     its pages were adopted, all others are adopted when they are read, while they are in the
 *     processor's cache (pool.c);
 *   - otherwise objects are copied until a third of a page has been asked for; then the frame is
 *     adopted for the rest;
 *   - with p3l_options.discovery_order, all are copied;
 *   - a store that does not fit into its memory limit is always copied: a frame in place keeps 4 KB
 *     for one object that is hot (73 against 21 ms a traversal).
 */
#include "residency_policy.h"

#include "guard.h"
#include "pool_frames.h"
#include "small_store.h"
#include "types.h"

#define DENSE_PART 3 /* a third */

bool p3l_page_is_current(const p3l_store *store, const p3l_object_page *page) {
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

void p3l_fill_in_place(p3l_page_state *state) {
  const p3l_object_page *page = state->frame;
  uint64_t words[4];
  for (int word = 0; word < 4; word++) words[word] = page->starts[word] & ~state->copied[word];
  bool special = p3l_has_holes_or_forwards(page);
  p3l_piece piece = {0};
  while (special && p3l_piece_next(page, &piece)) {
    uint32_t granule = piece.offset / P3L_GRANULE;
    if (piece.type == P3L_HOLE || piece.type == P3L_FORWARD)
      words[granule / 64] &= ~(UINT64_C(1) << granule % 64);
  }
  for (uint32_t word = 0; word < 4; word++) p3l_in_place_put(state, word, words[word]);
}

bool p3l_adopt(p3l_store *store, p3l_page_state *state) {
  if (store->options.discovery_order || P3L_GUARDED) return false;
  if (!p3l_fits_limit(store)) return false;
  bool dense = (state->discovered + 1u) * DENSE_PART >= state->pieces;
  if ((!dense && !p3l_adopts_all(store)) || !p3l_page_is_current(store, state->frame)) return false;
  if (!p3l_pool_own(store, state)) return false;
  p3l_pool_adopted(store, state);
  state->adopted = true;
  p3l_fill_in_place(state);
  store->statistics.pages_adopted++;
  return true;
}
