/*
 * Maps numbers to indices: of kept cards, of deleted objects. Numbers are added, never removed.
 * Open addressing; at least half empty.
 */
#ifndef P3L_TRANSACTION_TABLE_H
#define P3L_TRANSACTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct p3l_table_entry {
  uint64_t key; /* the key + 1; 0: the entry is empty */
  size_t index;
} p3l_table_entry;

typedef struct p3l_table {
  p3l_table_entry *entries;
  size_t count;
  size_t capacity; /* a power of two, or 0 */
} p3l_table;

/* Space for `more` numbers, so that adding them cannot fail. False: no memory. */
bool p3l_table_reserve(p3l_table *table, size_t more);
/* The space was reserved, and the key is not in the table. */
void p3l_table_add(p3l_table *table, uint64_t key, size_t index);
bool p3l_table_find(const p3l_table *table, uint64_t key, size_t *index);
/* Empties it; the memory stays. */
void p3l_table_clear(p3l_table *table);
void p3l_table_free(p3l_table *table);

#endif
