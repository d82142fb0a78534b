/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Reuse distances: on sequences computed by hand, and on a random one against the
 * definition.
 */
#include <stdlib.h>
#include <string.h>

#include "reuse.h"
#include "test.h"

#define LINE(n) ((uint64_t)(n) << HM_LINE_BITS)

static int set_up(void **state) {
  *state = calloc(1, sizeof(struct hm_reuse));
  return *state == NULL;
}

static int tear_down(void **state) {
  free(*state);
  return 0;
}

/* 0 1 2 3 4 4 5 5 6 6 7 7 8 8 8 8 ...: four buckets per power of two. */
static void buckets_are_a_quarter_of_a_power_of_two(void **state) {
  (void)state;
  static const uint32_t expected[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12};
  for (uint32_t i = 0; i < 17; i++) assert_int_equal(hm_reuse_bucket(i), expected[i]);
  assert_int_equal(hm_reuse_bucket(64), 20); /* e = 6: 4 * 5 + 0 */
  assert_int_equal(hm_reuse_bucket(79), 20); /* 64 to 79: a quarter of 64 to 127 */
  assert_int_equal(hm_reuse_bucket(80), 21);
  assert_int_equal(hm_reuse_bucket(1000), 35); /* e = 9: 4 * 8 + 3, for 1000 >= 896 */
  assert_int_equal(hm_reuse_bucket(UINT64_MAX), HM_REUSE_BUCKETS - 1);
  assert_int_equal(hm_reuse_least(20), 64);
  assert_int_equal(hm_reuse_least(35), 896);
  for (uint32_t bucket = 0; bucket < HM_REUSE_BUCKETS - 1; bucket++) {
    assert_int_equal(hm_reuse_bucket(hm_reuse_least(bucket)), bucket);
    assert_int_equal(hm_reuse_bucket(hm_reuse_least(bucket + 1) - 1), bucket);
  }
}

static void a_loop_over_k_lines_has_distance_k_less_1(void **state) {
  struct hm_reuse *reuse = *state;
  for (uint32_t line = 1; line <= 100; line++)
    assert_int_equal(hm_reuse_distance(reuse, line), HM_REUSE_COLD);
  for (int round = 0; round < 3; round++)
    for (uint32_t line = 1; line <= 100; line++)
      assert_int_equal(hm_reuse_distance(reuse, line), 99);
}

static void distances_of_a_sequence_by_hand(void **state) {
  struct hm_reuse *reuse = *state;
  /* a b a b b c a a: b and c since the previous a */
  static const uint32_t line[] = {1, 2, 1, 2, 2, 3, 1};
  static const uint32_t expected[] = {HM_REUSE_COLD, HM_REUSE_COLD, 1, 1, 0, HM_REUSE_COLD, 2};
  for (int i = 0; i < 7; i++) assert_int_equal(hm_reuse_distance(reuse, line[i]), expected[i]);
}

/* More accesses than slots: marked slots move to the front, in order. */
static void slots_are_used_again(void **state) {
  struct hm_reuse *reuse = *state;
  for (uint32_t line = 1; line <= 1000; line++) hm_reuse_distance(reuse, line);
  for (uint32_t round = 0; round < 3 * HM_REUSE_SLOTS / 1000; round++)
    for (uint32_t line = 1; line <= 1000; line++)
      assert_int_equal(hm_reuse_distance(reuse, line), 999);
  assert_int_equal(reuse->marked, 1000);
}

/* With one line more than slots, the younger half is kept. */
static void too_many_lines_are_cold_again(void **state) {
  struct hm_reuse *reuse = *state;
  uint32_t half = HM_REUSE_SLOTS / 2;
  for (uint32_t line = 1; line <= HM_REUSE_SLOTS + 1; line++) hm_reuse_distance(reuse, line);
  assert_int_equal(reuse->marked, half + 1);
  assert_int_equal(hm_reuse_distance(reuse, half), HM_REUSE_COLD);
  assert_int_equal(hm_reuse_distance(reuse, HM_REUSE_SLOTS), 2); /* one more line, and `half` */
}

/* Killed during an update: its data are discarded. */
static void a_killed_update_forgets_all(void **state) {
  struct hm_reuse *reuse = *state;
  for (int i = 0; i < 3; i++) hm_reuse_distance(reuse, 7);
  reuse->busy = 1;
  assert_int_equal(hm_reuse_distance(reuse, 7), HM_REUSE_COLD);
  assert_int_equal(hm_reuse_distance(reuse, 7), 0);
}

/* The definition: a list of the lines accessed since. */
static void random_streams_agree_with_the_definition(void **state) {
  struct hm_reuse *reuse = *state;
  uint32_t list[3000], used = 0;
  uint64_t random = 5;
  for (int i = 0; i < 100000; i++) {
    uint64_t draw = next_random(&random);
    uint32_t line = 1 + (uint32_t)((draw >> 20) % (1 + draw % 3000)), at = 0;
    while (at < used && list[at] != line) at++;
    assert_int_equal(hm_reuse_distance(reuse, line), at < used ? at : HM_REUSE_COLD);
    if (at == used) used++;
    memmove(&list[1], &list[0], at * sizeof list[0]);
    list[0] = line;
  }
}

/* One line in 64, of consecutive lines and of lines a page or 4 MiB apart. */
static void one_line_in_so_many_is_followed(void **state) {
  (void)state;
  static const uint32_t stride[] = {1, 64, 65536};
  for (int i = 0; i < 3; i++) {
    uint32_t followed = 0;
    for (uint32_t n = 0; n < 64000; n++) followed += (uint32_t)hm_reuse_follows(64 + n * stride[i]);
    assert_in_range(followed, 900, 1100); /* of 1000 expected */
  }
}

/* Through the hierarchy: a loop over 256 lines; L1 holds 16. With `n` followed lines, the
 * distance is n - 1 of them, times 64. */
static void what_misses_l1_is_measured(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  config.flags = HM_FLAG_REUSE;
  struct hm_header *header = start(&config);
  uint64_t followed = 0;
  for (int round = 0; round < 5; round++) {
    for (uint64_t i = 0; i < 256; i++) {
      load(LINE(i));
      load(LINE(i)); /* hits L1: not seen below it */
    }
  }
  for (uint64_t i = 0; i < 256; i++)
    followed += (uint64_t)hm_reuse_follows(
        HM_PTE_FRAME(hm_pages_touch(&hm_sim.pages, LINE(i) >> HM_PAGE_BITS)) << 6 | (i & 63));
  assert_in_range(followed, 2, 8);
  const struct hm_reuse_counts *counts =
      (const struct hm_reuse_counts *)((char *)header + header->reuse);
  assert_int_equal(counts->cold, followed);
  assert_int_equal(counts->bucket[hm_reuse_bucket((followed - 1) * HM_REUSE_ONE_LINE_IN)],
                   4 * followed);
  stop(header);
}

static void without_the_flag_nothing_is_reserved(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  for (uint64_t i = 0; i < 1024; i++) load(LINE(i));
  assert_int_equal(header->reuse, 0);
  assert_int_not_equal(header->statements, 0);
  stop(header);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buckets_are_a_quarter_of_a_power_of_two),
      TEST(a_loop_over_k_lines_has_distance_k_less_1),
      TEST(distances_of_a_sequence_by_hand),
      TEST(slots_are_used_again),
      TEST(too_many_lines_are_cold_again),
      TEST(a_killed_update_forgets_all),
      TEST(random_streams_agree_with_the_definition),
      cmocka_unit_test(one_line_in_so_many_is_followed),
      cmocka_unit_test(what_misses_l1_is_measured),
      cmocka_unit_test(without_the_flag_nothing_is_reserved),
  };
  return cmocka_run_group_tests_name("reuse", tests, NULL, NULL);
}
