/* A hash table from numbers to indices, which only grows. transaction_table.h has the rules. */
#include "transaction_table.h"

#include <stdlib.h>
#include <string.h>

/* Keys are card numbers and addresses, in runs: a multiplication distributes them. */
static size_t place_of(const p3l_table *table, uint64_t key) {
  uint64_t spread = key * UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(spread >> 32) & (table->capacity - 1);
}

void p3l_table_add(p3l_table *table, uint64_t key, size_t index) {
  size_t at = place_of(table, key + 1);
  while (table->entries[at].key != 0) at = (at + 1) & (table->capacity - 1);
  table->entries[at] = (p3l_table_entry){key + 1, index};
  table->count++;
}

bool p3l_table_find(const p3l_table *table, uint64_t key, size_t *index) {
  if (table->count == 0) return false;
  for (size_t at = place_of(table, key + 1); table->entries[at].key != 0;
       at = (at + 1) & (table->capacity - 1))
    if (table->entries[at].key == key + 1) {
      *index = table->entries[at].index;
      return true;
    }
  return false;
}

bool p3l_table_reserve(p3l_table *table, size_t more) {
  if ((table->count + more) * 2 <= table->capacity) return true;
  p3l_table larger = {.capacity = table->capacity == 0 ? 64 : table->capacity};
  while ((table->count + more) * 2 > larger.capacity) larger.capacity *= 2;
  larger.entries = calloc(larger.capacity, sizeof(*larger.entries));
  if (larger.entries == NULL) return false;
  for (size_t at = 0; at < table->capacity; at++)
    if (table->entries[at].key != 0)
      p3l_table_add(&larger, table->entries[at].key - 1, table->entries[at].index);
  free(table->entries);
  *table = larger;
  return true;
}

void p3l_table_clear(p3l_table *table) {
  if (table->count > 0) memset(table->entries, 0, table->capacity * sizeof(*table->entries));
  table->count = 0;
}

void p3l_table_free(p3l_table *table) {
  free(table->entries);
  *table = (p3l_table){0};
}
