/*
 * Abort: memory is as before the transaction, whatever the transaction did, and objects read in the
 * meantime stay. A failed commit ends the same way.
 */
#include <errno.h>

#include "store_fixture.h"

typedef struct item {
  uint64_t value;
  struct item *next, *other;
} item;
P3L_TYPE(item, item, 1, P3L_POINTERS(item, next), P3L_POINTERS(item, other));

typedef struct late {
  uint64_t value;
} late;
P3L_PLAIN_TYPE(late, late, 1);

enum { ITEMS = 200 };

/* A list of ITEMS items; item i has the value i, and the root is item 0. */
static fixture with_list(void) {
  fixture f = fixture_new();
  begin(&f);
  item *next = NULL;
  for (int i = ITEMS; i-- > 0;) {
    item *made = p3l_new(f.store, item);
    made->value = (uint64_t)i;
    made->next = next;
    next = made;
  }
  p3l_set_root(f.store, "list", next);
  commit(&f);
  fixture_reopen(&f);
  return f;
}

static item *item_of(fixture *f, int index) {
  item *at = p3l_root(f->store, "list");
  for (int i = 0; i < index; i++) at = P3L_LD(at->next);
  return at;
}

static void assert_list(fixture *f) {
  item *at = p3l_root(f->store, "list");
  for (int i = 0; i < ITEMS; i++, at = P3L_LD(at->next)) {
    assert_int_equal(at->value, i);
    assert_null(P3L_LD(at->other));
  }
  assert_null(at);
}

static void changes_are_taken_back(void **state) {
  (void)state;
  fixture f = with_list();
  begin(&f);
  item *at = p3l_root(f.store, "list");
  for (int i = 0; i < ITEMS; i++, at = P3L_LD(at->next)) {
    P3L_SET(at->value, 1000);
    P3L_SET(at->other, p3l_root(f.store, "list"));
  }
  item *third = item_of(&f, 3);
  P3L_SET(third->next, NULL);
  p3l_abort(f.store);
  assert_list(&f);
  fixture_reopen(&f);
  assert_list(&f);
  fixture_drop(&f);
}

static void what_was_made_is_gone(void **state) {
  (void)state;
  fixture f = with_list();
  for (int round = 0; round < 3; round++) {
    begin(&f);
    item *first = p3l_root(f.store, "list");
    for (int i = 0; i < 500; i++) {
      item *made = p3l_new(f.store, item);
      assert_non_null(made);
      assert_int_equal(made->value, 0);
      assert_null(made->next);
      made->value = 7;
      made->next = first;
      P3L_SET(first->other, made);
    }
    late *plain = p3l_new_array(f.store, late, 3000); /* a large object of a new type */
    assert_non_null(plain);
    plain[2999].value = 5;
    p3l_set_root(f.store, "plain", plain);
    void *gone = first->other;
    p3l_abort(f.store);
    assert_list(&f);
    assert_null(p3l_root(f.store, "plain"));
    assert_fault(P3L_MISUSE, p3l_extent(gone), "not a persistent object");
  }
  assert_int_equal(logged(&f), 0);
  begin(&f);
  late *plain = p3l_new(f.store, late);
  plain->value = 11;
  p3l_set_root(f.store, "plain", plain);
  commit(&f);
  fixture_reopen(&f);
  plain = p3l_root(f.store, "plain");
  assert_int_equal(plain->value, 11);
  assert_list(&f);
  fixture_drop(&f);
}

/* Objects that are copied into memory one by one are placed after the changed ones, in the same
 * cards. */
static void what_arrived_meanwhile_stays(void **state) {
  (void)state;
  for (int committed = 0; committed < 2; committed++) {
    fixture f = with_list();
    begin(&f);
    item *at = p3l_root(f.store, "list"), *seen[ITEMS];
    for (int i = 0; i < ITEMS; i++, at = P3L_LD(at->next)) {
      seen[i] = at;
      if (i % 10 == 0) P3L_SET(at->value, (uint64_t)i + 1000);
      if (i % 10 == 3) p3l_new(f.store, item)->value = 77;
    }
    if (committed)
      commit(&f);
    else
      p3l_abort(f.store);
    for (int i = 0; i < ITEMS; i++)
      assert_int_equal(seen[i]->value, committed && i % 10 == 0 ? i + 1000 : i);
    begin(&f);
    for (int i = 0; i < ITEMS; i++) P3L_SET(seen[i]->value, (uint64_t)i);
    commit(&f);
    assert_list(&f);
    fixture_reopen(&f);
    assert_list(&f);
    fixture_drop(&f);
  }
}

static void deletions_are_taken_back(void **state) {
  (void)state;
  fixture f = with_list();
  begin(&f);
  for (int i = 0; i < 50; i++) {
    item *first = p3l_root(f.store, "list"), *second = P3L_LD(first->next);
    P3L_SET(first->next, P3L_LD(second->next));
    p3l_delete(f.store, second);
  }
  p3l_set_root(f.store, "list", NULL);
  assert_null(p3l_root(f.store, "list"));
  p3l_abort(f.store);
  assert_list(&f);
  fixture_reopen(&f);
  assert_list(&f);
  fixture_drop(&f);
}

static void a_full_disk_leaves_memory_as_it_was(void **state) {
  (void)state;
  fixture f = with_list();
  item *first = p3l_root(f.store, "list"), *second = P3L_LD(first->next);
  for (int round = 0; round < 3; round++) {
    begin(&f);
    P3L_SET(first->value, 99);
    item *made = p3l_new_near(f.store, item, first);
    made->next = first;
    p3l_set_root(f.store, "list", made);
    P3L_SET(first->next, P3L_LD(second->next));
    p3l_delete(f.store, second);
    f.log->fail_in = 1;
    f.log->fail_with = ENOSPC;
    assert_int_equal(p3l_commit(f.store, &f.error), P3L_NO_SPACE);
    assert_list(&f);
    assert_fault(P3L_MISUSE, p3l_extent(made), "not a persistent object");
    assert_int_equal(p3l_extent(second), 32);
  }
  /* The next transaction is committed completely. */
  begin(&f);
  item *made = p3l_new_near(f.store, item, first);
  made->next = first;
  P3L_SET(second->other, made);
  P3L_SET(second->other, NULL);
  p3l_set_root(f.store, "made", made);
  commit(&f);
  fixture_reopen(&f);
  assert_list(&f);
  made = p3l_root(f.store, "made");
  assert_ptr_equal(P3L_LD(made->next), p3l_root(f.store, "list"));
  fixture_drop(&f);
}

/* The state of the disk is then unknown: nothing more is written, and memory stays as the
 * program left it. */
static void a_failed_sync_ends_the_store(void **state) {
  (void)state;
  fixture f = with_list();
  item *first = p3l_root(f.store, "list");
  /* The first commit marks in the log's header that a commit exists. */
  begin(&f);
  P3L_SET(first->value, 98);
  commit(&f);
  begin(&f);
  P3L_SET(first->value, 99);
  f.log->fail_in = 2; /* the append succeeds */
  f.log->fail_with = EIO;
  assert_int_equal(p3l_commit(f.store, &f.error), P3L_BROKEN);
  assert_int_equal(first->value, 99);
  assert_int_equal(p3l_begin(f.store, &f.error), P3L_BROKEN);
  p3l_enter(f.store); /* no lock was left behind */
  p3l_leave(f.store);
  assert_int_equal(p3l_close(f.store, &f.error), P3L_BROKEN);
  fixture_open(&f);
  first = p3l_root(f.store, "list");
  assert_true(first->value == 99 || first->value == 98);
  begin(&f);
  P3L_SET(first->value, 0);
  commit(&f);
  assert_list(&f);
  fixture_drop(&f);
}

static void a_failed_allocation_fails_the_commit(void **state) {
  (void)state;
  fixture f = with_list();
  item *first = p3l_root(f.store, "list");
  begin(&f);
  P3L_SET(first->value, 5);
  assert_null(p3l_new_array(f.store, item, SIZE_MAX / 2));
  assert_int_equal(p3l_failure(f.store)->code, P3L_NO_MEMORY);
  assert_null(p3l_new(f.store, item)); /* and nothing after it either */
  assert_int_equal(p3l_commit(f.store, &f.error), P3L_NO_MEMORY);
  assert_non_null(strstr(f.error.message, "item"));
  assert_list(&f);
  begin(&f);
  item outside = {0};
  assert_null(p3l_new_near(f.store, item, &outside));
  assert_int_equal(p3l_failure(f.store)->code, P3L_MISUSE);
  p3l_abort(f.store);
  begin(&f);
  assert_int_equal(p3l_failure(f.store)->code, P3L_OK);
  assert_null(p3l_new_array(f.store, item, 0));
  p3l_abort(f.store);
  begin(&f);
  assert_non_null(p3l_new(f.store, item));
  commit(&f);
  assert_list(&f);
  fixture_drop(&f);
}

static void closing_aborts(void **state) {
  (void)state;
  fixture f = with_list();
  begin(&f);
  item *first = p3l_root(f.store, "list");
  P3L_SET(first->value, 5);
  p3l_set_root(f.store, "new", p3l_new(f.store, item));
  fixture_reopen(&f);
  assert_list(&f);
  assert_null(p3l_root(f.store, "new"));
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(changes_are_taken_back),
      cmocka_unit_test(what_was_made_is_gone),
      cmocka_unit_test(what_arrived_meanwhile_stays),
      cmocka_unit_test(deletions_are_taken_back),
      cmocka_unit_test(a_full_disk_leaves_memory_as_it_was),
      cmocka_unit_test(a_failed_sync_ends_the_store),
      cmocka_unit_test(a_failed_allocation_fails_the_commit),
      cmocka_unit_test(closing_aborts),
  };
  return fixture_run(tests);
}
