/*
 * The limit between hits and misses, in spectra measured on processors: shares of a thousand loads
 * by cycles.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe_discover.h"

static void add(uint32_t *often, uint32_t *count, uint32_t cycles, uint32_t times) {
  often[cycles] += times;
  *count += times;
}

/* A counter that advances by 26. Hits take up to 104, misses from 130: 117 is between. Any range
 * of a few cycles between two steps is empty, too: a limit between 130 and 156 would count a
 * sixth of the misses as hits. */
static void a_clock_that_goes_in_steps(void **state) {
  (void)state;
  static struct split_spectrum spectrum;
  static const uint32_t few[][2] = {{52, 57}, {78, 888}, {104, 55}},
                        many[][2] = {{104, 9},   {130, 171}, {156, 270},
                                     {182, 155}, {208, 39},  {468, 356}};
  for (size_t i = 0; i < 3; i++) add(spectrum.few, &spectrum.few_count, few[i][0], few[i][1]);
  for (size_t i = 0; i < 6; i++) add(spectrum.many, &spectrum.many_count, many[i][0], many[i][1]);
  const uint32_t limit = split_discover_valley(&spectrum);
  assert_in_range(limit, 104, 129);
}

/* Intel Xeon: hits around 80, some up to 114 while the core's other thread works; misses from
 * 120. */
static void a_clock_that_counts_each_cycle(void **state) {
  (void)state;
  static struct split_spectrum spectrum;
  for (uint32_t cycles = 72; cycles < 92; cycles++)
    add(spectrum.few, &spectrum.few_count, cycles, 45);
  for (uint32_t cycles = 100; cycles <= 112; cycles++)
    add(spectrum.few, &spectrum.few_count, cycles, 4);
  for (uint32_t cycles = 120; cycles < 160; cycles++)
    add(spectrum.many, &spectrum.many_count, cycles, 25);
  assert_in_range(split_discover_valley(&spectrum), 113, 119);
}

/* The same EPYC with chains of four, while L3 was crowded: hits 104 to 130, misses served
 * completely by L3 182 to 234, and as many with a load from memory. The measurement itself takes
 * 72, which both means exclude; values above 222 are cut off. */
static void chains_are_told_by_their_means(void **state) {
  (void)state;
  static struct split_spectrum spectrum;
  static const uint32_t few[][2] = {{104, 400}, {130, 600}},
                        many[][2] = {{182, 100}, {208, 300}, {234, 100}, {508, 500}};
  for (size_t i = 0; i < 2; i++) add(spectrum.few, &spectrum.few_count, few[i][0], few[i][1]);
  for (size_t i = 0; i < 4; i++) add(spectrum.many, &spectrum.many_count, many[i][0], many[i][1]);
  spectrum.step = 26;
  spectrum.few_itself = spectrum.many_itself = 72;
  const struct split_probe_timing timing = split_discover_means(&spectrum);
  assert_in_range(timing.most, 209, 234); /* the step beyond 208 */
  const double most = timing.most, hit = 0.4 * 104 + 0.6 * 130 - 72,
               miss = 0.1 * 182 + 0.3 * 208 + 0.6 * most - 72;
  assert_float_equal(timing.hit, hit, 0.01);
  assert_float_equal(timing.miss, miss, 0.01);
  assert_int_equal(timing.limit, timing.most);
}

/* Pages that fit into the cache: many are as quick as few. */
static void chains_that_all_hit_say_nothing(void **state) {
  (void)state;
  static struct split_spectrum spectrum;
  static const uint32_t times[][2] = {{104, 400}, {130, 550}, {156, 50}};
  for (size_t i = 0; i < 3; i++) {
    add(spectrum.few, &spectrum.few_count, times[i][0], times[i][1]);
    add(spectrum.many, &spectrum.many_count, times[i][0], times[i][1]);
  }
  spectrum.step = 26;
  spectrum.few_itself = spectrum.many_itself = 72;
  assert_int_equal(split_discover_means(&spectrum).limit, 0);
}

/* 10 chains of hits and 10 of misses: half of the 80 loads, whatever the measurement itself
 * took. */
static void loads_that_are_gone_are_counted_by_sums(void **state) {
  (void)state;
  const struct split_probe_timing timing = {.limit = 222, .most = 222, .hit = 50, .miss = 140};
  for (uint32_t itself = 70; itself <= 82; itself += 12) {
    const struct split_probe_chains chains = {
        .count = 20, .cycles = 10 * (itself + 50) + 10 * (itself + 140), .itself = 20 * itself};
    assert_int_equal(split_probe_chains_gone(&chains, &timing), 40);
  }
  const struct split_probe_chains none = {.count = 20, .cycles = 20 * 110, .itself = 20 * 70},
                                  all = {.count = 20, .cycles = 20 * 222, .itself = 20 * 70},
                                  nothing = {0};
  assert_int_equal(split_probe_chains_gone(&none, &timing), 0);
  assert_int_equal(split_probe_chains_gone(&all, &timing), 80);
  assert_int_equal(split_probe_chains_gone(&nothing, &timing), 0);
}

/* Times of a hundred hits: pairs of cycles and count, from the shortest to the longest. */
static uint32_t step_of(const uint32_t (*hits)[2], size_t count) {
  uint32_t times[100], n = 0;
  for (size_t i = 0; i < count; i++)
    for (uint32_t j = 0; j < hits[i][1]; j++) times[n++] = hits[i][0];
  assert_int_equal(n, 100);
  return split_discover_clock_step(times, n);
}

static void clocks_are_told_by_what_hits_take(void **state) {
  (void)state;
  /* EPYC, 2.6 GHz, at two times; one of 2.45 GHz would have steps of 24 and 25. */
  assert_in_range(step_of((const uint32_t[][2]){{52, 40}, {78, 60}}, 2), 25, 27);
  assert_in_range(step_of((const uint32_t[][2]){{52, 6}, {78, 87}, {104, 6}, {300, 1}}, 4), 25, 27);
  assert_in_range(step_of((const uint32_t[][2]){{49, 40}, {73, 20}, {74, 35}, {98, 5}}, 4), 24, 26);
  /* Xeon: by ones, or by twos; a quiet one, where nearly all hits take the same time; one whose
   * core's other thread is sometimes busy. */
  assert_int_equal(
      step_of((const uint32_t[][2]){{72, 20}, {74, 20}, {76, 20}, {78, 20}, {80, 20}}, 5), 0);
  assert_int_equal(step_of((const uint32_t[][2]){{60, 40}, {61, 40}, {62, 19}, {90, 1}}, 4), 0);
  assert_int_equal(
      step_of((const uint32_t[][2]){{60, 50}, {62, 20}, {64, 10}, {88, 10}, {92, 10}}, 5), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_clock_that_goes_in_steps),
      cmocka_unit_test(a_clock_that_counts_each_cycle),
      cmocka_unit_test(clocks_are_told_by_what_hits_take),
      cmocka_unit_test(chains_are_told_by_their_means),
      cmocka_unit_test(chains_that_all_hit_say_nothing),
      cmocka_unit_test(loads_that_are_gone_are_counted_by_sums),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
