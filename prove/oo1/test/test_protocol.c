/* Plans, counted by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "protocol.h"

static oo1_plan made(const char *protocol, oo1_sizes sizes) {
  oo1_plan plan;
  assert_true(oo1_plan_make(protocol, &sizes, &plan));
  return plan;
}

static void assert_step(const oo1_step *step, int phase, uint32_t pattern, uint32_t repeats,
                        bool fresh) {
  assert_int_equal(step->phase, phase);
  assert_int_equal(step->pattern, pattern);
  assert_int_equal(step->repeats, repeats);
  assert_int_equal(step->fresh, fresh);
}

static void texas_is_one_cold_34_warm_10_hot(void **state) {
  (void)state;
  oo1_plan plan = made("texas", (oo1_sizes){0});
  assert_int_equal(plan.count, 45);
  assert_int_equal(plan.patterns, 35);
  assert_step(&plan.steps[0], 0, 0, 1, true);
  for (uint32_t i = 1; i <= 34; i++) assert_step(&plan.steps[i], 1, i, 1, true);
  for (uint32_t i = 35; i < 45; i++) assert_step(&plan.steps[i], 2, 34, 1, false);
  oo1_plan_free(&plan);
}

static void figure_2_repeats_each_at_once_and_figure_3_afterwards(void **state) {
  (void)state;
  oo1_plan plan = made("figure2", (oo1_sizes){.units = 3});
  assert_int_equal(plan.count, 6);
  for (uint32_t i = 0; i < 3; i++) {
    assert_step(&plan.steps[2 * i], 0, i, 1, true);
    assert_step(&plan.steps[2 * i + 1], 1, i, 10, false);
  }
  oo1_plan_free(&plan);
  plan = made("figure3", (oo1_sizes){.units = 3});
  assert_int_equal(plan.count, 9);
  for (uint32_t i = 0; i < 3; i++) {
    assert_step(&plan.steps[i], 0, i, 1, true);
    assert_step(&plan.steps[3 + i], 1, i, 10, false);
    assert_step(&plan.steps[6 + i], 2, 0, 10, false);
  }
  oo1_plan_free(&plan);
}

static void hot_does_each_once_before(void **state) {
  (void)state;
  oo1_plan plan = made("hot", (oo1_sizes){.units = 2, .rounds = 2});
  assert_int_equal(plan.count, 6);
  assert_step(&plan.steps[0], OO1_UNTIMED, 0, 1, true);
  assert_step(&plan.steps[1], OO1_UNTIMED, 1, 1, true);
  for (uint32_t i = 2; i < 6; i++) assert_step(&plan.steps[i], 0, i % 2, 1, false);
  oo1_plan_free(&plan);
}

/* 0.9 of 6,000, 5,400, sd 23; the rest and the 60 first ones are new. */
static void hot_set_takes_nine_of_ten_from_the_set(void **state) {
  (void)state;
  oo1_plan plan = made("hot-set", (oo1_sizes){.units = 6000, .seed = 5});
  assert_int_equal(plan.count, 6000);
  assert_in_range(plan.patterns, 600 + 60 - 5 * 23, 600 + 60 + 5 * 23);
  oo1_plan again = made("hot-set", (oo1_sizes){.units = 6000, .seed = 5});
  for (size_t i = 0; i < plan.count; i++)
    assert_int_equal(plan.steps[i].pattern, again.steps[i].pattern);
  oo1_plan_free(&plan);
  oo1_plan_free(&again);
}

static void others_are_not_known(void **state) {
  (void)state;
  oo1_plan plan;
  assert_false(oo1_plan_make("figure4", &(oo1_sizes){0}, &plan));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texas_is_one_cold_34_warm_10_hot),
      cmocka_unit_test(figure_2_repeats_each_at_once_and_figure_3_afterwards),
      cmocka_unit_test(hot_does_each_once_before),
      cmocka_unit_test(hot_set_takes_nine_of_ten_from_the_set),
      cmocka_unit_test(others_are_not_known),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
