/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * Which tables statements name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hm_statement.h"
#include "tables.h"

/* The tables of a statement, parted by blanks. */
static const char *found(const char *statement) {
  static char text[400];
  char fingerprint[HM_STATEMENT_LONGEST];
  struct sql_table tables[8];
  size_t next, at = 0;
  const size_t length =
      hm_statement_normalise(HM_DIALECT_MARIADB, statement, strlen(statement), fingerprint, &next);
  char *exact = malloc(length + 1);
  memcpy(exact, fingerprint, length);
  const size_t count = sql_tables(exact, length, tables, 8);
  for (size_t i = 0; i < count; i++) {
    if (i > 0) text[at++] = ' ';
    if (tables[i].database_length > 0) {
      memcpy(text + at, tables[i].database, tables[i].database_length);
      at += tables[i].database_length;
      text[at++] = '.';
    }
    memcpy(text + at, tables[i].name, tables[i].name_length);
    at += tables[i].name_length;
  }
  text[at] = '\0';
  free(exact);
  return text;
}

static void tables_are_found(void **state) {
  static const char *const known[][2] = {
      {"SELECT 1", ""},
      {"SELECT name FROM items WHERE id = 7", "items"},
      {"select * from items i, users as u, shop.bids where i.a = 1 order by a, b",
       "items users shop.bids"},
      {"SELECT * FROM items i JOIN users u ON i.seller = u.id LEFT JOIN `the bids` USING (id)",
       "items users the bids"},
      {"SELECT STRAIGHT_JOIN a FROM t1 STRAIGHT_JOIN t2", "t1 t2"},
      {"select extract(year from ordered), trim(both 'x' from y) from orders where a in (select b "
       "from parts)",
       "orders parts"},
      {"select * from (select a from inner_one) as d, other where 1", "inner_one"},
      {"select * from (a join b on a.x=b.x)", "a b"},
      {"select a from t for update", "t"},
      {"select a into @x from t", "t"},
      {"SELECT * FROM json_table('[]', '$') j", ""},
      {"INSERT INTO users VALUES (1, 'ann')", "users"},
      {"insert ignore into shop.users(a, b) select a, b from people", "shop.users people"},
      {"insert users values (1) on duplicate key update a = 2", "users"},
      {"replace low_priority into t set a = 1", "t"},
      {"UPDATE items SET a = 1, b = 2 WHERE id = 3", "items"},
      {"update items i, users u set i.a = u.b", "items users"},
      {"DELETE FROM items WHERE id = 1", "items"},
      {"delete items from items join users on a = b", "items users"},
      {"CREATE TABLE IF NOT EXISTS t (a INT)", "t"},
      {"alter table t add b int", "t"},
      {"TRUNCATE t", "t"},
      {"truncate table t", "t"},
      {"drop table a, b", "a b"},
      {"load data infile 'x' into table t", "t"},
      {"CALL work(1)", ""},
      {"select `from` from `join`", "join"},
      {"with c as (select a from t) select * from c", "t c"},
      {"select a from t union all select b from s limit 3", "t s"},
      {"values (1)", ""},
      {"select a from", ""},
      {"select a from `t", "t"},
      {"select a from t.", "t"},
      {"update", ""},
      {"", ""},
  };
  (void)state;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    assert_string_equal(found(known[i][0]), known[i][1]);
}

static void no_more_than_asked_for(void **state) {
  static const char many[] = "select * from a,b,c,d";
  struct sql_table tables[2];
  (void)state;
  assert_int_equal(sql_tables(many, sizeof many - 1, tables, 2), 2);
  assert_int_equal(sql_tables(many, sizeof many - 1, tables, 0), 0);
}

/* For arbitrary bytes, all names lie within the text. */
static void any_bytes(void **state) {
  static const char *const words[] = {"from", "select", "(", ")",      ",",     ".",
                                      "`",    "update", "t", "insert", "into",  "?",
                                      "=",    "as",     " ", "\"",     "table", "\xff"};
  uint32_t random = 1;
  (void)state;
  for (unsigned round = 0; round < 20000; round++) {
    char text[200];
    size_t length = 0;
    for (unsigned i = 0; i < 20; i++) {
      random = random * 1664525 + 1013904223;
      const char *word = words[(random >> 16) % (sizeof words / sizeof *words)];
      memcpy(text + length, word, strlen(word));
      length += strlen(word);
      if (random >> 31) text[length++] = ' ';
    }
    char *exact = malloc(length);
    memcpy(exact, text, length);
    struct sql_table tables[8];
    const size_t count = sql_tables(exact, length, tables, 8);
    assert_true(count <= 8);
    for (size_t i = 0; i < count; i++) {
      assert_true(tables[i].name >= exact &&
                  tables[i].name + tables[i].name_length <= exact + length);
      assert_true(tables[i].name_length > 0);
    }
    free(exact);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_are_found),
      cmocka_unit_test(no_more_than_asked_for),
      cmocka_unit_test(any_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
