/* The pages of an entry script. */
#include "pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct pages pages;

static int afresh(void **unused) {
  (void)unused;
  memset(&pages, 0, sizeof pages);
  return 0;
}

static void expect(const char *path, const char *arguments, const char *expected) {
  char page[256];
  size_t length = pages_page(&pages, path, arguments, page, sizeof page);
  assert_string_equal(page, expected);
  assert_int_equal(length, strlen(expected));
}

static void arguments_are_distinguished_by_their_names(void **unused) {
  (void)unused;
  expect("/", NULL, "/");
  expect("/", "", "/");
  expect("/", "p=17", "/?p");
  expect("/", "p=18", "/?p");
  expect("/", "s=brass+lantern", "/?s");
  expect("/", "s=brass&paged=2", "/?paged&s");
  expect("/", "paged=2&s=brass", "/?paged&s");
  expect("/", "s=a&s=b&=c&&s", "/?s");
  expect("/shop/", "filter[price]=7;filter%5Bsize%5D=8", "/shop/?filter");
  expect("/", "g=1&f=1&e=1&d=1&c=1&b=1&a=1", "/?a&b&c&d&e&f");
  expect("/", "a-name-of-more-than-24-bytes=1", "/?a-name-of-more-than-24-b");
}

/* WordPress: 33 articles of one day, and a folder of few names. */
static void places_with_many_names_have_ids(void **unused) {
  (void)unused;
  char path[64];
  for (int i = 0; i < PAGES_NAMES; i++) {
    snprintf(path, sizeof path, "/2026/11/27/number-%c%c/", 'g' + i / 16, 'g' + i % 16);
    char expected[128];
    snprintf(expected, sizeof expected, "/<id>/<id>/<id>/%s", path + strlen("/2026/11/27/"));
    expect(path, NULL, expected);
  }
  expect("/2026/11/28/one-more/", NULL, "/<id>/<id>/<id>/<id>/");
  expect("/2026/11/27/number-gg/", NULL, "/<id>/<id>/<id>/<id>/"); /* it had a kind of its own */
  expect("/2026/11/27/number-gg/feed/", NULL, "/<id>/<id>/<id>/<id>/feed/");
  expect("/category/news/", NULL, "/category/news/");
}

static void made_up_names_do_not_make_kinds(void **unused) {
  (void)unused;
  char arguments[32];
  for (int i = 0; i < PAGES_NAMES; i++) {
    snprintf(arguments, sizeof arguments, "x%d=1", i);
    char expected[128];
    snprintf(expected, sizeof expected, "/?x%d", i);
    expect("/", arguments, expected);
  }
  expect("/", "y=1", "/?<any>");
  expect("/", "x0=1", "/?<any>");
  expect("/", NULL, "/");
  /* Places: each path of two names is one more, and the table is full some time. */
  char path[32], page[64];
  for (int i = 0; i < 4 * PAGES_PLACES; i++) {
    snprintf(path, sizeof path, "/%c%c%c/z", 'g' + i % 16, 'g' + i / 16 % 16, 'g' + i / 256);
    pages_page(&pages, path, NULL, page, sizeof page);
  }
  assert_string_equal(page, "/<id>/z");
}

static void what_does_not_fit_is_cut(void **unused) {
  (void)unused;
  char page[8];
  assert_int_equal(pages_page(&pages, "/abc/defghi", "k=1", page, sizeof page), 7);
  assert_string_equal(page, "/abc/?k");
  assert_int_equal(pages_page(&pages, "/abc", NULL, page, 0), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(arguments_are_distinguished_by_their_names, afresh),
      cmocka_unit_test_setup(places_with_many_names_have_ids, afresh),
      cmocka_unit_test_setup(made_up_names_do_not_make_kinds, afresh),
      cmocka_unit_test_setup(what_does_not_fit_is_cut, afresh)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
