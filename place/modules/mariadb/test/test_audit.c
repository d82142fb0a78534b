/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The server's events, as a trace of MariaDB 10.11.19 has them, and what is counted. Under sanitizers (-DSANITIZE) this is the plugin's
 * run without memory errors; in a real server it is tests/split_database_mariadb.rs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "audit.h"
#include "counting.h"

/* Texts are in blocks of their exact size, so that a read beyond them is detected. */
static void general(unsigned who, unsigned long long id, unsigned kind, const char *command,
                    const char *text, int error) {
  struct mysql_event_general event;
  char *exact = malloc(strlen(text) + 1);
  memset(&event, 0, sizeof event);
  memcpy(exact, text, strlen(text));
  event.event_subclass = kind;
  event.general_command = command;
  event.general_command_length = (unsigned)strlen(command);
  event.general_query = exact;
  event.general_query_length = (unsigned)strlen(text);
  event.general_error_code = error;
  event.query_id = id;
  audit_event(connection(who), MYSQL_AUDIT_GENERAL_CLASS, &event);
  free(exact);
}

static void log_query(unsigned who, unsigned long long id, const char *text) {
  general(who, id, MYSQL_AUDIT_GENERAL_LOG, "Query", text, 0);
}

static void log_execute(unsigned who, unsigned long long id, const char *text) {
  general(who, id, MYSQL_AUDIT_GENERAL_LOG, "Execute", text, 0);
}

static void status(unsigned who, unsigned long long id, const char *command, const char *text) {
  general(who, id, MYSQL_AUDIT_GENERAL_STATUS, command, text, 0);
}

static void lock(unsigned who, unsigned long long id, const char *database, const char *table) {
  struct mysql_event_table event;
  memset(&event, 0, sizeof event);
  event.event_subclass = MYSQL_AUDIT_TABLE_LOCK;
  event.query_id = id;
  event.database.str = database;
  event.database.length = strlen(database);
  event.table.str = table;
  event.table.length = strlen(table);
  audit_event(connection(who), MYSQL_AUDIT_TABLE_CLASS, &event);
}

static void a_statement_is_counted_with_its_tables_and_origin(void **state) {
  (void)state;
  log_query(1, 1, "SELECT i.x FROM items i, users u WHERE i.id = 7 /*split_id='a1.5'*/");
  lock(1, 1, "test", "items");
  lock(1, 1, "test", "users");
  lock(1, 1, "test", "items");
  lock(1, 1, "mysql", "table_stats");
  status(1, 1, "Query", "SELECT");
  assert_int_equal(count("select i.x from items i,users u where i.id=?"), 1);
  assert_string_equal(found.note, "select items,users");
  assert_int_equal(found.related_app, 0xa1);
  assert_int_equal(found.related_code, 5);
  /* Long names: the note is truncated, within its bounds. */
  char name[300];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  log_query(1, 2, "select 2 from n");
  for (unsigned i = 0; i < 70; i++) lock(1, 2, "test", name + i * 4);
  status(1, 2, "Query", "");
  assert_int_equal(count("select ? from n"), 1);
  assert_int_equal(strlen(found.note), 63);
}

static void what_is_no_statement_is_not(void **state) {
  uint64_t before = sections();
  (void)state;
  log_query(1, 10, "COMMIT");
  status(1, 10, "Query", "COMMIT");
  log_query(1, 11, "set @x = f(1)");
  lock(1, 11, "test", "users");
  log_query(1, 12, "select count(*) into c from users");
  status(1, 13, "Query", "select count(*) into c from users");
  status(1, 11, "Query", "set @x = f(1)");
  general(1, 14, MYSQL_AUDIT_GENERAL_LOG, "Prepare", "select 1", 0);
  status(1, 14, "Prepare", "select 1");
  status(1, 15, "Quit", "");
  assert_int_equal(sections(), before);
}

static void statements_within_belong_to_the_outer_one(void **state) {
  (void)state;
  uint64_t before = sections();
  log_query(1, 20, "call work(1)");
  log_query(1, 20, "update items set name='x' where id= NAME_CONST('n',1)");
  lock(1, 21, "test", "items");
  status(1, 21, "Query", "update items set name='x' where id= NAME_CONST('n',1)");
  log_query(1, 21, "select count(*) from users");
  lock(1, 22, "test", "users");
  status(1, 22, "Query", "select count(*) from users");
  status(1, 20, "Query", "call work(1)");
  assert_int_equal(sections(), before + 1);
  assert_int_equal(count("call work(?)"), 1);
  assert_string_equal(found.note, "call items,users");
}

static void prepared_statements_have_the_kind_of_their_text(void **state) {
  (void)state;
  for (unsigned long long id = 30; id < 33; id++) {
    log_execute(1, id, "select b from t where a = ?");
    lock(1, id, "test", "t");
    status(1, id, "Execute", "select b from t where a = ?");
  }
  for (unsigned long long id = 33; id < 35; id++) {
    log_query(1, id, "execute s using @a");
    log_execute(1, id, "select b from t where a = ?");
    lock(1, id, "test", "t");
    status(1, id, "Query", "select b from t where a = ?");
  }
  assert_int_equal(count("select b from t where a=?"), 5);
  assert_int_equal(count("execute s using @a"), 0);
}

static void each_statement_of_a_packet_counts(void **state) {
  (void)state;
  uint64_t before = sections();
  log_query(1, 40, "select 1 from p; select 2 from q; call r(1); set @a=1");
  status(1, 40, "Query", "select 1 from p");
  status(1, 41, "Query", "select 2 from q");
  log_query(1, 42, "select 3 from inner_one");
  status(1, 43, "Query", "select 3 from inner_one");
  status(1, 42, "Query", "call r(1)");
  status(1, 44, "Query", "set @a=1");
  assert_int_equal(sections(), before + 3);
  assert_int_equal(count("select ? from q"), 1);
  assert_int_equal(count("call r(?)"), 1);
  /* After an error there are no more. */
  log_query(1, 45, "select 1 from p; select 2 from q");
  general(1, 45, MYSQL_AUDIT_GENERAL_STATUS, "Query", "select 1 from p", 1054);
  log_query(1, 47, "select 9 from z");
  status(1, 47, "Query", "select 9 from z");
  assert_int_equal(count("select ? from q"), 1);
  assert_int_equal(count("select ? from z"), 1);
}

static void *send_answer(void *unused) {
  status(1, 50, "Query", "insert into l values (1)");
  return unused;
}

static void a_commit_that_another_thread_finishes_is_dropped(void **state) {
  (void)state;
  thread_handling = SERVER_THREAD_POOL;
  groups_switch(true);
  uint64_t before = statement_abandoned();
  log_query(1, 50, "insert into l values (1)");
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, send_answer, NULL), 0);
  pthread_join(other, NULL);
  log_query(1, 51, "insert into l values (2)");
  status(1, 51, "Query", "insert into l values (2)");
  assert_int_equal(count("insert into l values(?)"), 1);
  assert_int_equal(statement_abandoned(), before + 1);
  /* Another connection on this thread, although the statement of the previous one never ended. */
  log_query(1, 52, "select 1 from m");
  log_query(2, 53, "select 1 from m");
  status(2, 53, "Query", "select 1 from m");
  assert_int_equal(count("select ? from m"), 1);
  assert_int_equal(statement_abandoned(), before + 2);
  thread_handling = 0;
}

/* The statement that switches off is ignored, and has no end. */
static void who_switches_off_and_on_counts_again(void **state) {
  (void)state;
  log_query(1, 55, "set global split_engine=off");
  statement_switch(false);
  status(1, 55, "Query", "set global split_engine=off");
  log_query(1, 56, "set global split_engine=on");
  statement_switch(true);
  status(1, 56, "Query", "set global split_engine=on");
  log_query(1, 57, "select 1 from switched");
  status(1, 57, "Query", "select 1 from switched");
  assert_int_equal(count("select ? from switched"), 1);
}

static void switched_off_nothing_is_counted(void **state) {
  (void)state;
  log_query(1, 60, "select 1 from o");
  statement_switch(false);
  status(1, 60, "Query", "select 1 from o"); /* was begun: ends */
  log_query(1, 61, "select 1 from o");
  status(1, 61, "Query", "select 1 from o");
  assert_int_equal(count("select ? from o"), 1);
  statement_switch(true);
}

/* `hardmeter split off`: the segment is switched off, the server's variable is not. A begun
 * section would be visible here. */
static void switched_off_from_outside_nothing_is_read(void **state) {
  (void)state;
  const int64_t off = 0, on = 1;
  uint64_t before = statement_abandoned();
  split_set(SPLIT_COLLECT, &off);
  log_query(1, 70, "select 1 from outside");
  log_query(1, 71, "select 1 from outside");
  split_set(SPLIT_COLLECT, &on);
  log_query(1, 72, "select 1 from outside");
  status(1, 72, "Query", "select 1 from outside");
  assert_int_equal(count("select ? from outside"), 1);
  assert_int_equal(statement_abandoned(), before);
}

/* Events in any order, with any text: nothing is counted, and nothing may crash. */
static void nonsense_does_no_harm(void **state) {
  static const char *const texts[] = {
      "", ";", "select 1;;select 2", "execute", "call x(", "/*", "'", "select '"};
  static const char *const commands[] = {"Query", "Execute", "Bulk_execute", "Prepare", "Quit", ""};
  uint32_t random = 1;
  (void)state;
  for (unsigned round = 0; round < 100000; round++) {
    random = random * 1664525 + 1013904223;
    unsigned who = 1 + (random >> 30), kind = random >> 28 & 3;
    unsigned long long id = 100 + (random >> 20 & 7);
    thread_handling = random >> 18 & 2;
    if ((random >> 10 & 7) == 0)
      lock(who, id, "test", "t");
    else
      general(who, id, kind, commands[(random >> 13 & 255) % 6], texts[random >> 5 & 7],
              random >> 9 & 1);
  }
  thread_handling = 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_statement_is_counted_with_its_tables_and_origin),
      cmocka_unit_test(what_is_no_statement_is_not),
      cmocka_unit_test(statements_within_belong_to_the_outer_one),
      cmocka_unit_test(prepared_statements_have_the_kind_of_their_text),
      cmocka_unit_test(each_statement_of_a_packet_counts),
      cmocka_unit_test(a_commit_that_another_thread_finishes_is_dropped),
      cmocka_unit_test(who_switches_off_and_on_counts_again),
      cmocka_unit_test(switched_off_nothing_is_counted),
      cmocka_unit_test(switched_off_from_outside_nothing_is_read),
      cmocka_unit_test(nonsense_does_no_harm),
  };
  return cmocka_run_group_tests(tests, open_library, close_library);
}
