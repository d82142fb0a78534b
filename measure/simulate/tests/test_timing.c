/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Exposed latency (sim/timing.h), on the machine of test.h without TLBs and with a core:
 *
 *   reorder window   20 instructions = 20 cycles      fill buffers   4
 *   store buffer      8 stores                        CPI            1
 *
 * A miss takes 10 (L2), 36 (L3) or 196 cycles (memory) more than a hit of L1.
 */
#include "test.h"
#include "timing.h"

#define LINE(n) ((uint64_t)(n) << HM_LINE_BITS)
#define PAGE(n) ((uint64_t)(n) << HM_PAGE_BITS)
/* Nodes are a page and a line apart: no prefetcher follows, and consecutive nodes are in
 * different sets. */
#define NODE(n) (PAGE(256 + (n)) + LINE((n) % 64))

enum { L2_MORE = 10, MEMORY_MORE = 196, WINDOW = 20, FILL_BUFFERS = 4 };

static struct hm_header *start_timed(uint32_t prefetchers) {
  struct hm_config config = small_machine();
  config.itlb = config.dtlb = config.stlb = (struct hm_tlb_config){0, 0, 0, 0};
  config.walk_latency = 0;
  config.core = (struct hm_core_config){.reorder_window = WINDOW,
                                        .fill_buffers = FILL_BUFFERS,
                                        .store_buffer = 8,
                                        .prefetchers = prefetchers,
                                        .stream_distance = 20};
  host_forget_words();
  return start(&config);
}

static void run(uint64_t instructions) { hm_sim.instructions += instructions; }

static uint64_t exposed(void) { return hm_sim.counts->exposed_cycles; }

/* Loads by one instruction from any address. */
static void load_by(uint64_t ip, uint64_t address, uint32_t size) {
  hm_data(address, HM_SITE(ip, size, HM_LOAD, 0));
}

/* The exposed rest if `between` instructions follow each of two single loads. */
static void a_lone_miss_is_hidden_by_the_window(void **state) {
  (void)state;
  struct hm_header *header = start_timed(0);
  run(100);
  load(NODE(0));
  assert_int_equal(exposed(), MEMORY_MORE - WINDOW);
  run(1000);
  load(NODE(1));
  assert_int_equal(exposed(), 2 * (MEMORY_MORE - WINDOW));
  assert_int_equal(hm_cycles(), 1100 + 2 * (MEMORY_MORE - WINDOW));
  stop(header);
}

/* Each node holds the address of the next one. */
static void a_chase_is_exposed_link_by_link(void **state) {
  (void)state;
  enum { LINKS = 500 };
  struct hm_header *header = start_timed(0);
  for (uint64_t i = 0; i < LINKS; i++) host_put_word(NODE(i), NODE(i + 1));
  for (uint64_t i = 0; i < LINKS; i++) {
    run(1);
    load_by(0x1000, NODE(i), 8);
  }
  /* LINKS latencies, minus the instructions that the core began meanwhile: one per link, and the
   * window after the last one. */
  assert_int_equal(exposed(), LINKS * MEMORY_MORE - (LINKS - 1) - WINDOW);
  assert_int_equal(hm_sim.counts->dependent, LINKS - 1);
  stop(header);
}

/* The same lines with zero contents: only as many misses are outstanding as there are fill
 * buffers. */
static void independent_misses_share_the_latency(void **state) {
  (void)state;
  enum { LOADS = 400 };
  struct hm_header *header = start_timed(0);
  for (uint64_t i = 0; i < LOADS; i++) {
    run(1);
    load_by(0x1000, NODE(i), 8);
  }
  uint64_t rounds = LOADS / FILL_BUFFERS;
  assert_in_range(exposed(), rounds * MEMORY_MORE - LOADS - WINDOW, rounds * MEMORY_MORE);
  assert_int_equal(hm_sim.counts->dependent, 0);
  stop(header);
}

/* Pairs: a bucket and the entry that it points to, as in a hash table. The entry waits for its
 * bucket, and takes a fill buffer only then. */
static void a_load_that_waits_takes_no_fill_buffer(void **state) {
  (void)state;
  enum { PAIRS = 400 };
  struct hm_header *header = start_timed(0);
  for (uint64_t i = 0; i < PAIRS; i++) host_put_word(NODE(i), NODE(1000 + i));
  for (uint64_t i = 0; i < PAIRS; i++) {
    run(1);
    load_by(0x1000, NODE(i), 8);
    load_by(0x1004, NODE(1000 + i), 8);
  }
  /* A bucket now and then: by chance their places are linear in the values read. */
  assert_in_range(hm_sim.counts->dependent, PAIRS, PAIRS + PAIRS / 20);
  uint64_t rounds = 2 * PAIRS / FILL_BUFFERS;
  assert_in_range(exposed(), rounds * MEMORY_MORE - PAIRS - WINDOW, rounds * MEMORY_MORE * 5 / 4);
  stop(header);
}

/* Ten instructions per load: the window holds two, whatever the number of fill buffers. */
static void the_window_limits_how_many_overlap(void **state) {
  (void)state;
  enum { LOADS = 400 };
  struct hm_header *header = start_timed(0);
  for (uint64_t i = 0; i < LOADS; i++) {
    run(10);
    load_by(0x1000, NODE(i), 8);
  }
  uint64_t rounds = LOADS / (WINDOW / 10);
  assert_in_range(exposed(), rounds * (MEMORY_MORE - WINDOW) - MEMORY_MORE, rounds * MEMORY_MORE);
  stop(header);
}

/* next[i] of four bytes: the address is base + 4 x the value of the previous load. */
static void an_index_is_a_dependence_once_it_is_learnt(void **state) {
  (void)state;
  enum { LOADS = 200, STEP = 1040 }; /* 65 lines: as NODE */
  struct hm_header *header = start_timed(0);
  uint64_t base = PAGE(300), index = 0;
  for (uint64_t i = 0; i < LOADS; i++) {
    uint64_t next = (index * 5 + 1) % 256; /* through all of 256 places, unordered */
    host_put_word(base + 4 * STEP * index, STEP * next);
    run(1);
    load_by(0x1000, base + 4 * STEP * index, 4);
    index = next;
  }
  /* The first pair begins, the second gives the scale, two more confirm it. */
  assert_int_equal(hm_sim.counts->dependent, LOADS - 1 - 4 + 1);
  assert_true(exposed() > (LOADS - 5) * (MEMORY_MORE - 1));
  stop(header);
}

/* The site records that the address was computed from the previous load's value. */
static void a_block_knows_its_own_dependences(void **state) {
  (void)state;
  struct hm_header *header = start_timed(0);
  run(100);
  load_by(0x1000, NODE(0), 8);
  hm_data(NODE(1), HM_SITE(0x1004, 8, HM_LOAD, 0) | HM_SITE_DEPENDS(0));
  assert_int_equal(exposed(), 2 * MEMORY_MORE - WINDOW);
  /* 15 instructions were counted in between, at an exit. */
  run(15);
  hm_data(NODE(2), HM_SITE(0x1008, 8, HM_LOAD, 0) | HM_SITE_DEPENDS(15));
  assert_int_equal(exposed(), 3 * MEMORY_MORE - WINDOW - 15);
  /* In the next iteration that load hit: nothing to wait for. */
  run(15);
  hm_data(NODE(3), HM_SITE(0x1008, 8, HM_LOAD, 0) | HM_SITE_DEPENDS(14));
  assert_int_equal(hm_sim.counts->dependent, 2);
  stop(header);
}

/* Columns of a matrix whose elements are consecutive numbers: predictable, so no load waits for
 * the previous one. */
static void what_lies_at_one_distance_is_no_dependence(void **state) {
  (void)state;
  struct hm_header *header = start_timed(0);
  for (uint64_t i = 0; i < 200; i++) {
    uint64_t cell = i / 50 * 8 + i % 50 * 4096;
    host_put_word(PAGE(300) + cell, cell);
    run(1);
    load_by(0x1000, PAGE(300) + cell, 8);
  }
  assert_true(hm_sim.counts->dependent <= 4); /* at most after a turn */
  stop(header);
}

/* Two passes over 2 KiB, twice the capacity of L1. */
static void a_short_chase_in_l2_costs_l2s_latency(void **state) {
  (void)state;
  enum { LINES = 32, ROUNDS = 50 };
  struct hm_header *header = start_timed(0);
  for (uint64_t i = 0; i < LINES; i++) host_put_word(LINE(6400 + i), LINE(6400 + (i + 1) % LINES));
  uint64_t before = 0;
  for (uint64_t round = 0; round <= ROUNDS; round++) {
    if (round == 1) before = exposed();
    for (uint64_t i = 0; i < LINES; i++) {
      run(1);
      load_by(0x1000, LINE(6400 + i), 8);
    }
  }
  assert_int_equal(events(HM_L2_MISS), LINES);
  assert_int_equal(exposed() - before, ROUNDS * LINES * (L2_MORE - 1));
  stop(header);
}

/* All prefetchers: less than a tenth of what a chase over as many lines exposes. */
static void a_stream_is_hidden(void **state) {
  (void)state;
  enum { PAGES = 20, LINES = PAGES * 64 };
  struct hm_header *header = start_timed(HM_PREFETCH_NEXT_LINE | HM_PREFETCH_STRIDE |
                                         HM_PREFETCH_STREAM | HM_PREFETCH_ADJACENT);
  for (uint64_t i = 0; i < LINES; i++) {
    run(24);
    load_by(0x1000, PAGE(300) + LINE(i), 8);
  }
  assert_int_equal(events(HM_L3_MISS), LINES); /* still misses */
  assert_true(exposed() * 10 < (uint64_t)LINES * MEMORY_MORE);
  assert_true(hm_sim.counts->prefetched > LINES * 8 / 10);
  assert_true(hm_sim.counts->prefetched + hm_sim.counts->prefetched_late <= LINES);
  stop(header);
}

/* The first three misses of a page start the stream; the fourth line was requested then. */
static void a_stream_begins_at_the_third_miss_of_a_page(void **state) {
  (void)state;
  struct hm_header *header = start_timed(HM_PREFETCH_STREAM);
  for (uint64_t i = 0; i < 3; i++) {
    run(1000);
    load(PAGE(300) + LINE(i));
  }
  assert_int_equal(exposed(), 3 * (MEMORY_MORE - WINDOW));
  for (uint64_t i = 3; i < 8; i++) {
    run(1000);
    load(PAGE(300) + LINE(i)); /* from L2 now: 10 cycles, which the window hides */
  }
  assert_int_equal(exposed(), 3 * (MEMORY_MORE - WINDOW));
  assert_int_equal(hm_sim.counts->prefetched, 5);
  stop(header);
}

/* Requested 100 cycles before its miss: these are hidden, too. */
static void a_late_prefetch_hides_a_part(void **state) {
  (void)state;
  struct hm_header *header = start_timed(HM_PREFETCH_ADJACENT);
  run(1000);
  load(NODE(0)); /* line 0 of a pair; stalls for 176 cycles */
  uint64_t before = exposed();
  run(20 + 10); /* begun 30 + 176 cycles later: in time */
  load(NODE(0) + LINE(1));
  assert_int_equal(exposed() - before, 0);
  before = exposed();
  run(1000);
  load(NODE(2));
  before = exposed();
  run(5); /* in its window: 5 cycles later */
  load(NODE(2) + LINE(1));
  /* Both lines arrive together; the window after the second ends 5 cycles later. */
  assert_int_equal(exposed() - before, 0);
  assert_int_equal(hm_sim.counts->prefetched, 1);
  assert_int_equal(hm_sim.counts->prefetched_late, 1);
  stop(header);
}

/* Every other line of a page is the first of the next pair; strides cover 2 KiB. */
static void a_stride_is_fetched_into_l1(void **state) {
  (void)state;
  struct hm_header *header = start_timed(HM_PREFETCH_STRIDE);
  for (uint64_t i = 0; i < 3; i++) { /* two equal distances */
    run(1000);
    load_by(0x1000, PAGE(300) + 512 * i, 8);
  }
  assert_int_equal(exposed(), 3 * (MEMORY_MORE - WINDOW));
  for (uint64_t i = 3; i < 8; i++) {
    run(1000);
    load_by(0x1000, PAGE(300) + 512 * i, 8);
  }
  assert_int_equal(exposed(), 3 * (MEMORY_MORE - WINDOW));
  load_by(0x1000, PAGE(301), 8); /* the next page is out of reach */
  assert_int_equal(hm_sim.counts->prefetched, 5);
  stop(header);
}

/* One store in ten instructions: eight of them make a window of 80 instructions. */
static void stores_wait_in_the_store_buffer(void **state) {
  (void)state;
  struct hm_header *header = start_timed(0);
  run(1000);
  hm_sim.stores += 100;
  store(NODE(0));
  assert_int_equal(exposed(), MEMORY_MORE - 80);
  run(9000);
  hm_sim.stores += 300; /* now one in 25: 200 instructions, more than the latency */
  store(NODE(1));
  assert_int_equal(exposed(), MEMORY_MORE - 80);
  stop(header);
}

static void a_locked_access_hides_nothing(void **state) {
  (void)state;
  struct hm_header *header = start_timed(0);
  run(100);
  hm_data(NODE(0), HM_SITE(0x1000, 8, HM_MODIFY, 1));
  assert_int_equal(exposed(), MEMORY_MORE);
  run(1);
  load(NODE(1)); /* began when it had ended */
  assert_int_equal(exposed(), MEMORY_MORE + MEMORY_MORE - WINDOW);
  stop(header);
}

static void a_fetch_stops_the_core(void **state) {
  (void)state;
  struct hm_header *header = start_timed(0);
  run(100);
  fetch(LINE(5000));
  assert_int_equal(exposed(), MEMORY_MORE);
  stop(header);
}

/* 400 independent loads, at most one line in 100 cycles. */
static void memory_has_a_bandwidth(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.itlb = config.dtlb = config.stlb = (struct hm_tlb_config){0, 0, 0, 0};
  config.walk_latency = 0;
  config.core =
      (struct hm_core_config){.reorder_window = WINDOW, .fill_buffers = 4, .line_cycles = 100};
  struct hm_header *header = start(&config);
  for (uint64_t i = 0; i < 400; i++) {
    run(1);
    load(NODE(i));
  }
  assert_in_range(hm_cycles(), 399 * 100, 401 * 100 + MEMORY_MORE);
  stop(header);
}

/* The sample has the exposed part of its own miss, and the whole latency. */
static void a_sample_has_both(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.period[HM_L1D_MISS] = 1;
  config.core = (struct hm_core_config){.reorder_window = WINDOW, .fill_buffers = 4};
  struct hm_header *header = start(&config);
  run(100);
  load(NODE(0));
  assert_int_equal(host_sample_count, 1);
  assert_int_equal(host_samples[0].access.latency, 230); /* with the page walk */
  assert_int_equal(host_samples[0].access.exposed, 226 - WINDOW);
  stop(header);
}

/* After a system call nothing is under way. */
static void leaving_the_core_empties_the_window(void **state) {
  (void)state;
  struct hm_header *header = start_timed(0);
  host_put_word(NODE(0), NODE(1));
  run(100);
  load(NODE(0));
  hm_leave_core();
  hm_enter_core();
  load(NODE(1));
  assert_int_equal(hm_sim.counts->dependent, 0);
  assert_int_equal(exposed(), 2 * (MEMORY_MORE - WINDOW));
  stop(header);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_lone_miss_is_hidden_by_the_window),
      cmocka_unit_test(a_chase_is_exposed_link_by_link),
      cmocka_unit_test(independent_misses_share_the_latency),
      cmocka_unit_test(a_load_that_waits_takes_no_fill_buffer),
      cmocka_unit_test(the_window_limits_how_many_overlap),
      cmocka_unit_test(an_index_is_a_dependence_once_it_is_learnt),
      cmocka_unit_test(a_block_knows_its_own_dependences),
      cmocka_unit_test(what_lies_at_one_distance_is_no_dependence),
      cmocka_unit_test(a_short_chase_in_l2_costs_l2s_latency),
      cmocka_unit_test(a_stream_is_hidden),
      cmocka_unit_test(a_stream_begins_at_the_third_miss_of_a_page),
      cmocka_unit_test(a_late_prefetch_hides_a_part),
      cmocka_unit_test(a_stride_is_fetched_into_l1),
      cmocka_unit_test(stores_wait_in_the_store_buffer),
      cmocka_unit_test(a_locked_access_hides_nothing),
      cmocka_unit_test(a_fetch_stops_the_core),
      cmocka_unit_test(memory_has_a_bandwidth),
      cmocka_unit_test(a_sample_has_both),
      cmocka_unit_test(leaving_the_core_empties_the_window),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
