/* Hints: the pages announced as needed soon, the pointers that cause them, and the end of hints. */
#include "test_evict_fixture.h"

#include "pool_frames.h"
#include "store.h"

typedef struct node {
  uint64_t id;
  struct node *to[6];
  struct node *other; /* next to them, but a separate field */
  uint8_t filler[3900];
} node; /* one per page */
P3L_TYPE(node, node, 1, P3L_POINTERS(node, to), P3L_POINTERS(node, other));

/* More than a small store has, which is read in another way. */
enum { NODES = 18013, ROOT = 0 }; /* a prime: a walk in equal steps reaches each node */

static uint64_t target_of(uint64_t id, uint64_t which) {
  return (id + 4099 + which * 2953) % NODES;
}

/* Creates the nodes in a store larger than its limit, opens it again, and returns the root
 * within a scope. */
static node *enter_made(fixture *f) {
  fixture_make(f, 0);
  node **made = malloc(NODES * sizeof(*made));
  MUST(f, p3l_begin(f->store, &f->error));
  for (uint64_t i = 0; i < NODES; i++) {
    made[i] = p3l_new(f->store, node);
    assert_non_null(made[i]);
    made[i]->id = i;
  }
  for (uint64_t i = 0; i < NODES; i++) {
    for (uint64_t k = 0; k < 6; k++) made[i]->to[k] = made[target_of(i, k)];
    made[i]->other = made[(i + 1) % NODES];
  }
  MUST(f, p3l_set_root(f->store, "nodes", made[ROOT]));
  MUST(f, p3l_commit(f->store, &f->error));
  free(made);
  fixture_reopen(f, 8 << 20);
  p3l_enter(f->store);
  return p3l_root(f->store, "nodes");
}

static void leave_and_drop(fixture *f) {
  p3l_leave(f->store);
  fixture_drop(f);
}

static uint64_t page_in(const void *slot) {
  uint64_t value;
  memcpy(&value, slot, sizeof(value));
  assert_true(p3l_is_surrogate((void *)(uintptr_t)value));
  return (value & ~P3L_SURROGATE_BIT) / P3L_PAGE_SIZE;
}

static struct p3l_soon_type sum(const p3l_soon *soon) {
  struct p3l_soon_type all = {0};
  for (uint32_t at = 0; at < P3L_SOON_TYPES; at++) {
    all.given += soon->types[at].given;
    all.used += soon->types[at].used;
    all.rest += soon->types[at].rest;
  }
  return all;
}

/* Simulates the delay of a disk. */
static void pretend_slow(fixture *f) { f->store->pool->cluster.nanoseconds = 1000000; }

static void neighbours_in_the_array_are_hinted_at(void **state) {
  (void)state;
  fixture f;
  node *root = enter_made(&f);
  const p3l_soon *soon = &f.store->pool->soon;
  uint64_t pages[6], other = page_in(&root->other);
  for (int k = 0; k < 6; k++) pages[k] = page_in(&root->to[k]);
  pretend_slow(&f);
  assert_int_equal(P3L_LD(root->to[0])->id, target_of(ROOT, 0));
  assert_int_equal(sum(soon).given, 4); /* the look-ahead */
  assert_int_equal(sum(soon).used, 0);
  for (int k = 0; k < 6; k++)
    assert_int_equal(soon->pages[pages[k] % P3L_SOON_PAGES].page == pages[k], k >= 1 && k <= 4);
  assert_int_not_equal(soon->pages[other % P3L_SOON_PAGES].page, other);
  /* Each is used once. A hinted page gives no hints, because no thread waits for it. */
  for (int k = 1; k <= 4; k++)
    assert_int_equal(P3L_LD(root->to[k])->id, target_of(ROOT, (uint64_t)k));
  assert_int_equal(sum(soon).given, 4);
  assert_int_equal(sum(soon).used, 4);
  /* A separate field has no neighbours, and resident objects are not fetched. */
  pretend_slow(&f);
  assert_int_equal(P3L_LD(root->other)->id, 1);
  assert_int_equal(sum(soon).given, 4);
  assert_int_equal(P3L_LD(root->to[5])->id, target_of(ROOT, 5));
  assert_int_equal(sum(soon).given, 4);
  assert_null(f.store->slot);
  leave_and_drop(&f);
}

static void the_page_cache_needs_none(void **state) {
  (void)state;
  fixture f;
  node *root = enter_made(&f);
  f.store->pool->cluster.nanoseconds = 2000;
  assert_int_equal(P3L_LD(root->to[0])->id, target_of(ROOT, 0));
  assert_int_equal(sum(&f.store->pool->soon).given, 0);
  leave_and_drop(&f);
}

/* A program that follows one pointer of each array gets hints only for some time, and again
 * after a pause. */
static void hints_in_vain_are_given_up(void **state) {
  (void)state;
  fixture f;
  node *at = enter_made(&f);
  const p3l_soon *soon = &f.store->pool->soon;
  uint32_t slow = 0;
  for (; sum(soon).rest == 0 && slow < 1000; slow++) {
    pretend_slow(&f);
    at = P3L_LD(at->to[0]);
  }
  assert_in_range(slow, P3L_SOON_JUDGED / 4, P3L_SOON_JUDGED);
  assert_int_equal(sum(soon).given, 0);
  for (slow = 0; sum(soon).given == 0 && slow < 2 * P3L_SOON_REST; slow++) {
    pretend_slow(&f);
    at = P3L_LD(at->to[0]);
  }
  assert_in_range(slow, P3L_SOON_REST, P3L_SOON_REST + 8);
  leave_and_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(neighbours_in_the_array_are_hinted_at),
      cmocka_unit_test(the_page_cache_needs_none),
      cmocka_unit_test(hints_in_vain_are_given_up),
  };
  return cmocka_run_group_tests_name("soon", tests, NULL, NULL);
}
