/*
 * Writes a transaction's changes in memory into the pager's pages: the first half of a commit.
 * changes.h has the invariants.
 *
 *   kept card      |....k....k....|    the words that differ, if they differ in the store's form
 *   memory         |....m....s....|    (s: a slot that was healed)
 *   pager's page   |....m.........|
 */
#include <stdlib.h>
#include <string.h>

#include "arms.h"
#include "changes.h"
#include "convert.h"
#include "segment_places.h"
#include "slots.h"
#include "store.h"
#include "transaction_write.h"
#include "types.h"

/* ---- places in pages ---- */

static bool is_large(const p3l_place *place) { return place->bytes > P3L_SMALL_BYTES; }

/* The object's pages differ from the committed ones: recorded for residency. */
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

/* The same for all pages of the object in the store. */
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

static p3l_code other_page_to_write(p3l_store *store, p3l_page_number number, p3l_error *error) {
  p3l_changes *changes = store->changes;
  p3l_code code = note_page(store, number, error);
  if (code == P3L_OK)
    code = p3l_page_for_writing(changes->pager, number, &changes->last_page, error);
  if (code != P3L_OK) changes->last_page = NULL;
  changes->last_number = number;
  return code;
}

/* The transaction's copy of a page; most often the last one requested. */
static inline p3l_code page_to_write(p3l_store *store, p3l_page_number number, p3l_page **page,
                                     p3l_error *error) {
  p3l_changes *changes = store->changes;
  p3l_code code = P3L_OK;
  if (changes->last_page == NULL || changes->last_number.n != number.n)
    code = other_page_to_write(store, number, error);
  *page = changes->last_page;
  return code;
}

/* Writes bytes [from, to) of an object, unswizzled, to their place in the store. */
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

static bool was_deleted(const p3l_changes *changes, const p3l_place *place) {
  size_t index;
  return changes->deleted.count > 0 &&
         p3l_table_find(&changes->deleted_at, place->address.byte, &index);
}

/* ---- what differs from what was kept ---- */

/* Number of words that one bit mask covers; a card has several such spans. */
enum { SPAN_WORDS = 64, SPAN_BYTES = SPAN_WORDS * 8 };
_Static_assert(P3L_CARD_BYTES % SPAN_BYTES == 0, "a card is a number of spans");

typedef struct span {
  const uint8_t *now, *before; /* SPAN_BYTES each */
} span;

static uint64_t word_at(const uint8_t *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof(word));
  return word;
}

/* A mask of the words that differ. Compares whole cache lines first: most are unchanged. */
static uint64_t different_words(const span *span) {
  enum { LINE_WORDS = 8 };
  uint64_t different = 0;
  for (unsigned line = 0; line < SPAN_WORDS; line += LINE_WORDS) {
    if (memcmp(span->before + line * 8, span->now + line * 8, LINE_WORDS * 8) == 0) continue;
    for (unsigned word = line; word < line + LINE_WORDS; word++)
      different |= (uint64_t)(word_at(span->before + word * 8) != word_at(span->now + word * 8))
                   << word;
  }
  return different;
}

/* Invariant 3: it was a surrogate, or was put back as one. Two addresses, or two surrogates, are of two
 * places, and null is no place. */
static bool may_be_healed(uint64_t before, uint64_t now) {
  return before != 0 && now != 0 && ((before ^ now) & P3L_SURROGATE_BIT) != 0;
}

/* True if a slot leads elsewhere than before: invariant 3. */
static bool slot_differs(const p3l_store *store, uint64_t before, uint64_t now) {
  uint64_t left, right;
  return p3l_surrogate_of(store, (void *)(uintptr_t)before, &left, NULL) != P3L_OK ||
         p3l_surrogate_of(store, (void *)(uintptr_t)now, &right, NULL) != P3L_OK || left != right;
}

/* A word of a union that is a pointer now; of what it was before, only its value counts. */
static bool is_live(const p3l_stored_type *type, const p3l_place *place, uint64_t offset) {
  uint64_t bit;
  return p3l_type_arm_at(type, place->bytes, offset, &bit) &&
         p3l_arm_bit(place->memory + place->bytes, bit);
}

/* Those of `words` that also differ in the store's form. All of them differ in memory and lie in
 * the object. */
static uint64_t stored_differences(const p3l_store *store, const p3l_place *place, const span *span,
                                   uint64_t words) {
  const p3l_stored_type *type = p3l_types_of(store, place->type);
  if (type == NULL || type->field_count + type->union_count == 0) return words;
  for (uint64_t left = words; left != 0; left &= left - 1) {
    unsigned word = (unsigned)__builtin_ctzll(left);
    if (!may_be_healed(word_at(span->before + word * 8), word_at(span->now + word * 8))) continue;
    uint64_t offset = (uint64_t)(span->now + word * 8 - place->memory);
    if ((p3l_type_is_slot(type, offset) || is_live(type, place, offset)) &&
        !slot_differs(store, word_at(span->before + word * 8), word_at(span->now + word * 8)))
      words &= ~(UINT64_C(1) << word);
  }
  return words;
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

/* `words` differ and lie in the object. */
static p3l_code write_difference(p3l_store *store, const p3l_place *place, const span *span,
                                 uint64_t words, p3l_error *error) {
  uint32_t flags = place->resident == NULL ? 0 : place->resident->flags;
  if ((flags & P3L_RESIDENT_NEW) != 0 || was_deleted(store->changes, place)) return P3L_OK;
  words = stored_differences(store, place, span, words);
  if (words == 0) return P3L_OK;
  if ((flags & P3L_RESIDENT_UPGRADED) != 0) return note_upgraded(store, place, error);
  p3l_code code = P3L_OK;
  while (words != 0 && code == P3L_OK) {
    unsigned first = (unsigned)__builtin_ctzll(words);
    uint64_t behind = ~(words >> first); /* 0 if 64 differing words begin here */
    unsigned count = behind == 0 ? SPAN_WORDS : (unsigned)__builtin_ctzll(behind);
    uint64_t from = (uint64_t)(span->now + first * 8 - place->memory);
    code = write_range(store, place, place->address, from, from + count * 8, error);
    words = first + count == SPAN_WORDS ? 0 : words & ~UINT64_C(0) << (first + count);
  }
  return code;
}

/* Objects are found by the words that differ: few objects of a card do. */
static p3l_code write_span(p3l_store *store, const span *span, p3l_error *error) {
  uint64_t different = different_words(span);
  p3l_code code = P3L_OK;
  while (different != 0 && code == P3L_OK) {
    p3l_place place;
    const uint8_t *first = span->now + (unsigned)__builtin_ctzll(different) * 8;
    uint64_t words = different & (~different + 1); /* where no object is, only the first word */
    bool found = p3l_place_of(first, &place);
    if (found) {
      /* Extents are whole granules, so there are no half words. */
      uint64_t behind = (uint64_t)(place.memory + place.bytes - span->now) / 8;
      words = behind < SPAN_WORDS ? different & ((UINT64_C(1) << behind) - 1) : different;
      code = write_difference(store, &place, span, words, error);
    }
    different &= ~words;
  }
  return code;
}

static p3l_code write_differences(p3l_store *store, p3l_error *error) {
  p3l_changes *changes = store->changes;
  const uint32_t *order = p3l_changes_order(changes);
  for (size_t i = 0; i < changes->card_count; i++) {
    const p3l_kept_card *kept = p3l_kept_card_at(changes, order == NULL ? i : order[i]);
    const uint8_t *card =
        (const uint8_t *)(p3l_persistent_memory.base + (kept->card << P3L_CARD_SHIFT));
    for (size_t at = 0; at < P3L_CARD_BYTES; at += SPAN_BYTES) {
      span span = {card + at, kept->bytes + at};
      p3l_code code = write_span(store, &span, error);
      if (code != P3L_OK) return code;
    }
  }
  return P3L_OK;
}

/* ---- whole objects ---- */

static p3l_code write_made(p3l_store *store, p3l_error *error) {
  p3l_changes *changes = store->changes;
  p3l_code code = P3L_OK;
  for (size_t i = 0; i < changes->made.count && code == P3L_OK; i++) {
    const p3l_place *place = &changes->made.places[i];
    if (was_deleted(changes, place)) continue;
    if (is_large(place)) {
      code = write_range(store, place, place->address, 0, place->bytes, error);
      continue;
    }
    /* The whole page was reported to the pager when the space was allocated. */
    p3l_page *page;
    code =
        page_to_write(store, (p3l_page_number){place->address.byte / P3L_PAGE_SIZE}, &page, error);
    if (code == P3L_OK)
      code = p3l_unswizzle(place, 0, place->bytes,
                           (uint8_t *)page + place->address.byte % P3L_PAGE_SIZE, error);
  }
  return code;
}

/* Replaces the stored type id of the object's place by the id of its layout in memory. */
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

/* Writes an upgraded object whole: in its place, or elsewhere if its length has changed. */
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
      changes->upgraded.places[i].generation =
          p3l_room_generation(changes->pager, changes->moved[i]);
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

/* p3l_arm_changed: the difference is not to be seen in memory. */
static p3l_code write_word(p3l_store *store, const p3l_place *place, uint64_t offset,
                           p3l_error *error) {
  uint32_t flags = place->resident == NULL ? 0 : place->resident->flags;
  if ((flags & P3L_RESIDENT_UPGRADED) != 0) return note_upgraded(store, place, error);
  return write_range(store, place, place->address, offset, offset + sizeof(uint64_t), error);
}

/* Fewer pages are not worth a separate call. */
enum { EARLY_PAGES = 8 };

p3l_code p3l_changes_write(p3l_store *store, p3l_error *error) {
  p3l_changes *changes = store->changes;
  /* Most old pages get their copies here, and need no further work. */
  p3l_pager_mark(changes->pager);
  p3l_code code = p3l_arms_set(store, write_word, error);
  if (code == P3L_OK) code = write_differences(store, error);
  if (code == P3L_OK && changes->made.count > 0)
    code = p3l_pager_append_early(changes->pager, EARLY_PAGES, error);
  if (code == P3L_OK) code = write_made(store, error);
  if (code == P3L_OK) code = write_upgraded(store, error);
  if (code == P3L_OK) code = give_back_room(store, error);
  return code;
}
