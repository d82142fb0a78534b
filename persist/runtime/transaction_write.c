/*
 * What a transaction did to memory, brought into the pager's pages: the first half of a commit.
 * transaction.h has the invariants.
 *
 *   kept card      |....k....k....|    the words that differ, if they differ in the store's form
 *   memory         |....m....s....|    (s: a slot that was healed)
 *   pager's page   |....m.........|
 */
#include <stdlib.h>
#include <string.h>

#include "transaction.h"

/* ---- places in pages ---- */

static bool is_large(const p3l_place *place) { return place->bytes > P3L_SMALL_BYTES; }

/* The object's pages are no longer as they were committed: residency wants to know. */
static p3l_code note_page(p3l_store *store, p3l_page_number number, p3l_error *error) {
  p3l_changes *changes = store->changes;
  size_t index;
  if (p3l_table_find(&changes->written_at, number.n, &index)) return P3L_OK;
  p3l_page_number *written = p3l_grown(changes->written, &changes->written_capacity,
                                       changes->written_count + 1, sizeof(*changes->written));
  if (written != NULL) changes->written = written;
  if (written == NULL || !p3l_table_reserve(&changes->written_at, 1))
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to commit %zu pages", store->path,
                    changes->written_count);
  p3l_table_add(&changes->written_at, number.n, changes->written_count);
  changes->written[changes->written_count++] = number;
  return P3L_OK;
}

/* The same for all pages of the object, as the store has it. */
static p3l_code note_pages(p3l_store *store, p3l_address address, p3l_error *error) {
  p3l_page_number first = {address.byte / P3L_PAGE_SIZE};
  const p3l_page *seen;
  p3l_code code = p3l_page_seen(store->changes->pager, first, &seen, error);
  if (code != P3L_OK) return code;
  const p3l_large_page *large = (const void *)seen;
  uint64_t pages =
      large->use == P3L_USE_LARGE ? (large->bytes + P3L_LARGE_PART - 1) / P3L_LARGE_PART : 1;
  for (uint64_t i = 0; i < pages && code == P3L_OK; i++)
    code = note_page(store, (p3l_page_number){first.n + i}, error);
  return code;
}

/* The transaction's copy of a page; most often the one asked for last. */
static p3l_code page_to_write(p3l_store *store, p3l_page_number number, p3l_page **page,
                              p3l_error *error) {
  p3l_changes *changes = store->changes;
  if (changes->last_page == NULL || changes->last_number.n != number.n) {
    p3l_code code = note_page(store, number, error);
    if (code == P3L_OK)
      code = p3l_page_for_writing(changes->pager, number, &changes->last_page, error);
    if (code != P3L_OK) {
      changes->last_page = NULL;
      return code;
    }
    changes->last_number = number;
  }
  *page = changes->last_page;
  return P3L_OK;
}

/* Bytes [from, to) of an object, unswizzled, to where the store has them. */
static p3l_code write_range(p3l_store *store, const p3l_place *place, p3l_address address,
                            uint64_t from, uint64_t to, p3l_error *error) {
  while (from < to) {
    p3l_page_number number = {address.byte / P3L_PAGE_SIZE};
    uint64_t offset = address.byte % P3L_PAGE_SIZE + from, end = to;
    if (is_large(place)) {
      number.n += from / P3L_LARGE_PART;
      offset = offsetof(p3l_large_page, part) + from % P3L_LARGE_PART;
      if (end - from > P3L_PAGE_SIZE - offset) end = from + (P3L_PAGE_SIZE - offset);
    }
    p3l_page *page;
    p3l_code code = page_to_write(store, number, &page, error);
    if (code == P3L_OK) code = p3l_unswizzle(place, from, end, (uint8_t *)page + offset, error);
    if (code != P3L_OK) return code;
    p3l_page_changed(store->changes->pager, page, (uint32_t)offset, (uint32_t)(end - from));
    from = end;
  }
  return P3L_OK;
}

/* ---- what differs from what was kept ---- */

enum { CARD_WORDS = P3L_CARD_BYTES / 8 };

typedef struct comparison {
  p3l_store *store;
  const uint8_t *card, *kept; /* P3L_CARD_BYTES each */
  uint64_t base;              /* of the object's range: slots are told relative to the object */
  uint64_t slots[CARD_WORDS / 64];
} comparison;

static void note_slot(void *state, uint64_t offset) {
  comparison *comparison = state;
  if (offset < comparison->base) return; /* begins in the card before: cannot be, it is aligned */
  uint64_t word = (offset - comparison->base) / 8;
  if (word < CARD_WORDS) comparison->slots[word / 64] |= UINT64_C(1) << word % 64;
}

static uint64_t word_at(const uint8_t *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof(word));
  return word;
}

/* Whether a slot leads elsewhere than it did: invariant 3. */
static bool slot_differs(const p3l_store *store, uint64_t before, uint64_t now) {
  uint64_t left, right;
  return p3l_surrogate_of(store, (void *)(uintptr_t)before, &left, NULL) != P3L_OK ||
         p3l_surrogate_of(store, (void *)(uintptr_t)now, &right, NULL) != P3L_OK || left != right;
}

static bool word_differs(const comparison *comparison, const uint8_t *before, const uint8_t *now,
                         uint64_t word) {
  uint64_t was = word_at(before + word * 8), is = word_at(now + word * 8);
  if (was == is) return false;
  if ((comparison->slots[word / 64] >> word % 64 & 1) == 0) return true;
  return slot_differs(comparison->store, was, is);
}

static p3l_code note_upgraded(p3l_store *store, const p3l_place *place, p3l_error *error) {
  p3l_changes *changes = store->changes;
  size_t index;
  if (p3l_table_find(&changes->upgraded_at, place->address.byte, &index)) return P3L_OK;
  if (!p3l_table_reserve(&changes->upgraded_at, 1) ||
      !p3l_place_list_add(&changes->upgraded, place))
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to commit an upgraded object",
                    store->path);
  p3l_table_add(&changes->upgraded_at, place->address.byte, changes->upgraded.count - 1);
  return P3L_OK;
}

static p3l_code write_difference(void *state, const p3l_place *place, p3l_error *error) {
  comparison *comparison = state;
  p3l_store *store = comparison->store;
  p3l_changes *changes = store->changes;
  size_t index;
  if (place->resident != NULL && (place->resident->flags & P3L_RESIDENT_NEW) != 0) return P3L_OK;

  const uint8_t *end = place->memory + place->bytes, *card_end = comparison->card + P3L_CARD_BYTES;
  const uint8_t *now = place->memory > comparison->card ? place->memory : comparison->card;
  size_t bytes = (size_t)((end < card_end ? end : card_end) - now);
  const uint8_t *before = comparison->kept + (now - comparison->card);
  if (memcmp(now, before, bytes) == 0) return P3L_OK;
  if (p3l_table_find(&changes->deleted_at, place->address.byte, &index)) return P3L_OK;

  const p3l_stored_type *type = p3l_types_of(store, place->type);
  comparison->base = (uint64_t)(now - place->memory);
  memset(comparison->slots, 0, sizeof(comparison->slots));
  if (type != NULL && type->field_count > 0)
    p3l_type_slots(type, comparison->base, comparison->base + bytes, note_slot, comparison);
  bool upgraded = place->resident != NULL && (place->resident->flags & P3L_RESIDENT_UPGRADED) != 0;
  /* Extents are whole granules: no half words. */
  uint64_t words = bytes / 8;
  p3l_code code = P3L_OK;
  for (uint64_t word = 0; word < words && code == P3L_OK; word++) {
    if (!word_differs(comparison, before, now, word)) continue;
    if (upgraded) return note_upgraded(store, place, error);
    uint64_t first = word;
    while (word + 1 < words && word_differs(comparison, before, now, word + 1)) word++;
    code = write_range(store, place, place->address, comparison->base + first * 8,
                       comparison->base + (word + 1) * 8, error);
  }
  return code;
}

static p3l_code write_differences(p3l_store *store, p3l_error *error) {
  p3l_changes *changes = store->changes;
  for (size_t i = 0; i < changes->card_count; i++) {
    const p3l_kept_card *kept = p3l_kept_card_at(changes, i);
    const uint8_t *card =
        (const uint8_t *)(p3l_persistent_memory.base + (kept->card << P3L_CARD_SHIFT));
    if (memcmp(card, kept->bytes, P3L_CARD_BYTES) == 0) continue;
    comparison comparison = {.store = store, .card = card, .kept = kept->bytes};
    p3l_code code = p3l_places_in(p3l_segment_of(card), card, card + P3L_CARD_BYTES,
                                  write_difference, &comparison, error);
    if (code != P3L_OK) return code;
  }
  return P3L_OK;
}

/* ---- whole objects ---- */

static p3l_code write_made(p3l_store *store, p3l_error *error) {
  p3l_changes *changes = store->changes;
  p3l_code code = P3L_OK;
  for (size_t i = 0; i < changes->made.count && code == P3L_OK; i++) {
    const p3l_place *place = &changes->made.places[i];
    size_t index;
    if (p3l_table_find(&changes->deleted_at, place->address.byte, &index)) continue;
    code = write_range(store, place, place->address, 0, place->bytes, error);
  }
  return code;
}

/* The type id that the store has of an object's place becomes the one of its layout in memory. */
static p3l_code retype(p3l_store *store, const p3l_place *place, bool *fits, p3l_error *error) {
  p3l_page_number number = {place->address.byte / P3L_PAGE_SIZE};
  const p3l_page *seen;
  p3l_page *page;
  p3l_piece piece;
  *fits = false;
  p3l_code code = p3l_page_seen(store->changes->pager, number, &seen, error);
  if (code != P3L_OK) return code;
  const p3l_large_page *large = (const p3l_large_page *)seen;
  if (large->use == P3L_USE_LARGE) {
    if (large->bytes != place->bytes) return P3L_OK;
    uint64_t pages = (place->bytes + P3L_LARGE_PART - 1) / P3L_LARGE_PART;
    for (uint64_t i = 0; i < pages && code == P3L_OK; i++) {
      code = page_to_write(store, (p3l_page_number){number.n + i}, &page, error);
      if (code != P3L_OK) break;
      ((p3l_large_page *)page)->type = place->type;
      p3l_page_changed(store->changes->pager, page, 0, offsetof(p3l_large_page, part));
    }
    *fits = true;
    return code;
  }
  if (!p3l_piece_at((const p3l_object_page *)seen, (uint32_t)(place->address.byte % P3L_PAGE_SIZE),
                    &piece) ||
      piece.bytes != place->bytes)
    return P3L_OK;
  code = page_to_write(store, number, &page, error);
  if (code != P3L_OK) return code;
  p3l_piece_set_type(page, piece.index, place->type);
  p3l_page_changed(store->changes->pager, page, 0, P3L_PAGE_SIZE);
  *fits = true;
  return P3L_OK;
}

/* An upgraded object is written whole: in its place, or, if its length is another one now, elsewhere.
 */
static p3l_code write_upgraded(p3l_store *store, p3l_error *error) {
  p3l_changes *changes = store->changes;
  if (changes->upgraded.count == 0) return P3L_OK;
  changes->moved = calloc(changes->upgraded.count, sizeof(*changes->moved));
  if (changes->moved == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to commit %zu upgraded objects",
                    store->path, changes->upgraded.count);
  for (size_t i = 0; i < changes->upgraded.count; i++) {
    const p3l_place *place = &changes->upgraded.places[i];
    bool fits;
    p3l_code code = retype(store, place, &fits, error);
    changes->moved[i] = place->address;
    if (code == P3L_OK && !fits) {
      code = p3l_room_take(changes->pager, place->type, place->bytes, place->address,
                           &changes->moved[i], error);
      if (code == P3L_OK) code = note_pages(store, place->address, error);
      if (code == P3L_OK)
        code = p3l_room_forward(changes->pager, place->address, changes->moved[i], error);
    }
    if (code == P3L_OK) code = write_range(store, place, changes->moved[i], 0, place->bytes, error);
    if (code != P3L_OK) return code;
  }
  return P3L_OK;
}

static p3l_code give_back_room(p3l_store *store, p3l_error *error) {
  p3l_changes *changes = store->changes;
  p3l_code code = P3L_OK;
  for (size_t i = 0; i < changes->deleted.count && code == P3L_OK; i++) {
    p3l_address address = changes->deleted.places[i].address;
    code = note_pages(store, address, error);
    if (code == P3L_OK) code = p3l_room_give(changes->pager, address, error);
  }
  return code;
}

p3l_code p3l_changes_write(p3l_store *store, p3l_error *error) {
  p3l_code code = write_differences(store, error);
  if (code == P3L_OK) code = write_made(store, error);
  if (code == P3L_OK) code = write_upgraded(store, error);
  if (code == P3L_OK) code = give_back_room(store, error);
  return code;
}
