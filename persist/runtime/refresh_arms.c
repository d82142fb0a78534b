/*
 * Unions in a reader's next version: refresh_arms.h.
 *
 * Invariant: after a refresh a word whose bit is 0 holds the store's bytes (slots.h, 1).
 */
#include "refresh_arms.h"

#include <string.h>

#include "guard.h"
#include "object_page.h"
#include "page_state.h"
#include "pager.h"
#include "slots.h"
#include "store.h"
#include "types.h"

static bool has_unions(const p3l_store *store, p3l_type_id id) {
  const p3l_stored_type *type = p3l_types_of(store, id);
  return type != NULL && type->union_count > 0;
}

uint64_t p3l_arms_units(const p3l_store *store, const p3l_page *page, uint64_t units) {
  if (!store->unions || p3l_page_use_of(page) != P3L_USE_OBJECTS) return units;
  uint64_t all = units;
  for (p3l_piece piece = {0}; p3l_piece_next((const p3l_object_page *)page, &piece);) {
    uint64_t object = p3l_units(piece.offset, piece.bytes);
    if ((object & units) != 0 && has_unions(store, piece.type)) all |= object;
  }
  return all;
}

/* Offset of the word of a bit in its object. */
static uint64_t word_of(const p3l_stored_type *type, uint64_t bit) {
  const struct p3l_stored_field *at = type->fields + type->field_count;
  uint64_t word = bit % type->union_words;
  for (; word >= at->count; at++) word -= at->count;
  return bit / type->union_words * type->bytes + at->offset + word * P3L_SLOT_BYTES;
}

typedef struct taking {
  p3l_store *store;
  const p3l_place *place;
  p3l_page page; /* the one that was read last */
  bool read;
} taking;

static p3l_code take_word(taking *taking, uint64_t offset, p3l_error *error) {
  uint64_t first = taking->place->address.byte / P3L_PAGE_SIZE;
  p3l_page_number number = {first + offset / P3L_LARGE_PART};
  if (!taking->read || taking->page.number != number.n) {
    p3l_code code = p3l_pager_read(taking->store->pager, number, &taking->page, error);
    taking->read = code == P3L_OK;
    if (code != P3L_OK) return code;
  }
  uint8_t *memory = taking->place->memory + offset;
  p3l_guard_begin(memory, P3L_SLOT_BYTES);
  memcpy(memory, ((const p3l_large_page *)&taking->page)->part + offset % P3L_LARGE_PART,
         P3L_SLOT_BYTES);
  p3l_guard_end(memory, P3L_SLOT_BYTES);
  return P3L_OK;
}

p3l_code p3l_arms_refresh_large(p3l_store *store, const p3l_place *place, const p3l_page *page,
                                p3l_error *error) {
  if (!has_unions(store, place->type)) return P3L_OK;
  const p3l_stored_type *type = p3l_types_of(store, place->type);
  const p3l_large_page *large = (const p3l_large_page *)page;
  uint64_t elements = p3l_type_elements(type, place->bytes);
  uint64_t bits = p3l_arm_bytes(type, elements);
  uint64_t from = (page->number - large->first) * P3L_LARGE_PART, to = from + P3L_LARGE_PART;
  if (to > place->bytes) to = place->bytes;
  if (from < place->bytes - bits) from = place->bytes - bits;
  taking taking = {.store = store, .place = place};
  p3l_code code = P3L_OK;
  for (uint64_t at = to; at > from && code == P3L_OK; at--) {
    unsigned was = place->memory[at - 1], now = large->part[(at - 1) % P3L_LARGE_PART];
    for (unsigned gone = was & ~now; gone != 0 && code == P3L_OK; gone &= gone - 1) {
      uint64_t bit = (place->bytes - at) * 8 + (unsigned)__builtin_ctz(gone);
      if (bit < elements * type->union_words) code = take_word(&taking, word_of(type, bit), error);
    }
  }
  return code;
}
