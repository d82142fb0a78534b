/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The word that counts a process's work (ghost/odometer.c), among words that count nothing.
 */
#include "test.h"

#include <string.h>

#include "odometer.h"

#define PAGE 0x7f0000001000ull

/* Words of the page. */
enum { WORK = 3, FALLS = 5, UNEVEN = 700, CLOCK = 701 };

static uint32_t page[1024], before[1024];

/* A stretch of 1,000 or 3,000 instructions, in turns: WORK grows by one a thousand, UNEVEN by one a stretch. */
static void stretch(struct hm_odometer *odometer, uint32_t round) {
  uint32_t thousands = round % 2 == 0 ? 1 : 3, ticks = 1 + round % 5;
  memcpy(before, page, sizeof page);
  page[WORK] += thousands;
  page[FALLS] += round % 7 == 6 ? (uint32_t)-6 : 1;
  page[UNEVEN]++;
  page[CLOCK] += ticks;
  hm_odometer_pair(odometer, 1000.0 * thousands, 300.0 * ticks);
  hm_odometer_page(odometer, PAGE, before, page);
  hm_odometer_pair_ends(odometer);
}

static void the_word_that_follows_instructions_is_found(void **state) {
  (void)state;
  struct hm_odometer odometer = {0};
  double each = 0;
  assert_int_equal(hm_odometer_best(&odometer, &each), 0);
  for (uint32_t round = 0; round < 99; round++) stretch(&odometer, round);
  assert_int_equal(hm_odometer_best(&odometer, &each), 0); /* it still learns */
  for (uint32_t round = 99; round < 300; round++) stretch(&odometer, round);
  assert_int_equal(hm_odometer_best(&odometer, &each), PAGE + 4 * WORK);
  assert_true(each > 0.000999 && each < 0.001001);
}

/* Where the best word is reset the next one serves; where none is left, learning begins again. */
static void a_word_that_is_reset_is_left(void **state) {
  (void)state;
  struct hm_odometer odometer = {0};
  double each = 0;
  for (uint32_t round = 0; round < 100; round++) stretch(&odometer, round);
  assert_int_equal(hm_odometer_best(&odometer, &each), PAGE + 4 * WORK);
  page[WORK] = 0xfff00000; /* before the pair: not seen */
  stretch(&odometer, 100);
  memcpy(before, page, sizeof page);
  page[WORK] = 7;
  hm_odometer_pair(&odometer, 1000, 5000);
  hm_odometer_page(&odometer, PAGE, before, page);
  hm_odometer_pair_ends(&odometer);
  assert_int_equal(hm_odometer_best(&odometer, &each), PAGE + 4 * UNEVEN);
  hm_odometer_spoil(&odometer, PAGE + 4 * UNEVEN);
  assert_int_equal(hm_odometer_best(&odometer, &each), 0); /* the clock was never taken */
  hm_odometer_pair(&odometer, 1000, 5000);                 /* its page is no longer copied */
  hm_odometer_pair_ends(&odometer);
  assert_int_equal(hm_odometer_best(&odometer, &each), 0);
  for (uint32_t round = 0; round < 100; round++) stretch(&odometer, round);
  assert_int_equal(hm_odometer_best(&odometer, &each), PAGE + 4 * WORK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_word_that_follows_instructions_is_found),
      cmocka_unit_test(a_word_that_is_reset_is_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
