/*
 * Changes that a program forgot to report: a commit that audits refuses them and names the changed
 * object. Reported changes, healed slots and new objects never count as such.
 */
#include "store_fixture.h"

typedef struct item {
  uint64_t value;
  struct item *next;
} item;
P3L_TYPE(item, item, 1, P3L_POINTERS(item, next));

typedef struct number {
  uint64_t value;
} number;
P3L_PLAIN_TYPE(number, number, 1);

enum { ITEMS = 1000, NUMBERS = 4000 };

/* A list and a large object, in a reopened store, so that all of them come from pages. */
static fixture items_new(uint32_t audit_places) {
  fixture f = fixture_new();
  begin(&f);
  item *first = NULL;
  for (uint64_t i = ITEMS; i-- > 0;) {
    item *made = p3l_new(f.store, item);
    *made = (item){i, first};
    first = made;
  }
  assert_int_equal(p3l_set_root(f.store, "items", first), P3L_OK);
  assert_int_equal(p3l_set_root(f.store, "numbers", p3l_new_array(f.store, number, NUMBERS)),
                   P3L_OK);
  commit(&f);
  f.options.audit_places = audit_places;
  fixture_reopen(&f);
  return f;
}

static item *nth(fixture *f, uint64_t n) {
  item *at = p3l_root(f->store, "items");
  while (n-- > 0) at = P3L_LD(at->next);
  return at;
}

/* Changes an item far from the others. */
static void change_first(fixture *f, uint64_t value) {
  item *first = p3l_root(f->store, "items");
  P3L_SET(first->value, value);
}

static void expect_refused(fixture *f, const char *words) {
  begin(f);
  change_first(f, 5);
  assert_int_equal(p3l_commit(f->store, &f->error), P3L_MISUSE);
  if (strstr(f->error.message, words) == NULL)
    fail_msg("\"%s\" does not say \"%s\"", f->error.message, words);
}

static void a_forgotten_report_is_found(void **state) {
  (void)state;
  fixture f = items_new(P3L_AUDIT_ALL);
  item *late = nth(&f, ITEMS - 1);
  begin(&f);
  change_first(&f, 4);
  commit(&f); /* all slots were healed, which is allowed */
  late->value = 7;
  expect_refused(&f, "byte 0 of the item at page");
  assert_int_equal(((item *)p3l_root(f.store, "items"))->value, 4); /* restored */
  late->value = ITEMS - 1;
  begin(&f);
  P3L_SET(late->value, 7);
  commit(&f);
  fixture_reopen(&f);
  assert_int_equal(nth(&f, ITEMS - 1)->value, 7);
  fixture_drop(&f);
}

static void in_a_large_object_too(void **state) {
  (void)state;
  fixture f = items_new(P3L_AUDIT_ALL);
  number *numbers = p3l_root(f.store, "numbers");
  begin(&f);
  P3L_SET(numbers[17].value, 3);
  commit(&f);
  numbers[3333].value = 9;
  expect_refused(&f, "byte 26664 of the number at page");
  fixture_drop(&f);
}

static void a_slot_too(void **state) {
  (void)state;
  fixture f = items_new(P3L_AUDIT_ALL);
  item elsewhere = {0}, *late = nth(&f, ITEMS - 1), *middle = nth(&f, ITEMS / 2);
  late->next = middle;
  expect_refused(&f, "byte 8 of the item at page");
  late->next = &elsewhere; /* in an unmarked card, which no commit would examine */
  expect_refused(&f, "next of the item");
  late->next = NULL;
  begin(&f);
  P3L_SET(late->next, middle);
  commit(&f);
  fixture_drop(&f);
}

/* By default each commit audits a small part, so a change is found after a limited number of
 * commits. */
static void it_is_found_in_the_end(void **state) {
  (void)state;
  fixture f = items_new(0);
  item *late = nth(&f, ITEMS - 1);
  late->value = 7;
  int commits = 0;
  p3l_code code = P3L_OK;
  for (; code == P3L_OK && commits < 10000; commits++) {
    begin(&f);
    change_first(&f, (uint64_t)commits);
    code = p3l_commit(f.store, &f.error);
  }
  assert_int_equal(code, P3L_MISUSE);
  assert_true(commits > 1);
  fixture_drop(&f);
}

static void what_was_reported_is_not_refused(void **state) {
  (void)state;
  fixture f = items_new(P3L_AUDIT_ALL);
  for (uint64_t round = 0; round < 20; round++) {
    begin(&f);
    item *at = nth(&f, round * 17);
    P3L_SET(at->value, round);
    item *made = p3l_new(f.store, item), *gone = P3L_LD(at->next);
    *made = (item){round, P3L_LD(gone->next)};
    P3L_SET(at->next, made);
    p3l_delete(f.store, gone);
    if (round % 3 == 2)
      p3l_abort(f.store);
    else
      commit(&f);
  }
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_forgotten_report_is_found),
      cmocka_unit_test(in_a_large_object_too),
      cmocka_unit_test(a_slot_too),
      cmocka_unit_test(it_is_found_in_the_end),
      cmocka_unit_test(what_was_reported_is_not_refused),
  };
  return fixture_run(tests);
}
