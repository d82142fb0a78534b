/*
 * Two stores that two threads use at the same time, with statistics that a third thread reads. They
 * share the address range, the table of segments and the cards. Intended for ThreadSanitizer.
 */
#include <pthread.h>

#include "store_fixture.h"

typedef struct chunk {
  uint8_t bytes[4000];
} chunk;
P3L_PLAIN_TYPE(chunk, chunk, 1);
typedef struct ring {
  uint64_t number;
  struct ring *next;
} ring;
P3L_TYPE(ring, ring, 1, P3L_POINTERS(ring, next));
enum { ROUNDS = 300, LENGTH = 500, SWEEPS = 200 };

/* Creates and deletes large objects, so that segments change owners between the stores. */
static void *come_and_go(void *state) {
  fixture *f = state;
  p3l_begin(f->store, &f->error);
  chunk *kept = p3l_new_array(f->store, chunk, 3);
  void *surrogate = p3l_surrogate(kept);
  if (p3l_commit(f->store, &f->error) != P3L_OK) return "commit";
  for (int round = 0; round < ROUNDS; round++) {
    p3l_begin(f->store, &f->error);
    chunk *made = p3l_new_array(f->store, chunk, 300);
    if (made == NULL) return "allocate";
    made[299].bytes[0] = 1;
    if (round % 3 == 0) {
      if (p3l_commit(f->store, &f->error) != P3L_OK) return "commit";
      p3l_begin(f->store, &f->error);
      p3l_delete(f->store, made);
      if (p3l_commit(f->store, &f->error) != P3L_OK) return "commit";
    } else {
      p3l_abort(f->store);
    }
    /* The earlier value is changed twice, which marks the cards, and restored. */
    p3l_use(f->store);
    kept = p3l_swizzle(NULL, surrogate);
    p3l_begin(f->store, &f->error);
    P3L_SET(kept[1].bytes[5], 7);
    P3L_SET(kept[1].bytes[5], 8);
    p3l_abort(f->store);
    if (kept[1].bytes[5] != 0) return "abort";
    if (p3l_evict(f->store, 0, &f->error) != P3L_OK) return "evict";
  }
  return NULL;
}

static void segments_change_hands(void **state) {
  (void)state;
  fixture stores[2] = {fixture_new(), fixture_new()};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &stores[i]), 0);
  for (int i = 0; i < 2; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    if (wrong != NULL) fail_msg("%s", (char *)wrong);
  }
  for (int i = 0; i < 2; i++) fixture_drop(&stores[i]);
}

static void *go_round(void *state) {
  fixture *f = state;
  for (int sweep = 0; sweep < SWEEPS; sweep++) {
    p3l_enter(f->store);
    ring *at = p3l_root(f->store, "ring");
    for (uint64_t i = 0; i < LENGTH; i++, at = P3L_LD(at->next))
      if (at->number != i) return "another object";
    p3l_leave(f->store);
    if (p3l_evict(f->store, 0, &f->error) != P3L_OK) return "evict";
  }
  return NULL;
}

static void statistics_are_read_meanwhile(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  ring *first = NULL, *last = NULL;
  for (uint64_t i = LENGTH; i-- > 0;) {
    ring *made = p3l_new(f.store, ring);
    *made = (ring){i, first};
    if (last == NULL) last = made;
    first = made;
  }
  last->next = first;
  p3l_set_root(f.store, "ring", first);
  commit(&f);
  fixture_reopen(&f);
  pthread_t thread;
  void *wrong;
  p3l_statistics statistics = {0};
  assert_int_equal(pthread_create(&thread, NULL, go_round, &f), 0);
  while (statistics.evictions < SWEEPS) p3l_get_statistics(f.store, &statistics);
  pthread_join(thread, &wrong);
  if (wrong != NULL) fail_msg("%s", (char *)wrong);
  p3l_get_statistics(f.store, &statistics);
  assert_int_equal(statistics.swizzled, (uint64_t)LENGTH * SWEEPS);
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(segments_change_hands),
                                     cmocka_unit_test(statistics_are_read_meanwhile)};
  return fixture_run(tests);
}
