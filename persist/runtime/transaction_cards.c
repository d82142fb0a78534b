/*
 * Cards: the state of memory before the transaction changed it. changes.h has the invariants.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "guard.h"
#include "store.h"
#include "transaction_cards.h"
#include "visits.h"

static uint8_t *memory_of(uintptr_t card) {
  return (uint8_t *)(p3l_persistent_memory.base + (card << P3L_CARD_SHIFT));
}

static uintptr_t card_of(const void *memory) {
  return ((uintptr_t)memory - p3l_persistent_memory.base) >> P3L_CARD_SHIFT;
}

/* Reserves space to keep `cards` more cards, and the one in reserve (invariant 2). */
static bool reserve(p3l_changes *changes, size_t cards) {
  size_t needed = (changes->card_count + cards) / P3L_CHUNK_CARDS + 1;
  if (needed > changes->chunk_count) {
    p3l_kept_card **chunks =
        p3l_grown(changes->chunks, &changes->chunk_capacity, needed, sizeof(*changes->chunks));
    if (chunks == NULL) return false;
    changes->chunks = chunks;
  }
  while (changes->chunk_count < needed) {
    p3l_kept_card *chunk = malloc(sizeof(*chunk) * P3L_CHUNK_CARDS);
    if (chunk == NULL) return false;
    changes->chunks[changes->chunk_count++] = chunk;
  }
  return p3l_table_reserve(&changes->kept, cards + 1);
}

/* The space is reserved. */
static void keep(p3l_changes *changes, uintptr_t card) {
  p3l_kept_card *kept = p3l_kept_card_at(changes, changes->card_count);
  kept->card = card;
  memcpy(kept->bytes, memory_of(card), P3L_CARD_BYTES);
  p3l_table_add(&changes->kept, card, changes->card_count++);
  p3l_persistent_memory.cards[card] = P3L_CARD_KEPT;
  p3l_guard_open(memory_of(card), P3L_CARD_BYTES);
}

__attribute__((noreturn, format(printf, 2, 3))) static void refuse(p3l_code code,
                                                                   const char *format, ...) {
  char sentence[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof(sentence), format, arguments);
  va_end(arguments);
  p3l_error error;
  p3l_fail(&error, code, "%s", sentence);
  p3l_raise(&error);
}

void p3l_will_write(void *address, size_t bytes) {
  if (bytes == 0 || !p3l_is_persistent(address)) return;
  p3l_segment *segment = p3l_segment_of(address);
  if (segment == NULL)
    refuse(
        P3L_MISUSE,
        "a change at %p, where persistent objects may lie and none does: it was evicted, deleted "
        "or its store closed; pointers live as p3l.h says",
        address);
  p3l_store *store = segment->store;
  if (!p3l_scope_writing(store))
    refuse(P3L_MISUSE,
           "%s: a change at %p outside of a transaction of this thread; call p3l_begin() first",
           store->path, address);
  size_t offset = (size_t)((uint8_t *)address - segment->memory);
  if (bytes > segment->segments * P3L_SEGMENT_BYTES - offset)
    refuse(P3L_MISUSE, "%s: a change of %zu bytes at %p goes beyond the object", store->path, bytes,
           address);

  p3l_changes *changes = store->changes;
  uintptr_t first = card_of(address), last = card_of((uint8_t *)address + bytes - 1);
  for (uintptr_t card = first; card <= last; card++) {
    if (p3l_persistent_memory.cards[card] != 0) continue;
    if (!reserve(changes, 1))
      refuse(
          P3L_NO_MEMORY,
          "%s: no memory to keep what the transaction changes (%zu bytes so far); commit smaller "
          "transactions",
          store->path, changes->card_count * sizeof(p3l_kept_card));
    keep(changes, card);
  }
}

p3l_code p3l_changes_mark_new(p3l_changes *changes, const uint8_t *memory, uint64_t bytes,
                              p3l_error *error) {
  uintptr_t first = card_of(memory), last = card_of(memory + bytes - 1);
  /*
   * Most objects lie in the card in which the previous one ended: nothing to keep, nothing to mark.
   */
  if (first == last && p3l_persistent_memory.cards[first] != 0) return P3L_OK;
  p3l_card_run *runs = p3l_grown(changes->new_cards, &changes->new_capacity, changes->new_count + 1,
                                 sizeof(*changes->new_cards));
  if (runs != NULL) changes->new_cards = runs;
  if (runs == NULL || !reserve(changes, 1))
    return p3l_fail(error, P3L_NO_MEMORY, "no memory to note a new object of %llu bytes",
                    (unsigned long long)bytes);
  /* Bytes before the object in its first card are not new, unless the card is marked so. */
  if (p3l_persistent_memory.cards[first] == 0 && memory_of(first) != memory) keep(changes, first);
  if (p3l_persistent_memory.cards[first] != 0) first++;
  if (first > last) return P3L_OK;
  memset(p3l_persistent_memory.cards + first, P3L_CARD_NEW, last - first + 1);
  p3l_guard_open(memory_of(first), (last - first + 1) * P3L_CARD_BYTES);
  p3l_card_run *run = changes->new_count == 0 ? NULL : &changes->new_cards[changes->new_count - 1];
  if (run != NULL && run->first + run->count == first)
    run->count += last - first + 1;
  else
    changes->new_cards[changes->new_count++] = (p3l_card_run){first, last - first + 1};
  return P3L_OK;
}

void p3l_changes_arrived(p3l_store *store, const uint8_t *memory, uint64_t bytes) {
  p3l_changes *changes = store->changes;
  if (changes == NULL || bytes == 0) return;
  const uint8_t *end = memory + bytes;
  for (uintptr_t card = card_of(memory); card <= card_of(end - 1); card++) {
    uint8_t mark = p3l_persistent_memory.cards[card];
    if (mark == P3L_CARD_NEW) keep(changes, card); /* uses the reserved place */
    if (mark != P3L_CARD_KEPT) continue;
    size_t index;
    if (!p3l_table_find(&changes->kept, card, &index)) continue;
    const uint8_t *from = memory_of(card) > memory ? memory_of(card) : memory;
    const uint8_t *to = memory_of(card + 1) < end ? memory_of(card + 1) : end;
    memcpy(p3l_kept_card_at(changes, index)->bytes + (from - memory_of(card)), from,
           (size_t)(to - from));
  }
}

void p3l_changes_put_back(p3l_changes *changes) {
  for (size_t i = 0; i < changes->card_count; i++) {
    const p3l_kept_card *kept = p3l_kept_card_at(changes, i);
    memcpy(memory_of(kept->card), kept->bytes, P3L_CARD_BYTES);
  }
}

void p3l_changes_unmark(p3l_changes *changes) {
  for (size_t i = 0; i < changes->card_count; i++)
    p3l_persistent_memory.cards[p3l_kept_card_at(changes, i)->card] = 0;
  for (size_t i = 0; i < changes->new_count; i++)
    memset(p3l_persistent_memory.cards + changes->new_cards[i].first, 0,
           changes->new_cards[i].count);
  for (size_t i = 0; P3L_GUARDED && i < changes->card_count; i++)
    p3l_guard_close(memory_of(p3l_kept_card_at(changes, i)->card), P3L_CARD_BYTES);
  for (size_t i = 0; P3L_GUARDED && i < changes->new_count; i++)
    p3l_guard_close(memory_of(changes->new_cards[i].first),
                    changes->new_cards[i].count * P3L_CARD_BYTES);
}
