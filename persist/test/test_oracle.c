/*
 * Random transactions, aborts, failures, evictions and reopenings. After each, the graph in the
 * store equals the model's. P3L_ORACLE_SEEDS=n tries n seeds instead of a few.
 */
#include <errno.h>

#include "../tools/torture_model.h"
#include "store_fixture.h"

/* There is one thread, so that ThreadSanitizer cannot find anything and only costs time. */
#ifdef __SANITIZE_THREAD__
enum { SEEDS = 1 };
#else
enum { SEEDS = 6 };
#endif

static void assert_equal(const fixture *f, const model *model, const char *after) {
  char sentence[200];
  if (!model_equals(model, f->store, sentence, sizeof(sentence)))
    fail_msg("seed %llu, transaction %llu, after %s: %s", (unsigned long long)model->seed,
             (unsigned long long)model->transaction, after, sentence);
}

/* Restores the model to its state before the failed transaction. */
static void restore(model *model, const struct model *before) { *model = *before; }

static void run(uint64_t seed, int transactions) {
  fixture f = fixture_new();
  model *now = model_new(seed), *before = model_new(seed);
  uint64_t random = seed; /* for choices outside of the model */
  f.options.checkpoint_bytes = 64 << 10;
  fixture_reopen(&f);
  begin(&f);
  assert_true(model_begin(f.store));
  commit(&f);
  for (int t = 1; t <= transactions; t++) {
    const char *after = "a commit";
    random = model_mix(random + 1);
    *before = *now;
    begin(&f);
    if (!model_transaction(now, f.store, (uint64_t)t))
      fail_msg("seed %llu: %s", (unsigned long long)seed, p3l_failure(f.store)->message);
    switch (random % 8) {
      case 0:
        after = "an abort";
        p3l_abort(f.store);
        restore(now, before);
        break;
      case 1:
        after = "a commit to a full disk";
        f.log->fail_in = 1;
        f.log->fail_with = ENOSPC;
        assert_int_equal(p3l_commit(f.store, &f.error), P3L_NO_SPACE);
        restore(now, before);
        break;
      default: commit(&f);
    }
    if (random >> 8 & 1) assert_equal(&f, now, after);
    if ((random >> 32) % 4 == 0) {
      after = "an eviction";
      assert_int_equal(p3l_evict(f.store, (random >> 40) % 3 * 100000, &f.error), P3L_OK);
      if (random >> 48 & 1) assert_equal(&f, now, after);
    }
    if ((random >> 16) % 6 == 0) {
      fixture_reopen(&f);
      if (random >> 24 & 1) assert_equal(&f, now, "opening again");
    }
  }
  assert_equal(&f, now, "all");
  fixture_reopen(&f);
  assert_equal(&f, now, "opening at last");
  fixture_drop(&f);
  free(now);
  free(before);
}

static void the_store_is_as_the_model(void **state) {
  (void)state;
  const char *asked = getenv("P3L_ORACLE_SEEDS");
  int seeds = asked == NULL ? SEEDS : atoi(asked);
  for (int seed = 1; seed <= seeds; seed++) run((uint64_t)seed, 400);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_store_is_as_the_model)};
  return fixture_run(tests);
}
