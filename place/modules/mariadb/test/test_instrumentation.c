/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The server's calls, as a trace of MariaDB 10.11.19 has them, and what is counted. Under sanitizers (-DSANITIZE) this is the plugin's
 * run without memory errors; in a real server it is tests/split_database_mariadb.rs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <my_global.h>
#include <mysql/psi/psi.h>
#include <mysql_version.h>
#pragma GCC diagnostic pop

#include "counting.h"
#include "instrumentation.h"

/* The server's default table. */
static PSI nothing;
PSI *PSI_server = &nothing;
struct PSI_bootstrap *PSI_hook;
char server_version[64] = MYSQL_SERVER_VERSION "-Debian-0";
void set_psi_server(PSI *table) { PSI_server = table; }
static _Thread_local MYSQL_THD current;
MYSQL_THD _current_thd(void) { return current; }

/* A client's statement has the address of its connection, a nested one a different address. */
static PSI_statement_locker_state places[8];

static PSI_statement_locker *start(unsigned who, unsigned place) {
  current = connection(who);
  PSI_statement_locker *locker =
      PSI_server->get_thread_statement_locker(&places[place], 0, NULL, NULL);
  return locker ? PSI_server->refine_statement(locker, 1) : NULL;
}

/* Texts are in blocks of their exact size, so that a read beyond them is detected. */
static void text(PSI_statement_locker *locker, const char *text) {
  if (locker == NULL) return;
  char *exact = malloc(strlen(text) + 1);
  memcpy(exact, text, strlen(text));
  PSI_server->set_statement_text(locker, exact, (uint)strlen(text));
  free(exact);
}

static void end(PSI_statement_locker *locker) {
  if (locker != NULL) PSI_server->end_statement(locker, NULL);
}

static void statement(unsigned who, const char *sql) {
  PSI_statement_locker *locker = start(who, who);
  text(locker, sql);
  end(locker);
}

static PSI_prepared_stmt *prepare(unsigned who, const char *sql) {
  PSI_statement_locker *locker = start(who, who);
  PSI_prepared_stmt *made = PSI_server->create_prepared_stmt(NULL, 1, locker, NULL, 0);
  PSI_server->set_prepared_stmt_text(made, sql, (uint)strlen(sql));
  end(locker);
  return made;
}

static void a_statement_is_counted_with_its_tables_and_origin(void **state) {
  (void)state;
  statement(1, "SELECT i.x FROM items i, users u WHERE i.id = 7 /*split_id='a1.5'*/");
  assert_int_equal(count("select i.x from items i,users u where i.id=?"), 1);
  assert_string_equal(found.note, "select items,users");
  assert_int_equal(found.related_app, 0xa1);
  assert_int_equal(found.related_code, 5);
  statement(1, "SELECT host FROM mysql.user");
  assert_int_equal(count("select host from mysql.user"), 1);
  assert_string_equal(found.note, "select");
  /* Long names: the note is truncated, within its bounds. */
  char sql[600] = "select 2 from t";
  for (unsigned i = 0; i < 4; i++) {
    const size_t at = strlen(sql);
    memset(sql + at, 'a' + (int)i, 100);
    strcpy(sql + at + 100, ",t");
  }
  statement(1, sql);
  for (split_code_id code = 1; code < 65536; code++)
    if (split_kind_counts(code, &found) && strncmp(found.label, "select ? from ta", 16) == 0) break;
  assert_int_equal(found.count, 1);
  assert_int_equal(strlen(found.note), 63);
}

static void what_is_no_statement_is_not(void **state) {
  uint64_t before = sections();
  (void)state;
  statement(1, "COMMIT");
  PSI_statement_locker *locker = start(1, 1);
  text(locker, "set @x = f(1)");
  assert_null(start(1, 5));
  end(locker);
  end(start(1, 1)); /* a ping */
  PSI_server->destroy_prepared_stmt(prepare(1, "select 1"));
  assert_int_equal(sections(), before);
}

static void statements_within_belong_to_the_outer_one(void **state) {
  (void)state;
  uint64_t before = sections();
  PSI_statement_locker *locker = start(1, 1);
  text(locker, "call work(1)");
  for (unsigned place = 5; place < 7; place++) assert_null(start(1, place));
  end(locker);
  assert_int_equal(sections(), before + 1);
  assert_int_equal(count("call work(?)"), 1);
  assert_string_equal(found.note, "call");
}

static void prepared_statements_have_the_kind_of_their_text(void **state) {
  (void)state;
  PSI_prepared_stmt *prepared = prepare(1, "select b from t where a = ? /*split_id='a1.6'*/");
  for (unsigned i = 0; i < 3; i++) {
    PSI_statement_locker *locker = start(1, 1);
    PSI_server->execute_prepared_stmt(locker, prepared);
    end(locker);
  }
  for (unsigned i = 0; i < 2; i++) {
    PSI_statement_locker *locker = start(1, 1);
    text(locker, "execute s using @a");
    PSI_server->execute_prepared_stmt(locker, prepared);
    end(locker);
  }
  assert_int_equal(count("select b from t where a=?"), 5);
  assert_string_equal(found.note, "select t");
  assert_int_equal(found.related_code, 6);
  assert_int_equal(count("execute s using @a"), 0);
  PSI_server->destroy_prepared_stmt(prepared);
  /* A statement without a section, and one that was never reported. */
  uint64_t before = sections();
  prepared = prepare(1, "commit");
  PSI_statement_locker *locker = start(1, 1);
  PSI_server->execute_prepared_stmt(locker, prepared);
  end(locker);
  PSI_server->destroy_prepared_stmt(prepared);
  statement(1, "execute unknown");
  assert_int_equal(sections(), before);
}

static void each_statement_of_a_packet_counts(void **state) {
  (void)state;
  uint64_t before = sections();
  static const char *const rests[] = {"select 1 from p; select 2 from q; call r(1); set @a=1",
                                      "select 2 from q; call r(1); set @a=1", "call r(1); set @a=1",
                                      "set @a=1"};
  for (unsigned i = 0; i < 4; i++) statement(1, rests[i]);
  assert_int_equal(sections(), before + 3);
  assert_int_equal(count("select ? from q"), 1);
  assert_int_equal(count("call r(?)"), 1);
}

static void *send_answer(void *locker) {
  current = connection(1);
  end(locker);
  return NULL;
}

static void answer_elsewhere(PSI_statement_locker *locker) {
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, send_answer, locker), 0);
  pthread_join(other, NULL);
}

static void a_commit_that_another_thread_finishes_is_dropped(void **state) {
  (void)state;
  uint64_t before = statement_abandoned();
  PSI_statement_locker *locker = start(1, 1);
  text(locker, "insert into l values (1)");
  answer_elsewhere(locker);
  statement(1, "insert into l values (2)");
  assert_int_equal(count("insert into l values(?)"), 1);
  assert_int_equal(statement_abandoned(), before + 1);
  /* Another connection on this thread. */
  locker = start(1, 1);
  text(locker, "insert into l values (3)");
  answer_elsewhere(locker);
  statement(2, "select 1 from m");
  assert_int_equal(count("select ? from m"), 1);
  assert_int_equal(count("insert into l values(?)"), 1);
  assert_int_equal(statement_abandoned(), before + 2);
}

static void *begin_another(void *place) {
  PSI_statement_locker *locker = start(1, 1);
  text(locker, "insert into both values (2)");
  *(PSI_statement_locker **)place = locker;
  return NULL;
}

/* An END with the same address belongs to the statement that another thread began there: it must
 * not be counted with the time between. */
static void an_end_of_what_began_elsewhere_is_not_ours(void **state) {
  (void)state;
  uint64_t before = statement_abandoned();
  pthread_t other;
  PSI_statement_locker *locker = start(1, 1);
  text(locker, "insert into both values (1)");
  answer_elsewhere(locker);
  assert_int_equal(pthread_create(&other, NULL, begin_another, &locker), 0);
  pthread_join(other, NULL);
  end(locker);
  assert_int_equal(count("insert into both values(?)"), 0);
  assert_int_equal(statement_abandoned(), before + 1);
  statement(1, "insert into both values (3)");
  assert_int_equal(count("insert into both values(?)"), 1);
}

static void switched_off_nothing_is_counted(void **state) {
  const int64_t off = 0, on = 1;
  (void)state;
  PSI_statement_locker *locker = start(1, 1);
  text(locker, "select 1 from o");
  statement_switch(false);
  end(locker); /* was begun: ends */
  statement(1, "select 1 from o");
  statement_switch(true);
  /* `hardmeter split off`: the segment is switched off, the server's variable is not. */
  split_set(SPLIT_COLLECT, &off);
  statement(1, "select 1 from o");
  split_set(SPLIT_COLLECT, &on);
  assert_int_equal(count("select ? from o"), 1);
}

/* Calls in any order, with any text: nothing is counted, and nothing may crash. */
static void nonsense_does_no_harm(void **state) {
  static const char *const texts[] = {
      "", ";", "select 1;;select 2", "execute", "call x(", "/*", "'", "select '"};
  PSI_statement_locker *open[8] = {NULL};
  PSI_prepared_stmt *prepared = prepare(1, "select 5 from t");
  uint32_t random = 1;
  (void)state;
  for (unsigned round = 0; round < 100000; round++) {
    random = random * 1664525 + 1013904223;
    unsigned place = random >> 29, who = 1 + (random >> 27 & 3);
    switch (random >> 24 & 7) {
      case 0:
      case 1: open[place] = start(who, place); break;
      case 2:
      case 3: text(open[place], texts[random >> 5 & 7]); break;
      case 4:
        if (open[place]) PSI_server->execute_prepared_stmt(open[place], prepared);
        break;
      case 5: break;
      default: end(open[place]); open[place] = NULL;
    }
  }
  PSI_server->destroy_prepared_stmt(prepared);
}

static void who_has_the_interface_keeps_it(void **state) {
  static int schema;
  (void)state;
  assert_null(instrumentation_open()); /* again: no effect */
  PSI *mine = PSI_server;
  instrumentation_close();
  assert_ptr_not_equal(PSI_server, mine);
  assert_ptr_equal(PSI_server->end_statement, nothing.end_statement);
  PSI_hook = (struct PSI_bootstrap *)&schema;
  assert_string_equal(instrumentation_open(), "the performance schema has it");
  PSI_hook = NULL;
  strcpy(server_version, "10.1.48-MariaDB");
  assert_string_equal(instrumentation_open(),
                      "the plugin was built for the release of " MYSQL_SERVER_VERSION);
  assert_ptr_not_equal(PSI_server, mine);
  strcpy(server_version, MYSQL_SERVER_VERSION);
  PSI *ours_no_more = PSI_server, others = nothing;
  PSI_server = &others;
  assert_string_equal(instrumentation_open(), "another plugin has it");
  instrumentation_close(); /* leaves it alone */
  assert_ptr_equal(PSI_server, &others);
  PSI_server = ours_no_more;
  assert_null(instrumentation_open());
  assert_ptr_equal(PSI_server, mine);
}

/* Uninstalled within a statement, whose end is never reported, and installed again: the client's
 * next statement counts. */
static void what_began_before_is_forgotten(void **state) {
  (void)state;
  uint64_t before = statement_abandoned();
  PSI_statement_locker *within = start(1, 5);
  text(within, "select 1 from taken_out");
  PSI_prepared_stmt *prepared = prepare(2, "select 2 from taken_out");
  instrumentation_close();
  assert_null(PSI_server->get_thread_statement_locker); /* the server's functions do nothing */
  assert_null(instrumentation_open());
  statement(1, "select 1 from taken_out");
  assert_int_equal(count("select ? from taken_out"), 1);
  assert_int_equal(statement_abandoned(), before + 1);
  PSI_statement_locker *locker = start(2, 2);
  PSI_server->execute_prepared_stmt(locker, prepared);
  end(locker);
  assert_int_equal(count("select ? from taken_out"), 2);
  /* One that another build of the plugin has made. */
  const void **owner = (const void **)(void *)prepared, *const made_by = *owner;
  *owner = &nothing;
  locker = start(2, 2);
  PSI_server->execute_prepared_stmt(locker, prepared);
  end(locker);
  assert_int_equal(count("select ? from taken_out"), 2);
  *owner = made_by; /* a build frees only the texts that it copied */
  instrumentation_close();
  PSI_server->destroy_prepared_stmt(prepared);
  assert_null(instrumentation_open());
}

static int open_interface(void **state) {
  statement_tables_of_text(true);
  return open_library(state) == 0 && instrumentation_open() == NULL ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_statement_is_counted_with_its_tables_and_origin),
      cmocka_unit_test(what_is_no_statement_is_not),
      cmocka_unit_test(statements_within_belong_to_the_outer_one),
      cmocka_unit_test(prepared_statements_have_the_kind_of_their_text),
      cmocka_unit_test(each_statement_of_a_packet_counts),
      cmocka_unit_test(a_commit_that_another_thread_finishes_is_dropped),
      cmocka_unit_test(an_end_of_what_began_elsewhere_is_not_ours),
      cmocka_unit_test(what_began_before_is_forgotten),
      cmocka_unit_test(switched_off_nothing_is_counted),
      cmocka_unit_test(nonsense_does_no_harm),
      cmocka_unit_test(who_has_the_interface_keeps_it),
  };
  return cmocka_run_group_tests(tests, open_interface, close_library);
}
