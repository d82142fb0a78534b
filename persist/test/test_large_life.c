/*
 * Large objects and the pages they release: pinned and deleted, partly evicted, followed by small
 * objects at the same addresses of the store.
 */
#include "store_fixture.h"

typedef struct block {
  uint8_t bytes[4000];
} block;
P3L_PLAIN_TYPE(block, block, 1);
typedef struct pebble {
  uint64_t number, more[9];
} pebble;
P3L_PLAIN_TYPE(pebble, pebble, 1);
enum { BLOCKS = 1600 }; /* more than three groups of page states, of 512 pages each */

static void pins_outlive_deletion(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  block *large = p3l_new_array(f.store, block, 3);
  p3l_pin(large);
  commit(&f);
  begin(&f);
  p3l_delete(f.store, large);
  commit(&f);
  assert_int_equal(large[2].bytes[7], 0); /* pinned, so the memory remains */
  p3l_unpin(large);
  assert_fault(P3L_MISUSE, p3l_unpin(large), "p3l_unpin()");
  begin(&f);
  large = p3l_new_array(f.store, block, 3);
  p3l_pin(large);
  p3l_abort(f.store);
  p3l_unpin(large);
  fixture_drop(&f);
}

static void pages_of_a_deleted_one_are_anybodys(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  block *large = p3l_new_array(f.store, block, BLOCKS);
  p3l_set_root(f.store, "large", large);
  commit(&f);
  begin(&f); /* after it, so that it is in the last group of its pages */
  pebble *behind = p3l_new(f.store, pebble);
  p3l_set_root(f.store, "behind", behind);
  commit(&f);
  large = p3l_root(f.store, "large");
  p3l_pin(large);
  p3l_pin(behind);
  assert_int_equal(p3l_evict(f.store, 0, &f.error), P3L_OK);
  begin(&f);
  p3l_delete(f.store, large);
  p3l_set_root(f.store, "large", NULL);
  commit(&f);
  p3l_unpin(large);
  /* Small objects in its pages. */
  begin(&f);
  pebble **all = malloc(BLOCKS * 50 * sizeof(*all));
  void **surrogates = malloc(BLOCKS * 50 * sizeof(*surrogates));
  for (size_t i = 0; i < BLOCKS * 50; i++) {
    all[i] = p3l_new(f.store, pebble);
    assert_non_null(all[i]);
    all[i]->number = i;
    surrogates[i] = p3l_surrogate(all[i]);
    assert_ptr_equal(p3l_swizzle(NULL, p3l_surrogate(&all[i]->number)), &all[i]->number);
  }
  commit(&f);
  assert_int_equal(p3l_evict(f.store, 0, &f.error), P3L_OK);
  for (size_t i = 0; i < BLOCKS * 50; i++) {
    pebble *found = p3l_swizzle(NULL, surrogates[i]);
    assert_int_equal(found->number, i);
  }
  free(all);
  free(surrogates);
  p3l_unpin(behind);
  fixture_drop(&f);
}

/* A page whose objects were used in place is freed and allocated again. Its frame does not
 * contain the new objects. */
static void interior_pointers_in_a_page_taken_again(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  pebble *all[200];
  for (int i = 0; i < 200; i++) {
    all[i] = p3l_new(f.store, pebble);
    all[i]->number = (uint64_t)i;
  }
  void *surrogates[200];
  for (int i = 0; i < 200; i++) surrogates[i] = p3l_surrogate(all[i]);
  commit(&f);
  fixture_reopen(&f);
  for (int i = 0; i < 200; i++) all[i] = p3l_swizzle(NULL, surrogates[i]);
  begin(&f);
  for (int i = 0; i < 200; i++) p3l_delete(f.store, all[i]);
  commit(&f);
  for (int round = 0; round < 2; round++) {
    begin(&f);
    for (int i = 0; i < 200; i++) {
      pebble *made = p3l_new_array(f.store, pebble, 2);
      void *inside = p3l_surrogate(&made[1].more[3]);
      assert_ptr_equal(p3l_swizzle(NULL, inside), &made[1].more[3]);
    }
    if (round == 0)
      p3l_abort(f.store);
    else
      commit(&f);
  }
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pins_outlive_deletion),
      cmocka_unit_test(pages_of_a_deleted_one_are_anybodys),
      cmocka_unit_test(interior_pointers_in_a_page_taken_again),
  };
  return fixture_run(tests);
}
