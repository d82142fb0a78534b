/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * One TLB, and how the two levels and the page walk work together.
 */
#include <stdlib.h>

#include "test.h"

#define PAGE(n) ((uint64_t)(n) << HM_PAGE_BITS)

static struct hm_tlb make_tlb(uint32_t entries, uint32_t ways) {
  struct hm_tlb_config config = {entries, ways, 7, 0};
  struct hm_tlb tlb;
  hm_tlb_view(&tlb, &config, calloc(entries, sizeof(uint64_t)), calloc(entries, sizeof(uint32_t)));
  return tlb;
}

static void free_tlb(struct hm_tlb *tlb) {
  free(tlb->keys);
  free(tlb->entries);
}

static int holds(const struct hm_tlb *tlb, uint64_t page) {
  uint32_t entry;
  return hm_tlb_lookup(tlb, hm_tlb_set(tlb, page), page, &entry);
}

static void the_set_is_the_page_modulo_the_sets(void **state) {
  (void)state;
  struct hm_tlb tlb = make_tlb(64, 4); /* 16 sets */
  assert_int_equal(hm_tlb_set(&tlb, 0x123), 3);
  free_tlb(&tlb);
  tlb = make_tlb(64, 64); /* fully associative */
  assert_int_equal(hm_tlb_set(&tlb, 0x123), 0);
  free_tlb(&tlb);
  tlb = make_tlb(1280, 5); /* Neoverse N1: 256 sets */
  assert_int_equal(hm_tlb_set(&tlb, 0x1234), 0x34);
  free_tlb(&tlb);
  tlb = make_tlb(96, 8); /* 12 sets */
  assert_int_equal(hm_tlb_set(&tlb, 25), 1);
  free_tlb(&tlb);
}

static void lookups_reorder_and_fills_evict_the_oldest(void **state) {
  (void)state;
  struct hm_tlb tlb = make_tlb(2, 2);
  uint32_t entry = 0;
  assert_false(holds(&tlb, 10));
  hm_tlb_fill(&tlb, 0, 10, 1010);
  hm_tlb_fill(&tlb, 0, 11, 1011);
  assert_true(hm_tlb_lookup(&tlb, 0, 10, &entry)); /* 10 is now the younger one */
  assert_int_equal(entry, 1010);
  hm_tlb_fill(&tlb, 0, 12, 1012);
  assert_false(hm_tlb_lookup(&tlb, 0, 11, &entry));
  assert_true(hm_tlb_lookup(&tlb, 0, 10, &entry));
  assert_int_equal(entry, 1010); /* entries moved with their keys */
  assert_true(hm_tlb_lookup(&tlb, 0, 12, &entry));
  assert_int_equal(entry, 1012);
  free_tlb(&tlb);
}

static void a_page_or_a_whole_space_is_forgotten(void **state) {
  (void)state;
  struct hm_tlb tlb = make_tlb(8, 8);
  uint64_t one = 1ull << HM_TLB_SPACE_SHIFT, two = 2ull << HM_TLB_SPACE_SHIFT;
  uint32_t entry;
  hm_tlb_fill(&tlb, 0, one | 5, 1);
  hm_tlb_fill(&tlb, 0, one | 6, 2);
  hm_tlb_fill(&tlb, 0, two | 5, 3);
  hm_tlb_forget(&tlb, one | 5, 0);
  assert_false(hm_tlb_lookup(&tlb, 0, one | 5, &entry));
  assert_true(hm_tlb_lookup(&tlb, 0, one | 6, &entry));
  assert_true(hm_tlb_lookup(&tlb, 0, two | 5, &entry));
  hm_tlb_forget(&tlb, one | 999, 1);
  assert_false(hm_tlb_lookup(&tlb, 0, one | 6, &entry));
  assert_true(hm_tlb_lookup(&tlb, 0, two | 5, &entry));
  free_tlb(&tlb);
}

/* DTLB 4 entries, STLB 16: sweeps over 4, 5, 16 and 17 pages, one word in each. */
static void sweep(uint64_t pages, uint64_t rounds, uint64_t *dtlb, uint64_t *stlb) {
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  /* Lines of different sets, so that caches do not affect what the TLBs see. */
  for (uint64_t i = 0; i < pages; i++) load(PAGE(100 + i) + 64 * (i % 64));
  uint64_t dtlb_before = events(HM_DTLB_MISS), stlb_before = events(HM_STLB_MISS);
  assert_int_equal(dtlb_before, pages);
  assert_int_equal(stlb_before, pages);
  for (uint64_t round = 0; round < rounds; round++)
    for (uint64_t i = 0; i < pages; i++) load(PAGE(100 + i) + 64 * (i % 64));
  *dtlb = events(HM_DTLB_MISS) - dtlb_before;
  *stlb = events(HM_STLB_MISS) - stlb_before;
  stop(header);
}

static void sweeps_miss_where_the_pages_no_longer_fit(void **state) {
  (void)state;
  uint64_t dtlb, stlb;
  sweep(4, 10, &dtlb, &stlb); /* as many pages as the DTLB has entries */
  assert_int_equal(dtlb, 0);
  assert_int_equal(stlb, 0);
  sweep(5, 10, &dtlb, &stlb); /* cyclic and one too many: LRU always misses */
  assert_int_equal(dtlb, 50);
  assert_int_equal(stlb, 0);
  sweep(16, 10, &dtlb, &stlb);
  assert_int_equal(dtlb, 160);
  assert_int_equal(stlb, 0);
  /* 17 pages in 4 sets of 4: only the set of pages 100, 104, .. 116 overflows, by one; its five
   * pages always miss, the twelve others never. */
  sweep(17, 10, &dtlb, &stlb);
  assert_int_equal(dtlb, 170);
  assert_int_equal(stlb, 50);
}

/* The filter hides a hot line from the TLB. Its page must not age. */
static void a_page_in_constant_use_stays(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.dtlb = (struct hm_tlb_config){64, 64, 0, 0};
  struct hm_header *header = start(&config);
  uint64_t hot = PAGE(7);
  load(hot);
  /* 4096 other pages: only the hot line uses set 0, so that it stays first. */
  for (uint64_t i = 0; i < 4096; i++) {
    load(PAGE(1000 + i) + 64);
    load(hot);
  }
  /* When a page must be evicted, all were seen since: CLOCK then takes the one inserted first. */
  assert_int_equal(events(HM_DTLB_MISS), 4097 + 1);
  stop(header);
}

/* The same with pages that compete for a set: 16 sets of 4, and all pages in one. */
static void a_page_in_constant_use_stays_in_its_set(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.dtlb = (struct hm_tlb_config){64, 4, 0, 0};
  config.stlb = (struct hm_tlb_config){1536, 12, 7, 0};
  struct hm_header *header = start(&config);
  uint64_t hot = PAGE(16);
  load(hot);
  for (uint64_t i = 0; i < 4096; i++) {
    load(PAGE(1600 + 16 * i) + 64);
    load(hot);
  }
  assert_int_equal(events(HM_DTLB_MISS), 4097);
  stop(header);
}

/* Levels that are left out of the machine. */
static void a_machine_may_lack_any_tlb(void **state) {
  (void)state;
  for (int left_out = 0; left_out < 8; left_out++) {
    struct hm_config config = small_machine();
    struct hm_tlb_config none = {0, 0, 0, 0};
    if (left_out & 1) config.dtlb = none;
    if (left_out & 2) config.stlb = none;
    if (left_out & 4) config.itlb = none;
    struct hm_header *header = start(&config);
    for (uint64_t round = 0; round < 2; round++) {
      for (uint64_t i = 0; i < 8; i++) load(PAGE(100 + i) + 64 * i);
      for (uint64_t i = 0; i < 8; i++) fetch(PAGE(200 + i) + 64 * i);
    }
    /* 8 pages in 4 entries: every access misses the first level, if there is one. */
    assert_int_equal(events(HM_DTLB_MISS), left_out & 1 ? 0 : 16);
    assert_int_equal(events(HM_ITLB_MISS), left_out & 4 ? 0 : 16);
    assert_int_equal(events(HM_STLB_MISS), left_out & 2 ? 0 : 16); /* 16 pages in 16 entries */
    stop(header);
  }
}

/* Unmapped pages are forgotten when the process next takes its core. */
static void unmapping_forgets_translations(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  load(PAGE(100));
  load(PAGE(101));
  hm_leave_core();
  hm_unmapped(PAGE(100), PAGE(1));
  hm_enter_core();
  load(PAGE(101));
  assert_int_equal(events(HM_DTLB_MISS), 2);
  load(PAGE(100));
  assert_int_equal(events(HM_DTLB_MISS), 3);
  hm_leave_core();
  hm_unmapped(PAGE(5000), PAGE(1000)); /* many pages: the whole space is flushed */
  hm_enter_core();
  load(PAGE(101));
  assert_int_equal(events(HM_DTLB_MISS), 4);
  stop(header);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_set_is_the_page_modulo_the_sets),
      cmocka_unit_test(lookups_reorder_and_fills_evict_the_oldest),
      cmocka_unit_test(a_page_or_a_whole_space_is_forgotten),
      cmocka_unit_test(sweeps_miss_where_the_pages_no_longer_fit),
      cmocka_unit_test(a_page_in_constant_use_stays),
      cmocka_unit_test(a_page_in_constant_use_stays_in_its_set),
      cmocka_unit_test(a_machine_may_lack_any_tlb),
      cmocka_unit_test(unmapping_forgets_translations),
  };
  return cmocka_run_group_tests_name("tlb", tests, NULL, NULL);
}
