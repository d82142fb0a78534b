/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The way of one process's accesses: events, latencies, samples.
 */
#include <string.h>

#include "test.h"

#define LINE(n) ((uint64_t)(n) << HM_LINE_BITS)
#define PAGE(n) ((uint64_t)(n) << HM_PAGE_BITS)

static void assert_events(uint64_t l1d, uint64_t l2, uint64_t l3) {
  assert_int_equal(events(HM_L1D_MISS), l1d);
  assert_int_equal(events(HM_L2_MISS), l2);
  assert_int_equal(events(HM_L3_MISS), l3);
}

static void each_level_serves_what_the_one_above_lost(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  load(LINE(0));
  assert_events(1, 1, 1);
  load(LINE(0) + 8); /* the same line */
  assert_events(1, 1, 1);
  /* Four more lines of L1 set 0 and L2 sets 4, 8, 12, 4: only L1 evicts line 0. */
  for (uint64_t i = 1; i <= 4; i++) load(LINE(4 * (i % 4 == 0 ? 5 : i)));
  assert_events(5, 5, 5);
  load(LINE(0));
  assert_events(6, 5, 5);
  /* Four lines of L2 set 0 and L3 sets 16, 32, 48, 16: L2 evicts line 0, too. */
  for (uint64_t i = 1; i <= 4; i++) load(LINE(16 * (i % 4 == 0 ? 5 : i)));
  assert_events(10, 9, 9);
  load(LINE(0));
  assert_events(11, 10, 9);
  stop(header);
}

/* Simulated time without instructions: only stalls count. */
static void loads_stall_for_the_latency_above_a_hit(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  uint64_t clock = hm_cycles();
#define ASSERT_STALL(access, cycles)                         \
  access;                                                    \
  assert_int_equal(hm_cycles() - clock, (uint64_t)(cycles)); \
  clock = hm_cycles()
  ASSERT_STALL(load(LINE(0)), 200 + 30 - 4); /* memory and a page walk */
  ASSERT_STALL(load(LINE(0)), 0);            /* L1 */
  ASSERT_STALL(load(LINE(4)), 200 - 4);      /* memory; the page is known */
  for (uint64_t i = 2; i <= 4; i++) load(LINE(4 * (i == 4 ? 5 : i)));
  clock = hm_cycles();
  ASSERT_STALL(load(LINE(0)), 14 - 4); /* L2 */
  for (uint64_t i = 1; i <= 4; i++) load(LINE(16 * (i == 4 ? 5 : i)));
  clock = hm_cycles();
  ASSERT_STALL(load(LINE(0)), 40 - 4); /* L3 */
  /* Four other pages take the DTLB's entries: the STLB hits, and L1 holds the line (they use
   * only sets 1 to 3). */
  for (uint64_t i = 11; i <= 14; i++) load(PAGE(i) + LINE(1 + i % 3));
  clock = hm_cycles();
  ASSERT_STALL(load(LINE(0)), 7);
  ASSERT_STALL(store(PAGE(50)), 0); /* stores wait in the store buffer */
  ASSERT_STALL(fetch(LINE(1000)), 200 + 30 - 4);
#undef ASSERT_STALL
  stop(header);
}

static void base_cycles_follow_instructions(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.milli_cpi = 400;
  struct hm_header *header = start(&config);
  hm_sim.instructions = 1000; /* as the generated code adds them */
  assert_int_equal(hm_cycles(), 400);
  load(0);
  assert_int_equal(hm_cycles(), 400 + 226);
  struct hm_core_counts *counts = hm_sim.counts;
  hm_leave_core();
  assert_int_equal(counts->cycles, 626);
  assert_int_equal(counts->events[HM_INSTRUCTIONS], 1000);
  assert_int_equal(header->clock_max, 626);
  drop_segment(header);
}

/* Eight bytes across a line boundary touch two lines and are one access: one event of each kind,
 * as in cachegrind. */
static void a_split_access_counts_once(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.period[HM_L1D_MISS] = 1;
  struct hm_header *header = start(&config);
  load(LINE(10) + 60);
  assert_events(1, 1, 1);
  assert_int_equal(host_sample_count, 1);
  assert_int_equal(host_samples[0].access.latency, 230);
  load(LINE(10));
  load(LINE(11));
  assert_events(1, 1, 1); /* both lines are there */
  load(LINE(11) + 60);    /* 11 hits, 12 misses */
  assert_events(2, 2, 2);
  load_sized(LINE(20), 64); /* a whole line and no more */
  assert_events(3, 3, 3);
  load(LINE(21));
  assert_events(4, 4, 4);
  load(PAGE(8) - 4); /* across a page boundary: two walks, one event */
  assert_int_equal(events(HM_DTLB_MISS), 1 + 1);
  load(PAGE(8));
  assert_int_equal(events(HM_DTLB_MISS), 2);
  stop(header);
}

static void stores_allocate_as_loads_do(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  store(LINE(0));
  assert_events(1, 1, 1);
  load(LINE(0));
  store(LINE(0));
  assert_events(1, 1, 1);
  stop(header);
}

static void code_has_an_l1_of_its_own_and_shares_the_rest(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  fetch(LINE(0));
  assert_int_equal(events(HM_L1I_MISS), 1);
  assert_int_equal(events(HM_ITLB_MISS), 1);
  assert_events(0, 1, 1);
  load(LINE(0));
  assert_events(1, 1, 1); /* L2 holds it */
  assert_int_equal(events(HM_DTLB_MISS), 1);
  assert_int_equal(events(HM_STLB_MISS), 1); /* the fetch did the walk */
  /* Five lines compete for set 0 of L1I: cold, then again. */
  for (int round = 0; round < 2; round++)
    for (uint64_t i = 0; i < 5; i++) fetch(LINE(4 * i));
  assert_int_equal(events(HM_L1I_MISS), 1 + 4 + 5);
  stop(header);
}

static void a_page_written_before_it_is_copied_moves(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  host_describe_pages(5, 1, HM_PAGE_FILE_PRIVATE, 1);
  load(PAGE(5));
  assert_events(1, 1, 1);
  store(PAGE(5)); /* another frame: its line is in no cache */
  assert_events(2, 2, 2);
  load(PAGE(5));
  store(PAGE(5) + 8);
  assert_events(2, 2, 2);
  assert_int_equal(events(HM_DTLB_MISS), 1);
  stop(header);
}

/* --- Sampling ------------------------------------------------------------------- */

static void every_third_miss_is_sampled(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.period[HM_L1D_MISS] = 3;
  struct hm_header *header = start(&config);
  for (uint64_t i = 1; i <= 10; i++) {
    load(LINE(i) + 24);
    load(LINE(i)); /* hits do not count */
  }
  assert_int_equal(host_sample_count, 3); /* the misses on lines 3, 6 and 9 */
  for (uint64_t i = 0; i < 3; i++) {
    const struct host_sample *sample = &host_samples[i];
    uint64_t address = LINE(3 * (i + 1)) + 24;
    assert_int_equal(sample->sample.event, HM_L1D_MISS);
    assert_int_equal(sample->sample.period, 3);
    assert_int_equal(sample->sample.cpu, 0);
    assert_int_equal(sample->access.address, address);
    assert_int_equal(HM_SITE_IP(sample->access.site), address);
    assert_int_equal(HM_SITE_SIZE(sample->access.site), 8);
    assert_int_equal(sample->access.level, HM_LEVEL_MEMORY);
    assert_int_equal(sample->access.set[0], 3 * (i + 1) % 4);
    assert_int_equal(sample->access.latency, 200);
    assert_int_equal(sample->access.physical_line & 63, 3 * (i + 1));
  }
  stop(header);
}

/* A sample's time includes its access. */
static void a_samples_time_includes_its_own_stall(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.period[HM_L1D_MISS] = 2;
  struct hm_header *header = start(&config);
  load(LINE(0));
  load(LINE(1));
  assert_int_equal(host_samples[0].sample.cycles, 226 + 196);
  stop(header);
}

static void one_access_may_expire_several_counters(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.period[HM_L1D_MISS] = config.period[HM_L3_MISS] = config.period[HM_DTLB_MISS] = 1;
  struct hm_header *header = start(&config);
  load(PAGE(3) + 128);
  assert_int_equal(host_sample_count, 3);
  assert_int_equal(host_samples[0].sample.event, HM_L1D_MISS);
  assert_int_equal(host_samples[1].sample.event, HM_L3_MISS);
  assert_int_equal(host_samples[2].sample.event, HM_DTLB_MISS);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(host_samples[i].access.level, HM_LEVEL_MEMORY);
    assert_int_equal(host_samples[i].access.translation, HM_TLB_WALK);
    assert_int_equal(host_samples[i].access.latency, 230);
  }
  stop(header);
}

/* Sampled loads are reported one and all, those of a hot line too. */
static void every_fifth_load_is_sampled_hit_or_miss(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.period[HM_LOADS] = 5;
  struct hm_header *header = start(&config);
  for (uint64_t i = 1; i <= 12; i++) {
    hm_data_every(LINE(9) + i, HM_SITE(i, 1, HM_LOAD, 0));
    hm_data_every(LINE(9), HM_SITE(i, 1, HM_STORE, 0)); /* stores do not count */
  }
  assert_int_equal(host_sample_count, 2);
  assert_int_equal(host_samples[0].access.address, LINE(9) + 5);
  assert_int_equal(host_samples[1].access.address, LINE(9) + 10);
  assert_int_equal(host_samples[1].access.level, HM_LEVEL_L1);
  assert_int_equal(host_samples[1].access.latency, 4);
  /* A filtered line still has its name. */
  uint32_t frame = HM_PTE_FRAME(hm_pages_touch(&hm_sim.pages, 0));
  assert_int_equal(host_samples[1].access.physical_line, frame * 64 + 9);
  stop(header);
}

/* A locked increment is a load and a store. */
static void a_modification_counts_as_both(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.period[HM_LOADS] = 2;
  config.period[HM_STORES] = 3;
  struct hm_header *header = start(&config);
  for (uint64_t i = 1; i <= 6; i++) hm_data_every(LINE(9), HM_SITE(i, 8, HM_MODIFY, 1));
  assert_int_equal(host_sample_count, 5); /* loads 2, 4, 6; stores 3, 6 */
  static const uint64_t ips[] = {2, 3, 4, 6, 6};
  for (int i = 0; i < 5; i++) {
    assert_int_equal(HM_SITE_IP(host_samples[i].access.site), ips[i]);
    assert_int_equal(HM_SITE_LOCKED(host_samples[i].access.site), 1);
  }
  stop(header);
}

static void every_seventh_instruction_is_sampled(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.period[HM_INSTRUCTIONS] = 7;
  struct hm_header *header = start(&config);
  for (uint64_t i = 1; i <= 30; i++) hm_instruction(HM_SITE(i, 1, HM_FETCH, 0));
  assert_int_equal(host_sample_count, 4);
  for (uint64_t i = 0; i < 4; i++)
    assert_int_equal(HM_SITE_IP(host_samples[i].access.site), 7 * (i + 1));
  stop(header);
}

/* One line in four is simulated: a sweep has a quarter of the misses. */
static void set_sampling_sees_one_line_in_so_many(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.set_sampling = 4;
  struct hm_header *header = start(&config);
  for (uint64_t i = 0; i < 64; i++) load(LINE(i));
  assert_events(16, 16, 16);
  load(LINE(3) + 60);        /* the second half is on line 4, which is simulated */
  assert_events(17, 16, 16); /* set 0 holds the last four of 0, 4, .. 60 */
  stop(header);
}

/* --- Branches ---------------------------------------------------------------------- */

static void a_constant_branch_is_learnt(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  uint64_t site = HM_SITE(0x4000, 0, HM_BRANCH, 0);
  for (int i = 0; i < 100; i++) hm_branch(1, site);
  uint64_t misses = events(HM_BRANCH_MISS);
  /* The 14 bits of history pass through 15 states before they are all ones; then the counter of
   * that state needs two more. */
  assert_in_range(misses, 1, 17);
  for (int i = 0; i < 100; i++) hm_branch(1, site);
  assert_int_equal(events(HM_BRANCH_MISS), misses);
  hm_branch(0, site);
  assert_int_equal(events(HM_BRANCH_MISS), misses + 1);
  hm_indirect_branch(0x1000, site);
  hm_indirect_branch(0x1000, site);
  hm_indirect_branch(0x2000, site);
  assert_int_equal(events(HM_BRANCH_MISS), misses + 3);
  stop(header);
}

/* --- Segments that cannot be used ------------------------------------------------------ */

static void assert_refused(const struct hm_config *config, const char *why) {
  struct hm_header *header = make_segment(config);
  memset(&hm_sim, 0, sizeof hm_sim);
  assert_string_equal(hm_attach(header, 1), why);
  drop_segment(header);
}

static void impossible_machines_are_refused(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.l1d.size = 0;
  assert_refused(&config, "the machine has no L1 cache");
  config = small_machine();
  config.l1d.size = 3 * 4 * 64;
  assert_refused(&config, "an L1 cache's sets are no power of two up to 1024");
  config = small_machine();
  config.l2.ways = 33;
  assert_refused(&config, "a cache has 0 or more than 32 ways");
  config = small_machine();
  config.l3.size = 1000;
  assert_refused(&config, "a cache's size is not a multiple of ways x 64 bytes");
  config = small_machine();
  config.stlb.ways = 3;
  assert_refused(&config, "a TLB's entries are no multiple of its ways");
  config = small_machine();
  config.cores = 65;
  assert_refused(&config, "it has 0 or more than 64 cores");
  config = small_machine();
  config.set_sampling = 3;
  assert_refused(&config, "set sampling is not a power of two up to 64");
}

static void foreign_segments_are_refused(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = make_segment(&config);
  memset(&hm_sim, 0, sizeof hm_sim);
  header->magic[7] = 'X';
  assert_string_equal(hm_attach(header, 1), "it is not a softpmu segment");
  header->magic[7] = 'M';
  header->version++;
  assert_string_equal(hm_attach(header, 1), "it was made by another version of hardmeter");
  header->version--;
  header->segment_size = HM_RING_OFFSET + header->ring_size + 4096;
  assert_string_equal(hm_attach(header, 1), "the machine does not fit into it");
  drop_segment(header);
}

/* The code line is fetched first, by its own instruction; then the access. */
static void one_guard_reports_a_line_and_an_access(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.period[HM_L1I_MISS] = config.period[HM_L1D_MISS] = 1;
  struct hm_header *header = start(&config);
  /* An instruction of ten bytes begins at the end of line 10 and ends on line 11; five bytes
   * later another one loads. */
  uint64_t needs_line = LINE(11) - 5, loads = LINE(11) + 5, data = LINE(1000) + 8;
  uint64_t site = HM_SITE(loads, 8, HM_LOAD, 0) | HM_SITE_LINE(loads, needs_line, LINE(11));
  hm_fetch_and_data(data, site);
  assert_int_equal(host_sample_count, 2);
  assert_int_equal(host_samples[0].sample.event, HM_L1I_MISS);
  assert_int_equal(host_samples[0].access.address, LINE(11));
  assert_int_equal(HM_SITE_IP(host_samples[0].access.site), needs_line);
  assert_int_equal(host_samples[1].sample.event, HM_L1D_MISS);
  assert_int_equal(host_samples[1].access.address, data);
  assert_int_equal(HM_SITE_IP(host_samples[1].access.site), loads);
  assert_int_equal(HM_SITE_SIZE(host_samples[1].access.site), 8);
  assert_int_equal(HM_SITE_KIND(host_samples[1].access.site), HM_LOAD);
  load(data);
  fetch(LINE(11));
  hm_fetch_and_data(data, site); /* both are there */
  assert_int_equal(host_sample_count, 2);
  stop(header);
}

/* Two pages share a place among the known ones, and two of their lines a slot of the filter:
 * they alternate, and hit. */
static void pages_and_lines_that_share_places_hit(void **state) {
  (void)state;
  struct hm_config config = small_machine(); /* L1D: 4 sets of 4, DTLB: 4 entries */
  struct hm_header *header = start(&config);
  for (int round = 0; round < 10; round++)
    for (uint64_t i = 0; i < 3; i++) load(PAGE(4096 * i));
  assert_int_equal(events(HM_L1D_MISS), 3);
  assert_int_equal(events(HM_DTLB_MISS), 3);
  stop(header);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_level_serves_what_the_one_above_lost),
      cmocka_unit_test(loads_stall_for_the_latency_above_a_hit),
      cmocka_unit_test(base_cycles_follow_instructions),
      cmocka_unit_test(a_split_access_counts_once),
      cmocka_unit_test(stores_allocate_as_loads_do),
      cmocka_unit_test(code_has_an_l1_of_its_own_and_shares_the_rest),
      cmocka_unit_test(a_page_written_before_it_is_copied_moves),
      cmocka_unit_test(one_guard_reports_a_line_and_an_access),
      cmocka_unit_test(pages_and_lines_that_share_places_hit),
      cmocka_unit_test(every_third_miss_is_sampled),
      cmocka_unit_test(a_samples_time_includes_its_own_stall),
      cmocka_unit_test(one_access_may_expire_several_counters),
      cmocka_unit_test(every_fifth_load_is_sampled_hit_or_miss),
      cmocka_unit_test(a_modification_counts_as_both),
      cmocka_unit_test(every_seventh_instruction_is_sampled),
      cmocka_unit_test(set_sampling_sees_one_line_in_so_many),
      cmocka_unit_test(a_constant_branch_is_learnt),
      cmocka_unit_test(impossible_machines_are_refused),
      cmocka_unit_test(foreign_segments_are_refused),
  };
  return cmocka_run_group_tests_name("hierarchy", tests, NULL, NULL);
}
