/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Threads of one process on several cores: which, what they share, and that translations
 * leave the TLBs of all.
 */
#include "pair.h"

static void run_on(uint32_t cpu) {
  hm_run_on(cpu);
  if (!hm_sim.on_core) hm_enter_core();
}

static void begin_with_threads(const struct hm_config *config) {
  begin_with(config);
  assert_int_equal(hm_sim.cpu, 0);
}

/* Two threads: private memory of their process is shared between cores. */
static void threads_share_all_memory(void **state) {
  (void)state;
  store(PAGE(0x500)); /* before there are threads */
  assert_int_equal(hm_place_thread(), 1);
  assert_false(hm_sim.on_core);
  run_on(1);
  assert_int_equal(hm_sim.counts - header->counts, 1);
  store(PAGE(0x500)); /* takes it from the first, which never asked */
  assert_shared(0, 1);
  for (int turn = 0; turn < 10; turn++) {
    run_on(turn % 2 == 0 ? 0 : 1);
    store(PAGE(0x500));
  }
  assert_shared(10, 11);
  assert_int_equal(sample_of(HM_COHERENCE_MISS, 9)->lost_to.verdict, HM_VERDICT_TRUE);
}

static void threads_take_turns_over_the_cores(void **state) {
  (void)state;
  stop(header);
  struct hm_config config = sampled_machine(3);
  begin_with_threads(&config);
  static const uint32_t expected[] = {1, 2, 0, 1};
  for (int i = 0; i < 4; i++) assert_int_equal(hm_place_thread(), expected[i]);
  struct hm_simulator first;
  put_aside(&first);
  take_up(&other); /* at home on core 1 */
  static const uint32_t expected_of_other[] = {2, 0, 1};
  for (int i = 0; i < 3; i++) assert_int_equal(hm_place_thread(), expected_of_other[i]);
  hm_enter_core();
}

static void with_one_core_threads_stay_on_it(void **state) {
  (void)state;
  stop(header);
  struct hm_config config = sampled_machine(1);
  begin_with_threads(&config);
  for (int i = 0; i < 3; i++) assert_int_equal(hm_place_thread(), 0);
  assert_true(hm_sim.on_core); /* nothing changed */
  assert_null(hm_sim.directory);
}

/* Unmapping removes pages from the TLBs of every core on which the process has threads. */
static void unmapping_reaches_the_tlbs_of_all_cores(void **state) {
  (void)state;
  hm_place_thread();
  for (uint32_t cpu = 0; cpu < 2; cpu++) {
    run_on(cpu);
    load(PAGE(0x500));
    assert_int_equal(events(HM_DTLB_MISS), 1);
  }
  hm_leave_core();
  hm_unmapped(PAGE(0x500), 4096);
  for (uint32_t cpu = 0; cpu < 2; cpu++) {
    run_on(cpu);
    load(PAGE(0x500));
    assert_int_equal(events(HM_DTLB_MISS), 2);
    run_on(1 - cpu);
    run_on(cpu);
    load(PAGE(0x500)); /* forgotten once, not again */
    assert_int_equal(events(HM_DTLB_MISS), 2);
  }
}

/* A frame that is used again has no history. */
static void a_new_page_in_an_old_frame_is_not_shared(void **state) {
  (void)state;
  hm_place_thread();
  for (uint32_t turn = 0; turn < 4; turn++) {
    run_on(turn % 2);
    store(PAGE(0x500));
  }
  assert_shared(2, 3);
  hm_leave_core();
  hm_unmapped(PAGE(0x500), 4096);
  run_on(0);
  load(PAGE(0x500) + 32); /* the same frame: last in, first out */
  assert_shared(2, 3);
}

/* Other cores' caches may hold tags of a frame that another process had: these are not a
 * sharer's. */
static void tags_of_a_former_owner_are_nobodys(void **state) {
  (void)state;
  store(PAGE(0x500)); /* core 0, single-threaded */
  hm_leave_core();
  hm_unmapped(PAGE(0x500), 4096);
  other_core();
  hm_place_thread(); /* the other process now has threads, on 1 and 0 */
  if (!hm_sim.on_core) hm_enter_core();
  store(PAGE(0x4ff)); /* gets the frame: the colour after its own */
  assert_int_equal(sample_of(HM_L1D_MISS, 0)->physical_line,
                   sample_of(HM_L1D_MISS, 1)->physical_line);
  assert_shared(0, 0);
}

/* A file's page is copied when one thread writes it; the other's TLB had the old frame, and must
 * not use it any longer. */
static void a_copied_page_is_the_copy_on_all_cores(void **state) {
  (void)state;
  host_describe_pages(0x800, 1, HM_PAGE_FILE_PRIVATE, 5000);
  hm_place_thread();
  run_on(1);
  load(PAGE(0x800));
  run_on(0);
  store(PAGE(0x800));
  run_on(1);
  load(PAGE(0x800)); /* the copy, modified by core 0: not the page that core 1 had */
  assert_int_equal(events(HM_L1D_MISS), 2);
  assert_int_equal(sample_of(HM_L1D_MISS, 2)->modified_elsewhere, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(threads_share_all_memory),
      TEST(threads_take_turns_over_the_cores),
      TEST(with_one_core_threads_stay_on_it),
      TEST(unmapping_reaches_the_tlbs_of_all_cores),
      TEST(a_new_page_in_an_old_frame_is_not_shared),
      TEST(tags_of_a_former_owner_are_nobodys),
      TEST(a_copied_page_is_the_copy_on_all_cores),
  };
  return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
