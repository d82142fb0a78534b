/*
 * Sets the bits of unions at commit.
 *
 *   cards written to ──> objects with unions ──> elements ── the program's function ──> arm
 *                                                     arm's pointers <── compared ──> bits
 *
 * Invariants:
 *  1. Bits are written like the program's own changes: their card is kept before, so that an abort
 *     restores them.
 *  2. Of an object of at most P3L_SMALL_BYTES all elements are asked if a byte of it may have
 *     changed, of a larger one those in the cards written to and their neighbours.
 */
#include "arms.h"

#include "changes.h"
#include "fault.h"
#include "slots.h"
#include "store.h"
#include "types.h"

/* The object whose bits are set. */
typedef struct setting {
  const p3l_store *store;
  const p3l_type *type; /* the program's */
  const p3l_union *unions;
  const p3l_stored_type *stored;
  uint8_t *memory;
  uint64_t bytes;
  const p3l_place *place; /* NULL: not in persistent memory yet */
  bool reported;          /* its bytes may be written to without a report, and no word is forced */
  p3l_arm_changed changed;
} setting;

static p3l_code wrong_arm(const setting *of, const p3l_union *which, uint64_t element, uint32_t arm,
                          p3l_error *error) {
  unsigned arms = 0;
  while (which->arms[arms] != P3L_ARMS_END) arms++;
  unsigned long long page = 0, byte = 0;
  if (of->place != NULL) {
    page = of->place->address.byte / P3L_PAGE_SIZE;
    byte = of->place->address.byte % P3L_PAGE_SIZE;
  }
  return p3l_fail(error, P3L_MISUSE,
                  "%s: the function for the union %s says that arm %u is live in element %llu of "
                  "the %s at page %llu, byte %llu; it has %u arms, from 0 on. Nothing of this "
                  "transaction was committed",
                  of->store->path, which->name, arm, (unsigned long long)element, of->type->name,
                  page, byte, arms);
}

static uint64_t word_at(const uint8_t *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof(word));
  return word;
}

static p3l_code set_bit(const setting *of, uint64_t bit, uint64_t offset, bool pointer,
                        p3l_error *error) {
  uint8_t *byte = of->memory + of->bytes - 1 - bit / 8;
  uint8_t mask = (uint8_t)(1u << bit % 8);
  if (((*byte & mask) != 0) == pointer) return P3L_OK;
  if (!of->reported) p3l_dirty(byte, 1);
  *byte = (uint8_t)(pointer ? *byte | mask : *byte & ~mask);
  return of->reported ? P3L_OK
                      : of->changed((p3l_store *)(uintptr_t)of->store, of->place, offset, error);
}

/* The words of `which` that are pointers in the arm that is live. */
static p3l_code live_words(const setting *of, const p3l_union *which, uint64_t element,
                           uint64_t words, uint64_t *pointers, p3l_error *error) {
  const uint8_t *begin = of->memory + element * of->type->bytes + which->offset;
  bool empty = true;
  *pointers = 0;
  for (uint64_t left = words; left != 0 && empty; left &= left - 1)
    empty = word_at(begin + (unsigned)__builtin_ctzll(left) * P3L_SLOT_BYTES) == 0;
  if (empty) return P3L_OK;
  uint32_t arm = which->live(of->memory, element);
  for (uint32_t at = 0; at <= arm; at++)
    if (at == P3L_MOST_ARMS || which->arms[at] == P3L_ARMS_END)
      return wrong_arm(of, which, element, arm, error);
  *pointers = which->arms[arm];
  return P3L_OK;
}

static p3l_code set_element(const setting *of, uint64_t element, p3l_error *error) {
  uint64_t bit = element * of->stored->union_words;
  p3l_code code = P3L_OK;
  for (const p3l_union *at = of->unions; at->name != NULL && code == P3L_OK; at++) {
    uint64_t words = 0, pointers;
    for (uint32_t arm = 0; arm < P3L_MOST_ARMS && at->arms[arm] != P3L_ARMS_END; arm++)
      words |= at->arms[arm];
    code = live_words(of, at, element, words, &pointers, error);
    for (; words != 0 && code == P3L_OK; words &= words - 1, bit++) {
      unsigned word = (unsigned)__builtin_ctzll(words);
      uint64_t offset = element * of->type->bytes + at->offset + word * P3L_SLOT_BYTES;
      bool pointer = (pointers >> word & 1) != 0 && word_at(of->memory + offset) != 0;
      code = set_bit(of, bit, offset, pointer, error);
    }
  }
  return code;
}

static p3l_code set_elements(const setting *of, uint64_t from, uint64_t to, p3l_error *error) {
  uint64_t limit = p3l_type_elements(of->stored, of->bytes);
  uint64_t behind = (to + of->type->bytes - 1) / of->type->bytes;
  p3l_code code = P3L_OK;
  for (uint64_t element = from / of->type->bytes;
       element < behind && element < limit && code == P3L_OK; element++)
    code = set_element(of, element, error);
  return code;
}

/* False: it has no unions, or the program does not know it, and so has not changed it. `of` has the
 * object before, mostly of the same type. */
static bool begin(p3l_store *store, const p3l_place *place, setting *of) {
  const p3l_stored_type *stored = p3l_types_of(store, place->type);
  if (stored == NULL || stored->union_count == 0) return false;
  if (stored != of->stored) {
    of->stored = stored;
    of->type = p3l_types_program(store, place->type);
    of->unions = of->type == NULL ? NULL : p3l_types_unions(of->type);
  }
  uint32_t flags = place->resident == NULL ? 0 : place->resident->flags;
  of->store = store;
  of->memory = place->memory;
  of->bytes = place->bytes;
  of->place = place;
  of->reported = (flags & P3L_RESIDENT_NEW) != 0;
  return of->unions != NULL;
}

static bool was_deleted(const p3l_changes *changes, const p3l_place *place) {
  size_t index;
  return changes->deleted.count > 0 &&
         p3l_table_find(&changes->deleted_at, place->address.byte, &index);
}

typedef struct card {
  p3l_store *store;
  const uint8_t *from, *to;
  setting of;
} card;

static p3l_code set_in_card(void *state, const p3l_place *place, p3l_error *error) {
  card *card = state;
  setting *of = &card->of;
  if (was_deleted(card->store->changes, place) || !begin(card->store, place, of) || of->reported)
    return P3L_OK;
  if (place->bytes <= P3L_SMALL_BYTES) return set_elements(of, 0, place->bytes, error);
  uint64_t from = card->from > place->memory ? (uint64_t)(card->from - place->memory) : 0;
  uint64_t beside = of->type->bytes;
  return set_elements(of, from < beside ? 0 : from - beside,
                      (uint64_t)(card->to - place->memory) + beside, error);
}

p3l_code p3l_arms_set(p3l_store *store, p3l_arm_changed changed, p3l_error *error) {
  p3l_changes *changes = store->changes;
  p3l_code code = P3L_OK;
  card card = {.store = store, .of = {.changed = changed}};
  if (!store->unions) return P3L_OK;
  for (size_t i = 0; i < changes->made.count && code == P3L_OK; i++)
    if (!was_deleted(changes, &changes->made.places[i]) &&
        begin(store, &changes->made.places[i], &card.of))
      code = set_elements(&card.of, 0, card.of.bytes, error);
  /* Cards of bits are added meanwhile, which makes elements in them be asked as well. */
  for (size_t i = 0; i < changes->card_count && code == P3L_OK; i++) {
    card.from = (const uint8_t *)p3l_persistent_memory.base +
                (p3l_kept_card_at(changes, i)->card << P3L_CARD_SHIFT);
    card.to = card.from + P3L_CARD_BYTES;
    p3l_segment *segment = p3l_segment_of(card.from);
    if (segment != NULL)
      code = p3l_places_in(segment, card.from, card.to, set_in_card, &card, error);
  }
  return code;
}

p3l_code p3l_arms_upgraded(const p3l_store *store, p3l_type_id id, uint8_t *object, uint64_t bytes,
                           p3l_error *error) {
  const p3l_type *type = p3l_types_program(store, id);
  const p3l_union *unions = type == NULL ? NULL : p3l_types_unions(type);
  if (unions == NULL) return P3L_OK;
  setting of = {.store = store,
                .type = type,
                .unions = unions,
                .stored = p3l_types_of(store, id),
                .memory = object,
                .bytes = bytes,
                .reported = true};
  return set_elements(&of, 0, bytes, error);
}
