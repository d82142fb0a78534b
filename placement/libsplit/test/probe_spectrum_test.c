/*
 * Where hits end and misses begin, in spectra as processors gave them: shares of a thousand loads by cycles.
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

/* AMD EPYC (family 25, model 17): the counter goes on by 26. Hits take up to 104, misses from 130: 117 is between. Any span of a few
 * cycles between two steps is empty, too: between 130 and 156 a limit would call a sixth of the misses hits. */
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

/* Intel Xeon: hits around 80, some up to 114 while the core's other thread works; misses from 120. */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_clock_that_goes_in_steps),
      cmocka_unit_test(a_clock_that_counts_each_cycle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
