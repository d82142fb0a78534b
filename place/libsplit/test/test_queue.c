/* Class queues with threads: nothing is lost, order, homes, stealing, affinity. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_decided.h"
#include "queue_inside.h"

static int set_up(void **state) {
  (void)state;
  fake_reset();
  return 0;
}

static bool put(split_queue *queue, uint8_t code, uintptr_t request) {
  return split_queue_put(queue, &code, 1, (void *)request);
}

static uintptr_t take(split_queue *queue, unsigned worker) {
  return (uintptr_t)split_queue_take(queue, worker);
}

static struct split_queue_counts counts_of(const split_queue *queue) {
  struct split_queue_counts counts;
  split_queue_counts(queue, &counts);
  return counts;
}

static int processors(void) {
  cpu_set_t cpus;
  assert_int_equal(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
  return CPU_ISSET(0, &cpus) && CPU_ISSET(1, &cpus) ? CPU_COUNT(&cpus) : 1;
}

#define NEEDS_TWO_PROCESSORS()                           \
  if (processors() < 2) {                                \
    print_message("skipped: CPUs 0 and 1 are needed\n"); \
    skip();                                              \
  }

static void without_placement_it_is_first_come_first_served(void **state) {
  (void)state;
  split_queue *queue = split_queue_open(3, 2);
  fake_decide(2, 0, 1); /* decided, but placement is off */
  fake_decide(3, 1, 2);
  assert_true(put(queue, 2, 10));
  assert_true(put(queue, 3, 11));
  assert_true(put(queue, 2, 12));
  assert_false(put(queue, 3, 13)); /* full */
  assert_int_equal(take(queue, 1), 10);
  assert_int_equal(take(queue, 0), 11);
  assert_true(put(queue, 3, 14)); /* the place is free again */
  split_queue_shut(queue);
  assert_false(put(queue, 3, 15));
  assert_int_equal(take(queue, 0), 12);
  assert_int_equal(take(queue, 0), 14);
  assert_int_equal(take(queue, 0), 0);
  assert_int_equal(take(queue, 1), 0);
  struct split_queue_counts counts = counts_of(queue);
  assert_int_equal(counts.put, 4);
  assert_int_equal(counts.taken_at_home, 4);
  assert_int_equal(counts.stolen, 0);
  assert_int_equal(counts.placed, 0);
  assert_int_equal(counts.refused, 2);
  split_queue_close(queue);
}

static void what_cannot_be_opened_or_put_is_refused(void **state) {
  (void)state;
  assert_null(split_queue_open(0, 1));
  assert_null(split_queue_open(1, 0));
  assert_null(split_queue_open(SIZE_MAX, 1));
  assert_null(split_queue_open(1, 1u << 20));
  split_queue *queue = split_queue_open(1, 1);
  assert_false(put(queue, 2, 0));                          /* NULL is what takers get at the end */
  assert_true(split_queue_put(queue, NULL, 0, (void *)5)); /* no key */
  assert_int_equal(take(queue, 7), 5);                     /* there is no worker 7: worker 0 */
  split_queue_close(queue);
  split_queue_close(NULL);
}

static void each_group_has_its_home(void **state) {
  (void)state;
  NEEDS_TWO_PROCESSORS();
  split_queue *queue = split_queue_open(8, 2);
  fake_decide(2, 0, 1);
  fake_decide(3, 1, 2);
  fake_place(true);
  assert_true(put(queue, 3, 30));
  assert_true(put(queue, 2, 20));
  assert_true(put(queue, 3, 31));
  assert_true(put(queue, 4, 40)); /* no decision: anywhere, in order of arrival */
  assert_true(put(queue, 2, 21));
  assert_int_equal(take(queue, 0), 20); /* not the oldest, but at home */
  assert_int_equal(take(queue, 0), 40);
  assert_int_equal(take(queue, 0), 21);
  /* This single thread is both workers, and gets the affinity of each in turn. */
  assert_int_equal(take(queue, 1), 30);
  assert_int_equal(take(queue, 1), 31);
  assert_int_equal(counts_of(queue).taken_at_home, 5);
  split_queue_shut(queue);
  assert_int_equal(take(queue, 0), 0);
  split_queue_close(queue);
}

static void whoever_has_nothing_at_home_steals(void **state) {
  (void)state;
  NEEDS_TWO_PROCESSORS();
  split_queue *queue = split_queue_open(8, 2);
  fake_decide(2, 0, 1);
  fake_decide(3, 1, 2);
  fake_place(true);
  assert_true(put(queue, 2, 20));
  assert_true(put(queue, 3, 30));
  assert_true(put(queue, 3, 31));
  assert_int_equal(take(queue, 0), 20);
  assert_int_equal(take(queue, 0), 30); /* waits first: the other worker might take it */
  assert_int_equal(take(queue, 0), 31);
  assert_int_equal(counts_of(queue).stolen, 2);
  assert_int_equal(counts_of(queue).placed, 3);
  split_queue_shut(queue);
  assert_int_equal(take(queue, 0), 0);
  split_queue_close(queue);
}

/* ---- many threads ---- */

enum { PUTTERS = 3, TAKERS = 4, EACH = 20000 };
struct crowd {
  split_queue *queue;
  _Atomic uint64_t sum, taken;
  _Atomic unsigned next_worker, next_putter;
};

static void *take_all(void *of) {
  struct crowd *crowd = of;
  unsigned worker = crowd->next_worker++;
  for (uintptr_t request; (request = take(crowd->queue, worker)) != 0; crowd->taken++)
    crowd->sum += request;
  return NULL;
}

static void *put_many(void *of) {
  struct crowd *crowd = of;
  uint8_t code = (uint8_t)(2 + crowd->next_putter++);
  for (uintptr_t i = 1; i <= EACH; i++) {
    while (!put(crowd->queue, code, i)) sched_yield();
    if (i % 5000 == 0) fake_place(i / 5000 % 2 == 1); /* homes change in between */
    if (i % 3000 == 0) fake_decide(code, (uint32_t)(i / 3000 + code) % 3, 1 + i / 3000 % 2);
  }
  return NULL;
}

static void nothing_is_lost_among_many(void **state) {
  (void)state;
  struct crowd crowd = {.queue = split_queue_open(64, TAKERS)};
  pthread_t takers[TAKERS], putters[PUTTERS];
  for (int i = 0; i < TAKERS; i++) pthread_create(&takers[i], NULL, take_all, &crowd);
  for (int i = 0; i < PUTTERS; i++) pthread_create(&putters[i], NULL, put_many, &crowd);
  for (int i = 0; i < PUTTERS; i++) pthread_join(putters[i], NULL);
  split_queue_shut(crowd.queue);
  for (int i = 0; i < TAKERS; i++) pthread_join(takers[i], NULL);
  assert_int_equal(crowd.taken, (uint64_t)PUTTERS * EACH);
  assert_int_equal(crowd.sum, PUTTERS * ((uint64_t)EACH * (EACH + 1) / 2));
  struct split_queue_counts counts = counts_of(crowd.queue);
  assert_int_equal(counts.taken_at_home + counts.stolen, counts.put);
  split_queue_close(crowd.queue);
}

/*
 * A token is passed around: each turn ends with a sleeping worker that has to be woken. A lost
 * wake-up ends the test by its alarm.
 */
struct round {
  split_queue *queue;
  unsigned worker;
};

static void *hand_on(void *of) {
  struct round *round = of;
  for (uintptr_t left; (left = take(round->queue, round->worker)) != 0;) {
    if (left == 1)
      split_queue_shut(round->queue);
    else
      assert_true(put(round->queue, (uint8_t)(2 + left % 3), left - 1));
  }
  return NULL;
}

static void go_round(unsigned workers, uintptr_t turns) {
  struct round round[TAKERS];
  pthread_t threads[TAKERS];
  split_queue *queue = split_queue_open(4, workers);
  alarm(600);
  for (unsigned i = 0; i < workers; i++) {
    round[i] = (struct round){queue, i};
    pthread_create(&threads[i], NULL, hand_on, &round[i]);
  }
  assert_true(put(queue, 2, turns));
  for (unsigned i = 0; i < workers; i++) pthread_join(threads[i], NULL);
  alarm(0);
  assert_int_equal(counts_of(queue).put, turns);
  split_queue_close(queue);
}

static void no_wake_up_is_lost(void **state) {
  (void)state;
  go_round(1, 20000);
  go_round(4, 20000);
}

static void no_wake_up_is_lost_between_homes(void **state) {
  (void)state;
  NEEDS_TWO_PROCESSORS();
  fake_decide(2, 0, 1);
  fake_decide(3, 1, 2);
  fake_place(true);
  go_round(2, 5000);
  go_round(4, 5000);
}

/* ---- affinity ---- */

struct bound {
  split_queue *queue;
  unsigned worker;
  _Atomic int taken;
  _Atomic pid_t tid;
};

static void *take_and_count(void *of) {
  struct bound *bound = of;
  bound->tid = gettid();
  while (take(bound->queue, bound->worker) != 0) bound->taken++;
  return NULL;
}

/* True if a thread is restricted to exactly these CPUs (bits) within some time. */
static bool comes_to(pid_t tid, uint64_t mask) {
  for (int i = 0; i < 12000; i++) {
    cpu_set_t cpus;
    uint64_t bits = 0;
    if (sched_getaffinity(tid, sizeof(cpus), &cpus) != 0) return false;
    for (unsigned cpu = 0; cpu < 64; cpu++)
      if (CPU_ISSET(cpu, &cpus)) bits |= UINT64_C(1) << cpu;
    if (bits == mask) return true;
    usleep(5000);
  }
  return false;
}

static void wait_for(_Atomic int *number, int value) {
  for (int i = 0; i < 12000 && *number < value; i++) usleep(5000);
  assert_int_equal(*number, value);
}

static void workers_are_bound_and_released(void **state) {
  (void)state;
  NEEDS_TWO_PROCESSORS();
  uint64_t all = 0;
  cpu_set_t cpus;
  assert_int_equal(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
  for (unsigned cpu = 0; cpu < 64; cpu++)
    if (CPU_ISSET(cpu, &cpus)) all |= UINT64_C(1) << cpu;
  split_queue *queue = split_queue_open(8, 2);
  struct bound bound[2] = {{.queue = queue}, {.queue = queue, .worker = 1}};
  pthread_t threads[2];
  fake_decide(2, 0, 1);
  fake_decide(3, 1, all & ~UINT64_C(1));
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, take_and_count, &bound[i]);
  for (int i = 0; i < 2; i++)
    while (bound[i].tid == 0) sched_yield();
  assert_true(put(queue, 2, 1));
  assert_true(put(queue, 3, 1));
  for (int i = 0; i < 2; i++) assert_true(comes_to(bound[i].tid, all));
  /* Placement starts: with the next request all are woken and bound. */
  fake_place(true);
  assert_true(put(queue, 2, 1));
  assert_true(comes_to(bound[0].tid, 1));
  assert_true(comes_to(bound[1].tid, all & ~UINT64_C(1)));
  /* The homes are exchanged. */
  fake_decide(2, 0, all & ~UINT64_C(1));
  fake_decide(3, 1, 1);
  assert_true(put(queue, 2, 1));
  assert_true(put(queue, 3, 1));
  assert_true(comes_to(bound[0].tid, all & ~UINT64_C(1)));
  assert_true(comes_to(bound[1].tid, 1));
  /* The analyzer falls silent, and no request comes: sleepers notice it themselves. */
  fake_place(false);
  for (int i = 0; i < 2; i++) assert_true(comes_to(bound[i].tid, all));
  /* On again, and then the end: a worker that leaves is not bound. */
  fake_place(true);
  assert_true(put(queue, 2, 1));
  assert_true(comes_to(bound[1].tid, 1));
  split_queue_shut(queue);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  assert_int_equal(bound[0].taken + bound[1].taken, 6);
  split_queue_close(queue);
}

static void without_the_processors_there_are_no_homes(void **state) {
  (void)state;
  NEEDS_TWO_PROCESSORS();
  split_queue *queue = split_queue_open(8, 2);
  fake_decide(2, 0, 1);
  fake_decide(3, 1, 2);
  fake_refuse(3);
  fake_place(true);
  assert_true(put(queue, 3, 30));
  assert_true(put(queue, 2, 20));
  assert_int_equal(take(queue, 0), 30); /* by age */
  assert_int_equal(take(queue, 0), 20);
  assert_int_equal(counts_of(queue).taken_at_home, 2);
  split_queue_shut(queue);
  assert_int_equal(take(queue, 0), 0);
  split_queue_close(queue);
}

/* A worker that waits within its request does not keep others from the requests of its home. */
static void *hold(void *of) {
  struct bound *bound = of;
  if (take(bound->queue, bound->worker) != 0) bound->taken = 1;
  while (bound->tid == 0) usleep(1000);
  while (take(bound->queue, bound->worker) != 0) bound->taken++;
  return NULL;
}

static void a_blocked_home_is_helped(void **state) {
  (void)state;
  NEEDS_TWO_PROCESSORS();
  split_queue *queue = split_queue_open(8, 3);
  struct bound held[2] = {{.queue = queue, .worker = 0}, {.queue = queue, .worker = 1}};
  struct bound helper = {.queue = queue, .worker = 2};
  pthread_t threads[2], third;
  fake_decide(2, 0, 1);
  fake_decide(3, 1, 2);
  fake_place(true);
  for (int i = 0; i < 2; i++) {
    assert_true(put(queue, (uint8_t)(2 + i), 1));
    pthread_create(&threads[i], NULL, hold, &held[i]);
    wait_for(&held[i].taken, 1);
  }
  /* Both homes are busy. A third worker, of the first home, gets the second's request, too. */
  assert_true(put(queue, 3, 1));
  pthread_create(&third, NULL, take_and_count, &helper);
  wait_for(&helper.taken, 1);
  assert_int_equal(counts_of(queue).stolen, 1);
  held[0].tid = held[1].tid = 1;
  split_queue_shut(queue);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  pthread_join(third, NULL);
  split_queue_close(queue);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(without_placement_it_is_first_come_first_served, set_up),
      cmocka_unit_test_setup(what_cannot_be_opened_or_put_is_refused, set_up),
      cmocka_unit_test_setup(each_group_has_its_home, set_up),
      cmocka_unit_test_setup(whoever_has_nothing_at_home_steals, set_up),
      cmocka_unit_test_setup(nothing_is_lost_among_many, set_up),
      cmocka_unit_test_setup(no_wake_up_is_lost, set_up),
      cmocka_unit_test_setup(no_wake_up_is_lost_between_homes, set_up),
      cmocka_unit_test_setup(workers_are_bound_and_released, set_up),
      cmocka_unit_test_setup(without_the_processors_there_are_no_homes, set_up),
      cmocka_unit_test_setup(a_blocked_home_is_helped, set_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
