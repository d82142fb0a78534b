/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * Statements of one kind have one fingerprint, of different kinds different ones; hostile text stays within bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fingerprint.h"

static char out[SQL_FINGERPRINT_LENGTH + 1];
static size_t next;

static const char *of(enum sql_dialect dialect, const char *text) {
  size_t length = sql_fingerprint(dialect, text, strlen(text), out, &next);
  assert_true(length <= SQL_FINGERPRINT_LENGTH);
  out[length] = '\0';
  return out;
}

static const char *maria(const char *text) { return of(SQL_MARIADB, text); }

static const char *postgres(const char *text) { return of(SQL_POSTGRES, text); }

static void literals_are_parameters(void **state) {
  (void)state;
  assert_string_equal(maria("SELECT 1"), "select ?");
  assert_string_equal(
      maria("select 'it''s', \"a\\\"b\", 0x1F, 1.5e-3, .5, -7, x'00', N'x', _utf8'y'"),
      "select ?,?,?,?,?,?,?,?,?");
  assert_string_equal(maria("select * from t where a = -5 and b>+3"),
                      "select * from t where a=? and b>?");
  assert_string_equal(maria("select a-5 from t"), "select a-? from t");
  assert_string_equal(maria("select 'a' 'b'"), "select ?");
  assert_string_equal(maria("select 'it\\'s' from t"), "select ? from t");
  assert_string_equal(postgres("select 'a\\' from t where x=$1"), "select ? from t where x=?");
  assert_string_equal(postgres("select E'a\\'b', $$ it's $$, $x$ $$ $x$ from t"),
                      "select ?,?,? from t");
  assert_string_equal(postgres("select \"A\" from \"T\""), "select \"A\" from \"T\"");
  assert_string_equal(maria("select `A` from t1.`T`"), "select `A` from t1.`T`");
  assert_string_equal(postgres("select x::int, date '2020-01-01'"), "select x::int,date ?");
}

static void white_space_case_and_comments_make_no_difference(void **state) {
  static const char *const same[] = {
      "SELECT a, b FROM t WHERE c = 1",
      "select a,b\n\tfrom t\rwhere c=22",
      "/* x */ SELECT /* y */ a , b FROM t -- z\nWHERE c = 'q' /*split_id='1.2'*/",
      "select a,b from t where c = 3 # the end",
      "select a,b/**/from t where c=4 -- the end",
      "  ;select a,b from t where c=5 ; ",
  };
  (void)state;
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    assert_string_equal(maria(same[i]), "select a,b from t where c=?");
    assert_int_equal(next, 0);
  }
  assert_string_equal(maria("SELECT COUNT( * ) , a * b FROM t"), "select count(*),a * b from t");
  assert_string_equal(maria("select count(*),a*b from t"), "select count(*),a * b from t");
  assert_string_equal(maria("select t . a from t"), "select t.a from t");
  assert_string_equal(maria("select 5--1"), "select ?-?"); /* no comment in MariaDB */
  assert_string_equal(postgres("select a /* /* nested */ */ from t"), "select a from t");
  assert_string_equal(maria("select /*!40101 sql_no_cache */ a from t"),
                      "select sql_no_cache a from t");
}

static void different_kinds_stay_different(void **state) {
  char first[SQL_FINGERPRINT_LENGTH + 1];
  (void)state;
  strcpy(first, maria("select a from t where b=1"));
  assert_string_not_equal(maria("select a from t where c=1"), first);
  assert_string_not_equal(maria("select a from t where b=1 limit 1"), first);
  strcpy(first, maria("select a from `T` where b=1"));
  assert_string_not_equal(maria("select a from `t` where b=1"), first);
  strcpy(first, maria("select a from t limit 1"));
  assert_string_not_equal(maria("select a from t limit 1,2"), first);
}

static void lists_and_rows_are_one(void **state) {
  (void)state;
  assert_string_equal(maria("select a from t where b in (1)"), "select a from t where b in(?)");
  assert_string_equal(maria("select a from t where b in (1, 2 ,'x' , -4)"),
                      "select a from t where b in(?)");
  assert_string_equal(maria("insert into t values (1,'a'),(2,'b') , (3,'c')"),
                      "insert into t values(?)");
  assert_string_equal(maria("insert into t values (1,now(),f(2)),(2,now(),f(3)),(4,now(),f(4))"),
                      "insert into t values(?,now(),f(?))");
  assert_string_equal(maria("insert into t values (1,now()),(now(),1)"),
                      "insert into t values(?,now()),(now(),?)");
  assert_string_equal(maria("select a from t where (b,c) in ((1,2),(3,4))"),
                      "select a from t where(b,c) in((?))");
}

static void a_second_statement_is_seen(void **state) {
  (void)state;
  assert_string_equal(maria("select 1; select 2"), "select ?");
  assert_int_equal(next, 10);
  maria("select 1; -- nothing\n ; ");
  assert_int_equal(next, 0);
  assert_string_equal(maria("select ';' from t"), "select ? from t");
  assert_int_equal(next, 0);
}

static void long_text_is_cut_where_it_tells_kinds_apart(void **state) {
  (void)state;
  /* A bulk INSERT of a megabyte is the kind of the one of a row, wherever the cut falls. */
  for (unsigned row = 1; row < 40; row++) {
    size_t length = 0, room = 1 << 20;
    char *text = malloc(room);
    length += (size_t)sprintf(text, "insert into t (a,b) values ");
    while (length < room - 100)
      length += (size_t)sprintf(text + length, "(%u,now(),'%.*s'),", row, (int)row,
                                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    text[length - 1] = '\0';
    assert_string_equal(maria(text), "insert into t(a,b) values(?,now(),?)");
    free(text);
  }
  size_t room = 1 << 20, length = 0;
  char *text = malloc(room);
  length += (size_t)sprintf(text, "select a from t where b in (");
  while (length < room - 100) length += (size_t)sprintf(text + length, "%zu,", length);
  strcpy(text + length, "0)");
  assert_string_equal(maria(text), "select a from t where b in(?)");
  /* Words without end. */
  memset(text, 'x', room);
  size_t written = sql_fingerprint(SQL_MARIADB, text, room, out, &next);
  assert_int_equal(written, SQL_FINGERPRINT_LENGTH);
  /* Parentheses without end. */
  memset(text, '(', room);
  written = sql_fingerprint(SQL_MARIADB, text, room, out, &next);
  assert_true(written <= SQL_FINGERPRINT_LENGTH);
  free(text);
}

/* Every cut of every byte: run under AddressSanitizer by `ctest` with -DSANITIZE. */
static void hostile_text_stays_within_bounds(void **state) {
  static const char alphabet[] = "'\"`$/*-#\\;(),.?x1 e!M\n\0\x80@+~=";
  uint64_t random = 88172645463325252u;
  (void)state;
  for (unsigned round = 0; round < 200000; round++) {
    char text[48];
    size_t length = 0;
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    uint64_t draws = random;
    size_t wanted = draws % sizeof text;
    while (length < wanted) {
      draws = draws * 6364136223846793005u + 1442695040888963407u;
      text[length++] = alphabet[(draws >> 33) % (sizeof alphabet - 1)];
    }
    char *exact = malloc(length + 1); /* so that a read behind it is found */
    memcpy(exact, text, length);
    for (int dialect = SQL_MARIADB; dialect <= SQL_POSTGRES; dialect++) {
      assert_true(sql_fingerprint(dialect, exact, length, out, &next) <= SQL_FINGERPRINT_LENGTH);
      sql_verb(dialect, exact, length);
    }
    free(exact);
  }
}

static void verbs_are_known(void **state) {
  (void)state;
#define VERB(text) sql_verb(SQL_MARIADB, text, strlen(text))
  assert_int_equal(VERB("SELECT 1"), SQL_SELECT);
  assert_int_equal(VERB(" /* c */ (select 1) union (select 2)"), SQL_SELECT);
  assert_int_equal(VERB("-- x\ninsert into t values (1)"), SQL_INSERT);
  assert_int_equal(VERB("BEGIN"), SQL_OTHER);
  assert_int_equal(VERB("commit"), SQL_OTHER);
  assert_int_equal(VERB("SET NAMES utf8mb4"), SQL_OTHER);
  assert_int_equal(VERB("selected"), SQL_OTHER);
  assert_int_equal(VERB(""), SQL_OTHER);
  assert_int_equal(VERB("TRUNCATE t"), SQL_CREATE);
  assert_string_equal(sql_verb_name(SQL_UPDATE), "update");
  assert_string_equal(sql_verb_name(SQL_OTHER), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(literals_are_parameters),
      cmocka_unit_test(white_space_case_and_comments_make_no_difference),
      cmocka_unit_test(different_kinds_stay_different),
      cmocka_unit_test(lists_and_rows_are_one),
      cmocka_unit_test(a_second_statement_is_seen),
      cmocka_unit_test(long_text_is_cut_where_it_tells_kinds_apart),
      cmocka_unit_test(hostile_text_stays_within_bounds),
      cmocka_unit_test(verbs_are_known),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
