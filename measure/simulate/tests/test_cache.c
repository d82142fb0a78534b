/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * One set-associative cache: which set, and true LRU within it.
 */
#include <stdlib.h>
#include <string.h>

#include "test.h"

static struct hm_cache make_cache(uint32_t sets, uint32_t ways) {
  struct hm_cache_config config = {sets * ways * HM_LINE_SIZE, ways, 4, 0};
  struct hm_cache cache;
  hm_cache_view(&cache, &config, calloc((size_t)sets * ways, sizeof(uint32_t)));
  assert_int_equal(cache.sets, sets);
  return cache;
}

static int hits(const struct hm_cache *cache, uint32_t set, uint32_t line) {
  return hm_cache_access(cache, set, line) >= 0;
}

static void a_line_maps_to_the_set_of_its_low_bits(void **state) {
  (void)state;
  struct hm_cache cache = make_cache(64, 8); /* 32 KiB */
  assert_int_equal(hm_cache_set(&cache, 0), 0);
  assert_int_equal(hm_cache_set(&cache, 63), 63);
  assert_int_equal(hm_cache_set(&cache, 64), 0);
  assert_int_equal(hm_cache_set(&cache, 0x12345), 0x05); /* 0x45 & 0x3f */
  free(cache.tags);
  cache = make_cache(1, 4); /* fully associative */
  assert_int_equal(hm_cache_set(&cache, 12345), 0);
  free(cache.tags);
}

static void sets_need_be_no_power_of_two(void **state) {
  (void)state;
  struct hm_cache_config twenty_mib = {20u << 20, 20, 40, 0};
  assert_int_equal(hm_cache_sets(&twenty_mib), 16384);
  struct hm_cache_config sixty_mib = {60u << 20, 12, 70, 0};
  assert_int_equal(hm_cache_sets(&sixty_mib), 81920);
  struct hm_cache cache = make_cache(36, 2);
  assert_int_equal(hm_cache_set(&cache, 35), 35);
  assert_int_equal(hm_cache_set(&cache, 36), 0);
  assert_int_equal(hm_cache_set(&cache, 36005), 5);
  free(cache.tags);
}

static void the_least_recently_used_line_goes(void **state) {
  (void)state;
  struct hm_cache cache = make_cache(1, 4);
  /* line, its previous position (-1: a miss), and the set afterwards, youngest first */
  static const struct {
    uint32_t line;
    int place;
    uint32_t set[4];
  } steps[] = {
      {1, -1, {1, 0, 0, 0}}, {2, -1, {2, 1, 0, 0}}, {3, -1, {3, 2, 1, 0}}, {4, -1, {4, 3, 2, 1}},
      {1, 3, {1, 4, 3, 2}},  {5, -1, {5, 1, 4, 3}}, /* 2 is gone */
      {2, -1, {2, 5, 1, 4}},                        /* 3 is gone */
      {2, 0, {2, 5, 1, 4}},  {1, 2, {1, 2, 5, 4}},  {4, 3, {4, 1, 2, 5}},  {3, -1, {3, 4, 1, 2}},
  };
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    assert_int_equal(hm_cache_access(&cache, 0, steps[i].line), steps[i].place);
    assert_memory_equal(cache.tags, steps[i].set, sizeof steps[i].set);
  }
  free(cache.tags);
}

static void sets_do_not_disturb_each_other(void **state) {
  (void)state;
  struct hm_cache cache = make_cache(4, 2);
  assert_int_equal(hits(&cache, 1, 101), 0);
  for (uint32_t line = 200; line < 300; line += 4) hits(&cache, 0, line);
  assert_int_equal(hits(&cache, 1, 101), 1);
  free(cache.tags);
}

/* A reference model: a time stamp per way, the smallest one is evicted. */
struct naive {
  uint32_t line[HM_MAX_WAYS];
  uint64_t used[HM_MAX_WAYS];
};

static int naive_access(struct naive *set, uint32_t ways, uint32_t line, uint64_t now) {
  uint32_t oldest = 0;
  for (uint32_t i = 0; i < ways; i++) {
    if (set->line[i] == line) {
      set->used[i] = now;
      return 1;
    }
    if (set->used[i] < set->used[oldest]) oldest = i;
  }
  set->line[oldest] = line;
  set->used[oldest] = now;
  return 0;
}

static void random_streams_agree_with_a_naive_model(void **state) {
  (void)state;
  static const uint32_t geometry[][2] = {{64, 8}, {64, 12}, {256, 1}, {20, 4}, {1, 32}, {7, 3}};
  for (size_t g = 0; g < sizeof geometry / sizeof geometry[0]; g++) {
    uint32_t sets = geometry[g][0], ways = geometry[g][1];
    struct hm_cache cache = make_cache(sets, ways);
    struct naive *model = calloc(sets, sizeof *model);
    uint64_t random = 42, found = 0;
    for (uint64_t now = 1; now <= 200000; now++) {
      /* Twice the cache, small numbers preferred: hits and misses at all depths. */
      uint64_t draw = next_random(&random);
      uint32_t span = 2 * sets * ways;
      uint32_t line = 1 + (uint32_t)((draw >> 32) % (1 + draw % span));
      uint32_t set = hm_cache_set(&cache, line);
      int hit = hits(&cache, set, line);
      assert_int_equal(hit, naive_access(&model[set], ways, line, now));
      found += (uint64_t)hit;
    }
    assert_in_range(found, 20000, 180000); /* both outcomes occurred often */
    free(cache.tags);
    free(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_line_maps_to_the_set_of_its_low_bits),
      cmocka_unit_test(sets_need_be_no_power_of_two),
      cmocka_unit_test(the_least_recently_used_line_goes),
      cmocka_unit_test(sets_do_not_disturb_each_other),
      cmocka_unit_test(random_streams_agree_with_a_naive_model),
  };
  return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
