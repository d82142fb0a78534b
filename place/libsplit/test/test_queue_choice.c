/* Which worker takes which request, and when: situations on two processors, with times and costs
 * that can be computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "queue_inside.h"

enum { CLEAN = 1, DIRTY = 2 }; /* groups: of queues 0 and 1 */
#define MILLISECOND UINT64_C(1000000)

/* Workers 0 and 2 are at home on CPU 0, with the clean kinds; 1 and 3 on CPU 1, with the dirty
 * ones. */
static int set_up(void **state) {
  split_queue *queue = split_queue_open(16, 4);
  queue->allowed.bits[0] = 3;
  for (uint32_t group = 0; group < 2; group++) {
    const struct split_decided decided = {
        .sequence = 2, .actuation = SPLIT_ACT_SOFT, .queue = group, .cpu_mask = {1u << group}};
    split_queue_plan_learn(&queue->plan, split_queue_plan_kind(&queue->plan, 2 + group), &decided);
  }
  split_queue_plan_lay_out(&queue->plan, 6, &queue->allowed, 4, queue->domain_of);
  for (int domain = 0; domain < 2; domain++)
    queue->scene[domain] = (struct queue_scene){.before = QUEUE_NO_GROUP, .busy_ns = 1};
  queue->costs.change[CLEAN][DIRTY].count = queue->costs.change[DIRTY][CLEAN].count = 16;
  *state = queue;
  return 0;
}

static int tear_down(void **state) {
  split_queue_close(*state);
  return 0;
}

static void put(split_queue *queue, unsigned group, uint64_t now) {
  assert_true(split_queue_lines_put(&queue->lines, group, group + 1, queue, now));
}

static void cost(split_queue *queue, unsigned before, unsigned group, float ns) {
  queue->costs.change[before][group] = (struct queue_change){.extra_ns = ns, .count = 16};
}

/* The choice of worker `number`, idle since `asked`; and if it takes nothing, when it checks
 * again. */
static unsigned choice(split_queue *queue, unsigned number, uint64_t asked, uint64_t now,
                       uint64_t *due) {
  return split_queue_choose(queue, number, asked, now, due);
}

static void home_comes_before_age(void **state) {
  split_queue *queue = *state;
  uint64_t due;
  put(queue, DIRTY, 1);
  put(queue, CLEAN, 2);
  put(queue, QUEUE_ROAMING, 3);
  assert_int_equal(choice(queue, 0, 10, 10, &due), CLEAN);
  (void)split_queue_lines_take(&queue->lines, CLEAN);
  assert_int_equal(choice(queue, 0, 10, 10, &due), QUEUE_ROAMING);
  assert_int_equal(choice(queue, 1, 10, 10, &due), DIRTY);
}

static void a_theft_waits_as_long_as_it_costs(void **state) {
  split_queue *queue = *state;
  uint64_t due;
  /* CPU 0 ran clean requests, and is idle since 1 ms; CPU 1 is busy. A dirty request on CPU 0
   * has no extra cost, the clean one after it has 0.3 ms. */
  queue->scene[0] =
      (struct queue_scene){.before = CLEAN, .busy_ns = 1, .idle_since_ns = MILLISECOND};
  queue->scene[1] = (struct queue_scene){.before = DIRTY, .running = 2};
  cost(queue, DIRTY, CLEAN, 300000);
  put(queue, DIRTY, MILLISECOND / 2);
  assert_int_equal(choice(queue, 0, MILLISECOND, MILLISECOND, &due), QUEUE_NO_GROUP);
  assert_int_equal(due, MILLISECOND + 300000);
  assert_int_equal(choice(queue, 0, MILLISECOND, MILLISECOND + 300000, &due), DIRTY);
  /* A processor that already runs stolen requests does not wait. */
  queue->scene[0].before = DIRTY;
  assert_int_equal(choice(queue, 0, MILLISECOND, MILLISECOND, &due), DIRTY);
}

static void a_new_request_waits_too(void **state) {
  split_queue *queue = *state;
  uint64_t due;
  queue->scene[0] =
      (struct queue_scene){.before = CLEAN, .busy_ns = 1, .idle_since_ns = MILLISECOND};
  queue->scene[1] = (struct queue_scene){.before = DIRTY, .running = 1};
  cost(queue, CLEAN, DIRTY, 100000);
  cost(queue, DIRTY, CLEAN, 300000);
  put(queue, DIRTY, 9 * MILLISECOND);
  assert_int_equal(choice(queue, 0, MILLISECOND, 9 * MILLISECOND, &due), QUEUE_NO_GROUP);
  assert_int_equal(due, 9 * MILLISECOND + 400000);
}

static void where_it_costs_nothing_nobody_waits(void **state) {
  split_queue *queue = *state;
  uint64_t due;
  queue->scene[0] = (struct queue_scene){.before = CLEAN, .busy_ns = 1, .idle_since_ns = 100};
  queue->scene[1] = (struct queue_scene){.before = DIRTY, .running = 1};
  cost(queue, CLEAN, DIRTY, -500);
  cost(queue, DIRTY, CLEAN, 400);
  put(queue, DIRTY, 90);
  assert_int_equal(choice(queue, 0, 100, 100, &due), DIRTY);
}

static void who_is_on_the_way_home_is_waited_for(void **state) {
  split_queue *queue = *state;
  uint64_t due;
  queue->scene[1].running = 0;
  put(queue, DIRTY, MILLISECOND);
  assert_int_equal(choice(queue, 0, MILLISECOND, MILLISECOND, &due), QUEUE_NO_GROUP);
  assert_int_equal(due, MILLISECOND + QUEUE_WAKE_NS);
}

static void a_busy_processor_is_no_place_for_thefts(void **state) {
  split_queue *queue = *state;
  uint64_t due;
  queue->scene[0].running = 1; /* worker 2 is busy there */
  queue->scene[1].running = 2;
  put(queue, DIRTY, MILLISECOND);
  assert_int_equal(choice(queue, 0, 2 * MILLISECOND, 3 * MILLISECOND, &due), QUEUE_NO_GROUP);
  assert_int_equal(due, 2 * MILLISECOND + QUEUE_BLOCKED_NS);
  assert_int_equal(choice(queue, 0, 2 * MILLISECOND, 4 * MILLISECOND, &due), DIRTY);
}

/* A cost of 0.3 ms, 1 ms of work at home at a time: wait 0.2 ms before a theft of 0.5 ms of
 * work, 0.1 ms before one of 2 ms. */
static void the_less_work_at_home_the_sooner_it_is_left(void **state) {
  split_queue *queue = *state;
  uint64_t due;
  queue->scene[0] =
      (struct queue_scene){.before = CLEAN, .busy_ns = 1e6, .idle_since_ns = MILLISECOND};
  queue->scene[1] = (struct queue_scene){.before = DIRTY, .running = 2};
  cost(queue, DIRTY, CLEAN, 300000);
  put(queue, DIRTY, MILLISECOND);
  queue->plan.groups[DIRTY].warm_ns = 5e5;
  (void)choice(queue, 0, MILLISECOND, MILLISECOND, &due);
  assert_int_equal(due, MILLISECOND + 200000);
  queue->plan.groups[DIRTY].warm_ns = 2e6;
  (void)choice(queue, 0, MILLISECOND, MILLISECOND, &due);
  assert_int_equal(due, MILLISECOND + 100000);
  queue->scene[0].busy_ns = 0; /* not known yet */
  (void)choice(queue, 0, MILLISECOND, MILLISECOND, &due);
  assert_int_equal(due, MILLISECOND + 300000);
}

/* CPU 0 steals dirty requests; then there is work at home. It goes home when that is the oldest,
 * or if changing costs nothing. */
static void a_thief_goes_home_in_order_of_age(void **state) {
  split_queue *queue = *state;
  uint64_t due;
  queue->scene[0].before = DIRTY;
  queue->scene[1].running = 2;
  cost(queue, DIRTY, CLEAN, 300000);
  put(queue, DIRTY, 1);
  put(queue, CLEAN, 2);
  put(queue, DIRTY, 3);
  assert_int_equal(choice(queue, 0, 10, 10, &due), DIRTY);
  (void)split_queue_lines_take(&queue->lines, DIRTY);
  assert_int_equal(choice(queue, 0, 10, 10, &due), CLEAN);
  (void)split_queue_lines_take(&queue->lines, CLEAN);
  put(queue, CLEAN, 4);
  assert_int_equal(choice(queue, 0, 10, 10, &due), DIRTY);
  cost(queue, DIRTY, CLEAN, 3000);
  assert_int_equal(choice(queue, 0, 10, 10, &due), CLEAN);
}

/* Worker 2 runs a stolen request on CPU 0: worker 0 does not displace its data, unless worker 2
 * seems blocked. */
static void nobody_runs_beside_what_is_stolen(void **state) {
  split_queue *queue = *state;
  struct queue_sleeper sleeper = {.worker = 0, .asked_ns = 0, .due = QUEUE_NEVER};
  uint64_t due;
  queue->scene[0].before = DIRTY;
  queue->scene[0].running = 1;
  cost(queue, DIRTY, CLEAN, 300000);
  put(queue, CLEAN, MILLISECOND);
  assert_int_equal(choice(queue, 0, MILLISECOND, MILLISECOND, &due), QUEUE_NO_GROUP);
  assert_int_equal(due, MILLISECOND + QUEUE_BLOCKED_NS);
  assert_int_equal(choice(queue, 0, MILLISECOND, due, &due), CLEAN);
  /* A sleeper is woken to set its alarm, once. */
  queue->asleep[queue->sleepers++] = &sleeper;
  assert_ptr_equal(split_queue_claim(queue, CLEAN), &sleeper);
  sleeper.claimed = false;
  sleeper.due = MILLISECOND + QUEUE_BLOCKED_NS;
  assert_null(split_queue_claim(queue, CLEAN));
  queue->scene[0].running = 0;
  assert_int_equal(choice(queue, 0, MILLISECOND, MILLISECOND, &due), CLEAN);
}

static void at_the_end_all_help(void **state) {
  split_queue *queue = *state;
  uint64_t due;
  queue->scene[0].running = 1;
  put(queue, DIRTY, MILLISECOND);
  queue->shut = true;
  assert_int_equal(choice(queue, 0, MILLISECOND, MILLISECOND, &due), DIRTY);
}

static void home_is_woken_first_the_latest_sleeper(void **state) {
  split_queue *queue = *state;
  struct queue_sleeper sleepers[4];
  for (unsigned i = 0; i < 4; i++) {
    sleepers[i] = (struct queue_sleeper){.worker = i, .due = QUEUE_NEVER};
    queue->asleep[queue->sleepers++] = &sleepers[i];
  }
  put(queue, CLEAN, 1);
  assert_ptr_equal(split_queue_claim(queue, CLEAN), &sleepers[2]);
  assert_ptr_equal(split_queue_claim(queue, CLEAN), &sleepers[0]);
  put(queue, DIRTY, 1);
  assert_ptr_equal(split_queue_claim(queue, DIRTY), &sleepers[3]);
}

static void a_thief_is_woken_to_set_its_alarm_once(void **state) {
  split_queue *queue = *state;
  struct queue_sleeper thief = {.worker = 0, .due = QUEUE_NEVER};
  queue->asleep[queue->sleepers++] = &thief;
  queue->scene[0].before = CLEAN;
  queue->scene[1].running = 2;
  cost(queue, DIRTY, CLEAN, 300000);
  put(queue, DIRTY, MILLISECOND);
  assert_ptr_equal(split_queue_claim(queue, DIRTY), &thief);
  /* It sleeps again, until the theft is worthwhile. The next request needs no other alarm. */
  thief.claimed = false;
  thief.due = MILLISECOND + 300000;
  put(queue, DIRTY, MILLISECOND + 1);
  assert_null(split_queue_claim(queue, DIRTY));
}

/* 16 requests of 100 us after their own kind, then one of 250 us after the other kind: a cost of
 * 150 us. */
static void costs_are_what_requests_take_longer(void **state) {
  split_queue *queue = *state;
  struct queue_kind *kind = split_queue_plan_kind(&queue->plan, 2);
  struct queue_group *group = &queue->plan.groups[CLEAN];
  memset(&queue->costs, 0, sizeof(queue->costs));
  split_queue_costs_learn(&queue->costs, kind, group, DIRTY, 250000); /* no base for comparison */
  assert_int_equal(split_queue_costs_of_theft(&queue->costs, DIRTY, CLEAN), 2 * QUEUE_UNSEEN_NS);
  queue->costs.change[CLEAN][DIRTY].count = 1; /* nothing */
  for (int i = 0; i < 16; i++) split_queue_costs_learn(&queue->costs, kind, group, CLEAN, 100000);
  split_queue_costs_learn(&queue->costs, kind, group, DIRTY, 250000);
  assert_int_equal(split_queue_costs_of_theft(&queue->costs, DIRTY, CLEAN), 150000);
  assert_int_equal(split_queue_costs_of_theft(&queue->costs, CLEAN, DIRTY), 150000); /* and back */
  split_queue_costs_learn(&queue->costs, kind, group, DIRTY, 150000);
  assert_int_equal(split_queue_costs_of_theft(&queue->costs, DIRTY, CLEAN), 100000);
  assert_int_equal(split_queue_costs_of_theft(&queue->costs, CLEAN, CLEAN), 0);
  assert_int_equal(split_queue_costs_of_theft(&queue->costs, QUEUE_NO_GROUP, CLEAN), 0);
  for (int i = 0; i < 100; i++)
    split_queue_costs_learn(&queue->costs, kind, group, DIRTY, UINT64_C(1) << 40);
  assert_in_range(split_queue_costs_of_theft(&queue->costs, DIRTY, CLEAN),
                  QUEUE_LONGEST_PATIENCE_NS - QUEUE_LONGEST_PATIENCE_NS / 100,
                  QUEUE_LONGEST_PATIENCE_NS);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(home_comes_before_age),
      TEST(a_theft_waits_as_long_as_it_costs),
      TEST(a_new_request_waits_too),
      TEST(where_it_costs_nothing_nobody_waits),
      TEST(who_is_on_the_way_home_is_waited_for),
      TEST(a_busy_processor_is_no_place_for_thefts),
      TEST(the_less_work_at_home_the_sooner_it_is_left),
      TEST(a_thief_goes_home_in_order_of_age),
      TEST(nobody_runs_beside_what_is_stolen),
      TEST(at_the_end_all_help),
      TEST(home_is_woken_first_the_latest_sleeper),
      TEST(a_thief_is_woken_to_set_its_alarm_once),
      TEST(costs_are_what_requests_take_longer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
