/*
 * Addresses of the copies of a page's objects, in the order of the bits in `copied`.
 */
#include "page_copies.h"

#include <stdlib.h>
#include <string.h>

#include "store.h"

enum { ALL = P3L_PAGE_SIZE / P3L_GRANULE }; /* as many as a page can have */

static uint32_t copies_of(const p3l_page_state *state) {
  const uint64_t *copied = state->copied;
  return p3l_bits(copied[0]) + p3l_bits(copied[1]) + p3l_bits(copied[2]) + p3l_bits(copied[3]);
}

static bool grow(p3l_store *store, p3l_page_state *state, uint32_t count, uint32_t capacity) {
  void **copies = malloc(capacity * sizeof(*copies));
  if (copies == NULL) return false;
  if (count > 0) memcpy(copies, state->copies, count * sizeof(*copies));
  if (state->copy_capacity > 0) free(state->copies);
  p3l_memory_grew(store, (capacity - state->copy_capacity) * sizeof(*copies));
  state->copies = copies;
  state->copy_capacity = (uint16_t)capacity;
  return true;
}

bool p3l_copies_reserve(p3l_store *store, p3l_page_state *state) {
  uint32_t count = copies_of(state);
  if (count < P3L_FEW_COPIES && state->copy_capacity == 0) {
    state->copies = state->few;
    return true;
  }
  if (count < state->copy_capacity) return true;
  return grow(store, state, count, count < 2 * P3L_FEW_COPIES ? 4 * P3L_FEW_COPIES : 2 * count);
}

bool p3l_copies_reserve_all(p3l_store *store, p3l_page_state *state) {
  return state->copy_capacity == ALL || grow(store, state, copies_of(state), ALL);
}

void p3l_copies_put(p3l_page_state *state, uint32_t granule, void *memory) {
  uint32_t rank = p3l_bits_before(state->copied, granule), behind = copies_of(state) - rank;
  if (behind > 0) /* not for new objects: they come after all others */
    memmove(&state->copies[rank + 1], &state->copies[rank], behind * sizeof(void *));
  state->copies[rank] = memory;
  state->copied[granule / 64] |= UINT64_C(1) << granule % 64;
}

void p3l_copies_take(p3l_store *store, p3l_page_state *state, uint32_t granule) {
  uint32_t rank = p3l_bits_before(state->copied, granule), count = copies_of(state);
  memmove(&state->copies[rank], &state->copies[rank + 1], (count - rank - 1) * sizeof(void *));
  state->copied[granule / 64] &= ~(UINT64_C(1) << granule % 64);
  /*
   * Space for all copies was reserved for objects that will be copied later:
   * p3l_copies_reserve_all().
   */
  if (count > 1 || state->copy_capacity == 0 || state->copy_capacity == ALL) return;
  free(state->copies);
  p3l_memory_shrank(store, state->copy_capacity * sizeof(void *));
  state->copies = state->few;
  state->copy_capacity = 0;
}
