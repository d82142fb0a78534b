/*
 * What transactions and eviction change in residency: objects added and removed, changed pages,
 * released segments.
 */
#include <string.h>

#include "arena.h"
#include "guard.h"
#include "page_copies.h"
#include "pool_frames.h"
#include "residency_change.h"
#include "residency_load.h"
#include "store.h"

static p3l_page_number page_of(p3l_address address) {
  return (p3l_page_number){address.byte / P3L_PAGE_SIZE};
}

static uint32_t granule_of(p3l_address address) {
  return (uint32_t)(address.byte % P3L_PAGE_SIZE / P3L_GRANULE);
}

static p3l_code no_memory(const p3l_store *store, p3l_error *error) {
  return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory for the state of a page", store->path);
}

p3l_code p3l_residency_add(p3l_store *store, p3l_address address, p3l_type_id type, uint64_t bytes,
                           uint32_t flags, uint8_t generation, p3l_place *place, p3l_error *error) {
  p3l_resident object = {
      .address = address.byte, .type = type, .flags = flags, .generation = generation};
  if (bytes > P3L_SMALL_BYTES) {
    uint8_t *large;
    p3l_code code = p3l_large_take(store, object, bytes, bytes, &large, error);
    if (code != P3L_OK) return code;
    if (!p3l_large_note(store, page_of(address).n, bytes, large)) {
      p3l_segment_release(p3l_segment_of(large));
      return no_memory(store, error);
    }
    p3l_place_of(large, place);
    return P3L_OK;
  }
  p3l_page_state *state = p3l_page_state_of(store, page_of(address));
  if (state == NULL || !p3l_copies_reserve(store, state)) return no_memory(store, error);
  if (generation != 0) p3l_reused_put(state);
  object.granules = (uint16_t)((bytes + P3L_GRANULE - 1) / P3L_GRANULE);
  /* Zeroed, because no part of an arena is used twice. */
  p3l_code code = p3l_arena_add(store, object, place, error);
  if (code == P3L_OK) p3l_copies_put(state, granule_of(address), place->memory);
  return code;
}

p3l_code p3l_residency_refresh(p3l_store *store, p3l_page_number number, const p3l_page *page,
                               p3l_error *error) {
  (void)error;
  p3l_page_state *state = p3l_page_state_known(store, number);
  if (state == NULL) return P3L_OK;
  /* When a large object is removed, p3l_residency_remove() handles its first page. The states of
   * its other pages are reset here and looked up again when needed: p3l_residency_remove() could
   * miss some, since it finds them only if no eviction has forgotten one between. */
  if (state->known && state->use == P3L_USE_LARGE && state->large.first != number.n &&
      p3l_page_use_of(page) != P3L_USE_LARGE)
    state->known = false;
  if (state->frame == NULL) return P3L_OK;
  if (!state->adopted) {
    p3l_pool_drop(store, state);
    return P3L_OK;
  }
  /* A released page: its objects are removed one by one, as in any other page. */
  if (p3l_page_use_of(page) != P3L_USE_OBJECTS) return P3L_OK;
  const p3l_object_page *from = (const p3l_object_page *)page;
  size_t types = from->count * sizeof(p3l_type_id);
  memcpy(state->frame, from, P3L_OBJECTS_BEGIN);
  memcpy((uint8_t *)state->frame + P3L_PAGE_SIZE - types,
         (const uint8_t *)from + P3L_PAGE_SIZE - types, types);
  state->pieces = from->count;
  p3l_frame_refreshed(state);
  return P3L_OK;
}

/* An object with segments of its own is removed with them, if necessary after its last unpin
 * (p3l_unpin()); an object in an arena stays there, dead. */
static void bury(uint8_t *memory) {
  p3l_place place;
  if (!p3l_place_of(memory, &place)) return;
  if (place.segment->kind == P3L_LARGE && place.segment->pins == 0) {
    p3l_segment_release(place.segment);
    return;
  }
  place.resident->flags = P3L_RESIDENT_DEAD;
  if (place.segment->pins == 0) p3l_guard_dead(place.memory, place.bytes);
}

/* The pages of a large object no longer belong to an object. */
static void forget_large(p3l_store *store, uint64_t first) {
  for (uint64_t number = first;; number++) {
    p3l_page_state *state = p3l_page_state_known(store, (p3l_page_number){number});
    if (state == NULL || !state->known || state->use != P3L_USE_LARGE ||
        state->large.first != first)
      return;
    state->known = false;
    state->large.memory = NULL;
  }
}

void p3l_residency_remove(p3l_store *store, p3l_address address) {
  p3l_page_state *state = p3l_page_state_known(store, page_of(address));
  uint32_t granule = granule_of(address);
  if (state == NULL) return;
  if (p3l_bit(state->copied, granule)) {
    bury(p3l_copy_at(state, granule));
    p3l_copies_take(store, state, granule);
  } else if (p3l_bit(state->in_place, granule)) {
    p3l_in_place_put(state, granule / 64,
                     state->in_place[granule / 64] & ~(UINT64_C(1) << granule % 64));
  } else if (state->known && state->use == P3L_USE_LARGE) {
    if (state->large.memory != NULL) bury(state->large.memory);
    forget_large(store, page_of(address).n);
  }
}

p3l_code p3l_residency_reserve(p3l_store *store, p3l_address to, uint64_t bytes, p3l_error *error) {
  p3l_page_state *state = p3l_page_state_of(store, page_of(to));
  if (state == NULL) return no_memory(store, error);
  if (bytes > P3L_SMALL_BYTES) return P3L_OK;
  return p3l_copies_reserve_all(store, state) ? P3L_OK : no_memory(store, error);
}

void p3l_residency_moved(p3l_store *store, p3l_address from, p3l_address to, uint8_t generation) {
  p3l_page_state *source = p3l_page_state_known(store, page_of(from));
  p3l_page_state *target = p3l_page_state_known(store, page_of(to));
  p3l_place place;
  if (source == NULL || target == NULL) return;
  bool large = source->known && source->use == P3L_USE_LARGE;
  uint8_t *memory = large ? source->large.memory
                    : p3l_bit(source->copied, granule_of(from))
                        ? p3l_copy_at(source, granule_of(from))
                        : NULL;
  if (memory == NULL || !p3l_place_of(memory, &place)) return;
  if (large)
    forget_large(store, page_of(from).n);
  else
    p3l_copies_take(store, source, granule_of(from));
  if (place.bytes > P3L_SMALL_BYTES)
    p3l_large_note(store, page_of(to).n, place.bytes, memory);
  else
    p3l_copies_put(target, granule_of(to), memory);
  place.resident->address = to.byte;
  place.resident->generation = generation;
  if (generation != 0) p3l_reused_put(target);
}

/* ---- eviction ---- */

static void forget_copy(p3l_store *store, const p3l_resident *object, const uint8_t *memory) {
  p3l_address address = {object->address};
  if ((object->flags & P3L_RESIDENT_DEAD) != 0) return;
  p3l_page_state *state = p3l_page_state_known(store, page_of(address));
  uint32_t granule = granule_of(address);
  if (state == NULL) return;
  if (p3l_bit(state->copied, granule) && p3l_copy_at(state, granule) == memory) {
    p3l_copies_take(store, state, granule);
    if (state->discovered > 0) state->discovered--;
  } else if (state->known && state->use == P3L_USE_LARGE && state->large.memory == memory) {
    state->large.memory = NULL;
  }
}

void p3l_residency_forget(p3l_store *store, p3l_segment *segment) {
  if (store->filling == segment) store->filling = NULL;
  if (segment->kind == P3L_LARGE) {
    forget_copy(store, &segment->large.object, segment->memory);
  } else if (segment->kind == P3L_ARENA) {
    const uint8_t *memory = segment->memory;
    for (uint32_t at = 0; at < segment->arena.count; at++) {
      const p3l_resident *object = &segment->arena.objects[at];
      forget_copy(store, object, memory);
      memory += p3l_arena_stride((uint64_t)object->granules * P3L_GRANULE);
    }
  } else {
    p3l_pool_forget(store, segment);
  }
}
