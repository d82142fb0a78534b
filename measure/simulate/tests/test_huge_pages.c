/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Page walks that huge pages would leave.  The small machine: DTLB of 4 entries, STLB of
 * 4 sets x 4 ways, and so are its copies; a huge page is 512 pages.
 */
#include "test.h"

#define PAGE(n) ((uint64_t)(n) << HM_PAGE_BITS)
#define HUGE(n) PAGE((uint64_t)(n)*512)

static struct hm_header *start_with_huge_pages(uint32_t flags) {
  struct hm_config config = small_machine();
  config.flags = HM_FLAG_HUGE_PAGES | flags;
  return start(&config);
}

/* `rounds` over `pages` from `first` on, a line of another set in each. */
static void walk_over(uint64_t first, uint64_t stride, uint64_t pages, int rounds) {
  for (int round = 0; round < rounds; round++)
    for (uint64_t i = 0; i < pages; i++) load(first + PAGE(i * stride) + 64 * (i % 64));
}

static void assert_walks(uint64_t now, uint64_t shared_huge, uint64_t all_huge) {
  assert_int_equal(events(HM_STLB_MISS), now);
  assert_int_equal(hm_sim.counts->walks_shared_huge, shared_huge);
  assert_int_equal(hm_sim.counts->walks_all_huge, all_huge);
}

/* 32 pages, twice the STLB's capacity, cyclic: each access walks. They are on one huge page: one
 * walk. */
static void pages_that_share_a_huge_page_walk_once(void **state) {
  (void)state;
  struct hm_header *header = start_with_huge_pages(0);
  walk_over(HUGE(3), 1, 32, 10);
  assert_walks(320, 320, 1); /* none of it is shared memory */
  stop(header);
}

/* A page in each of 16 huge pages fits the copy; with 17, one of the four sets has five, which
 * always walk. The small pages, 512 apart, are all in set 0. */
static void more_huge_pages_than_entries_walk(void **state) {
  (void)state;
  struct hm_header *header = start_with_huge_pages(0);
  walk_over(HUGE(4), 512, 16, 10);
  assert_walks(160, 160, 16);
  walk_over(HUGE(400), 512, 17, 10);
  assert_walks(160 + 170, 160 + 170, 16 + 12 + 50);
  stop(header);
}

/* 32 shared pages and 32 private ones, on huge pages of their own. */
static void shared_memory_alone_may_be_huge(void **state) {
  (void)state;
  struct hm_header *header = start_with_huge_pages(0);
  host_describe_pages(512 * 8, 32, HM_PAGE_SHARED, 1000);
  walk_over(HUGE(8), 1, 32, 5);
  assert_walks(160, 1, 1);
  walk_over(HUGE(20), 1, 32, 5);
  assert_walks(320, 1 + 160, 2);
  stop(header);
}

/* Unmapping removes the translation from the copies, too. */
static void unmapping_forgets_huge_translations(void **state) {
  (void)state;
  struct hm_header *header = start_with_huge_pages(0);
  walk_over(HUGE(3), 1, 2, 1);
  assert_walks(2, 2, 1);
  hm_leave_core();
  hm_unmapped(HUGE(3), 4096);
  hm_enter_core();
  walk_over(HUGE(3), 1, 2, 1);
  assert_walks(3, 3, 2); /* the second page is still known */
  stop(header);
}

/* Without a second level, the copy is as large as the DTLB. */
static void a_machine_without_a_second_level(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.flags = HM_FLAG_HUGE_PAGES;
  config.stlb = (struct hm_tlb_config){0, 0, 0, 0};
  struct hm_header *header = start(&config);
  walk_over(HUGE(3), 512, 4, 3); /* all fit */
  assert_int_equal(hm_sim.counts->walks_all_huge, 4);
  walk_over(HUGE(40), 512, 5, 3); /* cyclic and one too many */
  assert_int_equal(hm_sim.counts->walks_all_huge, 4 + 15);
  assert_int_equal(events(HM_DTLB_MISS), 4 + 15);
  stop(header);
}

static void without_the_flag_nothing_is_counted(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  walk_over(HUGE(3), 1, 32, 2);
  assert_walks(64, 0, 0);
  stop(header);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_that_share_a_huge_page_walk_once),
      cmocka_unit_test(more_huge_pages_than_entries_walk),
      cmocka_unit_test(shared_memory_alone_may_be_huge),
      cmocka_unit_test(unmapping_forgets_huge_translations),
      cmocka_unit_test(a_machine_without_a_second_level),
      cmocka_unit_test(without_the_flag_nothing_is_counted),
  };
  return cmocka_run_group_tests_name("huge pages", tests, NULL, NULL);
}
