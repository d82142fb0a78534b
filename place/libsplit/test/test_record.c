/* Statistics of a record, compared with numbers computed by hand. */
#include "fixture.h"
#include "record.h"

#include <math.h>

static void close_to(double value, double expected) {
  if (fabs(value - expected) > 1e-9 * fabs(expected) + 1e-12)
    fail_msg("%.12g is not %.12g", value, expected);
}

static void equation_1(void **state) {
  (void)state;
  const struct split_average how = {.weight = 0.75, .threshold = 3};
  double average = 0;
  average = split_average_next(average, 0, 10, &how); /* (0 * 0 + 10) / 1 */
  close_to(average, 10);
  average = split_average_next(average, 1, 20, &how); /* (10 + 20) / 2 */
  close_to(average, 15);
  average = split_average_next(average, 2, 30, &how); /* (30 + 30) / 3 */
  close_to(average, 20);
  average = split_average_next(average, 3, 40, &how); /* 20 * 0.75 + 40 * 0.25 */
  close_to(average, 25);
  average = split_average_next(average, 4, 5, &how); /* 25 * 0.75 + 5 * 0.25 */
  close_to(average, 20);
}

static void equation_1_with_threshold_0_is_an_exponential_average(void **state) {
  (void)state;
  const struct split_average how = {.weight = 0.5, .threshold = 0};
  close_to(split_average_next(0, 0, 10, &how), 5);
}

static void buckets(void **state) {
  (void)state;
  assert_int_equal(split_bucket(0), 0);
  assert_int_equal(split_bucket(1023), 0);
  assert_int_equal(split_bucket(1024), 1);
  assert_int_equal(split_bucket(1279), 1);
  assert_int_equal(split_bucket(1280), 2); /* 1024 * 1.25 */
  assert_int_equal(split_bucket(1792), 4); /* 1024 * 1.75 */
  assert_int_equal(split_bucket(2047), 4);
  assert_int_equal(split_bucket(2048), 5);
  assert_int_equal(split_bucket(UINT64_C(3) << 32), 95); /* beginning of the last bucket */
  assert_int_equal(split_bucket((UINT64_C(3) << 32) - 1), 94);
  assert_int_equal(split_bucket(UINT64_MAX), 95);
}

static void sums_of(const struct split_after *after, uint64_t count, uint64_t cycles,
                    uint64_t squares) {
  assert_int_equal(after->count, count);
  assert_int_equal(after->cycles, cycles);
  assert_int_equal(after->squares[0], squares);
  assert_int_equal(after->squares[1], 0);
}

static void sums(void **state) {
  (void)state;
  struct split_record record = {0};
  const struct split_average how = {.weight = 0.9, .threshold = 100};
  const uint64_t cycles[] = {2, 4, 9};
  for (int i = 0; i < 3; i++) {
    struct split_sample sample = {.elapsed = cycles[i] + 1,
                                  .cycles = cycles[i],
                                  .nested = 1,
                                  .exact = true,
                                  .after = i == 0 ? SPLIT_AFTER_ANY : SPLIT_CLASS_POLLUTER};
    split_record_add(&record, &sample, &how);
  }
  assert_int_equal(record.count, 3);
  assert_int_equal(record.exact, 3);
  assert_int_equal(split_record_cycles(&record), 15);
  assert_int_equal(record.elapsed_cycles, 18);
  assert_int_equal(record.nested_cycles, 3);
  close_to(record.adaptive, 5);
  sums_of(&record.after[SPLIT_AFTER_ANY], 1, 2, 4);
  sums_of(&record.after[SPLIT_CLASS_POLLUTER], 2, 13, 16 + 81);
  sums_of(&record.after[SPLIT_CLASS_UNKNOWN], 0, 0, 0);
  assert_int_equal(record.histogram[0], 3);
}

/* (2^40)^2 = 2^80, 2^16 times: 2^96. */
static void squares_of_long_sections_do_not_overflow(void **state) {
  (void)state;
  struct split_after after = {0};
  for (int i = 0; i < 1 << 16; i++) split_after_add(&after, UINT64_C(1) << 40);
  split_after_add(&after, 3);
  assert_int_equal(after.squares[0], 9);
  assert_int_equal(after.squares[1], UINT64_C(1) << 32);
  assert_int_equal(after.cycles, (UINT64_C(1) << 56) + 3);
}

static void what_is_not_exact_is_counted_only(void **state) {
  (void)state;
  struct split_record record = {0};
  const struct split_average how = {.weight = 0.9, .threshold = 100};
  struct split_sample sample = {
      .elapsed = 5000, .cycles = 5000, .preempted = true, .migrated = true, .after = 1};
  split_record_add(&record, &sample, &how);
  assert_int_equal(record.count, 1);
  assert_int_equal(record.preempted, 1);
  assert_int_equal(record.migrated, 1);
  assert_int_equal(record.exact, 0);
  assert_int_equal(split_record_cycles(&record), 0);
  assert_int_equal(record.elapsed_cycles, 5000);
  assert_int_equal(record.after[1].count, 0);
  assert_int_equal(record.histogram[split_bucket(5000)], 1);
}

static void misses_and_displacement(void **state) {
  (void)state;
  struct split_record record = {0};
  const struct split_average how = {.weight = 0.5, .threshold = 1};
  struct split_sample sample = {.missed = true, .misses = 8, .probed = true, .displaced = 0.25};
  split_record_add(&record, &sample, &how);
  sample.misses = 16;
  sample.displaced = 0.75;
  split_record_add(&record, &sample, &how);
  assert_int_equal(record.missed, 2);
  assert_int_equal(record.misses, 24);
  close_to(record.adaptive_misses, 12); /* 8 * 0.5 + 16 * 0.5 */
  assert_int_equal(record.probed, 2);
  close_to(record.displaced_mean, 0.5);
  close_to(record.displaced_m2, 0.125);
}

static void a_record_has_one_writer(void **state) {
  (void)state;
  struct split_record record = {0};
  assert_true(split_record_lock(&record, 7));
  assert_int_equal(record.sequence, 1);
  assert_false(split_record_lock(&record, 8));
  split_record_unlock(&record);
  assert_int_equal(record.sequence, 2);
  assert_int_equal(record.owner, 0);
  assert_true(split_record_lock(&record, 8));
}

static void a_dead_writer_is_mended_a_living_one_is_not(void **state) {
  (void)state;
  struct split_record record = {0};
  pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, NULL, 0);
  assert_true(split_record_lock(&record, (uint32_t)child));
  assert_true(split_record_mend(&record));
  assert_int_equal(record.sequence, 2);
  assert_int_equal(record.owner, 0);
  assert_false(split_record_mend(&record));
  assert_true(split_record_lock(&record, (uint32_t)getpid()));
  assert_false(split_record_mend(&record));
  assert_int_equal(record.sequence, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equation_1),
      cmocka_unit_test(equation_1_with_threshold_0_is_an_exponential_average),
      cmocka_unit_test(buckets),
      cmocka_unit_test(sums),
      cmocka_unit_test(squares_of_long_sections_do_not_overflow),
      cmocka_unit_test(what_is_not_exact_is_counted_only),
      cmocka_unit_test(misses_and_displacement),
      cmocka_unit_test(a_record_has_one_writer),
      cmocka_unit_test(a_dead_writer_is_mended_a_living_one_is_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
