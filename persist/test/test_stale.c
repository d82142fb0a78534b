/*
 * A pointer to a deleted object does not lead to the object that now has its place. Generations
 * (surrogate.h) ensure this in memory and in the file, for the writer and for concurrent readers.
 */
#include "allocate.h"
#include "store_fixture.h"
#include "survey.h"

typedef struct node {
  uint64_t value;
  struct node *next;
  uint64_t *array;
} node;
P3L_TYPE(node, node, 1, P3L_POINTERS(node, next), P3L_POINTERS(node, array));

typedef struct other {
  uint64_t value[3];
} other;
P3L_PLAIN_TYPE(other, other, 1);

typedef struct number {
  uint64_t value;
} number;
P3L_PLAIN_TYPE(number, number, 1);

static uint64_t surrogate_of(const void *object) {
  return (uint64_t)(uintptr_t)p3l_surrogate(object);
}

/* "first" leads to a deleted node whose place now contains another object. */
static fixture with_a_stale_slot(bool close, uint64_t *place) {
  fixture f = fixture_new();
  begin(&f);
  node *first = p3l_new(f.store, node);
  node *second = p3l_new_near(f.store, node, first);
  p3l_new_near(f.store, node, first)->value = 3; /* so that the deleted node becomes a hole */
  first->next = second;
  second->value = 2;
  p3l_set_root(f.store, "first", first);
  p3l_set_root(f.store, "second", second);
  *place = surrogate_of(second);
  commit(&f);
  if (close) {
    fixture_reopen(&f);
    first = p3l_root(f.store, "first");
    second = P3L_LD(first->next);
  }
  begin(&f);
  p3l_delete(f.store, second);
  commit(&f);
  begin(&f);
  other *in_its_place = p3l_new_near(f.store, other, first);
  in_its_place->value[0] = 99;
  assert_int_equal(surrogate_of(in_its_place) & P3L_SURROGATE_ADDRESS,
                   *place & P3L_SURROGATE_ADDRESS);
  p3l_set_root(f.store, "other", in_its_place);
  commit(&f);
  return f;
}

static void no_slot_leads_to_the_next_object(void **state) {
  (void)state;
  uint64_t place;
  for (int closed = 0; closed < 2; closed++) {
    fixture f = with_a_stale_slot(closed == 1, &place);
    node *first;
    void *kept = (void *)(uintptr_t)place;
    assert_fault(P3L_DANGLING, (void)P3L_LD(kept), "another object is now");
    assert_fault(P3L_DANGLING, (void)p3l_root(f.store, "second"), "another object is now");
    fixture_reopen(&f);
    first = p3l_root(f.store, "first");
    assert_fault(P3L_DANGLING, (void)P3L_LD(first->next), "another object is now");
    assert_fault(P3L_DANGLING, (void)p3l_root(f.store, "second"), "another object is now");
    other *found = p3l_root(f.store, "other");
    assert_int_equal(found->value[0], 99);
    fixture_drop(&f);
  }
}

/* A slot that was swizzled before the deletion: a commit that writes the slot writes back its
 * original target, and the audit finds it equal to the store's. */
static void a_swizzled_slot_stays_stale(void **state) {
  (void)state;
  uint64_t place;
  fixture f = with_a_stale_slot(true, &place);
  node *first = p3l_root(f.store, "first");
  begin(&f);
  node *copy = p3l_new(f.store, node);
  copy->next = first->next;
  p3l_set_root(f.store, "copy", copy);
  f.store->options.audit_places = P3L_AUDIT_ALL;
  commit(&f);
  fixture_reopen(&f);
  copy = p3l_root(f.store, "copy");
  assert_fault(P3L_DANGLING, (void)P3L_LD(copy->next), "another object is now");
  first = p3l_root(f.store, "first");
  assert_int_equal((uint64_t)(uintptr_t)copy->next, place);
  assert_int_equal((uint64_t)(uintptr_t)first->next, place);
  fixture_drop(&f);
}

/* Certain while at most 15 objects use the place one after another; each is found by its own
 * pointer. */
static void each_of_many_that_follow_is_another(void **state) {
  (void)state;
  enum { FOLLOW = 15 };
  fixture f = fixture_new();
  uint64_t kept[FOLLOW + 1];
  begin(&f);
  node *first = p3l_new(f.store, node);
  p3l_set_root(f.store, "first", first);
  node *now = p3l_new_near(f.store, node, first);
  p3l_new_near(f.store, node, first)->value = 1;
  commit(&f);
  for (int n = 0; n <= FOLLOW; n++) {
    kept[n] = surrogate_of(now);
    for (int before = 0; before < n; before++) {
      assert_int_not_equal(kept[before], kept[n]);
      void *stale = (void *)(uintptr_t)kept[before];
      assert_fault(P3L_DANGLING, (void)P3L_LD(stale), "another object is now");
    }
    if (n % 5 == 4) {
      fixture_reopen(&f);
      first = p3l_root(f.store, "first");
      void *mine = (void *)(uintptr_t)kept[n];
      now = P3L_LD(mine);
      assert_int_equal(now->value, n == 0 ? 0 : n);
    }
    begin(&f);
    p3l_delete(f.store, now);
    commit(&f);
    begin(&f);
    now = p3l_new_near(f.store, node, first);
    now->value = (uint64_t)n + 1;
    commit(&f);
    assert_int_equal(surrogate_of(now) & P3L_SURROGATE_ADDRESS, kept[0] & P3L_SURROGATE_ADDRESS);
  }
  fixture_drop(&f);
}

/* A page whose last object is deleted, and a large object, whose pages are used again. */
static void pages_that_are_used_again(void **state) {
  (void)state;
  fixture f = fixture_new();
  uint64_t kept[3];
  for (int round = 0; round < 3; round++) {
    begin(&f);
    number *large = p3l_new_array(f.store, number, 2000);
    large[7].value = (uint64_t)round;
    commit(&f);
    kept[round] = surrogate_of(&large[7]);
    fixture_reopen(&f);
    for (int before = 0; before <= round; before++) {
      void *pointer = (void *)(uintptr_t)kept[before];
      assert_int_equal(kept[before] & P3L_SURROGATE_ADDRESS, kept[0] & P3L_SURROGATE_ADDRESS);
      if (before < round)
        assert_fault(P3L_DANGLING, (void)P3L_LD(pointer), "another object is now");
      else
        assert_int_equal(((number *)P3L_LD(pointer))->value, round);
    }
    void *pointer = (void *)(uintptr_t)(kept[round] - 7 * sizeof(number));
    begin(&f);
    p3l_delete(f.store, P3L_LD(pointer));
    commit(&f);
  }
  /* Small objects take the pages of large ones. */
  begin(&f);
  node *small = p3l_new(f.store, node);
  while ((surrogate_of(small) & P3L_SURROGATE_ADDRESS) / P3L_PAGE_SIZE !=
         (kept[0] & P3L_SURROGATE_ADDRESS) / P3L_PAGE_SIZE)
    small = p3l_new(f.store, node);
  commit(&f);
  void *stale = (void *)(uintptr_t)(kept[0] - 7 * sizeof(number) + 80);
  assert_fault(P3L_DANGLING, (void)P3L_LD(stale), "page");
  fixture_drop(&f);
}

/* The message of verify about a stale pointer. */
static char sentence[640];
static void hear(void *state, const char *what) {
  (void)state;
  snprintf(sentence, sizeof(sentence), "%s", what);
}

static void verify_counts_it_as_dangling(void **state) {
  (void)state;
  uint64_t place;
  fixture f = with_a_stale_slot(true, &place);
  begin(&f);
  p3l_set_root(f.store, "second", NULL);
  commit(&f);
  p3l_survey survey;
  p3l_object_verification found;
  p3l_listener listener = {.fault = hear};
  sentence[0] = 0;
  assert_int_equal(p3l_survey_begin(&survey, f.store->pager, &listener, &f.error), P3L_OK);
  assert_int_equal(p3l_objects_verify(&survey, &found, &f.error), P3L_OK);
  assert_int_equal(survey.faults, 0);
  assert_int_equal(found.dangling, 1);
  assert_non_null(strstr(sentence, "where another object is now"));
  p3l_survey_end(&survey);
  fixture_drop(&f);
}

/* An object that an abort removed does not appear again as another object. */
static void an_abort_takes_generations_back(void **state) {
  (void)state;
  uint64_t place;
  fixture f = with_a_stale_slot(true, &place);
  other *in_its_place = p3l_root(f.store, "other");
  uint64_t now = surrogate_of(in_its_place);
  begin(&f);
  p3l_delete(f.store, in_its_place);
  p3l_abort(f.store);
  void *kept = (void *)(uintptr_t)now;
  assert_ptr_equal(P3L_LD(kept), in_its_place);
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_slot_leads_to_the_next_object),
      cmocka_unit_test(a_swizzled_slot_stays_stale),
      cmocka_unit_test(each_of_many_that_follow_is_another),
      cmocka_unit_test(pages_that_are_used_again),
      cmocka_unit_test(verify_counts_it_as_dangling),
      cmocka_unit_test(an_abort_takes_generations_back),
  };
  return fixture_run(tests);
}
