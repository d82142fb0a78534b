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

#include "hm_statement.h"

static char out[HM_STATEMENT_LONGEST + 1];
static size_t next;

static const char *of(enum hm_dialect dialect, const char *text) {
  size_t length = hm_statement_normalise(dialect, text, strlen(text), out, &next);
  assert_true(length <= HM_STATEMENT_LONGEST);
  out[length] = '\0';
  return out;
}

static const char *maria(const char *text) { return of(HM_DIALECT_MARIADB, text); }

static const char *postgres(const char *text) { return of(HM_DIALECT_POSTGRES, text); }

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
  char first[HM_STATEMENT_LONGEST + 1];
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

static void null_and_boolean_constants_are_literals_where_a_value_is(void **state) {
  (void)state;
  assert_string_equal(postgres("insert into t values (1, null, true), (NULL, 2, false)"),
                      "insert into t values(?)");
  assert_string_equal(postgres("select null, a from t where b = false and c is null"),
                      "select ?,a from t where b=? and c is null");
  assert_string_equal(postgres("select a from t where b is not true and c is distinct from null"),
                      "select a from t where b is not true and c is distinct from null");
  assert_string_equal(postgres("create table t(a int not null default null)"),
                      "create table t(a int not null default null)");
  assert_string_equal(postgres("select a.null, nullif(a, null) from t"),
                      "select a.null,nullif(a,?) from t");
}

static void a_sign_belongs_to_a_number_unless_an_operand_comes_before(void **state) {
  (void)state;
  assert_string_equal(postgres("select -5, (-5), 3*-5, a - -5 from t limit -1"),
                      "select ?,(?),? * ?,a-? from t limit ?");
  assert_string_equal(postgres("select a-5, a -5, (a)-5, 7-5, \"a\"-5, $1-5, x[1]-5"),
                      "select a-?,a-?,(a)-?,?-?,\"a\"-?,?-?,x[?]-?");
  assert_string_equal(postgres("select -a, b between -1 and -2"), "select-a,b between ? and ?");
}

static void operators_are_told_apart_by_what_they_are_not_by_blanks(void **state) {
  (void)state;
  assert_string_equal(postgres("select a=-b"), "select a= -b");
  assert_string_equal(postgres("select a = - b"), "select a= -b");
  assert_string_equal(postgres("select a@>b, a @> b, @ c, @c"), "select a@>b,a@>b,@c,@c");
  assert_string_equal(postgres("select a @- b"), "select a@-b");
  assert_string_equal(postgres("select a @ -b"), "select a@ -b");
  assert_string_equal(postgres("select a->'b'->>'c', x::int[], y <> all(array[1, 2,3])"),
                      "select a->?->>?,x::int[],y<>all(array[?])");
  assert_string_equal(postgres("select a * -b, a*b, a/**/*b"), "select a * -b,a * b,a * b");
  assert_string_equal(maria("select @a := @a + 1, !b, c<=>d, c && !d, e->>'$.x'"),
                      "select @a:=@a+?,!b,c<=>d,c&& !d,e->>?");
  assert_string_equal(postgres("select U&'d\\0061t' , u & b"), "select ?,u&b");
}

/* Drivers send the same text with and without it, and servers report both forms. */
static void a_semicolon_at_the_end_makes_no_difference(void **state) {
  static char whole[HM_STATEMENT_LONGEST];
  static const char text[] = "; BEGIN; select 1 ; -- x\n ; ";
  (void)state;
  size_t length = hm_statement_normalise(HM_DIALECT_POSTGRES, text, sizeof text - 1, whole, NULL);
  assert_int_equal(length, strlen("begin;select ?"));
  assert_memory_equal(whole, "begin;select ?", length);
}

static void what_is_explained_prepared_or_declared_is_within(void **state) {
  static const char *const texts[] = {
      "EXPLAIN SELECT a FROM t",
      "explain analyze verbose select a from t",
      "explain (analyze, costs off) select a from t",
      "prepare p as select a from t",
      "prepare p (int, numeric(10,2)) as select a from t",
      "declare c binary cursor with hold for select a from t",
  };
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const char *normalised = postgres(texts[i]);
    assert_string_equal(normalised + hm_statement_inner(normalised, strlen(normalised)),
                        "select a from t");
  }
  static const char *const others[] = {"select a as b from t", "explain", "prepare p", "",
                                       "update t set a=? for"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_int_equal(hm_statement_inner(others[i], strlen(others[i])), 0);
}

/* From object-relational mappers: they differ only after a kilobyte of columns. */
static void long_statements_differ_in_their_ends(void **state) {
  char text[6000], first[HM_STATEMENT_LONGEST + 1];
  size_t length = 0;
  (void)state;
  length += (size_t)sprintf(text, "select a");
  while (length < 5000)
    length += (size_t)sprintf(text + length, ",t0.c%zu as c%zu", length, length);
  strcpy(text + length, " from t where a=1");
  strcpy(first, postgres(text));
  uint64_t id = hm_statement_id(first, strlen(first));
  strcpy(text + length, " from t where b=1");
  const char *second = postgres(text);
  assert_true(hm_statement_id(second, strlen(second)) != id);
}

static void long_text_is_cut_where_it_tells_kinds_apart(void **state) {
  const size_t size = HM_STATEMENT_READ + (1 << 20);
  size_t length = 0;
  char *text = malloc(size);
  (void)state;
  /* A bulk INSERT of two megabytes has the id of an INSERT of one row, wherever it is truncated. */
  for (unsigned row = 1; row < 40; row++) {
    length = (size_t)sprintf(text, "insert into t (a,b) values ");
    while (length < size - 100)
      length += (size_t)sprintf(text + length, "(%u,now(),'%.*s'),", row, (int)row,
                                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    text[length - 1] = '\0';
    assert_string_equal(maria(text), "insert into t(a,b) values(?,now(),?)");
  }
  length = (size_t)sprintf(text, "select a from t where b in (");
  while (length < size - 100) length += (size_t)sprintf(text + length, "%zu,", length);
  strcpy(text + length, "0)");
  assert_string_equal(maria(text), "select a from t where b in(?)");
  /* Words without end. */
  memset(text, 'x', size);
  size_t written = hm_statement_normalise(HM_DIALECT_MARIADB, text, size, out, &next);
  assert_int_equal(written, HM_STATEMENT_LONGEST);
  /* Parentheses without end. */
  memset(text, '(', size);
  written = hm_statement_normalise(HM_DIALECT_MARIADB, text, size, out, &next);
  assert_true(written <= HM_STATEMENT_LONGEST);
  free(text);
}

/* Files contain ids: a change of the hash changes their formats. */
static void ids_stay_as_they_are(void **state) {
  static const struct {
    const char *text;
    uint64_t id;
  } known[] = {
      {"", 0},
      {"begin", 0x552238f20d78d878},
      {"select ?", 0x92718de483c23804},
      {"select abalance from pgbench_accounts where aid=?", 0x50ec45bd78bcfdfa},
  };
  (void)state;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    assert_int_equal(hm_statement_id(known[i].text, strlen(known[i].text)), known[i].id);
}

/* Truncation at every byte, and every byte replaced: `ctest` with -DSANITIZE runs it under
 * AddressSanitizer. */
static void hostile_text_stays_within_bounds(void **state) {
  static const char alphabet[] = "[]|&tnul:%'\"`$/*-#\\;(),.?x1 e!M\n\0\x80@+~=";
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
    char *exact = malloc(length + 1); /* so that a read beyond it is detected */
    memcpy(exact, text, length);
    for (int dialect = HM_DIALECT_MARIADB; dialect <= HM_DIALECT_POSTGRES; dialect++) {
      assert_true(hm_statement_normalise(dialect, exact, length, out, &next) <=
                  HM_STATEMENT_LONGEST);
      hm_statement_verb(dialect, exact, length);
      assert_true(hm_statement_inner(exact, length) <= length);
    }
    free(exact);
  }
}

static void verbs_are_known(void **state) {
  (void)state;
#define VERB(text) hm_statement_verb(HM_DIALECT_MARIADB, text, strlen(text))
  assert_int_equal(VERB("SELECT 1"), HM_VERB_SELECT);
  assert_int_equal(VERB(" /* c */ (select 1) union (select 2)"), HM_VERB_SELECT);
  assert_int_equal(VERB("-- x\ninsert into t values (1)"), HM_VERB_INSERT);
  assert_int_equal(VERB("BEGIN"), HM_VERB_OTHER);
  assert_int_equal(VERB("commit"), HM_VERB_OTHER);
  assert_int_equal(VERB("SET NAMES utf8mb4"), HM_VERB_OTHER);
  assert_int_equal(VERB("selected"), HM_VERB_OTHER);
  assert_int_equal(VERB(""), HM_VERB_OTHER);
  assert_int_equal(VERB("TRUNCATE t"), HM_VERB_CREATE);
  assert_string_equal(hm_verb_name(HM_VERB_UPDATE), "update");
  assert_string_equal(hm_verb_name(HM_VERB_OTHER), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(literals_are_parameters),
      cmocka_unit_test(white_space_case_and_comments_make_no_difference),
      cmocka_unit_test(different_kinds_stay_different),
      cmocka_unit_test(lists_and_rows_are_one),
      cmocka_unit_test(a_second_statement_is_seen),
      cmocka_unit_test(null_and_boolean_constants_are_literals_where_a_value_is),
      cmocka_unit_test(a_sign_belongs_to_a_number_unless_an_operand_comes_before),
      cmocka_unit_test(operators_are_told_apart_by_what_they_are_not_by_blanks),
      cmocka_unit_test(a_semicolon_at_the_end_makes_no_difference),
      cmocka_unit_test(what_is_explained_prepared_or_declared_is_within),
      cmocka_unit_test(long_statements_differ_in_their_ends),
      cmocka_unit_test(ids_stay_as_they_are),
      cmocka_unit_test(long_text_is_cut_where_it_tells_kinds_apart),
      cmocka_unit_test(hostile_text_stays_within_bounds),
      cmocka_unit_test(verbs_are_known),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
