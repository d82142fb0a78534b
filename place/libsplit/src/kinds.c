/* New kinds in the shared table, and their display texts. */
#include "kinds.h"

#include "cycles.h"

#include <stdbool.h>

static bool legible(unsigned char byte) { return byte >= 0x20 && byte != 0x7f; }

static uint32_t copy_legible(char *to, size_t room, const char *from, size_t length) {
  if (length > room) length = room;
  for (size_t i = 0; i < length; i++) to[i] = legible((unsigned char)from[i]) ? from[i] : '?';
  return (uint32_t)length;
}

static uint32_t digits_of(uint64_t number, char digits[20]) {
  char reversed[20];
  uint32_t n = 0;
  do {
    reversed[n++] = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  for (uint32_t i = 0; i < n; i++) digits[i] = reversed[n - 1 - i];
  return n;
}

/* The hash claims the place; then the label is written, unless another thread was faster. */
static void describe(struct split_kind *kind, const struct split_key *key) {
  uint32_t state = SPLIT_KIND_FREE;
  if (!atomic_compare_exchange_strong(&kind->state, &state, SPLIT_KIND_CLAIMED)) return;
  char digits[20];
  kind->key_number = key->number;
  kind->first_seen_ns = split_clock_ns(CLOCK_MONOTONIC);
  kind->label_length =
      key->text
          ? copy_legible(kind->label, SPLIT_LABEL_LENGTH, key->text, key->length)
          : copy_legible(kind->label, SPLIT_LABEL_LENGTH, digits, digits_of(key->number, digits));
  atomic_store_explicit(&kind->state, SPLIT_KIND_READY, memory_order_release);
}

/* Searches the shared table: returns the kind at this place, or adds the new one there. */
static uint64_t settle(struct split_mapping *mapping, uint32_t code, const struct split_key *key) {
  struct split_kind *kind = &mapping->kinds[code];
  uint64_t there = 0;
  if (atomic_compare_exchange_strong(&kind->key_hash, &there, key->hash)) {
    atomic_fetch_add_explicit(&mapping->header->kinds_used, 1, memory_order_relaxed);
    there = key->hash;
  }
  if (there == key->hash) describe(kind, key);
  atomic_store_explicit(&mapping->known[code], there, memory_order_relaxed);
  return there;
}

uint32_t split_kind_settle(struct split_mapping *mapping, const struct split_key *key) {
  uint32_t places = mapping->homes;
  uint32_t at = split_kind_home(mapping, key->hash);
  for (uint32_t i = 0; i < SPLIT_KIND_PLACES; i++) {
    uint32_t code = 2 + at;
    uint64_t there = atomic_load_explicit(&mapping->known[code], memory_order_relaxed);
    if (there == key->hash) return code;
    if (there == 0 && settle(mapping, code, key) == key->hash) return code;
    if (++at == places) at = 0;
  }
  return SPLIT_CODE_OTHER;
}

void split_kind_note(struct split_mapping *mapping, uint32_t code, const char *text,
                     size_t length) {
  if (code <= SPLIT_CODE_OTHER) return; /* a display text belongs to one kind, not to all others */
  struct split_kind *kind = &mapping->kinds[code];
  uint32_t state = atomic_load_explicit(&kind->note_state, memory_order_relaxed);
  if (state != SPLIT_KIND_FREE ||
      !atomic_compare_exchange_strong(&kind->note_state, &state, SPLIT_KIND_CLAIMED)) {
    return;
  }
  uint32_t end = copy_legible(kind->note, SPLIT_NOTE_LENGTH - 1, text, length);
  kind->note[end] = '\0';
  atomic_store_explicit(&kind->note_state, SPLIT_KIND_READY, memory_order_release);
}

void split_kind_statement(struct split_mapping *mapping, uint32_t code, uint64_t statement) {
  if (code <= SPLIT_CODE_OTHER) return;
  uint64_t none = 0;
  atomic_compare_exchange_strong(&mapping->kinds[code].statement, &none, statement);
}
