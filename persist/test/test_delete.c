/*
 * Deletion: the space is used again, dangling pointers are reported, and other objects are
 * unchanged.
 */
#include "store_fixture.h"

typedef struct node {
  uint64_t value;
  struct node *next;
  uint8_t body[80];
} node;
P3L_TYPE(node, node, 1, P3L_POINTERS(node, next));

static void the_deleted_is_gone_and_others_stay(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  node *first = p3l_new(f.store, node), *second = p3l_new(f.store, node),
       *third = p3l_new(f.store, node);
  first->next = second;
  second->next = third;
  third->value = 3;
  p3l_set_root(f.store, "first", first);
  p3l_set_root(f.store, "third", third);
  commit(&f);
  begin(&f);
  p3l_delete(f.store, second); /* first->next dangles */
  p3l_delete(f.store, NULL);
  commit(&f);
  assert_fault(P3L_MISUSE, p3l_extent(second), "not a persistent object");
  /* A dangling pointer does not prevent a commit. */
  begin(&f);
  P3L_SET(first->value, 1);
  node *copy = p3l_new(f.store, node);
  *copy = *first;
  p3l_set_root(f.store, "copy", copy);
  commit(&f);
  fixture_reopen(&f);
  first = p3l_root(f.store, "first");
  third = p3l_root(f.store, "third");
  assert_int_equal(first->value, 1);
  assert_int_equal(third->value, 3);
  fixture_drop(&f);
}

static void following_a_dangling_pointer_is_told(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  node *first = p3l_new(f.store, node), *second = p3l_new(f.store, node);
  first->next = second;
  p3l_set_root(f.store, "first", first);
  p3l_set_root(f.store, "second", second);
  commit(&f);
  begin(&f);
  p3l_delete(f.store, second);
  commit(&f);
  fixture_reopen(&f);
  first = p3l_root(f.store, "first");
  assert_fault(P3L_DANGLING, (void)P3L_LD(first->next), "page");
  assert_fault(P3L_DANGLING, (void)p3l_root(f.store, "second"), "page");
  fixture_drop(&f);
}

/* An address kept by the program does not lead to another object, neither before nor after one
 * takes the place. */
static void what_was_deleted_is_not_read(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  node *first = p3l_new(f.store, node), *second = p3l_new(f.store, node);
  *first = (node){.value = 1, .next = second};
  *second = (node){.value = 2, .next = first};
  p3l_set_root(f.store, "first", first);
  commit(&f);
  fixture_reopen(&f);
  first = p3l_root(f.store, "first");
  node *kept = P3L_LD(first->next);
  assert_ptr_equal(P3L_LD(kept->next), first);
  uint64_t place = (uint64_t)(uintptr_t)p3l_surrogate(kept);
  begin(&f);
  p3l_delete(f.store, kept);
  assert_int_equal(kept->value, 2); /* not before the commit */
  p3l_abort(f.store);
  assert_int_equal(kept->value, 2);
  begin(&f);
  p3l_delete(f.store, kept);
  commit(&f);
  assert_int_equal(kept->value, UINT64_C(0xc0c0c0c0c0c0c0c0));
  begin(&f);
  node *other = p3l_new_near(f.store, node, first);
  other->value = 3;
  /* The same place in the store, with another generation. */
  assert_int_equal((uint64_t)(uintptr_t)p3l_surrogate(other), place + (UINT64_C(1) << 56));
  commit(&f);
  assert_int_equal(kept->value, UINT64_C(0xc0c0c0c0c0c0c0c0));
  assert_int_equal((uintptr_t)P3L_LD(kept->next), UINT64_C(0xc0c0c0c0c0c0c0c0)); /* traps */
  assert_int_equal(other->value, 3);
  fixture_drop(&f);
}

static void misuse_is_told(void **state) {
  (void)state;
  fixture f = fixture_new(), other = fixture_new();
  node local = {0};
  begin(&other);
  node *foreign = p3l_new(other.store, node);
  commit(&other);
  begin(&f);
  node *first = p3l_new(f.store, node);
  assert_fault(P3L_MISUSE, p3l_delete(f.store, &first->next), "within an object");
  assert_fault(P3L_MISUSE, p3l_delete(f.store, &local), "no object of this store");
  assert_fault(P3L_MISUSE, p3l_delete(f.store, foreign), "no object of this store");
  p3l_delete(f.store, first);
  assert_fault(P3L_MISUSE, p3l_delete(f.store, first), "deleted before");
  commit(&f);
  assert_fault(P3L_MISUSE, p3l_delete(f.store, first), "outside of a transaction");
  begin(&f);
  assert_fault(P3L_MISUSE, p3l_delete(f.store, first), "no object of this store");
  commit(&f);
  fixture_drop(&other);
  fixture_drop(&f);
}

/* Objects created and deleted in one transaction, changed and deleted, and deleted and then
 * changed. */
static void deletion_and_change_in_one_transaction(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  node *kept = p3l_new(f.store, node), *old = p3l_new(f.store, node);
  p3l_set_root(f.store, "kept", kept);
  p3l_set_root(f.store, "old", old);
  commit(&f);
  begin(&f);
  node *short_lived = p3l_new(f.store, node);
  short_lived->next = kept;
  P3L_SET(kept->next, short_lived);
  P3L_SET(old->value, 17);
  p3l_delete(f.store, old);
  P3L_SET(old->value, 18);
  p3l_delete(f.store, short_lived);
  short_lived->value = 19;
  P3L_SET(kept->next, NULL);
  P3L_SET(kept->value, 20);
  p3l_set_root(f.store, "old", NULL);
  commit(&f);
  fixture_reopen(&f);
  kept = p3l_root(f.store, "kept");
  assert_int_equal(kept->value, 20);
  assert_null(P3L_LD(kept->next));
  assert_null(p3l_root(f.store, "old"));
  fixture_drop(&f);
}

static uint64_t pages(fixture *f) { return p3l_pager_page_count(f->store->pager); }

/* After forty rounds of creating and deleting, the store is as long as after the third, for
 * small objects and for large ones of 25 pages. */
static void room_comes_back(void **state) {
  (void)state;
  fixture f = fixture_new();
  uint64_t after_three = 0;
  for (int round = 0; round < 40; round++) {
    node *nodes[300];
    begin(&f);
    for (int i = 0; i < 300; i++) {
      nodes[i] = p3l_new(f.store, node);
      nodes[i]->value = (uint64_t)(round * 1000 + i);
      nodes[i]->next = i == 0 ? NULL : nodes[i - 1];
    }
    p3l_set_root(f.store, "last", nodes[299]);
    node *large = p3l_new_array(f.store, node, 1000);
    large[999].value = (uint64_t)round;
    large[999].next = nodes[5];
    p3l_set_root(f.store, "large", large);
    commit(&f);
    if (round % 3 == 0) fixture_reopen(&f);
    large = p3l_root(f.store, "large");
    assert_int_equal(large[999].value, round);
    assert_int_equal(P3L_LD(large[999].next)->value, round * 1000 + 5);
    begin(&f);
    p3l_delete(f.store, large);
    p3l_set_root(f.store, "large", NULL);
    node *at = p3l_root(f.store, "last");
    for (int i = 299; i >= 0; i--) {
      assert_int_equal(at->value, round * 1000 + i);
      node *next = P3L_LD(at->next);
      p3l_delete(f.store, at);
      at = next;
    }
    p3l_set_root(f.store, "last", NULL);
    commit(&f);
    if (round == 2) after_three = pages(&f);
    if (round % 5 == 0) fixture_reopen(&f);
  }
  /* Large objects need adjacent pages at the end: at most 25 pages stay free in each round. */
  assert_in_range(pages(&f), 1, after_three + 40 * 25);
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_deleted_is_gone_and_others_stay),
      cmocka_unit_test(following_a_dangling_pointer_is_told),
      cmocka_unit_test(what_was_deleted_is_not_read),
      cmocka_unit_test(misuse_is_told),
      cmocka_unit_test(deletion_and_change_in_one_transaction),
      cmocka_unit_test(room_comes_back),
  };
  return fixture_run(tests);
}
