/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * Tests that only a comment at the end sets the origin.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "origin.h"

/* The origin found, as text; "": none. */
static const char *found(const char *text) {
  static char copy[SQL_ORIGIN_LENGTH + 1];
  const char *origin = NULL;
  size_t length = strlen(text);
  char *exact = malloc(length + 1);
  memcpy(exact, text, length);
  size_t found = sql_origin(exact, length, &origin);
  assert_true(found <= SQL_ORIGIN_LENGTH);
  if (found > 0) memcpy(copy, origin, found);
  copy[found] = '\0';
  free(exact);
  return copy;
}

static void trailing_comments_are_read(void **state) {
  (void)state;
  assert_string_equal(found("select 1 /*split_id='a1b2c3.1f'*/"), "a1b2c3.1f");
  assert_string_equal(found("select 1 /* split_id='1.2' */ ;\n"), "1.2");
  assert_string_equal(found("select 1/*route='%2Fx',split_id='1.2',traceparent='00-1'*/"), "1.2");
  assert_string_equal(found("/*split_id='1.2'*/"), "1.2");
}

static void nothing_else_is(void **state) {
  static const char *const none[] = {
      "",
      "*/",
      "/**/",
      "select 1",
      "/*split_id='1.2'*/ select 1",
      "select 1 /*split_id='1.2'*/ /* other */",
      "select '/*split_id=\\'1.2\\'*/'",
      "select 1 /*no_split_id='1.2'*/",
      "select 1 /*split_id=1.2*/",
      "select 1 /*split_id='1.2*/",
      "select 1 /*split_id='*/",
      "select 1 /*split_id=*/",
      "select 1 /*split_id='*/ ",
      "select 1 /*split_id='aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'*/",
      "split_id='1.2'*/",
      "select 1, split_id='1.2'*/",
      "/* x */ select 1, split_id='1.2'*/",
  };
  (void)state;
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_string_equal(found(none[i]), "");
  /* A comment so long that its beginning is not read. */
  char text[2000];
  memset(text, 'x', sizeof text);
  memcpy(text, "/*split_id='1.2',y='", 20);
  memcpy(text + sizeof text - 4, "'*/", 4);
  assert_string_equal(found(text), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trailing_comments_are_read),
      cmocka_unit_test(nothing_else_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
