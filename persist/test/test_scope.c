/* Scopes: exclusion, nesting, and the end of the last scope as a safe point. */
#include "test_evict_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "scope.h"
#include "visits.h"

typedef struct pair {
  uint64_t left, right; /* always equal for a reader */
  struct pair *next;
} pair;
P3L_TYPE(pair, pair, 1, P3L_POINTERS(pair, next));

typedef struct block {
  uint8_t bytes[1008];
  struct block *next;
} block;
P3L_TYPE(block, block, 1, P3L_POINTERS(block, next));

/* If a store is closed within a scope, the scope ends, because the next store may be mapped at
 * the same address. */
static void a_closed_store_has_nobody_in_it(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  p3l_enter(f.store);
  p3l_enter(f.store);
  fixture_close(&f);
  assert_false(p3l_scope_anywhere());
  fixture_open(&f, 0);
  MUST(&f, p3l_begin(f.store, &f.error));
  fixture_drop(&f);
}

static void scopes_nest(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  assert_int_equal(p3l_scope_depth(f.store), 0);
  assert_false(p3l_scope_anywhere());
  p3l_enter(f.store);
  p3l_enter(f.store);
  assert_int_equal(p3l_scope_depth(f.store), 2);
  p3l_leave(f.store);
  assert_int_equal(p3l_scope_depth(f.store), 1);
  assert_true(p3l_scope_anywhere());
  p3l_leave(f.store);
  assert_int_equal(p3l_scope_depth(f.store), 0);
  assert_false(p3l_scope_anywhere());
  MUST(&f, p3l_begin(f.store, &f.error)); /* the lock is free again */
  assert_true(p3l_scope_writing(f.store));
  assert_true(p3l_scope_anywhere());
  MUST(&f, p3l_commit(f.store, &f.error));
  assert_false(p3l_scope_writing(f.store));
  fixture_drop(&f);
}

static void each_store_has_scopes_of_its_own(void **state) {
  (void)state;
  fixture f[3];
  for (int i = 0; i < 3; i++) fixture_make(&f[i], 0);
  p3l_enter(f[0].store);
  p3l_enter(f[1].store);
  p3l_enter(f[2].store);
  p3l_enter(f[1].store);
  assert_int_equal(p3l_scope_depth(f[0].store), 1);
  assert_int_equal(p3l_scope_depth(f[1].store), 2);
  p3l_leave(f[2].store); /* in no particular order */
  assert_int_equal(p3l_scope_depth(f[2].store), 0);
  MUST(&f[2], p3l_begin(f[2].store, &f[2].error));
  p3l_leave(f[1].store);
  p3l_leave(f[0].store);
  assert_int_equal(p3l_scope_depth(f[1].store), 1);
  p3l_abort(f[2].store);
  p3l_leave(f[1].store);
  assert_false(p3l_scope_anywhere());
  for (int i = 0; i < 3; i++) fixture_drop(&f[i]);
}

static void misuse_is_told(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  EXPECT_FAULT(P3L_MISUSE, "p3l_leave() without a p3l_enter()", p3l_leave(f.store));
  p3l_enter(f.store);
  assert_int_equal(p3l_begin(f.store, &f.error), P3L_MISUSE);
  assert_non_null(strstr(f.error.message, "leave first"));
  assert_int_equal(p3l_evict(f.store, 0, &f.error), P3L_MISUSE);
  p3l_leave(f.store);
  EXPECT_FAULT(P3L_MISUSE, "p3l_leave() without a p3l_enter()", p3l_leave(f.store));
  MUST(&f, p3l_begin(f.store, &f.error));
  EXPECT_FAULT(P3L_MISUSE, "within this thread's transaction", p3l_enter(f.store));
  assert_int_equal(p3l_begin(f.store, &f.error), P3L_MISUSE);
  assert_int_equal(p3l_evict(f.store, 0, &f.error), P3L_MISUSE);
  MUST(&f, p3l_commit(f.store, &f.error)); /* the transaction is unaffected */
  p3l_enter(f.store);
  p3l_leave(f.store);
  fixture_drop(&f);
}

/* ---- threads ---- */

typedef struct shared {
  fixture *f;
  atomic_uint inside;  /* readers */
  atomic_bool writing; /* a writer is active */
  atomic_uint faults;
  atomic_uint reads;
  int rounds;
} shared;

static void *read_pairs(void *state) {
  shared *shared = state;
  for (int i = 0; i < shared->rounds; i++) {
    p3l_enter(shared->f->store);
    shared->inside++;
    if (shared->writing) shared->faults++;
    for (pair *at = p3l_root(shared->f->store, "pairs"); at != NULL; at = P3L_LD(at->next)) {
      p3l_enter(shared->f->store);
      if (at->left != at->right) shared->faults++;
      p3l_leave(shared->f->store);
      shared->reads++;
    }
    if (shared->writing) shared->faults++;
    shared->inside--;
    p3l_leave(shared->f->store);
  }
  return NULL;
}

static void *write_pairs(void *state) {
  shared *shared = state;
  p3l_error error;
  for (int i = 0; i < shared->rounds; i++) {
    if (p3l_begin(shared->f->store, &error) != P3L_OK) {
      shared->faults++;
      break;
    }
    if (shared->inside != 0 || shared->writing) shared->faults++;
    shared->writing = true;
    for (pair *at = p3l_root(shared->f->store, "pairs"); at != NULL; at = P3L_LD(at->next)) {
      p3l_dirty(at, sizeof(*at));
      at->left++;
      at->right++;
    }
    if (shared->inside != 0) shared->faults++;
    shared->writing = false;
    if (i % 4 == 3)
      p3l_abort(shared->f->store);
    else if (p3l_commit(shared->f->store, &error) != P3L_OK)
      shared->faults++;
  }
  return NULL;
}

static void *evict_often(void *state) {
  shared *shared = state;
  p3l_error error;
  for (int i = 0; i < shared->rounds; i++)
    if (p3l_evict(shared->f->store, 0, &error) != P3L_OK) shared->faults++;
  return NULL;
}

static void writers_and_sweeps_exclude_readers(void **state) {
  (void)state;
  enum { PAIRS = 50, ROUNDS = 40 };
  fixture f;
  fixture_make(&f, 0);
  MUST(&f, p3l_begin(f.store, &f.error));
  pair *first = NULL;
  for (int i = 0; i < PAIRS; i++) {
    pair *made = p3l_new(f.store, pair);
    made->next = first;
    first = made;
  }
  MUST(&f, p3l_set_root(f.store, "pairs", first));
  MUST(&f, p3l_commit(f.store, &f.error));

  shared shared = {.f = &f, .rounds = ROUNDS};
  void *(*work[])(void *) = {read_pairs,  read_pairs,  read_pairs,
                             write_pairs, write_pairs, evict_often};
  pthread_t threads[6];
  for (int i = 0; i < 6; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, work[i], &shared), 0);
  for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
  assert_int_equal(shared.faults, 0);
  assert_int_equal(shared.reads, 3 * ROUNDS * PAIRS);
  /* Two writers, each with 30 commits of 40 changes. */
  size_t seen = 0;
  for (pair *at = p3l_root(f.store, "pairs"); at != NULL; at = P3L_LD(at->next), seen++) {
    assert_int_equal(at->left, 60);
    assert_int_equal(at->right, 60);
  }
  assert_int_equal(seen, PAIRS);
  fixture_drop(&f);
}

/* ---- safe points ---- */

static void make_blocks(fixture *f, int count) {
  MUST(f, p3l_begin(f->store, &f->error));
  block *first = NULL;
  for (int i = 0; i < count; i++) {
    block *made = p3l_new(f->store, block);
    memset(made->bytes, i % 251, sizeof(made->bytes));
    made->next = first;
    first = made;
  }
  MUST(f, p3l_set_root(f->store, "blocks", first));
  MUST(f, p3l_commit(f->store, &f->error));
}

static int walk_blocks(fixture *f) {
  int count = 0;
  for (block *at = p3l_root(f->store, "blocks"); at != NULL; at = P3L_LD(at->next)) count++;
  return count;
}

static void the_outermost_leave_is_a_safe_point(void **state) {
  (void)state;
  enum { LIMIT = 4 << 20, BLOCKS = 10000 }; /* 10 MB */
  fixture f;
  fixture_make(&f, 0);
  make_blocks(&f, BLOCKS);
  fixture_reopen(&f, LIMIT);
  p3l_enter(f.store);
  p3l_enter(f.store);
  assert_int_equal(walk_blocks(&f), BLOCKS);
  block *first = p3l_root(f.store, "blocks");
  p3l_leave(f.store);
  assert_int_equal(fixture_statistics(&f).evictions, 0);
  assert_true(fixture_statistics(&f).memory_bytes > BLOCKS * sizeof(block)); /* the soft limit */
  assert_int_equal(first->bytes[0], (BLOCKS - 1) % 251);                     /* the reason */
  p3l_leave(f.store);
  assert_int_equal(fixture_statistics(&f).evictions, 1);
  assert_true(fixture_statistics(&f).memory_bytes <= LIMIT);
  assert_int_equal(walk_blocks(&f), BLOCKS);
  fixture_drop(&f);
}

static void the_end_of_a_transaction_is_a_safe_point(void **state) {
  (void)state;
  enum { LIMIT = 4 << 20, BLOCKS = 10000 };
  fixture f;
  fixture_make(&f, LIMIT);
  make_blocks(&f, BLOCKS);
  assert_int_equal(fixture_statistics(&f).evictions, 1);
  assert_true(fixture_statistics(&f).memory_bytes <= LIMIT);
  MUST(&f, p3l_begin(f.store, &f.error));
  assert_int_equal(walk_blocks(&f), BLOCKS);
  p3l_abort(f.store);
  assert_int_equal(fixture_statistics(&f).evictions, 2);
  assert_true(fixture_statistics(&f).memory_bytes <= LIMIT);
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(scopes_nest),
                                     cmocka_unit_test(a_closed_store_has_nobody_in_it),
                                     cmocka_unit_test(each_store_has_scopes_of_its_own),
                                     cmocka_unit_test(misuse_is_told),
                                     cmocka_unit_test(writers_and_sweeps_exclude_readers),
                                     cmocka_unit_test(the_outermost_leave_is_a_safe_point),
                                     cmocka_unit_test(the_end_of_a_transaction_is_a_safe_point)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
