/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Statements without their constants.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "statement.h"
#include "test.h"

/* The text is copied so that a byte read beyond its end is found out. */
static char *normalised(const char *text, size_t length) {
  static char out[HM_STATEMENT_TEXT + 1];
  char *copy = malloc(length != 0 ? length : 1);
  memcpy(copy, text, length);
  uint32_t written = hm_statement_normalise(copy, (uint32_t)length, out);
  free(copy);
  assert_int_equal(strlen(out), written);
  return out;
}

static void gives(const char *text, const char *expected) {
  assert_string_equal(normalised(text, strlen(text)), expected);
}

static void constants_become_question_marks(void **state) {
  (void)state;
  gives("SELECT abalance FROM pgbench_accounts WHERE aid = 58913;",
        "SELECT abalance FROM pgbench_accounts WHERE aid = ?;");
  gives("select 1, 1.5, .5, 1e6, 1.5e-3, 0xFF, 1_000", "select ?, ?, ?, ?, ?, ?, ?");
  gives("select 'it''s', E'a\\'b', b'01', X'ff', n'x'", "select ?, ?, ?, ?, ?");
  gives("select $$a 'quote'$$, $tag$ $$ 5 $tag$, 'two\nlines'", "select ?, ?, ?");
  gives("select f('a', 1)", "select f(?, ?)");
  gives("select interval '1 day'", "select interval ?");
  gives("select a[1:2], 5::int, '{}'::jsonb", "select a[?:?], ?::int, ?::jsonb");
}

static void a_sign_belongs_to_a_number_unless_an_operand_comes_before(void **state) {
  (void)state;
  gives("UPDATE t SET a = a + -5 WHERE b = -3", "UPDATE t SET a = a + ? WHERE b = ?");
  gives("UPDATE t SET a = a + 5 WHERE b = 3", "UPDATE t SET a = a + ? WHERE b = ?");
  gives("select a-5, a -5, (a)-5, 7-5, \"a\"-5, $1-5",
        "select a-?, a -?, (a)-?, ?-?, \"a\"-?, $1-?");
  gives("select -5, (-5), 3*-5 limit -1", "select ?, (?), ?*? limit ?");
  gives("select -a", "select -a");
}

static void names_and_parameters_stay(void **state) {
  (void)state;
  gives("select t1.a2 from \"Table 1\" t1, `my 2` where a$1 = $1 and b = $12",
        "select t1.a2 from \"Table 1\" t1, `my 2` where a$1 = $1 and b = $12");
  gives("select \"it\"\"s 5\"", "select \"it\"\"s 5\"");
  gives(
      "SELECT \xc3\xa4"
      "1 FROM stra\xc3\x9f"
      "e2",
      "SELECT \xc3\xa4"
      "1 FROM stra\xc3\x9f"
      "e2");
}

static void blanks_and_comments_become_one_blank(void **state) {
  (void)state;
  gives("  select\t\n a -- 5 'x\n  from/* 1 /* nested */ 2 */t  ", "select a from t");
  gives("/* only */ -- this", "");
  gives("", "");
  gives("select a - - 5", "select a - - ?");
}

static void lists_of_constants_become_one(void **state) {
  (void)state;
  gives("select a from t where b in (1, 2,3) and c IN ( 'x' )",
        "select a from t where b in (?) and c IN (?)");
  gives("insert into t values (1, -2, 'x'), (3,4,'y') , (5,6,'z') returning a",
        "insert into t values (?) returning a");
  gives("insert into t values (1, now()), (2, now())",
        "insert into t values (?, now()), (?, now())");
  gives("insert into t values (1, 2), (a, 3)", "insert into t values (?), (a, ?)");
  gives("select a in (), b in (1,)", "select a in (), b in (?,)");
  gives("select f(1, 2), (3, 4)", "select f(?, ?), (?, ?)");
  gives("select a in (select 1)", "select a in (select ?)");
  gives(
      "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 2, 3, -4, "
      "CURRENT_TIMESTAMP);",
      "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (?, ?, ?, ?, "
      "CURRENT_TIMESTAMP);");
}

static void a_list_longer_than_any_text_is_still_one(void **state) {
  (void)state;
  static char text[HM_STATEMENT_RAW];
  size_t length = (size_t)snprintf(text, sizeof text, "delete from t where a in (0");
  while (length < 9000) length += (size_t)snprintf(text + length, 20, ", %zu", length);
  strcpy(text + length, ") and b");
  gives(text, "delete from t where a in (?) and b");
  /* Cut within the list, as one beyond HM_STATEMENT_RAW is. */
  assert_string_equal(normalised(text, 5000), "delete from t where a in (?)");
}

static void a_text_is_cut_at_a_whole_character(void **state) {
  (void)state;
  char text[HM_STATEMENT_TEXT + 100];
  memset(text, 'a', sizeof text);
  assert_int_equal(strlen(normalised(text, sizeof text)), HM_STATEMENT_TEXT);
  assert_int_equal(strlen(normalised(text, HM_STATEMENT_TEXT)), HM_STATEMENT_TEXT);
  /* Three bytes, two of which fit. */
  memcpy(text + HM_STATEMENT_TEXT - 2, "\xe2\x82\xac", 3);
  assert_int_equal(strlen(normalised(text, sizeof text)), HM_STATEMENT_TEXT - 2);
  memcpy(text + HM_STATEMENT_TEXT - 3, "\xe2\x82\xac", 3);
  assert_int_equal(strlen(normalised(text, sizeof text)), HM_STATEMENT_TEXT);
}

/* For any truncation and any bytes: it ends, and reads nothing beyond. */
static void any_bytes_are_read_to_their_end(void **state) {
  (void)state;
  const char *text =
      "select E'a\\'b', $t$ x $t$, -1.5e-3, 0xf, \"a\" in (1, 'b'), (2) /* /* */ */ -- $1";
  for (size_t length = 0; length <= strlen(text); length++) normalised(text, length);
  const char alphabet[] = "'\"`$e/*-+.0x1,() \\\nE_\xc3n";
  uint32_t random = 1;
  for (int round = 0; round < 20000; round++) {
    char bytes[24];
    for (size_t i = 0; i < sizeof bytes; i++) {
      random = random * 1664525u + 1013904223u;
      bytes[i] = alphabet[(random >> 16) % (sizeof alphabet - 1)];
    }
    normalised(bytes, (random >> 8) % (sizeof bytes + 1));
  }
}

/* One line of tests/vectors/statements.txt without its end, escapes undone. */
static int read_line(FILE *file, char *line, size_t room) {
  char raw[4096];
  if (fgets(raw, sizeof raw, file) == NULL) return 0;
  size_t length = 0;
  for (const char *from = raw; *from != 0 && *from != '\n'; from++) {
    assert_true(length + 1 < room);
    if (*from != '\\') {
      line[length++] = *from;
    } else {
      from++;
      line[length++] = *from == 'n' ? '\n' : *from;
    }
  }
  line[length] = 0;
  return 1;
}

/* measure/answers/src/statement_text.rs does for captures of the kernel what is done here. */
static void what_the_analysis_makes_of_a_statement_is_made_here_too(void **state) {
  (void)state;
  FILE *file = fopen(HM_VECTORS "/statements.txt", "r");
  assert_non_null(file);
  char text[4096], expected[4096];
  int pairs = 0;
  while (read_line(file, text, sizeof text)) {
    if (text[0] == '#') continue;
    assert_true(read_line(file, expected, sizeof expected));
    gives(text, expected);
    pairs++;
  }
  fclose(file);
  assert_true(pairs >= 20);
}

/* The test vectors of the authors (Fowler, Noll, Vo). */
static void the_hash_is_fnv_1a(void **state) {
  (void)state;
  assert_true(hm_statement_hash("", 0) == 0xcbf29ce484222325ull);
  assert_true(hm_statement_hash("a", 1) == 0xaf63dc4c8601ec8cull);
  assert_true(hm_statement_hash("foobar", 6) == 0x85944171f73967e8ull);
}

static void a_table_keeps_each_text_once_and_what_finds_no_place_is_dropped(void **state) {
  (void)state;
  struct hm_statement *table = calloc(HM_STATEMENTS, sizeof *table);
  hm_statement_register(table, 7, "SELECT ?", 8);
  hm_statement_register(table, 7, "SELECT ?", 8);
  hm_statement_register(table, 7 + HM_STATEMENTS, "BEGIN", 5); /* the same slot */
  assert_string_equal(table[7].text, "SELECT ?");
  assert_int_equal(table[7].length, 8);
  assert_true(table[8].hash == 7 + HM_STATEMENTS);
  assert_string_equal(table[8].text, "BEGIN");
  assert_true(table[9].hash == 0);
  for (uint64_t hash = 1; hash <= 4 * HM_STATEMENTS; hash++)
    hm_statement_register(table, hash, "x", 1);
  uint32_t used = 0;
  for (uint32_t i = 0; i < HM_STATEMENTS; i++) used += table[i].hash != 0 && table[i].length != 0;
  assert_int_equal(used, HM_STATEMENTS);
  assert_string_equal(table[7].text, "SELECT ?");
  free(table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constants_become_question_marks),
      cmocka_unit_test(a_sign_belongs_to_a_number_unless_an_operand_comes_before),
      cmocka_unit_test(names_and_parameters_stay),
      cmocka_unit_test(blanks_and_comments_become_one_blank),
      cmocka_unit_test(lists_of_constants_become_one),
      cmocka_unit_test(a_list_longer_than_any_text_is_still_one),
      cmocka_unit_test(a_text_is_cut_at_a_whole_character),
      cmocka_unit_test(any_bytes_are_read_to_their_end),
      cmocka_unit_test(what_the_analysis_makes_of_a_statement_is_made_here_too),
      cmocka_unit_test(the_hash_is_fnv_1a),
      cmocka_unit_test(a_table_keeps_each_text_once_and_what_finds_no_place_is_dropped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
