/* Patterns of URLs. */
#include "keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static void expect(const char *path, const char *expected) {
  char pattern[256];
  size_t length = key_pattern(path, pattern, sizeof pattern);
  assert_string_equal(pattern, expected);
  assert_int_equal(length, strlen(expected));
}

static void ids_are_taken_out(void **unused) {
  (void)unused;
  expect("/items/1234/bids", "/items/<id>/bids");
  expect("/items/1234.html", "/items/<id>.html");
  expect("/o/550e8400-e29b-41d4-a716-446655440000/", "/o/<id>/");
  expect("/news/2026-11-22", "/news/<id>");
  expect("/a-title-that-nobody-else-will-ever-have-again/x", "/<id>/x");
}

static void names_stay(void **unused) {
  (void)unused;
  expect("/SearchItems.php", "/SearchItems.php");
  expect("/api/v2/cafe", "/api/v2/cafe"); /* hexadecimal digits, but no number */
  expect("/", "/");
  expect("", "");
  expect("*", "*"); /* OPTIONS * */
  expect("//.well-known/", "//.well-known/");
}

static void long_paths_are_cut(void **unused) {
  (void)unused;
  expect("/a/b/c/d/e/f/g/h/i/j", "/a/b/c/d/e/f/g/h");
  char pattern[8];
  assert_int_equal(key_pattern("/abc/defg", pattern, sizeof pattern), 5);
  assert_string_equal(pattern, "/abc/");
  assert_int_equal(key_pattern("/abc", pattern, 0), 0);
}

static void entry_scripts_answer_for_other_addresses(void **unused) {
  (void)unused;
  assert_true(key_is_entry("/", "/srv/www/index.php"));
  assert_true(key_is_entry("/index.php", "/srv/www/index.php"));
  assert_true(key_is_entry("/2026/11/27/a-title/", "/srv/www/index.php"));
  assert_true(key_is_entry("/app.php/news", "/srv/www/app.php"));
  assert_true(key_is_entry("/news", "/srv/www/app.php"));
  assert_false(key_is_entry("/SearchItems.php", "/srv/www/SearchItems.php"));
  assert_false(key_is_entry("/wp-admin/export.php", "/srv/www/wp-admin/export.php"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(ids_are_taken_out),
                                     cmocka_unit_test(names_stay),
                                     cmocka_unit_test(long_paths_are_cut),
                                     cmocka_unit_test(entry_scripts_answer_for_other_addresses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
