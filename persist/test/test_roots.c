/*
 * Roots: names of objects.
 */
#include "store_fixture.h"

typedef struct thing {
  uint64_t value;
} thing;
P3L_PLAIN_TYPE(thing, thing, 1);

static thing *make(fixture *f, uint64_t value) {
  thing *made = p3l_new(f->store, thing);
  made->value = value;
  return made;
}

static void names_are_found_again(void **state) {
  (void)state;
  enum { ROOTS = 300 }; /* more than a page of names */
  fixture f = fixture_new();
  char name[64];
  begin(&f);
  for (int i = 0; i < ROOTS; i++) {
    snprintf(name, sizeof(name), "root %d", i);
    assert_int_equal(p3l_set_root(f.store, name, make(&f, (uint64_t)i)), P3L_OK);
  }
  commit(&f);
  fixture_reopen(&f);
  for (int i = 0; i < ROOTS; i++) {
    snprintf(name, sizeof(name), "root %d", i);
    thing *found = p3l_root(f.store, name);
    assert_int_equal(found->value, i);
    assert_ptr_equal(p3l_root(f.store, name), found);
  }
  assert_null(p3l_root(f.store, "root"));
  assert_null(p3l_root(f.store, ""));
  fixture_drop(&f);
}

static void a_name_is_given_anew_and_taken_away(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  p3l_set_root(f.store, "a", make(&f, 1));
  p3l_set_root(f.store, "b", make(&f, 2));
  p3l_set_root(f.store, "a", make(&f, 3));
  p3l_set_root(f.store, "c", NULL); /* there was no such root */
  commit(&f);
  begin(&f);
  p3l_set_root(f.store, "b", NULL);
  assert_null(p3l_root(f.store, "b"));
  commit(&f);
  fixture_reopen(&f);
  assert_int_equal(((thing *)p3l_root(f.store, "a"))->value, 3);
  assert_null(p3l_root(f.store, "b"));
  fixture_drop(&f);
}

static void an_abort_takes_names_back(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  p3l_set_root(f.store, "a", make(&f, 1));
  commit(&f);
  begin(&f);
  p3l_set_root(f.store, "a", make(&f, 2));
  p3l_set_root(f.store, "b", make(&f, 3));
  assert_int_equal(((thing *)p3l_root(f.store, "a"))->value, 2);
  p3l_abort(f.store);
  assert_int_equal(((thing *)p3l_root(f.store, "a"))->value, 1);
  assert_null(p3l_root(f.store, "b"));
  fixture_drop(&f);
}

static void names_have_55_bytes(void **state) {
  (void)state;
  fixture f = fixture_new();
  char name[58];
  memset(name, 'n', sizeof(name));
  name[55] = '\0';
  begin(&f);
  assert_int_equal(p3l_set_root(f.store, name, make(&f, 1)), P3L_OK);
  commit(&f);
  fixture_reopen(&f);
  assert_int_equal(((thing *)p3l_root(f.store, name))->value, 1);
  name[55] = 'n';
  name[56] = '\0';
  begin(&f);
  assert_int_equal(p3l_set_root(f.store, name, make(&f, 2)), P3L_MISUSE);
  assert_non_null(strstr(p3l_failure(f.store)->message, "55"));
  assert_int_equal(p3l_commit(f.store, &f.error), P3L_MISUSE); /* it was not set: reported again */
  assert_null(p3l_root(f.store, name));
  fixture_drop(&f);
}

static void a_root_may_lead_into_an_object(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  thing *all = p3l_new_array(f.store, thing, 10);
  for (int i = 0; i < 10; i++) all[i].value = (uint64_t)i;
  p3l_set_root(f.store, "fourth", &all[4]);
  commit(&f);
  fixture_reopen(&f);
  thing *fourth = p3l_root(f.store, "fourth");
  assert_int_equal(fourth->value, 4);
  assert_int_equal(fourth[5].value, 9);
  assert_int_equal(p3l_extent(fourth), 96); /* 10 elements of 8 bytes, and its end */
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_found_again),
      cmocka_unit_test(a_name_is_given_anew_and_taken_away),
      cmocka_unit_test(an_abort_takes_names_back),
      cmocka_unit_test(names_have_55_bytes),
      cmocka_unit_test(a_root_may_lead_into_an_object),
  };
  return fixture_run(tests);
}
