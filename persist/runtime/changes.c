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

/*
 * The next transaction reuses the memory of the last one, up to this much of each sort. If it were
 * freed, the kernel would take it back, and one OO1 Insert in two would take page faults.
 */
enum { SPARE_CHUNKS = 4, SPARE_ENTRIES = 1024 };

static void list_free(p3l_place_list *list) {
  free(list->places);
  *list = (p3l_place_list){0};
}

static void list_empty(p3l_place_list *list) {
  list->count = 0;
  if (list->capacity > SPARE_ENTRIES) list_free(list);
}

static void table_empty(p3l_table *table) {
  if (table->capacity > SPARE_ENTRIES)
    p3l_table_free(table);
  else
    p3l_table_clear(table);
}

static void changes_free(p3l_changes *changes) {
  if (changes == NULL) return;
  for (size_t i = 0; i < changes->chunk_count; i++) free(changes->chunks[i]);
  free(changes->chunks);
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

void p3l_changes_empty(p3l_changes *changes) {
  while (changes->chunk_count > SPARE_CHUNKS) free(changes->chunks[--changes->chunk_count]);
  changes->card_count = 0;
  table_empty(&changes->kept);
  changes->new_count = 0;
  if (changes->new_capacity > SPARE_ENTRIES) {
    free(changes->new_cards);
    changes->new_cards = NULL;
    changes->new_capacity = 0;
  }
  list_empty(&changes->made);
  list_empty(&changes->deleted);
  table_empty(&changes->deleted_at);
  changes->neighbour = NULL;
  list_empty(&changes->upgraded);
  free(changes->moved);
  changes->moved = NULL;
  table_empty(&changes->upgraded_at);
  changes->written_count = 0;
  if (changes->written_capacity > SPARE_ENTRIES) {
    free(changes->written);
    changes->written = NULL;
    changes->written_capacity = 0;
  }
  table_empty(&changes->written_at);
  changes->last_page = NULL;
}

void p3l_changes_close(p3l_store *store) {
  changes_free(store->spare_changes);
  store->spare_changes = NULL;
}
