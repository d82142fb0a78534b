/*
 * Moves a reader to its next version: changed objects are updated in their memory.
 *
 *   the pager's next version ──> types ──> each page that changed and of which something is resident
 *                                            │ the same objects: the units that changed
 *                                            │ others: each object compared; its new bytes
 *                                            └ objects that are gone ──> one pass over all slots
 *
 * Invariants:
 *  1. No thread is within the store (`scopes` is held exclusively). A store open for reading has no
 *     changes of its own: resident bytes equal the version's, except in healed slots.
 *  2. An object that begins where one of the same generation, type and extent began is the same
 *     object and is updated in its memory: slots that lead to it stay valid.
 *  3. A slot that leads to a deleted object becomes a surrogate again, with the deleted object's
 *     generation: its target is looked up when it is followed. A slot whose bytes did not change in
 *     the store, although a new object took the old one's place, therefore dangles. In an adopted
 *     frame the deleted object's memory records its generation, and the new object there is used as
 *     a copy.
 *  4. Objects that were upgraded in memory, or have moved, count as deleted.
 *  5. After a failure only pinned objects are resident, and nothing can be resolved (`lost`).
 *  6. If neither the head nor the type ids of a page changed, it has the same objects (2), and their
 *     bytes differ in the changed units only: nothing else of the page is read or written, and slots in
 *     other units stay addresses. Its pieces were checked when it was read. Objects with unions are taken
 *     over whole (refresh_arms.h).
 */
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "evict_sweep.h"
#include "guard.h"
#include "page_copies.h"
#include "page_state.h"
#include "pager.h"
#include "pool_frames.h"
#include "refresh_arms.h"
#include "residency_change.h"
#include "residency_policy.h"
#include "segment_places.h"
#include "slots.h"
#include "store.h"
#include "types.h"
#include "unread.h"
#include "visits.h"

typedef struct refreshing {
  p3l_store *store;
  const p3l_news *news;
  bool gone;            /* some object was deleted: invariant 3 */
  bool emptied;         /* some adopted frame's page has no objects any more */
  p3l_segment **buried; /* large objects that were deleted: pinned until the pass over the slots */
  size_t buried_count;
  uint8_t *object; /* whose slots are visited */
} refreshing;

/* ---- objects in pages ---- */

/* True if the page has the object of `place` as memory has it, apart from its bytes. */
static bool same_object(const p3l_object_page *page, const p3l_place *place) {
  uint32_t offset = (uint32_t)(place->address.byte % P3L_PAGE_SIZE);
  p3l_piece piece;
  return (place->resident->flags & P3L_RESIDENT_UPGRADED) == 0 &&
         p3l_piece_at(page, offset, &piece) && piece.offset == offset &&
         piece.type == place->type && piece.bytes == place->bytes &&
         piece.generation == place->generation;
}

/* Copies what of these units lies in bytes [begin, end) of the page to `to`, where byte `begin` is. */
static void copy_units(uint8_t *to, const void *page, uint32_t begin, uint32_t end,
                       uint64_t units) {
  units &= p3l_units(begin, end - begin);
  while (units != 0) {
    uint32_t first = (uint32_t)__builtin_ctzll(units);
    uint64_t others = ~(units >> first);
    uint32_t count = others == 0 ? 64 : (uint32_t)__builtin_ctzll(others);
    uint32_t from = first * P3L_UNIT, behind = (first + count) * P3L_UNIT;
    if (from < begin) from = begin;
    if (behind > end) behind = end;
    memcpy(to + (from - begin), (const uint8_t *)page + from, behind - from);
    units &= first + count == 64 ? 0 : ~UINT64_C(0) << (first + count);
  }
}

/* Brings a copied object up to date. False: the page does not have it any more. `page` NULL: it has no
 * objects any more. */
static bool refresh_copy(uint8_t *memory, uint32_t granule, const p3l_object_page *page,
                         uint64_t units) {
  p3l_place place;
  if (page == NULL || !p3l_place_of(memory, &place) || place.memory != memory ||
      !same_object(page, &place))
    return false;
  uint32_t begin = granule * P3L_GRANULE;
  p3l_guard_begin(memory, place.bytes);
  copy_units(memory, page, begin, begin + (uint32_t)place.bytes, units);
  p3l_guard_end(memory, place.bytes);
  return true;
}

/* `same`: invariant 6, so that only objects in these units differ. */
static void refresh_copies(refreshing *refreshing, p3l_page_number number, p3l_page_state *state,
                           const p3l_object_page *page, bool same, uint64_t units) {
  uint64_t copied[4];
  memcpy(copied, state->copied, sizeof(copied));
  for (uint32_t word = 0; word < 4; word++)
    for (uint64_t left = copied[word]; left != 0; left &= left - 1) {
      uint32_t granule = word * 64 + (uint32_t)__builtin_ctzll(left);
      if (same) {
        uint32_t end = p3l_bit_behind(page->starts, granule, page->end / P3L_GRANULE);
        uint32_t bytes = end > granule ? (end - granule) * P3L_GRANULE : P3L_GRANULE;
        if ((units & p3l_units(granule * P3L_GRANULE, bytes)) == 0) continue;
      }
      if (refresh_copy(p3l_copy_at(state, granule), granule, page, same ? units : ~UINT64_C(0)))
        continue;
      p3l_residency_remove(refreshing->store,
                           (p3l_address){number.n * P3L_PAGE_SIZE + granule * P3L_GRANULE});
      refreshing->gone = true;
    }
}

/* Fills the memory of a deleted piece with bytes that mark it as deleted, but not the type ids
 * of new pieces, which may lie there. */
static void poison(p3l_object_page *frame, const p3l_piece *gone) {
  uint32_t end = gone->offset + (uint32_t)gone->bytes, ids = p3l_ids_begin(frame);
  if (end > ids) end = ids;
  if (gone->offset < end)
    memset((uint8_t *)frame + gone->offset, P3L_DELETED_BYTE | gone->generation,
           end - gone->offset);
}

/* Keeps, by granule, the pieces in place that are the same objects as before. The memory of the
 * others is marked as deleted. */
static void keep_same(const p3l_object_page *was, const uint64_t before[4], p3l_page_state *state) {
  uint64_t same[4] = {0};
  p3l_piece now, then = {0};
  while (p3l_piece_next(was, &then)) {
    uint32_t granule = then.offset / P3L_GRANULE;
    if (!p3l_bit(before, granule)) continue;
    if (p3l_piece_at(state->frame, then.offset, &now) && now.offset == then.offset &&
        now.bytes == then.bytes && now.type == then.type && now.generation == then.generation)
      same[granule / 64] |= UINT64_C(1) << granule % 64;
    else
      poison(state->frame, &then);
  }
  for (uint32_t word = 0; word < 4; word++)
    p3l_in_place_put(state, word, state->in_place[word] & same[word]);
}

static void refresh_frame(refreshing *refreshing, p3l_page_state *state,
                          const p3l_object_page *page) {
  uint64_t before[4];
  p3l_object_page was = *state->frame;
  memcpy(before, state->in_place, sizeof(before));
  for (uint32_t word = 0; word < 4; word++) p3l_in_place_put(state, word, 0);
  if (page != NULL) {
    memcpy(state->frame, page, P3L_PAGE_SIZE);
  } else {
    memset(state->frame->starts, 0, sizeof(state->frame->starts));
    state->frame->count = 0;
    state->frame->end = P3L_OBJECTS_BEGIN;
    refreshing->emptied = true;
  }
  state->pieces = state->frame->count;
  state->found = 0;
  p3l_frame_refreshed(state);
  if (p3l_page_is_current(refreshing->store, state->frame)) p3l_fill_in_place(state);
  keep_same(&was, before, state);
  for (uint32_t word = 0; word < 4; word++)
    if ((before[word] & ~state->in_place[word]) != 0) refreshing->gone = true;
}

/* ---- large objects ---- */

static bool is_part_of(const p3l_page *page, uint64_t first) {
  const p3l_large_page *large = (const p3l_large_page *)page;
  return p3l_page_use_of(page) == P3L_USE_LARGE && large->first == first;
}

/* Its memory stays until no slot leads there. */
static p3l_code bury_large(refreshing *refreshing, const p3l_place *place, p3l_error *error) {
  size_t count = refreshing->buried_count;
  p3l_segment **buried = realloc(refreshing->buried, (count + 1) * sizeof(*buried));
  if (buried == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to refresh it", refreshing->store->path);
  buried[count] = place->segment;
  refreshing->buried = buried;
  refreshing->buried_count = count + 1;
  place->segment->pins++;
  p3l_residency_remove(refreshing->store, place->address);
  refreshing->gone = true;
  return P3L_OK;
}

static p3l_code refresh_large(refreshing *refreshing, const p3l_news_page *news,
                              p3l_page_state *state, p3l_error *error) {
  uint64_t first = state->large.first;
  const p3l_page *page = news->page;
  const p3l_large_page *large = (const p3l_large_page *)page;
  p3l_page_state *head = p3l_page_state_known(refreshing->store, (p3l_page_number){first});
  uint8_t *memory =
      head != NULL && head->known && head->use == P3L_USE_LARGE ? head->large.memory : NULL;
  p3l_place place;
  bool same_head = (news->units & p3l_units(0, offsetof(p3l_large_page, part))) == 0;
  bool part = same_head || (is_part_of(page, first) && p3l_data_page_fault(page) == NULL);
  if (memory == NULL || !p3l_place_of(memory, &place)) {
    if (!part) state->known = false;
    return P3L_OK;
  }
  /* Another object of the same length took its place: its first page is also among the changed
   * pages, and handles it. */
  bool same = same_head || (part && large->bytes == place.bytes &&
                            (news->number != first ||
                             (large->type == place.type && page->generation == place.generation)));
  if (same && (place.resident->flags & P3L_RESIDENT_UPGRADED) == 0) {
    uint64_t done = (news->number - first) * P3L_LARGE_PART, left = place.bytes - done;
    uint32_t part_bytes = (uint32_t)(left < P3L_LARGE_PART ? left : P3L_LARGE_PART);
    uint32_t begin = offsetof(p3l_large_page, part);
    /* What is unread will be read in the next version. The page may be part of two stretches. */
    uint64_t from = done, to = done + part_bytes;
    uint64_t border = (to - 1) / P3L_STRETCH_BYTES * P3L_STRETCH_BYTES;
    if (!p3l_is_read(place.segment, to - 1)) to = border > from ? border : from;
    if (border > from && !p3l_is_read(place.segment, from)) from = border;
    if (from >= to) return P3L_OK;
    p3l_code code = p3l_arms_refresh_large(refreshing->store, &place, page, error);
    p3l_guard_begin(memory + from, to - from);
    copy_units(memory + from, page, begin + (uint32_t)(from - done), begin + (uint32_t)(to - done),
               news->units);
    p3l_guard_end(memory + from, to - from);
    return code;
  }
  p3l_code code = bury_large(refreshing, &place, error);
  state->known = false;
  return code;
}

/* ---- pages ---- */

/* Invariant 6. A page that is used in place is compared with what is there. */
static bool has_same_objects(const p3l_page_state *state, const p3l_news_page *news) {
  uint32_t ids = state->pieces * (uint32_t)sizeof(p3l_type_id);
  uint64_t layout = p3l_units(0, P3L_OBJECTS_BEGIN);
  if (ids > 0) layout |= p3l_units(P3L_PAGE_SIZE - ids, ids);
  if ((news->units & layout) == 0) return true;
  const uint8_t *now = (const uint8_t *)news->page, *was = (const uint8_t *)state->frame;
  return state->adopted && p3l_page_use_of(news->page) == P3L_USE_OBJECTS &&
         memcmp(now + sizeof(state->frame->head), was + sizeof(state->frame->head),
                P3L_OBJECTS_BEGIN - sizeof(state->frame->head)) == 0 &&
         memcmp(now + P3L_PAGE_SIZE - ids, was + P3L_PAGE_SIZE - ids, ids) == 0;
}

static void refresh_units(refreshing *refreshing, const p3l_news_page *news,
                          p3l_page_state *state) {
  uint64_t units = p3l_arms_units(refreshing->store, news->page, news->units);
  refresh_copies(refreshing, (p3l_page_number){news->number}, state,
                 (const p3l_object_page *)news->page, true, units);
  if (!state->adopted) return;
  copy_units((uint8_t *)state->frame, news->page, 0, P3L_PAGE_SIZE, units);
  if (units == ~UINT64_C(0)) state->found = 0; /* no slot is an address */
}

static p3l_code refresh_page(refreshing *refreshing, const p3l_news_page *news,
                             p3l_page_state *state, p3l_error *error) {
  if (state->known && state->use == P3L_USE_LARGE)
    return refresh_large(refreshing, news, state, error);
  if (state->frame != NULL && !state->adopted) p3l_pool_drop(refreshing->store, state);
  if (has_same_objects(state, news)) {
    refresh_units(refreshing, news, state);
    return P3L_OK;
  }
  const p3l_page *page = news->page;
  bool objects = p3l_page_use_of(page) == P3L_USE_OBJECTS && p3l_data_page_fault(page) == NULL;
  const p3l_object_page *now = objects ? (const p3l_object_page *)page : NULL;
  refresh_copies(refreshing, (p3l_page_number){news->number}, state, now, false, ~UINT64_C(0));
  if (state->adopted)
    refresh_frame(refreshing, state, now);
  else
    state->known = false; /* read again when it is asked for */
  state->pieces = now != NULL ? now->count : 0;
  return P3L_OK;
}

/* Of a version of another round: the pages are not known, so each is asked for. */
static p3l_code refresh_if_news(void *context, p3l_page_number number, p3l_page_state *state,
                                p3l_error *error) {
  refreshing *refreshing = context;
  p3l_pager *pager = refreshing->store->pager;
  p3l_page page;
  if (!p3l_pager_is_news(pager, refreshing->news, number)) return P3L_OK;
  p3l_code code = p3l_pager_read(pager, number, &page, error);
  if (code != P3L_OK) return code;
  p3l_news_page news = {number.n, ~UINT64_C(0), &page};
  return refresh_page(refreshing, &news, state, error);
}

static p3l_code refresh_pages(refreshing *refreshing, p3l_error *error) {
  const p3l_news *news = refreshing->news;
  if (news->everywhere)
    return p3l_page_states_each(refreshing->store, refresh_if_news, refreshing, error);
  p3l_code code = P3L_OK;
  for (size_t at = 0; at < news->count && code == P3L_OK; at++) {
    p3l_page_number number = {news->pages[at].number};
    p3l_page_state *state = p3l_page_state_known(refreshing->store, number);
    if (state != NULL) code = refresh_page(refreshing, &news->pages[at], state, error);
  }
  return code;
}

/* True if types may have been added. Each page of types counts its own, in its head. */
static bool types_are_news(const p3l_news *news) {
  bool types = news->everywhere;
  for (size_t at = 0; at < news->count && !types; at++)
    types =
        (news->pages[at].units & 1) != 0 && p3l_page_use_of(news->pages[at].page) == P3L_USE_TYPES;
  return types;
}

/* ---- slots that lead to deleted objects ---- */

static void mend_slot(void *context, uint64_t offset) {
  refreshing *refreshing = context;
  uint64_t *slot = (uint64_t *)(void *)(refreshing->object + offset);
  p3l_store *owner;
  uint64_t surrogate;
  p3l_place place;
  const void *to = (const void *)(uintptr_t)*slot;
  if (*slot == 0 || p3l_is_surrogate(to) || p3l_place_of(to, &place)) return;
  if (!p3l_memory_surrogate(to, &owner, &surrogate) || owner != refreshing->store) return;
  p3l_guard_begin(slot, sizeof(*slot));
  *slot = surrogate;
  p3l_guard_end(slot, sizeof(*slot));
}

static p3l_code mend_object(void *context, const p3l_place *place, p3l_error *error) {
  (void)error;
  refreshing *refreshing = context;
  const p3l_stored_type *type = p3l_types_of(refreshing->store, place->type);
  if (type == NULL || type->field_count + type->union_count == 0) return P3L_OK;
  refreshing->object = place->memory;
  for (uint64_t from = 0, to; p3l_read_part(place, &from, &to); from = to)
    p3l_object_slots(type, place->memory + place->bytes, place->bytes, from, to, mend_slot,
                     refreshing);
  return P3L_OK;
}

static void mend_slots(refreshing *refreshing) {
  for (p3l_segment *at = refreshing->store->oldest; at != NULL; at = at->younger)
    p3l_places_in(at, at->memory, at->memory + at->segments * P3L_SEGMENT_BYTES, mend_object,
                  refreshing, NULL);
}

/* No slot leads into such a frame any more, and the page may belong to another object by now. */
static p3l_code drop_if_emptied(void *context, p3l_page_number number, p3l_page_state *state,
                                p3l_error *error) {
  refreshing *refreshing = context;
  (void)number, (void)error;
  if (!state->adopted || state->frame->count > 0) return P3L_OK;
  p3l_pool_drop(refreshing->store, state);
  state->known = false;
  return P3L_OK;
}

static void release_buried(refreshing *refreshing) {
  for (size_t at = 0; at < refreshing->buried_count; at++)
    if (--refreshing->buried[at]->pins == 0) p3l_segment_release(refreshing->buried[at]);
  free(refreshing->buried);
}

/* ---- refresh ---- */

static p3l_code refresh(p3l_store *store, p3l_error *error) {
  p3l_news news;
  refreshing refreshing = {.store = store, .news = &news};
  p3l_code code = p3l_pager_refresh(store->pager, &news, error);
  if (code == P3L_OK && news.changed && types_are_news(&news))
    code = p3l_types_refresh(store, error);
  if (code == P3L_OK && news.changed) code = refresh_pages(&refreshing, error);
  if (refreshing.gone) mend_slots(&refreshing);
  if (refreshing.emptied) p3l_page_states_each(store, drop_if_emptied, &refreshing, NULL);
  release_buried(&refreshing);
  if (code != P3L_OK && news.changed) {
    store->lost = true;
    p3l_sweep(store, 0, NULL, NULL);
  }
  p3l_news_free(&news);
  store->page_count = p3l_pager_page_count(store->pager);
  return code;
}

p3l_code p3l_refresh(p3l_store *store, p3l_error *error) {
  if (p3l_scope_writing(store) || p3l_scope_depth(store) > 0)
    return p3l_fail(
        error, P3L_MISUSE,
        "%s: p3l_refresh() within a scope or transaction of this thread, which may hold "
        "pointers; leave it first",
        store->path);
  if (!store->options.read_only) return P3L_OK;
  p3l_code code = p3l_pager_inherited(store->pager, error);
  if (code != P3L_OK) return code;
  pthread_rwlock_wrlock(&store->scopes);
  pthread_mutex_lock(&store->slow);
  code = refresh(store, error);
  pthread_mutex_unlock(&store->slow);
  pthread_rwlock_unlock(&store->scopes);
  return code;
}
