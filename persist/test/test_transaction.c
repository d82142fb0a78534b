/*
 * Commit: when the store is reopened, all committed changes are present and no others. A forbidden
 * pointer is refused with the field's name.
 */
#include <pthread.h>

#include "store_fixture.h"

typedef struct part {
  uint32_t id, x;
  struct part *to[3];
} part;
P3L_TYPE(part, part, 1, P3L_POINTERS(part, to));

typedef struct row {
  uint64_t value;
  part *first;
  uint8_t body[1000];
  part *last;
} row;
P3L_TYPE(row, row, 1, P3L_POINTERS(row, first), P3L_POINTERS(row, last));

static part *make_part(fixture *f, uint32_t id) {
  part *made = p3l_new(f->store, part);
  assert_non_null(made);
  made->id = id;
  return made;
}

static void new_objects_are_there_after_opening_again(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  part *a = make_part(&f, 1), *b = make_part(&f, 2);
  assert_int_equal(a->x, 0); /* zeroed */
  a->to[0] = b;
  a->to[2] = a;
  b->to[1] = a;
  assert_int_equal(p3l_set_root(f.store, "a", a), P3L_OK);
  assert_ptr_equal(p3l_root(f.store, "a"), a); /* also within the transaction */
  commit(&f);
  assert_ptr_equal(p3l_root(f.store, "a"), a);
  fixture_reopen(&f);
  a = p3l_root(f.store, "a");
  assert_int_equal(a->id, 1);
  assert_true(p3l_is_surrogate(a->to[0])); /* no slot is converted before it is loaded */
  b = P3L_LD(a->to[0]);
  assert_int_equal(b->id, 2);
  assert_ptr_equal(a->to[0], b); /* healed */
  assert_null(P3L_LD(a->to[1]));
  assert_ptr_equal(P3L_LD(a->to[2]), a);
  assert_ptr_equal(P3L_LD(b->to[1]), a);
  assert_int_equal(p3l_extent(a), 32);
  fixture_drop(&f);
}

static void a_change_is_there_and_its_neighbours_are_as_they_were(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  part *parts[100];
  for (uint32_t i = 0; i < 100; i++) {
    parts[i] = make_part(&f, i);
    if (i > 0) parts[i]->to[0] = parts[i - 1];
  }
  p3l_set_root(f.store, "last", parts[99]);
  commit(&f);
  for (int round = 1; round <= 3; round++) {
    begin(&f);
    part *at = p3l_root(f.store, "last");
    for (int i = 99; i >= 0; i--, at = P3L_LD(at->to[0])) {
      assert_int_equal(at->id, i);
      if (i % 7 == round) {
        P3L_SET(at->x, at->x + (uint32_t)round);
        P3L_SET(at->to[1], at);
      }
    }
    commit(&f);
    fixture_reopen(&f);
  }
  part *at = p3l_root(f.store, "last");
  for (int i = 99; i >= 0; i--, at = P3L_LD(at->to[0])) {
    bool changed = i % 7 >= 1 && i % 7 <= 3;
    assert_int_equal(at->x, changed ? i % 7 : 0);
    assert_ptr_equal(P3L_LD(at->to[1]), changed ? at : NULL);
  }
  fixture_drop(&f);
}

static void healing_and_writing_the_same_is_no_change(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  part *a = make_part(&f, 1), *b = make_part(&f, 2);
  a->to[0] = b;
  p3l_set_root(f.store, "a", a);
  commit(&f);
  fixture_reopen(&f);
  begin(&f);
  commit(&f); /* without changes */
  begin(&f);
  a = p3l_root(f.store, "a");
  p3l_dirty(a, sizeof(*a));
  b = P3L_LD(a->to[0]); /* heals a slot in a card that is kept */
  assert_ptr_equal(a->to[0], b);
  a->id = 1;
  P3L_SET(a->to[0], b);
  commit(&f);
  assert_int_equal(logged(&f), 0);
  /* The address may be written to a slot that holds the surrogate, and vice versa. */
  begin(&f);
  P3L_SET(a->to[0], p3l_surrogate(b));
  commit(&f);
  assert_int_equal(logged(&f), 0);
  begin(&f);
  P3L_SET(a->to[0], a);
  commit(&f);
  assert_true(logged(&f) > 0);
  p3l_statistics statistics;
  p3l_get_statistics(f.store, &statistics);
  assert_int_equal(statistics.cards_written, 3);
  assert_int_equal(statistics.commits, 4);
  fixture_reopen(&f);
  a = p3l_root(f.store, "a");
  assert_ptr_equal(P3L_LD(a->to[0]), a);
  fixture_drop(&f);
}

static void a_pointer_to_other_memory_is_refused_by_name(void **state) {
  (void)state;
  fixture f = fixture_new(), other = fixture_new();
  part elsewhere = {.id = 5};
  begin(&f);
  part *a = make_part(&f, 1);
  p3l_set_root(f.store, "a", a);
  commit(&f);
  begin(&other);
  part *foreign = make_part(&other, 9);
  p3l_set_root(other.store, "foreign", foreign);
  commit(&other);

  begin(&f);
  P3L_SET(a->x, 77);
  P3L_SET(a->to[2], &elsewhere);
  assert_int_equal(p3l_commit(f.store, &f.error), P3L_MISUSE);
  if (strstr(f.error.message, "to[2] of the part at page") == NULL) fail_msg("%s", f.error.message);
  assert_int_equal(a->x, 0);
  assert_null(a->to[2]);

  begin(&f);
  part *b = make_part(&f, 2); /* also in a new object */
  b->to[1] = foreign;
  P3L_SET(a->to[0], b);
  assert_int_equal(p3l_commit(f.store, &f.error), P3L_MISUSE);
  if (strstr(f.error.message, "to[1] of the part") == NULL) fail_msg("%s", f.error.message);
  assert_null(a->to[0]);
  assert_int_equal(p3l_set_root(f.store, "a", NULL), P3L_MISUSE); /* outside of a transaction */
  begin(&f);
  assert_int_equal(p3l_set_root(f.store, "b", &elsewhere), P3L_MISUSE);
  assert_int_equal(p3l_commit(f.store, &f.error), P3L_MISUSE);

  begin(&f);
  P3L_SET(a->to[0], (part *)(uintptr_t)-1);
  assert_int_equal(p3l_commit(f.store, &f.error), P3L_MISUSE);
  assert_null(a->to[0]);

  begin(&f); /* the store is unchanged */
  P3L_SET(a->x, 3);
  commit(&f);
  fixture_reopen(&f);
  assert_int_equal(((part *)p3l_root(f.store, "a"))->x, 3);
  assert_null(p3l_root(f.store, "b"));
  fixture_drop(&other);
  fixture_drop(&f);
}

static void *write_from_another_thread(void *argument) {
  part *a = argument;
  assert_fault(P3L_MISUSE, p3l_will_write(a, 4), "outside of a transaction of this thread");
  return NULL;
}

static void changes_need_a_transaction_of_the_thread(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  part *a = make_part(&f, 1);
  p3l_set_root(f.store, "a", a);
  commit(&f);
  assert_fault(P3L_MISUSE, P3L_SET(a->x, 1), "call p3l_begin() first");
  assert_int_equal(a->x, 0);
  assert_null(p3l_new(f.store, part));
  assert_int_equal(p3l_failure(f.store)->code, P3L_MISUSE);
  assert_int_equal(p3l_commit(f.store, &f.error), P3L_MISUSE);
  p3l_abort(f.store); /* without a transaction: no effect */
  begin(&f);
  assert_int_equal(p3l_begin(f.store, &f.error), P3L_MISUSE);
  pthread_t thread;
  pthread_create(&thread, NULL, write_from_another_thread, a);
  pthread_join(thread, NULL);
  part local = {0};
  P3L_SET(local.x, 4); /* reporting memory outside of the store has no effect */
  assert_fault(P3L_MISUSE, p3l_dirty(a, (size_t)1 << 30), "beyond the object");
  commit(&f);
  assert_fault(P3L_MISUSE, p3l_surrogate(&local), "not a persistent object");
  assert_fault(P3L_MISUSE, p3l_extent(&local), "not a persistent object");
  assert_null(p3l_surrogate(NULL));
  f.options.read_only = true;
  fixture_reopen(&f);
  assert_int_equal(p3l_begin(f.store, &f.error), P3L_READ_ONLY);
  assert_int_equal(((part *)p3l_root(f.store, "a"))->id, 1);
  fixture_drop(&f);
}

/* 40 rows of 1024 bytes, after a part: each row spans two cards. */
static void objects_across_cards_are_whole(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  part *a = make_part(&f, 7);
  row *rows[40];
  for (int i = 0; i < 40; i++) {
    rows[i] = p3l_new(f.store, row);
    rows[i]->last = a;
    memset(rows[i]->body, i, sizeof(rows[i]->body));
    char name[8];
    snprintf(name, sizeof(name), "r%d", i);
    p3l_set_root(f.store, name, rows[i]);
  }
  commit(&f);
  fixture_reopen(&f);
  begin(&f);
  for (int i = 0; i < 40; i++) {
    char name[8];
    snprintf(name, sizeof(name), "r%d", i);
    row *r = p3l_root(f.store, name);
    a = P3L_LD(r->last);
    if (i % 3 == 0) P3L_SET(r->value, (uint64_t)i);
    if (i % 3 == 1) {
      p3l_dirty(r->body, sizeof(r->body));
      memset(r->body, 100 + i, sizeof(r->body));
    }
    if (i % 5 == 0) {
      P3L_SET(r->first, a);
      P3L_SET(r->last, NULL);
    }
  }
  commit(&f);
  fixture_reopen(&f);
  for (int i = 0; i < 40; i++) {
    char name[8];
    snprintf(name, sizeof(name), "r%d", i);
    row *r = p3l_root(f.store, name);
    assert_int_equal(r->value, i % 3 == 0 ? i : 0);
    for (size_t byte = 0; byte < sizeof(r->body); byte++)
      assert_int_equal(r->body[byte], i % 3 == 1 ? 100 + i : i);
    part *first = P3L_LD(r->first), *last = P3L_LD(r->last);
    assert_int_equal((i % 5 == 0 ? first : last)->id, 7);
    assert_null(i % 5 == 0 ? last : first);
  }
  fixture_drop(&f);
}

/* An array of 20,000 parts: 640,000 bytes, on 159 pages. */
static void large_objects_are_changed_where_they_are_changed(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  fixture f = fixture_new();
  begin(&f);
  part *all = p3l_new_array(f.store, part, COUNT);
  assert_int_equal(p3l_extent(all), COUNT * sizeof(part) + 16); /* its end also has an address */
  for (uint32_t i = 0; i < COUNT; i++) {
    all[i].id = i;
    all[i].to[1] = &all[(i * 7919) % COUNT]; /* interior pointers */
  }
  p3l_set_root(f.store, "all", all);
  commit(&f);
  fixture_reopen(&f);
  all = p3l_root(f.store, "all");
  for (uint32_t i = 0; i < COUNT; i += 11)
    assert_ptr_equal(P3L_LD(all[i].to[1]), &all[i * 7919 % COUNT]);
  begin(&f);
  /* Elements at both sides of the page boundaries: a page holds 4032 bytes, or 126 parts, so
   * that no part spans two pages. Also elements across cards. */
  for (uint32_t i = 125; i + 1 < COUNT; i += 126) {
    P3L_SET(all[i].x, i);
    P3L_SET(all[i + 1].to[0], &all[i]);
  }
  commit(&f);
  uint64_t bytes = logged(&f);
  assert_true(bytes > 0);
  fixture_reopen(&f);
  all = p3l_root(f.store, "all");
  for (uint32_t i = 0; i < COUNT; i++) {
    assert_int_equal(all[i].id, i);
    assert_int_equal(all[i].x, i % 126 == 125 && i + 1 < COUNT ? i : 0);
    assert_ptr_equal(P3L_LD(all[i].to[0]), i % 126 == 0 && i > 0 ? &all[i - 1] : NULL);
  }
  /* One word changed: at most one page image and its commit frame. */
  begin(&f);
  P3L_SET(all[5000].x, 1);
  commit(&f);
  assert_true(logged(&f) > 0 && logged(&f) < 2 * P3L_PAGE_SIZE);
  begin(&f);
  P3L_SET(all[5000].x, 2);
  commit(&f);
  assert_true(logged(&f) < 3 * P3L_PAGE_SIZE);
  fixture_drop(&f);
}

static void the_end_of_an_array_is_not_the_next_object(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  part *all = p3l_new_array(f.store, part, 4), *next = make_part(&f, 9);
  all[0].to[0] = &all[4];
  all[0].to[1] = next;
  p3l_set_root(f.store, "all", all);
  commit(&f);
  fixture_reopen(&f);
  all = p3l_root(f.store, "all");
  next = P3L_LD(all[0].to[1]);
  assert_int_equal(next->id, 9);
  assert_ptr_equal(P3L_LD(all[0].to[0]), &all[4]);
  fixture_drop(&f);
}

static void a_hundred_thousand_objects_in_one_transaction(void **state) {
  (void)state;
  enum { COUNT = 100000 };
  uint64_t limit = fixture_limit;
  if (limit > 0) fixture_limit = 4 * FIXTURE_LIMIT; /* objects must not be evicted */
  fixture f = fixture_new();
  fixture_limit = limit;
  begin(&f);
  part **made = malloc(COUNT * sizeof(*made));
  for (uint32_t i = 0; i < COUNT; i++) {
    made[i] = make_part(&f, i);
    if (i > 0) made[i]->to[0] = made[i - 1];
    made[i]->to[1] = made[i / 2];
  }
  p3l_set_root(f.store, "last", made[COUNT - 1]);
  commit(&f);
  /* 32 bytes per object and two for its type, in pages of 4016 bytes: images, frames, and few
   * other bytes. */
  uint64_t bytes = logged(&f);
  assert_in_range(bytes, COUNT * 34, COUNT * 38);
  begin(&f);
  for (uint32_t i = 0; i < COUNT; i++) P3L_SET(made[i]->x, i + 1);
  commit(&f);
  free(made);
  fixture_reopen(&f);
  part *at = p3l_root(f.store, "last");
  for (uint32_t i = COUNT; i-- > 0; at = P3L_LD(at->to[0])) {
    assert_int_equal(at->id, i);
    assert_int_equal(at->x, i + 1);
    part *half = P3L_LD(at->to[1]);
    assert_int_equal(half->id, i / 2);
  }
  assert_null(at);
  fixture_drop(&f);
}

static uint64_t page_of(const void *object) {
  return ((uint64_t)(uintptr_t)p3l_surrogate(object) & ~P3L_SURROGATE_BIT) / P3L_PAGE_SIZE;
}

static void near_is_on_the_same_page(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  part *a = make_part(&f, 1);
  row *filler[8];
  for (int i = 0; i < 8; i++) filler[i] = p3l_new(f.store, row);
  part *b = p3l_new_near(f.store, part, a);
  assert_int_equal(page_of(a), page_of(b));
  assert_int_not_equal(page_of(filler[7]), page_of(a));
  p3l_delete(f.store, filler[7]);
  p3l_set_root(f.store, "a", a);
  commit(&f);
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(new_objects_are_there_after_opening_again),
      cmocka_unit_test(a_change_is_there_and_its_neighbours_are_as_they_were),
      cmocka_unit_test(healing_and_writing_the_same_is_no_change),
      cmocka_unit_test(a_pointer_to_other_memory_is_refused_by_name),
      cmocka_unit_test(changes_need_a_transaction_of_the_thread),
      cmocka_unit_test(objects_across_cards_are_whole),
      cmocka_unit_test(large_objects_are_changed_where_they_are_changed),
      cmocka_unit_test(the_end_of_an_array_is_not_the_next_object),
      cmocka_unit_test(a_hundred_thousand_objects_in_one_transaction),
      cmocka_unit_test(near_is_on_the_same_page),
  };
  return fixture_run(tests);
}
