/*
 * A commit takes the cards that changed in the order of their addresses, whatever the order of the changes
 * (changes.h, p3l_changes_order), and a transaction leaves the next one as much memory as it needed.
 */
#include "changes.h"
#include "store_fixture.h"

typedef struct pebble {
  uint64_t number, more[15];
} pebble;
P3L_PLAIN_TYPE(pebble, pebble, 1);

enum { PEBBLES = 100000 }; /* 12.8 MB: 12,500 cards, so two digits */

static pebble *made(fixture *f) {
  begin(f);
  pebble *all = p3l_new_array(f->store, pebble, PEBBLES);
  p3l_set_root(f->store, "all", all);
  commit(f);
  return all;
}

/* Cards of all of them, in an order that has nothing to do with their addresses. */
static void change(pebble *all, uint64_t count, uint64_t step) {
  for (uint64_t n = 0, at = 0; n < count; n++, at = (at + step) % PEBBLES)
    P3L_SET(all[at].number, all[at].number + n + 1);
}

static void cards_are_in_order(void **state) {
  (void)state;
  fixture f = fixture_new();
  pebble *all = made(&f);
  const uint64_t counts[] = {64, 1000, PEBBLES};
  for (size_t which = 0; which < 3; which++) {
    begin(&f);
    change(all, counts[which], 61027);
    p3l_changes *changes = f.store->changes;
    const uint32_t *order = p3l_changes_order(changes);
    assert_non_null(order);
    uint8_t *seen = calloc(changes->card_count, 1);
    for (size_t at = 0; at < changes->card_count; at++) {
      assert_int_equal(seen[order[at]]++, 0);
      if (at > 0)
        assert_true(p3l_kept_card_at(changes, order[at - 1])->card <
                    p3l_kept_card_at(changes, order[at])->card);
    }
    free(seen);
    p3l_abort(f.store);
  }
  begin(&f);
  change(all, 63, 61027); /* few are not worth it */
  assert_null(p3l_changes_order(f.store->changes));
  p3l_abort(f.store);
  assert_int_equal(all[61027].number, 0);
  fixture_drop(&f);
}

static void changes_in_any_order_are_stored(void **state) {
  (void)state;
  fixture f = fixture_new();
  made(&f);
  uint64_t steps[] = {61027, 1, 99999};
  for (size_t which = 0; which < 3; which++) {
    begin(&f);
    change(p3l_root(f.store, "all"), PEBBLES, steps[which]);
    commit(&f);
  }
  fixture_reopen(&f);
  pebble *all = p3l_root(f.store, "all");
  for (uint64_t which = 0, at; which < 3; which++)
    for (uint64_t n = at = 0; n < PEBBLES; n++, at = (at + steps[which]) % PEBBLES)
      all[at].more[0] += n + 1; /* of this run only */
  for (uint64_t at = 0; at < PEBBLES; at++) assert_int_equal(all[at].number, all[at].more[0]);
  fixture_drop(&f);
}

static void memory_is_kept_as_it_was_needed(void **state) {
  (void)state;
  fixture f = fixture_new();
  pebble *all = made(&f);
  for (int twice = 0; twice < 2; twice++) {
    begin(&f);
    if (twice == 1) /* of the one before */
      assert_true(f.store->changes->chunk_count >= PEBBLES / 8 / P3L_CHUNK_CARDS);
    change(all, PEBBLES, 61027);
    commit(&f);
  }
  begin(&f);
  change(all, 1, 1);
  commit(&f);
  begin(&f);
  assert_true(f.store->changes->chunk_count <= 4);
  assert_true(f.store->changes->kept.capacity <= 1024);
  assert_true(f.store->changes->order_capacity <= 1024);
  p3l_abort(f.store);
  fixture_drop(&f);
}

/* The limit does not count it. */
static void little_is_kept_with_a_memory_limit(void **state) {
  (void)state;
  fixture f = fixture_new();
  made(&f);
  f.options.memory_bytes = FIXTURE_LIMIT;
  fixture_reopen(&f);
  begin(&f);
  change(p3l_root(f.store, "all"), PEBBLES, 61027);
  commit(&f);
  begin(&f);
  assert_true(f.store->changes->chunk_count <= 4);
  assert_true(f.store->changes->kept.capacity <= 1024);
  assert_true(f.store->changes->order_capacity <= 1024);
  assert_true(f.store->changes->written_at.capacity <= 1024);
  p3l_abort(f.store);
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cards_are_in_order),
      cmocka_unit_test(changes_in_any_order_are_stored),
      cmocka_unit_test(memory_is_kept_as_it_was_needed),
      cmocka_unit_test(little_is_kept_with_a_memory_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
