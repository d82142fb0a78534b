/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Why a miss happened: cold, capacity, conflict (Hill 1987), on sequences that
 * are classified by hand, and on random ones against an exact reference.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define LINE(n) ((uint64_t)(n) << HM_LINE_BITS)

struct causes {
  uint64_t of[4]; /* by enum hm_cause */
};

#define NEVER (1ull << 60)

/* The machine with every L1D miss sampled, so that each has its cause; causes of other levels
 * are tracked only if they are sampled, too. */
static struct hm_header *start_with_causes_of_one_line_in(uint32_t set_sampling) {
  struct hm_config config = small_machine();
  config.set_sampling = set_sampling;
  config.flags = HM_FLAG_CAUSES;
  config.period[HM_L1D_MISS] = 1;
  config.period[HM_L1I_MISS] = config.period[HM_L2_MISS] = config.period[HM_L3_MISS] = NEVER;
  return start(&config);
}

static struct hm_header *start_with_causes(void) { return start_with_causes_of_one_line_in(1); }

/* Causes of the misses since the last call, at level 0 (L1), 1 or 2. */
static struct causes take_causes(int level) {
  struct causes causes = {{0, 0, 0, 0}};
  for (uint32_t i = 0; i < host_sample_count; i++) causes.of[host_samples[i].access.cause[level]]++;
  host_sample_count = 0;
  return causes;
}

static void assert_causes(int level, uint64_t cold, uint64_t capacity, uint64_t conflict) {
  struct causes causes = take_causes(level);
  assert_int_equal(causes.of[HM_CAUSE_COLD], cold);
  assert_int_equal(causes.of[HM_CAUSE_CAPACITY], capacity);
  assert_int_equal(causes.of[HM_CAUSE_CONFLICT], conflict);
}

/* Five lines, four ways, one set: 16 lines would fit, so the misses are conflicts. */
static void thrashing_one_set_is_conflict(void **state) {
  (void)state;
  struct hm_header *header = start_with_causes();
  for (int round = 0; round < 4; round++)
    for (uint64_t i = 0; i < 5; i++) load(LINE(4 * i)); /* all of set 0 */
  assert_int_equal(events(HM_L1D_MISS), 20);
  assert_causes(0, 5, 0, 15);
  stop(header);
}

/* One way fewer, and nothing but the first touches misses. */
static void as_many_lines_as_ways_do_not_miss(void **state) {
  (void)state;
  struct hm_header *header = start_with_causes();
  for (int round = 0; round < 4; round++)
    for (uint64_t i = 0; i < 4; i++) load(LINE(4 * i));
  assert_causes(0, 4, 0, 0);
  stop(header);
}

/* 20 lines in a cache of 16, evenly over its sets: full associativity would not help. */
static void sweeping_more_than_the_cache_is_capacity(void **state) {
  (void)state;
  struct hm_header *header = start_with_causes();
  for (int round = 0; round < 5; round++)
    for (uint64_t i = 0; i < 20; i++) load(LINE(i));
  assert_int_equal(events(HM_L1D_MISS), 100);
  assert_causes(0, 20, 80, 0);
  stop(header);
}

/* The same with every other line simulated: 10 lines in the 8 places of sets 0 and 2. */
static void set_sampling_leaves_causes_as_they_are(void **state) {
  (void)state;
  struct hm_header *header = start_with_causes_of_one_line_in(2);
  for (int round = 0; round < 5; round++)
    for (uint64_t i = 0; i < 20; i++) load(LINE(i));
  assert_int_equal(events(HM_L1D_MISS), 50);
  assert_causes(0, 10, 40, 0);
  stop(header);
}

/* Set 0 gets five lines, the others few: 5 + 3 < 16 lines, so all are conflicts, and only in set
 * 0. */
static void a_sample_names_the_set_that_missed(void **state) {
  (void)state;
  struct hm_header *header = start_with_causes();
  for (int round = 0; round < 3; round++) {
    for (uint64_t i = 0; i < 5; i++) load(LINE(2 + 4 * i)); /* set 2 */
    load(LINE(1));
    load(LINE(3));
  }
  for (uint32_t i = 7; i < host_sample_count; i++) { /* after the 7 cold ones */
    assert_int_equal(host_samples[i].access.set[0], 2);
    assert_int_equal(host_samples[i].access.cause[0], HM_CAUSE_CONFLICT);
  }
  assert_causes(0, 7, 0, 10);
  stop(header);
}

/* 20 lines overflow L1 (16) but not L2 (64): below L1 all is cold, once. */
static void each_level_has_a_cause_of_its_own(void **state) {
  (void)state;
  struct hm_header *header = start_with_causes();
  for (uint64_t i = 0; i < 20; i++) load(LINE(i));
  assert_causes(1, 20, 0, 0);
  for (uint64_t i = 0; i < 20; i++) load(LINE(i));
  assert_int_equal(events(HM_L2_MISS), 20);
  assert_causes(1, 0, 0, 0); /* unknown: L2 did not miss */
  /* Five lines at a distance of 16 share set 0 of L1 and set 0 of L2, and would fit both: each
   * access is a conflict miss in both, and hits L3. */
  host_sample_count = 0;
  for (int round = 0; round < 2; round++)
    for (uint64_t i = 0; i < 5; i++) load(LINE(1024 + 16 * i));
  assert_causes(0, 5, 0, 5);
  for (int round = 0; round < 2; round++)
    for (uint64_t i = 0; i < 5; i++) load(LINE(1024 + 16 * i));
  assert_causes(1, 0, 0, 10);
  stop(header);
}

/* A line that code fetched is new to the data cache but not to the core. */
static void cold_is_told_apart_by_level(void **state) {
  (void)state;
  struct hm_header *header = start_with_causes();
  fetch(LINE(0));
  for (uint64_t i = 1; i <= 4; i++) fetch(LINE(16 * i)); /* evicts it from L1I and L2 */
  load(LINE(0));
  assert_int_equal(host_sample_count, 1);
  assert_int_equal(host_samples[0].access.cause[0], HM_CAUSE_COLD);
  assert_int_equal(host_samples[0].access.cause[1], HM_CAUSE_CONFLICT);
  stop(header);
}

/* --- Against an exact reference ------------------------------------------------ */

#define MAX_LINES 512

/* Fully associative LRU, updated by every access, hits included. */
struct exact {
  uint64_t line[MAX_LINES];
  uint32_t used, capacity;
};

static int exact_access(struct exact *exact, uint64_t line) {
  uint32_t at = 0;
  while (at < exact->used && exact->line[at] != line) at++;
  int held = at < exact->used;
  if (!held && exact->used < exact->capacity) exact->used++;
  if (!held && at == exact->capacity) at--;
  memmove(&exact->line[1], &exact->line[0], at * sizeof exact->line[0]);
  exact->line[0] = line;
  return held;
}

/* A stream of loads: `hot` percent of them to eight lines that are always in L1, the others
 * evenly over `lines`, or skewed towards small numbers (square), as accesses of programs are. */
struct stream {
  uint32_t ways; /* of the L1, 64 sets */
  uint32_t lines, hot, skewed;
};

/* Share of wrongly classified misses, in 1/10000. */
static uint64_t misclassified(const struct stream *stream, uint32_t flags) {
  struct hm_config config = small_machine();
  config.l1d = (struct hm_cache_config){64 * stream->ways * HM_LINE_SIZE, stream->ways, 4, 0};
  config.l2 = config.l3 = (struct hm_cache_config){0, 0, 0, 0};
  config.flags = HM_FLAG_CAUSES | flags;
  config.period[HM_L1D_MISS] = 1;
  struct hm_header *header = start(&config);
  static struct exact exact;
  memset(&exact, 0, sizeof exact);
  exact.capacity = 64 * stream->ways;
  static uint8_t seen[65536];
  memset(seen, 0, sizeof seen);
  uint64_t random = 7, wrong = 0, misses = 0;
  for (int i = 0; i < 60000; i++) {
    uint64_t draw = next_random(&random), high = draw >> 20, line = high % stream->lines;
    if (stream->skewed) line = line * (high / stream->lines % stream->lines) / stream->lines;
    if (draw % 100 < stream->hot) line = 60000 + high % 8;
    host_sample_count = 0;
    load(LINE(line));
    int held = exact_access(&exact, line);
    enum hm_cause expected = !seen[line] ? HM_CAUSE_COLD
                             : held      ? HM_CAUSE_CONFLICT
                                         : HM_CAUSE_CAPACITY;
    seen[line] = 1;
    if (host_sample_count == 0) continue;
    misses++;
    wrong += host_samples[0].access.cause[0] != expected;
  }
  stop(header);
  assert_true(misses > 500);
  return wrong * 10000 / misses;
}

/* The shadow does not see all hits; its second chances correct most of the error. This measures
 * and bounds the rest. */
static void random_streams_are_classified_nearly_as_exactly(void **state) {
  (void)state;
  static const struct {
    struct stream stream;
    uint64_t at_most[2]; /* 1/10000 of the misses: default, and with exact LRU */
  } cases[] = {
      {{8, 600, 0, 0}, {1200, 1200}}, {{8, 1024, 0, 0}, {320, 320}}, {{8, 1024, 50, 0}, {320, 320}},
      {{8, 4096, 50, 1}, {100, 100}}, {{4, 1024, 0, 1}, {320, 320}}, {{8, 20000, 80, 1}, {30, 30}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const struct stream *stream = &cases[i].stream;
    uint64_t wrong[2] = {misclassified(stream, 0), misclassified(stream, HM_FLAG_EXACT_LRU)};
    printf(
        "             %5u lines over %u-way, %2u %% hot, %s: "
        "misclassified %.2f %% of misses (exact LRU: %.2f %%)\n",
        stream->lines, stream->ways, stream->hot, stream->skewed ? "skewed" : "even",
        (double)wrong[0] / 100, (double)wrong[1] / 100);
    for (int j = 0; j < 2; j++) assert_true(wrong[j] <= cases[i].at_most[j]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(thrashing_one_set_is_conflict),
      cmocka_unit_test(as_many_lines_as_ways_do_not_miss),
      cmocka_unit_test(sweeping_more_than_the_cache_is_capacity),
      cmocka_unit_test(set_sampling_leaves_causes_as_they_are),
      cmocka_unit_test(a_sample_names_the_set_that_missed),
      cmocka_unit_test(each_level_has_a_cause_of_its_own),
      cmocka_unit_test(cold_is_told_apart_by_level),
      cmocka_unit_test(random_streams_are_classified_nearly_as_exactly),
  };
  return cmocka_run_group_tests_name("causes", tests, NULL, NULL);
}
