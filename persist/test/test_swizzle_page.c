/*
 * A page that was used often: its slots become addresses before they are read, but only slots that
 * would become the same addresses by reading.
 */
#include "store_fixture.h"

typedef struct part {
  uint32_t id;
  uint32_t rest[7];
  struct part *to[4]; /* the next part; the one after it; NULL; one on another page */
} part;
P3L_TYPE(part, part, 1, P3L_POINTERS(part, to));

enum { COUNT = 1000, A_PAGE = 60 }; /* 80 + 60 * 64 + 60 * 2 = 4040 bytes */

static part *raw(part *const *slot) {
  part *value;
  memcpy(&value, slot, sizeof(value)); /* unchecked */
  return value;
}

static fixture parts(void) {
  fixture f = fixture_new();
  part *made[COUNT];
  begin(&f);
  for (uint32_t i = 0; i < COUNT; i++) {
    made[i] = p3l_new(f.store, part);
    assert_non_null(made[i]);
    made[i]->id = i;
  }
  for (uint32_t i = 0; i < COUNT; i++) {
    made[i]->to[0] = made[(i + 1) % COUNT];
    made[i]->to[1] = made[(i + 2) % COUNT];
    made[i]->to[3] = made[COUNT - 1 - i];
  }
  p3l_set_root(f.store, "first", made[0]);
  commit(&f);
  fixture_reopen(&f);
  return f;
}

/* Follows to[0] `count` times. */
static part *walk(part *at, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t id = at->id;
    at = P3L_LD(at->to[0]);
    assert_int_equal(at->id, (id + 1) % COUNT);
  }
  return at;
}

static uint32_t addresses(const part *first, uint32_t slot) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < A_PAGE; i++) count += !p3l_is_surrogate(raw(&first[i].to[slot]));
  return count;
}

static void slots_that_are_followed_are_healed_together(void **state) {
  (void)state;
  fixture f = parts();
  part *first = p3l_root(f.store, "first");
  walk(first, 4); /* a fifteenth of the page */
  assert_int_equal(addresses(first, 0), 4);
  walk(first, 10); /* a sixth */
  for (uint32_t i = 0; i + 1 < A_PAGE; i++) assert_ptr_equal(raw(&first[i].to[0]), &first[i + 1]);
  assert_true(p3l_is_surrogate(raw(&first[A_PAGE - 1].to[0]))); /* to a page that is not yet used */
  assert_int_equal(addresses(first, 1), 0);                     /* none of them was followed */
  assert_int_equal(addresses(first, 2), A_PAGE);
  for (uint32_t i = 0; i < A_PAGE; i++) assert_null(raw(&first[i].to[2]));
  assert_int_equal(f.store->statistics.swizzled, A_PAGE - 1); /* each one once */
  walk(first, A_PAGE);
  assert_int_equal(f.store->statistics.swizzled, A_PAGE);
  fixture_drop(&f);
}

static void nothing_is_read_for_it(void **state) {
  (void)state;
  fixture f = parts();
  part *first = p3l_root(f.store, "first");
  assert_int_equal(P3L_LD(first->to[3])->id, COUNT - 1); /* the kind is known from here on */
  uint64_t reads = f.store->statistics.reads;
  walk(first, 10);
  assert_int_equal(f.store->statistics.reads, reads);
  /* The last page has 1000 - 16 * 60 = 40 parts: they are used in place, and slots that lead to
   * them are healed. */
  for (uint32_t i = 0; i < 40; i++) assert_int_equal(raw(&first[i].to[3])->id, COUNT - 1 - i);
  assert_int_equal(addresses(first, 3), 40);
  fixture_drop(&f);
}

static void what_dangles_goes_on_to_dangle(void **state) {
  (void)state;
  fixture f = parts();
  begin(&f);
  part *first = p3l_root(f.store, "first"), *fortieth = walk(first, 40);
  p3l_delete(f.store, fortieth);
  commit(&f);
  fixture_reopen(&f);
  first = p3l_root(f.store, "first");
  walk(first, 10);
  assert_int_equal(addresses(first, 0), A_PAGE - 2); /* not to 40, and not to the next page */
  assert_true(p3l_is_surrogate(raw(&first[39].to[0])));
  assert_fault(P3L_DANGLING, P3L_LD(first[39].to[0]), "was deleted");
  fixture_drop(&f);
}

static void not_within_a_transaction(void **state) {
  (void)state;
  fixture f = parts();
  begin(&f);
  part *first = p3l_root(f.store, "first");
  walk(first, 20);
  assert_int_equal(addresses(first, 0), 20);
  commit(&f);
  walk(first, 21);
  assert_int_equal(addresses(first, 0), A_PAGE - 1);
  begin(&f);
  P3L_SET(first[30].to[0], &first[50]); /* an address in place of an address */
  commit(&f);
  fixture_reopen(&f);
  first = p3l_root(f.store, "first");
  walk(first, 10);
  assert_int_equal(P3L_LD(first[30].to[0])->id, 50);
  fixture_drop(&f);
}

/* After sixteen pages were used, pages read together with them are used in place, too. */
static void neighbours_are_in_place_once_much_is_used(void **state) {
  (void)state;
  enum { MANY = 40 * A_PAGE };
  fixture f = fixture_new();
  part **made = malloc(MANY * sizeof(*made));
  begin(&f);
  for (uint32_t i = 0; i < MANY; i++) {
    made[i] = p3l_new(f.store, part);
    made[i]->id = i;
  }
  for (uint32_t i = 0; i < MANY; i++)
    made[i]->to[0] = made[(i + A_PAGE) % MANY]; /* the next page */
  p3l_set_root(f.store, "first", made[0]);
  free(made);
  commit(&f);
  fixture_reopen(&f);
  part *at = p3l_root(f.store, "first");
  for (uint32_t i = 1; i < 20; i++) at = P3L_LD(at->to[0]);
  assert_int_equal(at->id, 19 * A_PAGE);
  assert_int_equal(f.store->statistics.pages_adopted, 20); /* each page was requested */
  /* The first parts are on page 2. The 31st of these pages is page 32, which is loaded with all
   * others. */
  for (uint32_t i = 20; i < 31; i++) at = P3L_LD(at->to[0]);
  assert_int_equal(at->id, 30 * A_PAGE);
  assert_int_equal(f.store->statistics.pages_adopted, 40);
  for (uint32_t i = 31; i < 40; i++) at = P3L_LD(at->to[0]);
  assert_int_equal(at->id, 39 * A_PAGE);
  fixture_drop(&f);
}

static void elements_of_arrays_too(void **state) {
  (void)state;
  enum { ELEMENTS = 20 };
  fixture f = fixture_new();
  begin(&f);
  part *array = p3l_new_array(f.store, part, ELEMENTS), *single = NULL;
  for (uint32_t i = 0; i < A_PAGE; i++) {
    part *made = p3l_new(f.store, part);
    made->id = i;
    made->to[0] = single;
    made->to[1] = array;
    single = made;
    if (i < ELEMENTS) array[i].to[0] = made;
  }
  p3l_set_root(f.store, "last", single);
  commit(&f);
  fixture_reopen(&f);
  single = p3l_root(f.store, "last");
  array = P3L_LD(single->to[1]);
  assert_int_equal(P3L_LD(array[0].to[0])->id, 0);
  for (part *at = single; at != NULL; at = P3L_LD(at->to[0]))
    assert_ptr_equal(P3L_LD(at->to[1]), array);
  for (uint32_t i = 0; i < ELEMENTS; i++) {
    assert_false(p3l_is_surrogate(raw(&array[i].to[0])));
    assert_int_equal(raw(&array[i].to[0])->id, i);
  }
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_that_are_followed_are_healed_together),
      cmocka_unit_test(nothing_is_read_for_it),
      cmocka_unit_test(what_dangles_goes_on_to_dangle),
      cmocka_unit_test(not_within_a_transaction),
      cmocka_unit_test(neighbours_are_in_place_once_much_is_used),
      cmocka_unit_test(elements_of_arrays_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
