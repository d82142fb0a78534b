/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The table of statements.  The lexer has its tests in ground/statement.
 */
#include <stdlib.h>
#include <string.h>

#include "statement.h"
#include "test.h"

static void a_table_keeps_each_text_once_and_what_finds_no_place_is_dropped(void **state) {
  (void)state;
  struct hm_statement *table = calloc(HM_STATEMENTS, sizeof *table);
  hm_statement_register(table, 7, "select ?", 8);
  hm_statement_register(table, 7, "select ?", 8);
  hm_statement_register(table, 7 + HM_STATEMENTS, "begin", 5); /* the same slot */
  assert_string_equal(table[7].text, "select ?");
  assert_int_equal(table[7].length, 8);
  assert_true(table[8].hash == 7 + HM_STATEMENTS);
  assert_string_equal(table[8].text, "begin");
  assert_true(table[9].hash == 0);
  for (uint64_t hash = 1; hash <= 4 * HM_STATEMENTS; hash++)
    hm_statement_register(table, hash, "x", 1);
  uint32_t used = 0;
  for (uint32_t i = 0; i < HM_STATEMENTS; i++) used += table[i].hash != 0 && table[i].length != 0;
  assert_int_equal(used, HM_STATEMENTS);
  assert_string_equal(table[7].text, "select ?");
  free(table);
}

/* A two-byte character that begins at the last available byte is left out. */
static void a_long_text_is_cut_at_a_whole_character(void **state) {
  (void)state;
  struct hm_statement *table = calloc(HM_STATEMENTS, sizeof *table);
  char text[HM_STATEMENT_TEXT + 100];
  memset(text, 'a', sizeof text);
  hm_statement_register(table, 2, text, sizeof text);
  assert_int_equal(table[2].length, HM_STATEMENT_TEXT);
  memcpy(text + HM_STATEMENT_TEXT - 1, "\xc3\xa9", 2);
  hm_statement_register(table, 3, text, sizeof text);
  assert_int_equal(table[3].length, HM_STATEMENT_TEXT - 1);
  assert_int_equal(strlen(table[3].text), HM_STATEMENT_TEXT - 1);
  free(table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_table_keeps_each_text_once_and_what_finds_no_place_is_dropped),
      cmocka_unit_test(a_long_text_is_cut_at_a_whole_character),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
