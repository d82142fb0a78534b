/*
 * Admission: never more requests than places, in the order of their deadlines, none for longer than
 * its limit; and an end of all waits when placement ends or a thread dies.
 */
#include "fixture.h"
#include "split_admission.h"

#include <pthread.h>

#define SECOND UINT64_C(1000000000)
static uint32_t slow, slower, quick;

static void expect_of(uint32_t code, uint64_t ns) {
  struct split_mapping *mapping = split_mapping_in_use();
  struct split_decision *decision = &mapping->decisions[code];
  atomic_store(&decision->admit, 1);
  atomic_store(&decision->expected_cycles, (uint64_t)((double)ns * mapping->cycles_per_ns));
}

/* "slow" takes 10 ms, "slower" 500 ms; one place. */
static int begin_with_one_place(void **state) {
  if (begin_with_text(state) != 0) return -1;
  slow = kind_of("slow");
  slower = kind_of("slower");
  quick = kind_of("quick");
  expect_of(slow, SECOND / 100);
  expect_of(slower, SECOND / 2);
  atomic_store(&header()->places, 1);
  heartbeat();
  return 0;
}

static enum split_admission_answer ask_within(split_admission *one, uint32_t code,
                                              uint64_t limit_ns) {
  const struct split_admission_request request = {.code = code, .limit_ns = limit_ns, .waker = 7};
  return split_admission_ask(one, &request);
}

static enum split_admission_answer ask(split_admission *one, uint32_t code) {
  return ask_within(one, code, 60 * SECOND);
}

static enum split_admission_answer ask_at_once(split_admission *one, uint32_t code) {
  const struct split_admission_request request = {
      .code = code, .limit_ns = SECOND, .at_once = true};
  return split_admission_ask(one, &request);
}

static void is_held(split_admission *one) {
  heartbeat();
  assert_int_equal(split_admission_again(one, 0), SPLIT_ADMISSION_HELD);
}

/* As long as a busy machine may need. */
static void is_admitted_soon(split_admission *one, bool beat) {
  for (int i = 0; i < 2000; i++) {
    if (beat) heartbeat();
    if (split_admission_again(one, 0) == SPLIT_ADMISSION_ADMITTED) return;
    pause_ms(5);
  }
  fail_msg("never admitted");
}

static struct split_admission_counts counts(void) {
  struct split_admission_counts counts;
  assert_true(split_admission_count(&counts));
  return counts;
}

static void a_place_goes_to_the_earliest_deadline(void **state) {
  (void)state;
  split_admission first = {0}, late = {0}, early = {0};
  uint32_t wakers[4];
  assert_int_equal(ask(&first, slow), SPLIT_ADMISSION_ADMITTED);
  assert_int_equal(ask(&late, slower), SPLIT_ADMISSION_HELD);
  assert_int_equal(ask(&early, slow), SPLIT_ADMISSION_HELD); /* 490 ms before the other */
  assert_int_equal(counts().running, 1);
  assert_int_equal(counts().waiting, 2);
  assert_int_equal(split_admission_leave(&first, wakers, 4), 1);
  assert_int_equal(wakers[0], 7);
  is_held(&late);
  assert_int_equal(split_admission_again(&early, 0), SPLIT_ADMISSION_ADMITTED);
  is_held(&late);
  assert_int_equal(split_admission_leave(&early, wakers, 4), 1);
  assert_int_equal(split_admission_again(&late, 0), SPLIT_ADMISSION_ADMITTED);
  assert_int_equal(split_admission_leave(&late, wakers, 4), 0);
  assert_int_equal(counts().waits, 2);
  assert_int_equal(counts().running + counts().waiting, 0);
  assert_true(counts().longest_wait_ns > 0 && counts().longest_wait_ns <= counts().waited_ns);
}

/* "slower" is overtaken only by those that ask within half a second: its deadline does not move. */
static void an_old_request_is_not_overtaken(void **state) {
  (void)state;
  split_admission first = {0}, old = {0}, fresh = {0};
  expect_of(slower, SECOND / 20);
  assert_int_equal(ask(&first, slow), SPLIT_ADMISSION_ADMITTED);
  assert_int_equal(ask(&old, slower), SPLIT_ADMISSION_HELD);
  pause_ms(60);
  heartbeat();
  assert_int_equal(ask(&fresh, slow), SPLIT_ADMISSION_HELD);
  split_admission_leave(&first, NULL, 0);
  is_held(&fresh);
  assert_int_equal(split_admission_again(&old, 0), SPLIT_ADMISSION_ADMITTED);
  split_admission_leave(&old, NULL, 0);
  split_admission_leave(&fresh, NULL, 0);
}

static void a_kind_without_a_limit_needs_no_place(void **state) {
  (void)state;
  split_admission one = {0};
  assert_false(split_admission_limits(quick));
  assert_int_equal(ask(&one, quick), SPLIT_ADMISSION_NOT_NEEDED);
  assert_int_equal(ask(&one, UINT32_MAX), SPLIT_ADMISSION_NOT_NEEDED);
  assert_int_equal(split_admission_leave(&one, NULL, 0), 0);
  atomic_store(&header()->places, 0);
  assert_false(split_admission_limits(slow));
  assert_int_equal(ask(&one, slow), SPLIT_ADMISSION_NOT_NEEDED);
}

static void after_its_limit_a_request_runs(void **state) {
  (void)state;
  split_admission first = {0}, second = {0};
  assert_int_equal(ask(&first, slow), SPLIT_ADMISSION_ADMITTED);
  assert_int_equal(ask_within(&second, slow, SECOND / 20), SPLIT_ADMISSION_HELD);
  is_admitted_soon(&second, true);
  assert_int_equal(counts().late, 1);
  assert_true(counts().longest_wait_ns >= SECOND / 20);
  assert_int_equal(counts().running, 2);
  split_admission_leave(&first, NULL, 0);
  split_admission_leave(&second, NULL, 0);
}

static void a_request_with_locks_runs_and_counts(void **state) {
  (void)state;
  split_admission first = {0}, exempt = {0}, insisting = {0}, last = {0};
  assert_int_equal(ask(&first, slow), SPLIT_ADMISSION_ADMITTED);
  assert_int_equal(ask_at_once(&exempt, slow), SPLIT_ADMISSION_ADMITTED);
  assert_int_equal(ask_within(&exempt, slow, 0), SPLIT_ADMISSION_ADMITTED);
  assert_int_equal(ask(&insisting, slow), SPLIT_ADMISSION_HELD);
  split_admission_insist(&insisting);
  assert_int_equal(split_admission_again(&insisting, 0), SPLIT_ADMISSION_ADMITTED);
  assert_int_equal(counts().running, 3);
  assert_int_equal(counts().exempt, 2);
  assert_int_equal(counts().for_others, 1);
  split_admission_leave(&first, NULL, 0);
  split_admission_leave(&exempt, NULL, 0);
  assert_int_equal(ask(&last, slow), SPLIT_ADMISSION_HELD);
  /* The one that runs waits for a lock: its place may be used. */
  uint32_t wakers[4];
  assert_int_equal(split_admission_running(&last, wakers, 4), 1);
  assert_int_equal(split_admission_again(&last, 1), SPLIT_ADMISSION_ADMITTED);
  split_admission_leave(&insisting, NULL, 0);
  split_admission_leave(&last, NULL, 0);
}

static void without_placement_all_run(void **state) {
  (void)state;
  split_admission first = {0}, second = {0}, third = {0};
  assert_int_equal(ask(&first, slow), SPLIT_ADMISSION_ADMITTED);
  assert_int_equal(ask(&second, slow), SPLIT_ADMISSION_HELD);
  assert_int_equal(ask(&third, slow), SPLIT_ADMISSION_HELD);
  atomic_store(&header()->placement_on, 0); /* the guard */
  assert_int_equal(split_admission_again(&second, 0), SPLIT_ADMISSION_ADMITTED);
  is_held(&third);                                                                 /* on again */
  atomic_store(&header()->heartbeat_ns, split_clock_ns(CLOCK_MONOTONIC) - SECOND); /* dead */
  assert_int_equal(split_admission_again(&third, 0), SPLIT_ADMISSION_ADMITTED);
  split_admission_leave(&first, NULL, 0);
  split_admission_leave(&second, NULL, 0);
  split_admission_leave(&third, NULL, 0);
  assert_int_equal(counts().late, 0);
}

/* With a place, or waiting before others. */
static void a_dead_thread_holds_up_no_other(void **state) {
  (void)state;
  for (int round = 0; round < 2; round++) {
    split_admission own = {0}, next = {0};
    if (round == 1) assert_int_equal(ask(&own, slow), SPLIT_ADMISSION_ADMITTED);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      split_admission its = {0};
      heartbeat();
      _exit(ask(&its, slow) == (round ? SPLIT_ADMISSION_HELD : SPLIT_ADMISSION_ADMITTED) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    heartbeat();
    ask(&next, slow);
    split_admission_leave(&own, NULL, 0);
    is_admitted_soon(&next, true);
    split_admission_leave(&next, NULL, 0);
    assert_int_equal(counts().running + counts().waiting, 0);
  }
}

static void a_lock_that_was_left_is_taken_over(void **state) {
  (void)state;
  split_admission one = {0};
  atomic_store(&header()->admission_lock, split_clock_ns(CLOCK_MONOTONIC));
  ask(&one, slow); /* held, unless this took 50 ms */
  is_admitted_soon(&one, true);
  assert_int_equal(atomic_load(&header()->admission_lock), 0);
  split_admission_leave(&one, NULL, 0);
  atomic_store(&header()->admission_lock, UINT64_MAX);
  assert_int_equal(ask(&one, slow), SPLIT_ADMISSION_ADMITTED);
  split_admission_leave(&one, NULL, 0);
}

static void a_full_table_limits_no_more(void **state) {
  (void)state;
  static split_admission all[SPLIT_REQUESTS];
  split_admission more = {0};
  for (uint32_t i = 0; i < SPLIT_REQUESTS; i++) {
    heartbeat();
    assert_int_equal(ask_at_once(&all[i], slow), SPLIT_ADMISSION_ADMITTED);
  }
  assert_int_equal(ask(&more, slow), SPLIT_ADMISSION_NOT_NEEDED);
  for (uint32_t i = 0; i < SPLIT_REQUESTS; i++) split_admission_leave(&all[i], NULL, 0);
  assert_int_equal(ask(&more, slow), SPLIT_ADMISSION_ADMITTED);
  split_admission_leave(&more, NULL, 0);
}

/* Whatever is in the segment. */
static void a_damaged_table_harms_nothing(void **state) {
  (void)state;
  split_admission one = {0};
  uint32_t wakers[4];
  memset((void *)split_mapping_in_use()->requests, 0xff,
         SPLIT_REQUESTS * sizeof(struct split_request));
  assert_int_equal(ask(&one, slow), SPLIT_ADMISSION_ADMITTED); /* no thread has that number */
  memset((void *)split_mapping_in_use()->requests, 0x11,
         SPLIT_REQUESTS * sizeof(struct split_request));
  assert_int_equal(split_admission_again(&one, 0), SPLIT_ADMISSION_NOT_NEEDED);
  split_admission_insist(&one);
  assert_int_equal(split_admission_leave(&one, wakers, 4), 0);
}

#define THREADS 8
#define ROUNDS 40
#define PLACES 2
static _Atomic uint32_t inside, most, done;

static void *works(void *argument) {
  (void)argument;
  split_admission own = {0};
  for (int i = 0; i < ROUNDS; i++) {
    enum split_admission_answer answer = ask(&own, i % 2 ? slow : slower);
    while (answer == SPLIT_ADMISSION_HELD) {
      sched_yield();
      answer = split_admission_again(&own, 0);
    }
    if (answer != SPLIT_ADMISSION_ADMITTED) return NULL;
    uint32_t now = atomic_fetch_add(&inside, 1) + 1, seen = atomic_load(&most);
    while (seen < now && !atomic_compare_exchange_weak(&most, &seen, now)) {
    }
    for (int spin = 0; spin < 20; spin++) sched_yield();
    atomic_fetch_sub(&inside, 1);
    uint32_t wakers[PLACES];
    split_admission_leave(&own, wakers, PLACES);
    atomic_fetch_add(&done, 1);
  }
  return NULL;
}

static void *beats(void *argument) {
  _Atomic bool *stop = argument;
  while (!atomic_load(stop)) {
    heartbeat();
    pause_ms(20);
  }
  return NULL;
}

static void never_more_than_places(void **state) {
  (void)state;
  pthread_t threads[THREADS], heart;
  _Atomic bool stop = false;
  atomic_store(&header()->places, PLACES);
  pthread_create(&heart, NULL, beats, (void *)&stop);
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, works, NULL);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  atomic_store(&stop, true);
  pthread_join(heart, NULL);
  assert_int_equal(atomic_load(&done), THREADS * ROUNDS);
  assert_int_equal(atomic_load(&most), PLACES);
  assert_int_equal(counts().running + counts().waiting, 0);
  assert_int_equal(counts().late, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_with_one_place, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_place_goes_to_the_earliest_deadline),
      TEST(an_old_request_is_not_overtaken),
      TEST(a_kind_without_a_limit_needs_no_place),
      TEST(after_its_limit_a_request_runs),
      TEST(a_request_with_locks_runs_and_counts),
      TEST(without_placement_all_run),
      TEST(a_dead_thread_holds_up_no_other),
      TEST(a_lock_that_was_left_is_taken_over),
      TEST(a_full_table_limits_no_more),
      TEST(a_damaged_table_harms_nothing),
      TEST(never_more_than_places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
