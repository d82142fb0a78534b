/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * When a line moves between cores whose clocks advance together (turns.h). A transfer takes 90 cycles: the
 * request 30, the line 60. A store costs nothing else here, so that a test sets the clocks.
 */
#include "pair.h"

extern uint32_t host_turns_ended;

static void advance(uint64_t cycles) { hm_sim.stall_cycles += cycles; }

static uint64_t latency_of(enum hm_event event, uint32_t number) {
  return sample_of(event, number)->latency;
}

UNUSED static int set_up_turns(void **state) {
  (void)state;
  struct hm_config config = sampled_machine(2);
  config.flags |= HM_FLAG_INTERLEAVE;
  config.transfer_latency = 90;
  begin_with(&config);
  host_turns_ended = 0;
  /* Core 0 has the line; core 1 asks for it at cycle 0 of its clock, and it leaves core 0 at 30. */
  store(SHARED + LINE(1)); /* both cores know the page */
  store(SHARED);
  other_core();
  store(SHARED + LINE(2));
  store(SHARED);
  assert_shared(0, 1);
  assert_int_equal(latency_of(HM_INVALIDATION, 0), 90);
  other_core();
  return 0;
}

static void a_core_uses_its_line_until_it_leaves(void **state) {
  (void)state;
  advance(29);
  store(SHARED + 8);
  assert_shared(0, 1);
  advance(1);
  store(SHARED + 8);
  assert_shared(1, 2);
}

/* It arrives at core 1 at 90 and is used there for 30 cycles: core 0, which asks at 40, has it at 180. */
static void a_request_waits_for_the_one_before(void **state) {
  (void)state;
  advance(40);
  store(SHARED + 8);
  assert_int_equal(latency_of(HM_COHERENCE_MISS, 0), 140);
  other_core();
  advance(119);
  store(SHARED);
  assert_shared(1, 2);
  advance(1);
  store(SHARED); /* at 120: on its way to core 0, which has it from 180 to 210 */
  assert_shared(2, 3);
  assert_int_equal(latency_of(HM_COHERENCE_MISS, 1), 150);
}

static void a_line_does_not_leave_before_its_latest_use(void **state) {
  (void)state;
  other_core();
  advance(200);
  store(SHARED); /* core 1 is ahead */
  other_core();
  advance(100);
  store(SHARED);
  assert_int_equal(latency_of(HM_COHERENCE_MISS, 0), 160); /* 200 + 60 - 100 */
}

static void what_another_core_wrote_is_not_read_from_an_old_copy(void **state) {
  (void)state;
  load(SHARED + 8);
  assert_shared(0, 1);
  load(SHARED); /* the word that core 1 wrote */
  assert_shared(1, 1);
}

static void nor_after_a_wait_in_the_kernel(void **state) {
  (void)state;
  hm_sim.woken[hm_sim.cpu] = 1; /* it knows what was before */
  store(SHARED + 8);
  assert_shared(1, 2);
}

static void clocks_far_apart_are_not_compared(void **state) {
  (void)state;
  advance(1000000);
  store(SHARED);
  assert_int_equal(latency_of(HM_COHERENCE_MISS, 0), 90);
}

static void a_thread_that_is_ahead_ends_its_turn_at_a_contended_line(void **state) {
  (void)state;
  store(SHARED);
  assert_int_equal(host_turns_ended, 0); /* no other thread waits */
  hm_sim.slowest_waiting = 0;
  advance(20);
  store(SHARED);
  assert_int_equal(host_turns_ended, 0); /* two thirds of a transfer are 60 cycles */
  advance(41);
  store(SHARED);
  assert_int_equal(host_turns_ended, 1);
  store(PAGE(0x500)); /* no other core uses it */
  assert_int_equal(host_turns_ended, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_core_uses_its_line_until_it_leaves, set_up_turns,
                                      tear_down),
      cmocka_unit_test_setup_teardown(a_request_waits_for_the_one_before, set_up_turns, tear_down),
      cmocka_unit_test_setup_teardown(a_line_does_not_leave_before_its_latest_use, set_up_turns,
                                      tear_down),
      cmocka_unit_test_setup_teardown(what_another_core_wrote_is_not_read_from_an_old_copy,
                                      set_up_turns, tear_down),
      cmocka_unit_test_setup_teardown(nor_after_a_wait_in_the_kernel, set_up_turns, tear_down),
      cmocka_unit_test_setup_teardown(clocks_far_apart_are_not_compared, set_up_turns, tear_down),
      cmocka_unit_test_setup_teardown(a_thread_that_is_ahead_ends_its_turn_at_a_contended_line,
                                      set_up_turns, tear_down),
  };
  return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
