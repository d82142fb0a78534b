/*
 * A store with a large array that is read where the program touches it, for test_unread*.c.
 */
#ifndef P3L_UNREAD_FIXTURE_H
#define P3L_UNREAD_FIXTURE_H

#include "store_fixture.h"
#include "unread.h"

typedef struct item {
  uint64_t number;
  struct item *other;
} item;
P3L_TYPE(item, item, 1, P3L_POINTERS(item, other));

/* 16 MB and a bit: 9 stretches, the last of 16 bytes and the byte behind the end. */
enum { ITEMS = (16 << 20) / sizeof(item) + 1, STRETCH_ITEMS = P3L_STRETCH_BYTES / sizeof(item) };
/* A stretch begins and ends within pages. */
enum { STRETCH_PAGES = P3L_STRETCH_BYTES / P3L_LARGE_PART + 2 };
enum { ALL_PAGES = (ITEMS * sizeof(item) + 1) / P3L_LARGE_PART + 1 };

static inline void fill(p3l_store *store, p3l_error *error) {
  if (p3l_begin(store, error) != P3L_OK) fail_msg("%s", error->message);
  item *items = p3l_new_array(store, item, ITEMS);
  for (uint64_t at = 0; at < ITEMS; at++)
    items[at] = (item){at * 3 + 1, &items[(at + ITEMS / 2) % ITEMS]};
  p3l_set_root(store, "items", items);
  if (p3l_commit(store, error) != P3L_OK) fail_msg("%s", error->message);
}

static inline fixture filled(void) {
  fixture f = fixture_new();
  f.options.audit_places = P3L_AUDIT_ALL;
  fill(f.store, &f.error);
  fixture_reopen(&f);
  return f;
}

static inline p3l_statistics counts(fixture *f) {
  p3l_statistics statistics;
  p3l_get_statistics(f->store, &statistics);
  return statistics;
}

#endif
