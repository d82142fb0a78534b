/*
 * Lookup in what is already in memory.
 */
#include "residency_known.h"

#include "page_copies.h"
#include "segment.h"

uint8_t *p3l_copied_around(const p3l_page_state *state, uint32_t offset, bool *upgraded) {
  uint32_t granule;
  if (!p3l_bit_at_or_before(state->copied, offset / P3L_GRANULE, &granule)) return NULL;
  uint8_t *memory = p3l_copy_at(state, granule);
  uint64_t inside = offset - granule * P3L_GRANULE;
  p3l_place place;
  bool there = p3l_place_of(memory, &place) && inside < place.bytes;
  *upgraded = there && (place.resident->flags & P3L_RESIDENT_UPGRADED) != 0;
  return there ? memory + inside : NULL;
}

uint8_t *p3l_copied_surely(const p3l_page_state *state, uint32_t offset) {
  bool upgraded;
  uint8_t *copy = p3l_copied_around(state, offset, &upgraded);
  return copy == NULL || upgraded ? NULL : copy;
}

bool p3l_residency_has(p3l_store *store, p3l_address address) {
  p3l_page_state *state =
      p3l_page_state_known(store, (p3l_page_number){address.byte / P3L_PAGE_SIZE});
  uint32_t offset = address.byte % P3L_PAGE_SIZE;
  if (state == NULL) return false;
  if (state->frame != NULL || p3l_bit(state->copied, offset / P3L_GRANULE)) return true;
  if (state->known && state->use == P3L_USE_LARGE) {
    const p3l_page_state *head = p3l_page_state_known(store, (p3l_page_number){state->large.first});
    return head != NULL && head->known && head->use == P3L_USE_LARGE && head->large.memory != NULL;
  }
  return p3l_copied_surely(state, offset) != NULL;
}
