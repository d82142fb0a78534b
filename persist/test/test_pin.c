/* Pins: a pinned object stays at its address, whatever is evicted around it. */
#include "test_evict_fixture.h"

#include "segment.h"

typedef struct item {
  uint64_t id;
  struct item *next, *other;
  uint8_t bytes[104];
} item;
P3L_TYPE(item, item, 1, P3L_POINTERS(item, next), P3L_POINTERS(item, other));

typedef struct table {
  item *items[4000];
} table;
P3L_TYPE(table, table, 1, P3L_POINTERS(table, items));

enum { ITEMS = 40000 }; /* 5 MB: several segments */

/* A chain in the order of ids. `other` of every item leads to the item 7001 before it, or is
 * NULL. Also a large object that points to the first 4000. */
static void make_items(fixture *f) {
  fixture_make(f, 0);
  MUST(f, p3l_begin(f->store, &f->error));
  item **made = calloc(ITEMS, sizeof(*made));
  table *large = p3l_new(f->store, table);
  for (uint64_t i = 0; i < ITEMS; i++) {
    made[i] = p3l_new(f->store, item);
    made[i]->id = i;
    if (i > 0) made[i - 1]->next = made[i];
    if (i >= 7001) made[i]->other = made[i - 7001];
    if (i < 4000) large->items[i] = made[i];
  }
  MUST(f, p3l_set_root(f->store, "first", made[0]));
  MUST(f, p3l_set_root(f->store, "table", large));
  MUST(f, p3l_commit(f->store, &f->error));
  free(made);
  fixture_reopen(f, 0);
}

static item *item_of(fixture *f, uint64_t id) {
  item *at = p3l_root(f->store, "first");
  while (at->id != id) at = P3L_LD(at->next);
  return at;
}

static uint64_t sum_of_all(fixture *f) {
  uint64_t sum = 0;
  for (item *at = p3l_root(f->store, "first"); at != NULL; at = P3L_LD(at->next)) sum += at->id;
  return sum;
}

static void a_pinned_object_stays_where_it_is(void **state) {
  (void)state;
  fixture f;
  make_items(&f);
  item *pinned = item_of(&f, 20000), *loose = item_of(&f, 1);
  item *next = P3L_LD(pinned->next), *other = P3L_LD(pinned->other);
  assert_int_equal(other->id, 20000 - 7001);
  assert_int_equal(sum_of_all(&f), UINT64_C(40000) * 39999 / 2);
  assert_true(fixture_statistics(&f).memory_bytes > 5 << 20);

  p3l_pin(pinned);
  MUST(&f, p3l_evict(f.store, 0, &f.error));
  assert_null(p3l_segment_of(loose));
  assert_null(p3l_segment_of(other));
  assert_non_null(p3l_segment_of(pinned));
  assert_true(fixture_statistics(&f).memory_bytes < 2 << 20);
  assert_int_equal(fixture_statistics(&f).evictions, 1);
  /* Its slots do not lead to freed memory. The next item was created just after it, so it is in
   * the same segment, or has been evicted. */
  assert_int_equal(pinned->id, 20000);
  assert_true(p3l_is_surrogate(pinned->other));
  assert_true(p3l_is_surrogate(pinned->next) || pinned->next == next);
  assert_int_equal(P3L_LD(pinned->other)->id, 20000 - 7001);
  assert_int_equal(P3L_LD(pinned->next)->id, 20001);
  /* The object exists once in memory. */
  assert_ptr_equal(item_of(&f, 20000), pinned);
  assert_int_equal(sum_of_all(&f), UINT64_C(40000) * 39999 / 2);

  p3l_pin(&pinned->bytes[50]); /* a pin of any byte of it */
  p3l_unpin(pinned);
  MUST(&f, p3l_evict(f.store, 0, &f.error));
  assert_int_equal(pinned->id, 20000);
  p3l_unpin(pinned);
  MUST(&f, p3l_evict(f.store, 0, &f.error));
  assert_null(p3l_segment_of(pinned));
  assert_int_equal(sum_of_all(&f), UINT64_C(40000) * 39999 / 2);
  fixture_drop(&f);
}

static void a_pinned_large_object_stays(void **state) {
  (void)state;
  fixture f;
  make_items(&f);
  table *large = p3l_root(f.store, "table");
  for (uint64_t i = 0; i < 4000; i++) assert_int_equal(P3L_LD(large->items[i])->id, i);
  p3l_pin(&large->items[3000]);
  MUST(&f, p3l_evict(f.store, 0, &f.error));
  size_t surrogates = 0;
  for (uint64_t i = 0; i < 4000; i++) surrogates += p3l_is_surrogate(large->items[i]);
  assert_int_equal(surrogates, 4000);
  for (uint64_t i = 0; i < 4000; i++) assert_int_equal(P3L_LD(large->items[i])->id, i);
  p3l_unpin(large);
  MUST(&f, p3l_evict(f.store, 0, &f.error));
  assert_null(p3l_segment_of(large));
  large = p3l_root(f.store, "table");
  assert_int_equal(P3L_LD(large->items[3999])->id, 3999);
  fixture_drop(&f);
}

static void a_pinned_object_can_be_changed(void **state) {
  (void)state;
  fixture f;
  make_items(&f);
  item *pinned = item_of(&f, 100), *other = item_of(&f, 39999);
  p3l_pin(pinned);
  MUST(&f, p3l_begin(f.store, &f.error));
  P3L_SET(pinned->other, other);
  P3L_SET(pinned->bytes[9], 77);
  MUST(&f, p3l_commit(f.store, &f.error));
  MUST(&f, p3l_evict(f.store, 0, &f.error));
  assert_null(p3l_segment_of(other));
  assert_int_equal(P3L_LD(pinned->other)->id, 39999);
  MUST(&f, p3l_begin(f.store, &f.error));
  P3L_SET(pinned->bytes[10], 78);
  MUST(&f, p3l_commit(f.store, &f.error));
  p3l_unpin(pinned);
  MUST(&f, p3l_evict(f.store, 0, &f.error));
  pinned = item_of(&f, 100);
  assert_int_equal(pinned->bytes[9], 77);
  assert_int_equal(pinned->bytes[10], 78);
  assert_int_equal(P3L_LD(pinned->other)->id, 39999);
  fixture_drop(&f);
}

static void misuse_is_told(void **state) {
  (void)state;
  fixture f;
  make_items(&f);
  item *first = p3l_root(f.store, "first");
  item local = {0};
  EXPECT_FAULT(P3L_MISUSE, "p3l_unpin()", p3l_unpin(first));
  EXPECT_FAULT(P3L_MISUSE, "p3l_pin()", p3l_pin(&local));
  EXPECT_FAULT(P3L_MISUSE, "p3l_unpin()", p3l_unpin(&local));
  EXPECT_FAULT(P3L_MISUSE, "p3l_pin()", p3l_pin(NULL));
  p3l_pin(first);
  p3l_unpin(first);
  EXPECT_FAULT(P3L_MISUSE, "p3l_unpin()", p3l_unpin(first));
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_pinned_object_stays_where_it_is),
                                     cmocka_unit_test(a_pinned_large_object_stays),
                                     cmocka_unit_test(a_pinned_object_can_be_changed),
                                     cmocka_unit_test(misuse_is_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
