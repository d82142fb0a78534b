/*
 * The encoding of page changes in the log: some examples byte by byte, many random ones, and
 * malformed bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "delta.h"

static const uint64_t ALL = ~UINT64_C(0);

static uint8_t *bytes_of(p3l_page *page) { return (uint8_t *)page; }

static void has(const p3l_delta *delta, const uint8_t *bytes, size_t length) {
  assert_int_equal(delta->used, length);
  assert_memory_equal(delta->bytes, bytes, length);
}

static void each_byte_of_some(void **state) {
  (void)state;
  p3l_page before = {0}, now = {0};
  p3l_delta delta = {.used = 0};
  bytes_of(&now)[64] = 0xab;
  assert_true(p3l_delta_add(&delta, (p3l_page_number){7}, &now, &before, ALL));
  assert_int_equal(delta.first, 7);
  /* Page 7, as the first; 64 bytes on; one byte, and no other run. */
  has(&delta, (uint8_t[]){0, 64, 1 << 1, 0xab}, 4);
  /* Two equal bytes between others are cheaper to repeat, three are not. */
  memset(&now, 0, sizeof(now));
  memcpy(bytes_of(&now) + 300, (uint8_t[]){1, 0, 0, 2, 0, 0, 0, 3}, 8);
  assert_true(p3l_delta_add(&delta, (p3l_page_number){6}, &now, &before, ALL));
  assert_int_equal(delta.last, 6);
  has(&delta,
      (uint8_t[]){0, 64, 2, 0xab,                        /* as before */
                  1 << 1,                                /* one page back */
                  (300 & 127) | 128, 300 >> 7,           /* 300 bytes on */
                  4 << 1 | 1, 1, 0, 0, 2, 3, 1 << 1, 3}, /* four bytes; three on, one byte */
      15);
  /* From zeros: whole words. */
  delta.used = 0;
  memset(&now, 0, sizeof(now));
  bytes_of(&now)[4095] = 9;
  assert_true(p3l_delta_add(&delta, (p3l_page_number){1}, &now, NULL, 0));
  has(&delta, (uint8_t[]){1, (4088 & 127) | 128, 4088 >> 7, 8 << 1, 0, 0, 0, 0, 0, 0, 0, 9}, 12);
}

/* Only reported units are compared. */
static void units_that_were_not_reported_are_left_out(void **state) {
  (void)state;
  p3l_page before = {0}, now = {0};
  p3l_delta delta = {.used = 0};
  bytes_of(&now)[10] = 1;
  bytes_of(&now)[P3L_UNIT + 5] = 2;
  assert_true(p3l_delta_add(&delta, (p3l_page_number){0}, &now, &before, UINT64_C(1) << 1));
  has(&delta, (uint8_t[]){0, P3L_UNIT + 5, 1 << 1, 2}, 4);
}

static void what_has_no_room_adds_nothing(void **state) {
  (void)state;
  p3l_page before = {0}, now;
  p3l_delta delta = {.used = 0};
  memset(&now, 5, sizeof(now));
  assert_false(
      p3l_delta_add(&delta, (p3l_page_number){3}, &now, &before, ALL)); /* longer than a page */
  assert_int_equal(delta.used, 0);
  for (int i = 0; i < 4000; i++) bytes_of(&now)[i] = 0;
  int added = 0;
  while (p3l_delta_add(&delta, (p3l_page_number){3}, &now, &before, ALL)) added++;
  /* A page, a place of two bytes, a length of two bytes, 96 bytes: 101, 40 times. */
  assert_int_equal(added, 40);
  assert_int_equal(delta.used, 40 * 101);
  assert_false(p3l_delta_is_worth(&before) &&
               p3l_delta_add(&delta, (p3l_page_number){3}, &now, NULL, 0));
  assert_int_equal(delta.used, 40 * 101);
}

static unsigned draw(unsigned *random, unsigned below) {
  *random = *random * 1664525u + 1013904223u;
  return (*random >> 8) % below;
}

static void change(p3l_page *page, unsigned *random, unsigned changes) {
  for (; changes > 0; changes--) {
    unsigned at = draw(random, P3L_PAGE_SIZE), length = 1 + draw(random, 20);
    for (; length > 0 && at < P3L_PAGE_SIZE; length--, at++)
      bytes_of(page)[at] = (uint8_t)draw(random, 3);
  }
}

/* All differences are in these units. */
static void check_units(const p3l_page *before, const p3l_page *now, uint64_t units) {
  assert_true(units != 0);
  for (unsigned unit = 0; unit < 64; unit++)
    if ((units >> unit & 1) == 0)
      assert_memory_equal((const uint8_t *)before + unit * P3L_UNIT,
                          (const uint8_t *)now + unit * P3L_UNIT, P3L_UNIT);
}

/* Many pages in one frame, each against its former contents and against zeros; decoding restores
 * them. */
static void all_of_many(void **state) {
  (void)state;
  enum { PAGES = 40 };
  p3l_page *before = calloc(PAGES, sizeof(*before)), *now = calloc(PAGES, sizeof(*now)), page;
  uint64_t numbers[PAGES];
  for (unsigned seed = 1; seed <= 300; seed++) {
    unsigned random = seed, count = 0;
    p3l_delta delta = {.used = 0};
    for (; count < PAGES; count++) {
      bool zeros = draw(&random, 3) == 0;
      memset(&before[count], 0, sizeof(page));
      if (!zeros) change(&before[count], &random, 30);
      now[count] = before[count];
      change(&now[count], &random, 1 + draw(&random, 8));
      bytes_of(&now[count])[0] = (uint8_t)(bytes_of(&before[count])[0] + 1);
      numbers[count] = (uint64_t)draw(&random, 1000) << draw(&random, 34);
      if (!p3l_delta_add(&delta, (p3l_page_number){numbers[count]}, &now[count],
                         zeros ? NULL : &before[count], ALL))
        break;
    }
    assert_true(count > 3);
    p3l_delta_reader reader =
        p3l_delta_read((p3l_address){delta.first * P3L_PAGE_SIZE}, delta.bytes, delta.used);
    unsigned read = 0;
    for (; reader.at < reader.end; read++) {
      assert_true(p3l_delta_next(&reader));
      assert_int_equal(reader.number, numbers[read]);
      page = before[read];
      if (reader.zeros) memset(&page, 0, sizeof(page));
      p3l_delta_reader passed = reader;
      uint64_t units = 0;
      assert_true(p3l_delta_pass(&passed, &units));
      check_units(&page, &now[read], units);
      assert_true(p3l_delta_apply(&reader, &page));
      assert_ptr_equal(passed.at, reader.at);
      assert_memory_equal(&page, &now[read], sizeof(page));
    }
    assert_int_equal(read, count);
  }
  free(before);
  free(now);
}

/* Skipping over the changes ends at the same byte as applying them. */
static bool makes_sense(const uint8_t *bytes, size_t length) {
  p3l_delta_reader reader = p3l_delta_read((p3l_address){0}, bytes, length);
  p3l_page page;
  while (reader.at < reader.end) {
    uint64_t units;
    if (!p3l_delta_next(&reader)) return false;
    p3l_delta_reader passed = reader;
    bool passes = p3l_delta_pass(&passed, &units);
    assert_int_equal(p3l_delta_apply(&reader, &page), passes);
    if (!passes) return false;
    assert_ptr_equal(passed.at, reader.at);
  }
  return true;
}

static void bytes_that_are_no_changes(void **state) {
  (void)state;
  assert_true(makes_sense((uint8_t[]){0, 64, 2, 0xab}, 4));
  for (size_t length = 1; length < 4; length++) /* ends too early */
    assert_false(makes_sense((uint8_t[]){0, 64, 2, 0xab}, length));
  assert_false(makes_sense((uint8_t[]){0, 64, 0, 0xab}, 4));         /* a run of no bytes */
  assert_false(makes_sense((uint8_t[]){0, 64, 3, 0xab}, 4));         /* another one should follow */
  assert_false(makes_sense((uint8_t[]){0, 0x80, 0x20, 2, 0xab}, 5)); /* at byte 4096 */
  assert_true(makes_sense((uint8_t[]){0, 0xff, 0x1f, 2, 0xab}, 5));  /* at byte 4095 */
  assert_false(makes_sense((uint8_t[]){0, 0xff, 0x1f, 4, 1, 2}, 6)); /* beyond the page */
  uint8_t endless[12];
  memset(endless, 0xff, sizeof(endless));
  assert_false(makes_sense(endless, sizeof(endless)));
  /* Arbitrary bytes are refused, or decoded without an access beyond the page or the input. */
  unsigned random = 1;
  for (int i = 0; i < 20000; i++) {
    size_t length = 1 + draw(&random, 64);
    uint8_t *bytes = malloc(length);
    for (size_t at = 0; at < length; at++)
      bytes[at] = (uint8_t)(draw(&random, 4) == 0 ? draw(&random, 256) : draw(&random, 8));
    makes_sense(bytes, length);
    free(bytes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_byte_of_some),
      cmocka_unit_test(units_that_were_not_reported_are_left_out),
      cmocka_unit_test(what_has_no_room_adds_nothing),
      cmocka_unit_test(all_of_many),
      cmocka_unit_test(bytes_that_are_no_changes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
