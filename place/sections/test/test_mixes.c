/* Mixes, their order, and the histogram of latencies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "latencies.h"
#include "mixes.h"

static void every_letter_is_a_mix(void **state) {
  (void)state;
  for (const char *letter = "ACFHBDEKMN"; *letter != '\0'; letter++) {
    const char text[] = {*letter, '\0'};
    assert_non_null(mix_of(text));
    assert_int_equal(mix_of(text)->letter, *letter);
    for (int kind = 0; kind < MIX_KINDS; kind++) /* keys tell mixes apart */
      assert_int_equal(strrchr(mix_of(text)->kind[kind].key, '/')[1], *letter);
  }
  assert_null(mix_of("Z"));
  assert_null(mix_of(""));
  assert_null(mix_of("CC"));
}

/* 100,000 draws of share 0.24: within 5 standard deviations (0.00135 each) of it. */
static void the_order_is_fixed_and_has_the_shares(void **state) {
  (void)state;
  const struct mix *mix = mix_of("A");
  unsigned firsts = 0, differ = 0;
  for (uint64_t i = 0; i < 100000; i++) {
    firsts += mix_kind_of(mix, 1, i) == 0;
    assert_int_equal(mix_kind_of(mix, 1, i), mix_kind_of(mix, 1, i));
    differ += mix_kind_of(mix, 1, i) != mix_kind_of(mix, 2, i);
  }
  assert_in_range(firsts, 24000 - 675, 24000 + 675);
  /* Two independent orders differ in 2 * 0.24 * 0.76 = 36.5 % of the places. */
  assert_in_range(differ, 36480 - 800, 36480 + 800);
}

static void another_cache_has_other_sizes(void **state) {
  (void)state;
  struct mix f = mix_for(mix_of("F"), 1024);
  assert_int_equal(f.kind[0].kilobytes, 512);
  assert_int_equal(f.kind[0].of_kilobytes, 0);
  assert_int_equal(f.kind[1].of_kilobytes, 16384);
  assert_int_equal(mix_for(mix_of("K"), 1000).kind[0].kilobytes, 592); /* 593.75 in whole pages */
  assert_int_equal(mix_for(mix_of("H"), 16).kind[0].kilobytes, 4);
  const double alone[] = {30, 10};
  mix_balance(&f, alone); /* is not balanced */
  assert_true(f.first_share == 0.15);
  struct mix c = mix_for(mix_of("C"), MIX_L2_KILOBYTES);
  mix_balance(&c, alone); /* one request of the first kind takes as long as three of the second */
  assert_true(c.first_share == 0.25);
}

static void quantiles_are_right_to_a_thirtysecond(void **state) {
  (void)state;
  static struct latencies latencies, more;
  assert_int_equal(latencies_quantile(&latencies, 0.5), 0);
  for (uint64_t i = 1; i <= 1000; i++) latencies_add(&latencies, i * 1000);
  const struct {
    double share;
    uint64_t ns;
  } expected[] = {{0.001, 1000}, {0.5, 500000}, {0.99, 990000}, {1, 1000000}};
  for (unsigned i = 0; i < 4; i++) {
    const uint64_t found = latencies_quantile(&latencies, expected[i].share);
    assert_in_range(found, expected[i].ns, expected[i].ns + expected[i].ns / 32 + 32);
  }
  /* Adds 1000 requests of no time, and one of an hour. */
  for (int i = 0; i < 1000; i++) latencies_add(&more, 0);
  latencies_merge(&more, &latencies);
  assert_int_equal(more.count, 2000);
  assert_in_range(latencies_quantile(&more, 0.5), 0, 32);
  latencies_add(&more, UINT64_C(3600) * 1000000000);
  assert_true(latencies_quantile(&more, 1) > UINT64_C(200) * 1000000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_letter_is_a_mix),
      cmocka_unit_test(the_order_is_fixed_and_has_the_shares),
      cmocka_unit_test(another_cache_has_other_sizes),
      cmocka_unit_test(quantiles_are_right_to_a_thirtysecond),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
