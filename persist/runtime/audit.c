/*
 * Audit of memory: a hand moves over all resident objects, some at each commit. audit.h has the
 * invariants.
 */
#include "audit.h"

#include <string.h>

#include "changes.h"
#include "convert.h"
#include "guard.h"
#include "segment.h"
#include "slots.h"
#include "store.h"
#include "types.h"
#include "unread.h"

/* A place of memory. Of a frame it is a page, which is read once; the objects of an arena are of as many
 * pages. */
enum { PLACE_BYTES = P3L_PAGE_SIZE, ARENA_PLACE_BYTES = P3L_GUARDED ? P3L_PAGE_SIZE : 256 };

static uint64_t place_bytes(const p3l_segment *segment) {
  return segment->kind == P3L_ARENA ? ARENA_PLACE_BYTES : PLACE_BYTES;
}

/* Length of the used part of a segment, counted from its beginning. */
static uint64_t used_bytes(const p3l_segment *segment) {
  switch (segment->kind) {
    case P3L_ARENA: return segment->arena.fill;
    case P3L_LARGE: return segment->large.bytes;
    default: return (uint64_t)segment->frames.fresh * P3L_PAGE_SIZE;
  }
}

static bool is_marked(const uint8_t *memory) {
  return p3l_persistent_memory
             .cards[((uintptr_t)memory - p3l_persistent_memory.base) >> P3L_CARD_SHIFT] != 0;
}

/* True if the word of this byte is as when its card was reported: the commit would not see a change that was
 * made before. */
static bool is_as_reported(const p3l_store *store, const uint8_t *memory) {
  const p3l_changes *changes = store->changes;
  uintptr_t offset = ((uintptr_t)memory - p3l_persistent_memory.base) / 8 * 8;
  size_t index;
  if (!p3l_table_find(&changes->kept, offset >> P3L_CARD_SHIFT, &index)) return false;
  return memcmp((const uint8_t *)p3l_persistent_memory.base + offset,
                p3l_kept_card_at(changes, index)->bytes + offset % P3L_CARD_BYTES, 8) == 0;
}

/* True for a pointer to an object that an upgrade may have moved: the store has the address before, and a
 * forward there. */
static bool may_have_moved(const p3l_place *place, uint64_t offset) {
  const p3l_store *store = place->segment->store;
  const p3l_stored_type *type = p3l_types_of(store, place->type);
  uint64_t bit, word = offset / 8 * 8;
  return store->upgrades && type != NULL &&
         (p3l_type_is_slot(type, word) || p3l_type_arm_at(type, place->bytes, word, &bit));
}

static p3l_code lost(const p3l_place *place, uint64_t at, p3l_error *error) {
  const p3l_store *store = place->segment->store;
  const p3l_stored_type *type = p3l_types_of(store, place->type);
  return p3l_fail(
      error, P3L_MISUSE,
      "%s: byte %llu of the %s at page %llu, byte %llu was changed and not reported before "
      "(p3l_dirty(), P3L_SET, edit()): the store does not have the change, and the next run "
      "would not see it. Nothing of this transaction was committed",
      store->path, (unsigned long long)at, type == NULL ? "object" : type->name,
      (unsigned long long)(place->address.byte / P3L_PAGE_SIZE),
      (unsigned long long)(place->address.byte % P3L_PAGE_SIZE));
}

/* Compares bytes [from, to) of an object with its stored bytes, which are contiguous at
 * `stored`. */
static p3l_code compare(const p3l_place *place, uint64_t from, uint64_t to, const uint8_t *stored,
                        p3l_error *error) {
  uint8_t bytes[PLACE_BYTES];
  bool marked = false;
  for (uint64_t at = from; at < to; at += P3L_GRANULE) marked |= is_marked(place->memory + at);
  p3l_error why;
  p3l_code code = p3l_unswizzle(place, from, to, bytes, &why);
  if (code != P3L_OK) {
    if (marked) return P3L_OK; /* the commit reports this change */
    if (error != NULL) *error = why;
    return code;
  }
  if (memcmp(bytes, stored, to - from) == 0) return P3L_OK;
  for (uint64_t at = 0; at < to - from; at++) {
    const uint8_t *memory = place->memory + from + at;
    if (bytes[at] == stored[at] || may_have_moved(place, from + at)) continue;
    if (!is_marked(memory) || is_as_reported(place->segment->store, memory))
      return lost(place, from + at, error);
  }
  return P3L_OK;
}

typedef struct looking {
  p3l_store *store;
  const uint8_t *from, *to; /* begin and end of the place */
  p3l_page page;            /* page that was read last */
  bool read;
} looking;

static p3l_code read_page(looking *looking, p3l_page_number number, p3l_error *error) {
  if (looking->read && looking->page.number == number.n) return P3L_OK;
  const p3l_page *seen;
  p3l_code code = p3l_page_seen(looking->store->changes->pager, number, &seen, error);
  looking->read = code == P3L_OK;
  if (looking->read) looking->page = *seen;
  return code;
}

static p3l_code audit_large(looking *looking, const p3l_place *place, uint64_t from, uint64_t to,
                            p3l_error *error) {
  p3l_code code = P3L_OK;
  while (from < to && code == P3L_OK) {
    uint64_t inside = from % P3L_LARGE_PART, end = from - inside + P3L_LARGE_PART;
    if (end > to) end = to;
    p3l_page_number number = {place->address.byte / P3L_PAGE_SIZE + from / P3L_LARGE_PART};
    code = read_page(looking, number, error);
    const p3l_large_page *large = (const p3l_large_page *)&looking->page;
    if (code == P3L_OK) code = compare(place, from, end, large->part + inside, error);
    from = end;
  }
  return code;
}

static p3l_code audit_object(void *state, const p3l_place *place, p3l_error *error) {
  looking *looking = state;
  const uint32_t other = P3L_RESIDENT_NEW | P3L_RESIDENT_UPGRADED | P3L_RESIDENT_DEAD;
  if (place->resident != NULL && (place->resident->flags & other) != 0) return P3L_OK;
  uint64_t from = looking->from > place->memory ? (uint64_t)(looking->from - place->memory) : 0;
  if (!p3l_is_read(place->segment, from)) return P3L_OK; /* a place lies in one stretch */
  uint64_t to = (uint64_t)(looking->to - place->memory);
  if (to > place->bytes) to = place->bytes;
  if (place->bytes > P3L_SMALL_BYTES) return audit_large(looking, place, from, to, error);
  p3l_code code = read_page(looking, (p3l_page_number){place->address.byte / P3L_PAGE_SIZE}, error);
  const uint8_t *stored = (const uint8_t *)&looking->page + place->address.byte % P3L_PAGE_SIZE;
  return code == P3L_OK ? compare(place, from, to, stored + from, error) : code;
}

/* The segment that the hand points to; NULL: the hand is before the oldest segment, or its
 * segment was released. */
static p3l_segment *segment_at_hand(const p3l_store *store) {
  p3l_segment *segment =
      store->youngest == NULL ? NULL : p3l_segment_table[store->audit_hand.index];
  bool same = segment != NULL && segment->store == store && segment->born == store->audit_hand.born;
  return same ? segment : NULL;
}

/* Moves the hand to the next place; false: nothing is resident. */
static bool next_place(p3l_store *store, uint8_t **from, uint8_t **to) {
  p3l_segment *segment = segment_at_hand(store);
  uint64_t offset = store->audit_hand.offset;
  for (int rounds = 0; segment == NULL || offset >= used_bytes(segment);) {
    offset = 0;
    if (segment != NULL) segment = segment->younger;
    if (segment == NULL && ++rounds == 3) return false;
    if (segment == NULL) segment = store->oldest;
    if (segment == NULL) return false;
  }
  uint64_t left = used_bytes(segment) - offset, most = place_bytes(segment);
  *from = segment->memory + offset;
  *to = *from + (left < most ? left : most);
  store->audit_hand.index = segment->index;
  store->audit_hand.born = segment->born;
  store->audit_hand.offset = offset + (uint64_t)(*to - *from);
  return true;
}

static p3l_code audit_place(looking *looking, p3l_segment *segment, uint8_t *from, uint8_t *to,
                            p3l_error *error) {
  looking->from = from;
  looking->to = to;
  return p3l_places_in(segment, from, to, audit_object, looking, error);
}

static p3l_code audit_all(looking *looking, p3l_error *error) {
  p3l_code code = P3L_OK;
  for (p3l_segment *at = looking->store->oldest; at != NULL && code == P3L_OK; at = at->younger) {
    uint64_t used = used_bytes(at), most = place_bytes(at);
    for (uint64_t offset = 0; offset < used && code == P3L_OK; offset += most) {
      uint64_t bytes = used - offset < most ? used - offset : most;
      code = audit_place(looking, at, at->memory + offset, at->memory + offset + bytes, error);
    }
  }
  return code;
}

p3l_code p3l_audit_changes(p3l_store *store, uint32_t places, p3l_error *error) {
  looking looking = {.store = store};
  uint8_t *from, *to;
  p3l_code code = P3L_OK;
  if (places == P3L_AUDIT_ALL) return audit_all(&looking, error);
  for (uint32_t n = 0; n < places && code == P3L_OK && next_place(store, &from, &to); n++)
    code = audit_place(&looking, p3l_segment_of(from), from, to, error);
  return code;
}

p3l_code p3l_audit_opened(p3l_store *store, p3l_error *error) {
  looking looking = {.store = store};
  p3l_changes *changes = store->changes;
  p3l_code code = P3L_OK;
  for (size_t i = 0; i < changes->card_count && code == P3L_OK; i++) {
    uintptr_t offset = p3l_kept_card_at(changes, i)->card << P3L_CARD_SHIFT;
    uint8_t *page = (uint8_t *)p3l_persistent_memory.base + offset / PLACE_BYTES * PLACE_BYTES;
    code = audit_place(&looking, p3l_segment_of(page), page, page + PLACE_BYTES, error);
  }
  return code;
}
