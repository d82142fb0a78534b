/*
 * Memory for the record of a transaction's changes. changes.h has the invariants.
 */
#include "changes.h"

#include <stdlib.h>

#include "store.h"

void *p3l_grown(void *array, size_t *capacity, size_t needed, size_t element_bytes) {
  if (needed <= *capacity) return array;
  size_t larger = *capacity * 2 > needed ? *capacity * 2 : needed + 16;
  if (larger > SIZE_MAX / element_bytes) return NULL;
  void *grown = realloc(array, larger * element_bytes);
  if (grown != NULL) *capacity = larger;
  return grown;
}

bool p3l_place_list_grow(p3l_place_list *list) {
  p3l_place *places =
      p3l_grown(list->places, &list->capacity, list->count + 1, sizeof(*list->places));
  if (places == NULL) return false;
  list->places = places;
  return true;
}

/* ---- order ---- */

/* A radix sort, by DIGIT bits at a time. Where each commit changes 10,000 places of a table of 8 MB at random,
 * the look-ups of their pages were 9 % of a bulk build's samples, and are 4 % in order. */
enum { DIGIT = 11, VALUES = 1 << DIGIT, FEW_CARDS = 64 };

static uintptr_t card_of(const p3l_changes *changes, uint32_t index) {
  return p3l_kept_card_at(changes, index)->card;
}

const uint32_t *p3l_changes_order(p3l_changes *changes) {
  size_t count = changes->card_count;
  if (count < FEW_CARDS || count > UINT32_MAX / 4) return NULL;
  uint32_t *order = p3l_grown(changes->order, &changes->order_capacity, 2 * count, sizeof(*order));
  if (order == NULL) return NULL;
  changes->order = order;
  uint32_t *from = order, *to = order + count;
  uintptr_t all = 0, same = ~(uintptr_t)0;
  for (uint32_t at = 0; at < count; at++) {
    from[at] = at;
    all |= card_of(changes, at);
    same &= card_of(changes, at);
  }
  for (unsigned shift = 0; shift < 64 && (all & ~same) >> shift != 0; shift += DIGIT) {
    uint32_t begin[VALUES] = {0}, sum = 0;
    for (size_t at = 0; at < count; at++)
      begin[card_of(changes, from[at]) >> shift & (VALUES - 1)]++;
    for (size_t value = 0; value < VALUES; value++) {
      uint32_t of_value = begin[value];
      begin[value] = sum;
      sum += of_value;
    }
    for (size_t at = 0; at < count; at++)
      to[begin[card_of(changes, from[at]) >> shift & (VALUES - 1)]++] = from[at];
    uint32_t *sorted = to;
    to = from;
    from = sorted;
  }
  return from;
}

/* ---- memory for the next one ---- */

/*
 * The next transaction reuses the memory of the last one, up to this much of each sort. If it were
 * freed, the kernel would take it back, and one OO1 Insert in two would take page faults. Beyond that only
 * what the last one needed, up to the greater number, and not with a memory limit, which would have to count
 * it.
 */
enum { SPARE_CHUNKS = 4, MOST_CHUNKS = 256, SPARE_ENTRIES = 1024, MOST_ENTRIES = 65536 };

static void list_free(p3l_place_list *list) {
  free(list->places);
  *list = (p3l_place_list){0};
}

/* True if so much is kept, `most` at most: of `capacity`, `used` were. */
static bool keeps(size_t capacity, size_t used, size_t most) {
  return capacity <= SPARE_ENTRIES || (capacity <= most && used >= capacity / 8);
}

static void list_empty(p3l_place_list *list, size_t most) {
  if (!keeps(list->capacity, list->count, most)) list_free(list);
  list->count = 0;
}

static void table_empty(p3l_table *table, size_t most) {
  if (keeps(table->capacity, table->count, most))
    p3l_table_clear(table);
  else
    p3l_table_free(table);
}

/* An array of `capacity`, of whose elements `used` were. */
static void *array_empty(void *array, size_t *capacity, size_t used, size_t most) {
  if (keeps(*capacity, used, most)) return array;
  free(array);
  *capacity = 0;
  return NULL;
}

static void changes_free(p3l_changes *changes) {
  if (changes == NULL) return;
  for (size_t i = 0; i < changes->chunk_count; i++) free(changes->chunks[i]);
  free(changes->chunks);
  free(changes->order);
  p3l_table_free(&changes->kept);
  free(changes->new_cards);
  list_free(&changes->made);
  list_free(&changes->deleted);
  p3l_table_free(&changes->deleted_at);
  list_free(&changes->upgraded);
  free(changes->moved);
  p3l_table_free(&changes->upgraded_at);
  free(changes->written);
  p3l_table_free(&changes->written_at);
  free(changes);
}

void p3l_changes_empty(p3l_changes *changes, bool limited) {
  size_t most = limited ? SPARE_ENTRIES : MOST_ENTRIES;
  size_t most_chunks = limited ? SPARE_CHUNKS : MOST_CHUNKS;
  size_t chunks = (changes->card_count + P3L_CHUNK_CARDS - 1) / P3L_CHUNK_CARDS;
  if (chunks < SPARE_CHUNKS) chunks = SPARE_CHUNKS;
  if (chunks > most_chunks) chunks = most_chunks;
  while (changes->chunk_count > chunks) free(changes->chunks[--changes->chunk_count]);
  changes->order = array_empty(changes->order, &changes->order_capacity, changes->card_count, most);
  changes->card_count = 0;
  table_empty(&changes->kept, most);
  changes->new_cards =
      array_empty(changes->new_cards, &changes->new_capacity, changes->new_count, most);
  changes->new_count = 0;
  list_empty(&changes->made, most);
  list_empty(&changes->deleted, most);
  table_empty(&changes->deleted_at, most);
  changes->neighbour = NULL;
  list_empty(&changes->upgraded, most);
  free(changes->moved);
  changes->moved = NULL;
  table_empty(&changes->upgraded_at, most);
  changes->written =
      array_empty(changes->written, &changes->written_capacity, changes->written_count, most);
  changes->written_count = 0;
  table_empty(&changes->written_at, most);
  changes->last_page = NULL;
}

void p3l_changes_close(p3l_store *store) {
  changes_free(store->spare_changes);
  store->spare_changes = NULL;
}
