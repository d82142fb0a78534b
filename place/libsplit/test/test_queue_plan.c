/* From decisions to homes: groups, domains, workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "queue_plan.h"

enum { WORKERS = 16 };
#define GROUP(queue) (UINT64_C(1) << ((queue) + 1)) /* group 0 is of those that roam */

struct fixture {
  struct queue_plan plan;
  struct queue_cpus allowed;
  uint8_t domain_of[WORKERS];
};

static int set_up(void **state) {
  struct fixture *f = calloc(1, sizeof(*f));
  f->allowed.bits[0] = 3;
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  free(*state);
  return 0;
}

static bool decide_as(struct fixture *f, uint32_t code, uint8_t actuation, uint32_t queue,
                      uint64_t mask) {
  struct split_decided decided = {
      .sequence = 2, .actuation = actuation, .queue = queue, .cpu_mask = {mask}};
  return split_queue_plan_learn(&f->plan, split_queue_plan_kind(&f->plan, code), &decided);
}

static bool decide(struct fixture *f, uint32_t code, uint32_t queue, uint64_t mask) {
  return decide_as(f, code, SPLIT_ACT_SOFT, queue, mask);
}

static void lay_out(struct fixture *f, unsigned workers) {
  uint64_t used = split_queue_plan_used(&f->plan, &f->allowed, 0);
  split_queue_plan_lay_out(&f->plan, used, &f->allowed, workers, f->domain_of);
}

static void two_groups_on_two_processors_share_the_workers(void **state) {
  struct fixture *f = *state;
  assert_true(decide(f, 2, 0, 1));
  assert_true(decide(f, 3, 1, 2));
  lay_out(f, 4);
  assert_int_equal(f->plan.domains, 2);
  assert_int_equal(f->plan.domain[0].cpus.bits[0], 1);
  assert_int_equal(f->plan.domain[0].groups, GROUP(0));
  assert_int_equal(f->plan.domain[1].cpus.bits[0], 2);
  assert_int_equal(f->plan.domain[1].groups, GROUP(1));
  assert_int_equal(f->plan.routed, GROUP(0) | GROUP(1));
  const uint8_t expected[] = {0, 1, 0, 1};
  assert_memory_equal(f->domain_of, expected, 4);
}

static void the_same_decision_again_changes_nothing(void **state) {
  struct fixture *f = *state;
  assert_true(decide(f, 2, 0, 1));
  assert_false(decide(f, 2, 0, 1));
  assert_true(decide(f, 2, 0, 2));
  assert_true(decide(f, 2, 1, 2));
}

static void groups_of_the_same_processors_share_a_domain(void **state) {
  struct fixture *f = *state;
  decide(f, 2, 0, 1);
  decide(f, 3, 1, 2);
  decide(f, 4, 2, 2);
  lay_out(f, 2);
  assert_int_equal(f->plan.domains, 2);
  assert_int_equal(f->plan.domain[1].groups, GROUP(1) | GROUP(2));
  assert_int_equal(f->plan.groups[3].domain, 1);
}

static void processors_of_no_group_have_workers_too(void **state) {
  struct fixture *f = *state;
  decide(f, 2, 0, 2);
  lay_out(f, 4);
  assert_int_equal(f->plan.domains, 2);
  assert_int_equal(f->plan.domain[0].cpus.bits[0], 2);
  assert_int_equal(f->plan.domain[1].cpus.bits[0], 1);
  assert_int_equal(f->plan.domain[1].groups, 0);
  assert_int_equal(f->plan.domain[1].workers, 2);
}

static void what_is_not_for_routing_roams(void **state) {
  struct fixture *f = *state;
  assert_false(decide_as(f, 2, SPLIT_ACT_LAZY, 0, 1));
  assert_false(decide_as(f, 3, SPLIT_ACT_PAPER, 1, 2));
  assert_false(decide(f, 4, 2, 0));                /* no processors: runs anywhere */
  assert_false(decide(f, 5, QUEUE_GROUPS - 1, 1)); /* no such queue */
  assert_false(decide(f, 6, UINT32_MAX, 1));
  for (uint32_t code = 2; code <= 6; code++)
    assert_int_equal(split_queue_plan_kind(&f->plan, code)->group, QUEUE_ROAMING);
  lay_out(f, 4);
  assert_int_equal(f->plan.domains, 0);
}

static void all_processors_or_none_of_ours_are_no_home(void **state) {
  struct fixture *f = *state;
  decide(f, 2, 0, 3);      /* all CPUs of the process */
  decide(f, 3, 1, 15);     /* more than it has */
  decide(f, 4, 2, 1 << 9); /* CPUs that it does not have */
  assert_int_equal(split_queue_plan_used(&f->plan, &f->allowed, 0), 0);
  lay_out(f, 4);
  assert_int_equal(f->plan.domains, 0);
  assert_int_equal(f->plan.routed, 0);
}

static void masks_are_cut_to_what_is_allowed(void **state) {
  struct fixture *f = *state;
  decide(f, 2, 0, 1 | 4);
  decide(f, 3, 1, 2 | 8);
  lay_out(f, 2);
  assert_int_equal(f->plan.domains, 2);
  assert_int_equal(f->plan.domain[0].cpus.bits[0], 1);
  assert_int_equal(f->plan.domain[1].slots, 1);
}

static void workers_go_where_processors_are(void **state) {
  struct fixture *f = *state;
  f->allowed.bits[0] = 15;
  decide(f, 2, 0, 7);
  decide(f, 3, 1, 8);
  lay_out(f, 8);
  assert_int_equal(f->plan.domain[0].slots, 3);
  assert_int_equal(f->plan.domain[0].workers, 6);
  assert_int_equal(f->plan.domain[1].workers, 2);
  lay_out(f, 3);
  assert_int_equal(f->plan.domain[0].workers, 2);
  assert_int_equal(f->plan.domain[1].workers, 1);
}

static void few_workers_have_several_domains(void **state) {
  struct fixture *f = *state;
  f->allowed.bits[0] = 7;
  decide(f, 2, 0, 1);
  decide(f, 3, 1, 2);
  decide(f, 4, 2, 4);
  lay_out(f, 2);
  assert_int_equal(f->plan.domains, 2);
  assert_int_equal(f->plan.domain[0].cpus.bits[0], 1 | 4);
  assert_int_equal(f->plan.domain[0].groups, GROUP(0) | GROUP(2));
  assert_int_equal(f->plan.groups[3].domain, 0);
  lay_out(f, 1); /* one group has all CPUs: nothing to place */
  assert_int_equal(f->plan.domains, 0);
}

static void a_group_that_nobody_asks_for_loses_its_home(void **state) {
  struct fixture *f = *state;
  decide(f, 2, 0, 1);
  decide(f, 3, 1, 2);
  f->plan.groups[2].last_put_ns = 5;
  assert_int_equal(split_queue_plan_used(&f->plan, &f->allowed, QUEUE_UNUSED_NS),
                   GROUP(0) | GROUP(1));
  assert_int_equal(split_queue_plan_used(&f->plan, &f->allowed, QUEUE_UNUSED_NS + 5), GROUP(1));
}

static void a_group_without_kinds_has_no_home(void **state) {
  struct fixture *f = *state;
  decide(f, 2, 0, 1);
  decide(f, 3, 1, 2);
  decide(f, 3, 0, 1);
  assert_int_equal(split_queue_plan_used(&f->plan, &f->allowed, 0), GROUP(0));
  /* Another kind takes the place of the first. */
  split_queue_plan_kind(&f->plan, 3 + QUEUE_KINDS);
  split_queue_plan_kind(&f->plan, 2 + QUEUE_KINDS);
  assert_int_equal(split_queue_plan_used(&f->plan, &f->allowed, 0), 0);
}

static void refused_groups_wait_for_another_decision(void **state) {
  struct fixture *f = *state;
  decide(f, 2, 0, 1);
  f->plan.groups[1].refused = true;
  assert_int_equal(split_queue_plan_used(&f->plan, &f->allowed, 0), 0);
  decide(f, 2, 0, 2);
  assert_int_equal(split_queue_plan_used(&f->plan, &f->allowed, 0), GROUP(0));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(two_groups_on_two_processors_share_the_workers),
      TEST(the_same_decision_again_changes_nothing),
      TEST(groups_of_the_same_processors_share_a_domain),
      TEST(processors_of_no_group_have_workers_too),
      TEST(what_is_not_for_routing_roams),
      TEST(all_processors_or_none_of_ours_are_no_home),
      TEST(masks_are_cut_to_what_is_allowed),
      TEST(workers_go_where_processors_are),
      TEST(few_workers_have_several_domains),
      TEST(a_group_that_nobody_asks_for_loses_its_home),
      TEST(a_group_without_kinds_has_no_home),
      TEST(refused_groups_wait_for_another_decision),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
