/*
 * The sweep itself; evict_sweep.h has the invariants.
 */
#include <stdlib.h>

#include "evict_sweep.h"
#include "guard.h"
#include "pool_frames.h"
#include "residency_change.h"
#include "segment_places.h"
#include "slots.h"
#include "types.h"
#include "unread.h"

/* The fate of a segment in a sweep. */
enum { FOREIGN = 0, STAYS, SWEPT, VICTIM };

typedef struct sweep {
  p3l_store *store;
  uintptr_t base;  /* of the first segment of the store */
  uint64_t count;  /* segments from there to the store's last */
  uint8_t *fate;   /* [index - first]: one byte, so that all of them stay in the nearest cache */
  uint8_t *memory; /* of the object whose slots are swept */
  p3l_swept swept;
} sweep;

static uint8_t *fate_of(const sweep *sweep, const p3l_segment *segment) {
  return &sweep->fate[((uintptr_t)segment->memory - sweep->base) >> P3L_SEGMENT_SHIFT];
}

static void decide(sweep *sweep, const p3l_segment *segment, uint8_t fate) {
  for (uint32_t at = 0; at < segment->segments; at++) fate_of(sweep, segment)[at] = fate;
}

static bool begin(sweep *sweep) {
  uintptr_t first = UINTPTR_MAX, end = 0;
  for (const p3l_segment *at = sweep->store->oldest; at != NULL; at = at->younger) {
    uintptr_t memory = (uintptr_t)at->memory;
    if (memory < first) first = memory;
    if (memory + at->segments * P3L_SEGMENT_BYTES > end)
      end = memory + at->segments * P3L_SEGMENT_BYTES;
  }
  sweep->base = first;
  sweep->count = end > first ? (end - first) >> P3L_SEGMENT_SHIFT : 0;
  sweep->fate = calloc(sweep->count + 1, 1);
  return sweep->fate != NULL;
}

/* ---- victims ---- */

/* Chooses the oldest segments first; the pool's frames last, because no address leads into them. */
static void choose(sweep *sweep, uint64_t bytes) {
  p3l_store *store = sweep->store;
  uint64_t held = store->statistics.memory_bytes;
  for (int round = 0; round < 2; round++)
    for (p3l_segment *at = store->oldest; at != NULL; at = at->younger) {
      if (round == 0) decide(sweep, at, STAYS);
      if (held <= bytes || at->pins > 0 || *fate_of(sweep, at) == VICTIM ||
          p3l_pool_owns(store, at) != (round == 1))
        continue;
      decide(sweep, at, VICTIM);
      uint64_t goes = p3l_segment_held(at);
      held = goes < held ? held - goes : 0;
    }
}

/* ---- slots of segments that stay ---- */

static void sweep_slot(void *state, uint64_t offset) {
  sweep *sweep = state;
  uint64_t *slot = (uint64_t *)(sweep->memory + offset);
  uint64_t index = (*slot - sweep->base) >> P3L_SEGMENT_SHIFT;
  if (index >= sweep->count || sweep->fate[index] != VICTIM) return;
  p3l_store *owner;
  uint64_t surrogate;
  if (p3l_memory_surrogate((void *)(uintptr_t)*slot, &owner, &surrogate)) {
    p3l_guard_begin(slot, sizeof(*slot));
    *slot = surrogate;
    p3l_guard_end(slot, sizeof(*slot));
    sweep->swept.slots++;
  } else {
    decide(sweep, p3l_segment_of((void *)(uintptr_t)*slot), STAYS); /* evict.h, invariant 4 */
  }
}

static p3l_code sweep_object(void *state, const p3l_place *place, p3l_error *error) {
  (void)error;
  sweep *sweep = state;
  const p3l_stored_type *type = p3l_types_of(sweep->store, place->type);
  if (type == NULL || type->field_count + type->union_count == 0) return P3L_OK;
  sweep->memory = place->memory;
  for (uint64_t from = 0, to; p3l_read_part(place, &from, &to); from = to)
    p3l_object_slots(type, place->memory + place->bytes, place->bytes, from, to, sweep_slot, sweep);
  return P3L_OK;
}

static void visit_all(p3l_segment *segment, p3l_place_visitor visit, void *state) {
  uint64_t bytes = segment->segments * P3L_SEGMENT_BYTES;
  p3l_places_in(segment, segment->memory, segment->memory + bytes, visit, state, NULL);
}

/* Repeated while a segment that was a victim has to stay after all. */
static void sweep_slots(sweep *sweep) {
  bool more = true;
  while (more) {
    more = false;
    for (p3l_segment *at = sweep->store->oldest; at != NULL; at = at->younger) {
      if (*fate_of(sweep, at) != STAYS) continue;
      decide(sweep, at, SWEPT);
      visit_all(at, sweep_object, sweep);
      more = true;
    }
  }
}

/* ---- releasing victims ---- */

static p3l_code count_object(void *state, const p3l_place *place, p3l_error *error) {
  (void)place, (void)error;
  ++*(uint64_t *)state;
  return P3L_OK;
}

static void release_victims(sweep *sweep) {
  p3l_store *store = sweep->store;
  for (p3l_segment *at = store->oldest, *next; at != NULL; at = next) {
    next = at->younger;
    if (*fate_of(sweep, at) != VICTIM) continue;
    visit_all(at, count_object, &sweep->swept.objects);
    sweep->swept.segments++;
    p3l_residency_forget(store, at);
    p3l_segment_release(at);
  }
}

p3l_code p3l_sweep(p3l_store *store, uint64_t bytes, p3l_swept *swept, p3l_error *error) {
  sweep sweep = {.store = store};
  if (!begin(&sweep))
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to evict objects", store->path);
  choose(&sweep, bytes);
  sweep_slots(&sweep);
  release_victims(&sweep);
  p3l_page_states_trim(store);
  free(sweep.fate);
  store->statistics.evictions++;
  store->statistics.objects_evicted += sweep.swept.objects;
  if (swept != NULL) *swept = sweep.swept;
  return P3L_OK;
}
