/* Malformed ids, and the position of the comment in a statement. */
#include "comment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void expect_comment(const char *id, const char *expected) {
  char comment[COMMENT_MOST];
  size_t length = comment_make(id, strlen(id), comment);
  assert_int_equal(length, strlen(expected));
  assert_memory_equal(comment, expected, length);
}

static void ids_become_comments(void **unused) {
  (void)unused;
  expect_comment("1.2", " /*split_id='1.2'*/");
  expect_comment("ffffffff.ffffffff", " /*split_id='ffffffff.ffffffff'*/");
}

static void whatever_is_no_id_stays_out(void **unused) {
  (void)unused;
  const char *const no_ids[] = {"",     ".",     "1",           "1.",
                                ".2",   "1.2.3", "123456789.1", "1.123456789",
                                "A.1",  " 1.2",  "1.2 ",        "1.2'*/ DROP TABLE users",
                                "-1.2", "0x1.2", "1'.2",        "1.2\n"};
  for (size_t i = 0; i < sizeof no_ids / sizeof *no_ids; i++) expect_comment(no_ids[i], "");
  char comment[COMMENT_MOST];
  assert_int_equal(comment_make("1.2\0'", 5, comment), 0);
}

/* `expected`: the statement with | at the comment's position; NULL: it is not changed. */
static void expect_place(const char *statement, const char *expected) {
  /* Exactly its bytes: the sanitizer detects a read beyond them. */
  size_t length = strlen(statement), place = 0;
  char *exact = malloc(length ? length : 1);
  assert_non_null(exact);
  memcpy(exact, statement, length);
  bool has_place = comment_place(exact, length, &place);
  assert_int_equal(has_place, expected != NULL);
  if (expected) {
    assert_int_equal(place, strchr(expected, '|') - expected);
    assert_memory_equal(exact, expected, place);
  }
  free(exact);
}

static void comments_go_to_the_end(void **unused) {
  (void)unused;
  expect_place("SELECT 1", "SELECT 1|");
  expect_place("SELECT 1; \n", "SELECT 1|; \n");
  expect_place("SELECT 1; SELECT 2;", "SELECT 1; SELECT 2|;");
  expect_place("SELECT /* why */ 2*3", "SELECT /* why */ 2*3|");
  expect_place("SELECT count(*) /*+ hint */", "SELECT count(*) /*+ hint */|");
  expect_place("SELECT 'split_id='", "SELECT 'split_id='|");
  expect_place("*", "*|");
  expect_place("/* ping */", "/* ping */|");
}

static void some_statements_go_as_they_are(void **unused) {
  (void)unused;
  expect_place("", NULL);
  expect_place(" ;\n", NULL);
  expect_place("SELECT 1 /*split_id='1.2'*/", NULL);
  expect_place("SELECT 1 /*split_id='1.2'*/ ;", NULL);
  expect_place("SELECT 1 /*route='x',split_id='1.2'*/", NULL);
  expect_place("SELECT 1 /* left open", NULL);
  expect_place("SELECT 1 /*/", NULL);
  size_t place, length = COMMENT_STATEMENT_MOST + 1;
  char *long_one = malloc(length);
  assert_non_null(long_one);
  memset(long_one, 'x', length);
  assert_false(comment_place(long_one, length, &place));
  assert_true(comment_place(long_one, length - 1, &place));
  free(long_one);
}

/* Each of the first statements, then one in COMMENT_EVERY, at any position in a loop of the page.
 * */
static void pages_of_many_statements_say_it_now_and_then(void **unused) {
  (void)unused;
  struct comment_turns turns = {.random = 1};
  unsigned chosen[3] = {0};
  comment_turns_begin(&turns);
  for (int i = 0; i < COMMENT_FIRST; i++) assert_true(comment_turn(&turns));
  for (int i = 0; i < 300000; i++) chosen[i % 3] += comment_turn(&turns);
  for (int i = 0; i < 3; i++) assert_in_range(chosen[i], 2900, 3350); /* 100,000 / 32 = 3,125 */
  comment_turns_begin(&turns);
  assert_true(comment_turn(&turns));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_become_comments), cmocka_unit_test(whatever_is_no_id_stays_out),
      cmocka_unit_test(comments_go_to_the_end), cmocka_unit_test(some_statements_go_as_they_are),
      cmocka_unit_test(pages_of_many_statements_say_it_now_and_then)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
