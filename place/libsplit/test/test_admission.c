/*
 * Admission: never more requests than places, in the order of their deadlines, none for longer than
 * its limit; and an end of all waits when placement ends or a thread dies.
 */
#include "admission.h"
#include "fixture.h"
#include "split_admission.h"

#include <pthread.h>
#include <sys/resource.h>

#define SECOND UINT64_C(1000000000)
static uint32_t slow, slower, quick;

static void expect_of(uint32_t code, uint64_t ns) {
  struct split_mapping *mapping = split_mapping_in_use();
  struct split_decision *decision = &mapping->decisions[code];
  atomic_store(&decision->admit, 1);
  atomic_store(&decision->expected_cycles, (uint64_t)((double)ns * mapping->cycles_per_ns));
}

/* From 0.49 s ahead, which is accepted: so a machine that is busy for most of a second does not end
 * placement. */
static void beat(void) {
  atomic_store(&header()->heartbeat_ns, split_clock_ns(CLOCK_MONOTONIC) + 49 * SECOND / 100);
  atomic_store(&header()->placement_on, 1);
}

/* "slow" takes 10 ms, "slower" 30 s; one place. */
static int begin_with_one_place(void **state) {
  if (begin_with_text(state) != 0) return -1;
  slow = kind_of("slow");
  slower = kind_of("slower");
  quick = kind_of("quick");
  expect_of(slow, SECOND / 100);
  expect_of(slower, 30 * SECOND);
  atomic_store(&header()->places, 1);
  beat();
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
  beat();
  assert_int_equal(split_admission_again(one, 0), SPLIT_ADMISSION_HELD);
}

/* As long as a busy machine may need. */
static void is_admitted_soon(split_admission *one) {
  for (int i = 0; i < 2000; i++) {
    beat();
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
  assert_int_equal(ask(&early, slow), SPLIT_ADMISSION_HELD); /* 30 s before the other */
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

/* "slower" is overtaken only by those that ask within 50 ms: its deadline does not move. */
static void an_old_request_is_not_overtaken(void **state) {
  (void)state;
  split_admission first = {0}, old = {0}, fresh = {0};
  expect_of(slower, SECOND / 20);
  assert_int_equal(ask(&first, slow), SPLIT_ADMISSION_ADMITTED);
  assert_int_equal(ask(&old, slower), SPLIT_ADMISSION_HELD);
  pause_ms(60);
  beat();
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
  split_admission first = {0}, second = {0}, third = {0};
  assert_int_equal(ask(&first, slow), SPLIT_ADMISSION_ADMITTED);
  assert_int_equal(ask_within(&second, slow, 2 * SECOND), SPLIT_ADMISSION_HELD);
  assert_int_equal(ask_within(&third, slow, 2 * SECOND), SPLIT_ADMISSION_HELD);
  /* Another process writes into the segment. */
  atomic_store(&split_mapping_in_use()->requests[third.entry].until_ns, UINT64_MAX);
  is_admitted_soon(&second);
  is_admitted_soon(&third);
  assert_int_equal(counts().late, 2);
  assert_true(counts().longest_wait_ns >= 2 * SECOND);
  assert_int_equal(counts().running, 3);
  split_admission_leave(&first, NULL, 0);
  split_admission_leave(&second, NULL, 0);
  split_admission_leave(&third, NULL, 0);
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
  struct split_admission_thread threads[4];
  assert_int_equal(split_admission_running(&last, threads, 4), 1);
  assert_int_equal(threads[0].waker, 7);
  assert_int_equal(threads[0].tid, getpid());
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
      beat();
      _exit(ask(&its, slow) == (round ? SPLIT_ADMISSION_HELD : SPLIT_ADMISSION_ADMITTED) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    beat();
    ask(&next, slow);
    split_admission_leave(&own, NULL, 0);
    is_admitted_soon(&next);
    split_admission_leave(&next, NULL, 0);
    assert_int_equal(counts().running + counts().waiting, 0);
  }
}

struct asked {
  split_admission own;
  enum split_admission_answer answer;
};

static void *asks(void *argument) {
  struct asked *asked = argument;
  asked->answer = ask(&asked->own, slow);
  split_admission_leave(&asked->own, NULL, 0);
  return NULL;
}

/* Another thread asks, whose start time this process has not read yet. */
static void asks_elsewhere(struct asked *asked) {
  pthread_t thread;
  *asked = (struct asked){0};
  beat();
  assert_int_equal(pthread_create(&thread, NULL, asks, asked), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Allows this number of descriptors; returns the former one. */
static rlim_t allow_descriptors(rlim_t number) {
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = number;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  return before;
}

/* /proc cannot be read: no thread is taken for dead, and none gets an entry that others would take
 * for that of a dead one. */
static void without_a_descriptor_no_place_is_taken(void **state) {
  (void)state;
  split_admission first = {0}, second = {0};
  int stop[2];
  char byte;
  assert_int_equal(pipe(stop), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    beat();
    close(stop[1]);
    if (ask(&first, slow) != SPLIT_ADMISSION_ADMITTED) _exit(1);
    _exit(read(stop[0], &byte, 1) == 0 ? 0 : 1); /* until its parent closes the pipe, or ends */
  }
  close(stop[0]);
  for (int i = 0; i < 2000 && counts().running == 0; i++) pause_ms(5);
  beat();
  assert_int_equal(ask(&second, slow), SPLIT_ADMISSION_HELD);
  struct asked without, with;
  const rlim_t before = allow_descriptors(0);
  asks_elsewhere(&without);
  atomic_store(&header()->checked_ns, 0);
  is_held(&second);
  allow_descriptors(before);
  assert_int_not_equal(atomic_load(&header()->checked_ns), 0);
  assert_int_equal(without.answer, SPLIT_ADMISSION_NOT_NEEDED);
  assert_int_equal(without.own.owner, 0);
  asks_elsewhere(&with);
  assert_int_equal(with.answer, SPLIT_ADMISSION_HELD);
  int status;
  close(stop[1]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  is_admitted_soon(&second);
  split_admission_leave(&second, NULL, 0);
}

/* Not by each one that waits. */
static void the_living_are_checked_once_for_all(void **state) {
  (void)state;
  split_admission first = {0}, second = {0};
  assert_int_equal(ask(&first, slow), SPLIT_ADMISSION_ADMITTED);
  const uint64_t dead = UINT64_C(1) << 32 | INT32_MAX; /* above the largest number of a thread */
  atomic_store(&split_mapping_in_use()->requests[500].owner, dead);
  atomic_store(&header()->checked_ns, split_clock_ns(CLOCK_MONOTONIC) + 60 * SECOND);
  /* A time that is not yet is no reason to wait: the segment may be damaged. */
  assert_int_equal(ask(&second, slow), SPLIT_ADMISSION_HELD);
  assert_int_equal(atomic_load(&split_mapping_in_use()->requests[500].owner), 0);
  const uint64_t checked = atomic_load(&header()->checked_ns);
  assert_true(checked <= split_clock_ns(CLOCK_MONOTONIC));
  is_held(&second);
  const uint64_t after = atomic_load(&header()->checked_ns);
  assert_true(after == checked || after - checked > SECOND / 10);
  split_admission_leave(&first, NULL, 0);
  split_admission_leave(&second, NULL, 0);
}

static void a_lock_that_was_left_is_taken_over(void **state) {
  (void)state;
  split_admission one = {0};
  atomic_store(&header()->admission_lock, split_clock_ns(CLOCK_MONOTONIC));
  ask(&one, slow); /* held, unless this took 50 ms */
  is_admitted_soon(&one);
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
    beat();
    assert_int_equal(ask_at_once(&all[i], slow), SPLIT_ADMISSION_ADMITTED);
  }
  assert_int_equal(counts().unlimited, 0);
  assert_int_equal(ask(&more, slow), SPLIT_ADMISSION_NOT_NEEDED);
  assert_int_equal(ask(&more, slow), SPLIT_ADMISSION_NOT_NEEDED);
  assert_int_equal(counts().unlimited, 2);
  for (uint32_t i = 0; i < SPLIT_REQUESTS; i++) split_admission_leave(&all[i], NULL, 0);
  assert_int_equal(ask(&more, slow), SPLIT_ADMISSION_ADMITTED);
  split_admission_leave(&more, NULL, 0);
}

/* Whatever is in the segment. */
static void a_damaged_table_harms_nothing(void **state) {
  (void)state;
  split_admission one = {0};
  uint32_t wakers[4];
  atomic_store(&split_mapping_in_use()->decisions[slow].expected_cycles, UINT64_MAX);
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
    beat();
    enum split_admission_answer answer = ask(&own, i % 2 ? slow : slower);
    while (answer == SPLIT_ADMISSION_HELD) {
      sched_yield();
      beat();
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

/* No thread dies here, and a lock is not taken from one that the machine suspends. */
static void never_more_than_places(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  const uint64_t lock_ns = split_admission_lock_ns;
  split_admission_lock_ns = 600 * SECOND;
  atomic_store(&header()->places, PLACES);
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, works, NULL);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  split_admission_lock_ns = lock_ns;
  assert_int_equal(atomic_load(&done), THREADS * ROUNDS);
  assert_in_range(atomic_load(&most), 1, PLACES);
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
      TEST(without_a_descriptor_no_place_is_taken),
      TEST(the_living_are_checked_once_for_all),
      TEST(a_lock_that_was_left_is_taken_over),
      TEST(a_full_table_limits_no_more),
      TEST(a_damaged_table_harms_nothing),
      TEST(never_more_than_places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
