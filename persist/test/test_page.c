/* Pages and the header page: the checks and their messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "page.h"

static void crc32c_is_that_of_rfc_3720(void **state) {
  (void)state;
  /* RFC 3720, B.4: 32 bytes of zeros, of ones, and 0..31. */
  uint8_t bytes[32] = {0};
  assert_int_equal(p3l_crc32c(0, bytes, sizeof(bytes)), 0x8a9136aau);
  memset(bytes, 0xff, sizeof(bytes));
  assert_int_equal(p3l_crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43u);
  for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (uint8_t)i;
  assert_int_equal(p3l_crc32c(0, bytes, sizeof(bytes)), 0x46dd794eu);
  /* The same in two parts. */
  assert_int_equal(p3l_crc32c(p3l_crc32c(0, bytes, 7), bytes + 7, 25), 0x46dd794eu);
}

static p3l_page sealed(uint64_t number) {
  p3l_page page;
  p3l_page_init(&page, number == 0 ? P3L_PAGE_HEADER : P3L_PAGE_DATA, (p3l_page_number){number});
  memset(page.payload, 0x5a, sizeof(page.payload));
  p3l_page_seal(&page, (p3l_lsn){123});
  return page;
}

static void every_flipped_bit_of_a_page_is_found(void **state) {
  (void)state;
  p3l_page page = sealed(7);
  assert_null(p3l_page_fault(&page, (p3l_page_number){7}));
  for (size_t bit = 0; bit < sizeof(page) * 8; bit++) {
    ((uint8_t *)&page)[bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert_non_null(p3l_page_fault(&page, (p3l_page_number){7}));
    ((uint8_t *)&page)[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
}

static void a_page_at_a_wrong_place_is_found(void **state) {
  (void)state;
  p3l_page page = sealed(7);
  assert_non_null(p3l_page_fault(&page, (p3l_page_number){8}));
  page = sealed(0);
  page.kind = P3L_PAGE_DATA;
  p3l_page_seal(&page, (p3l_lsn){0});
  assert_non_null(p3l_page_fault(&page, (p3l_page_number){0}));
}

static p3l_page header_page(void) {
  p3l_page page;
  static const uint8_t id[16] = {1, 2, 3};
  p3l_header_init(&page, id);
  p3l_page_seal(&page, (p3l_lsn){0});
  return page;
}

static void a_header_says_what_it_was_made_by(void **state) {
  (void)state;
  p3l_error error;
  p3l_page page = header_page();
  assert_int_equal(p3l_header_check(&page, "store", &error), P3L_OK);

  /* The format in bytes: a change needs a new version. */
  const uint8_t *bytes = (const uint8_t *)&page;
  assert_memory_equal(bytes + 32, "P3L store\r\n\x1a\n\0\0", 15);
  assert_memory_equal(bytes + 48, "\x02\0\0\0\x04\x03\x02\x01\0\x10\0\0\x08\0\0\0\x01\x02\x03", 19);

  page.payload[0] ^= 1;
  assert_int_equal(p3l_header_check(&page, "store", &error), P3L_NOT_A_STORE);
  page = header_page();
  p3l_header_of(&page)->version++;
  assert_int_equal(p3l_header_check(&page, "store", &error), P3L_WRONG_VERSION);
  page = header_page();
  p3l_header_of(&page)->byte_order = 0x04030201;
  assert_int_equal(p3l_header_check(&page, "store", &error), P3L_WRONG_MACHINE);
  page = header_page();
  p3l_header_of(&page)->page_size = 16384;
  assert_int_equal(p3l_header_check(&page, "store", &error), P3L_WRONG_MACHINE);
  page = header_page();
  page.payload[200] ^= 1;
  assert_int_equal(p3l_header_check(&page, "store", &error), P3L_CORRUPT);
  assert_non_null(strstr(error.message, "store"));
  page = header_page();
  p3l_header_of(&page)->first_free = 9;
  p3l_page_seal(&page, (p3l_lsn){0});
  assert_int_equal(p3l_header_check(&page, "store", &error), P3L_CORRUPT);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(crc32c_is_that_of_rfc_3720),
                                     cmocka_unit_test(every_flipped_bit_of_a_page_is_found),
                                     cmocka_unit_test(a_page_at_a_wrong_place_is_found),
                                     cmocka_unit_test(a_header_says_what_it_was_made_by)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
