/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Instrumentation calls on the thread that executes the statement (MariaDB 10.11, observed in a run
 * and read in its source):
 *
 *   text       START ──> TEXT ──> [EXECUTE of EXECUTE] ──> END      once for each statement of a packet
 *   by number  START ──> EXECUTE ──> END                            of the text recorded at CREATE and TEXT
 *                        begin       end
 *
 * START passes memory that belongs to the statement until END (a member of the server's THD): its
 * address is the handle, and it holds the thread that began. Returning NULL ignores the statement:
 * the server makes no further calls for it.
 *
 * Traps, with tests in tests/split_database_mariadb.rs and test/test_instrumentation.c:
 *   - Statements within CALL, and those of functions and triggers, have a START, too, at a place of
 *     their own, between START and END of the client's statement, for the same client: they are
 *     ignored.
 *   - The thread pool may take a statement off its thread while its commit is written, and let
 *     another thread send the answer (asynchronous commit, since 10.6). Then END comes on a thread
 *     that has not begun it. The first thread detects this at its next call: a START for another
 *     client or with the same address, or an END with the same address, whose statement began on
 *     another thread.
 *   - A prepared statement is known if it was prepared while the plugin's table was installed, and
 *     not within a procedure.
 */
#include "instrumentation.h"

/* Suppresses warnings in the server's headers. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <my_global.h>
#include <mysql/psi/psi.h>
#include <mysql_version.h>
#pragma GCC diagnostic pop

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "statement.h"

/* Exported by the server; weak, since other servers may not export them. */
extern PSI *PSI_server __attribute__((weak));
extern struct PSI_bootstrap *PSI_hook __attribute__((weak)); /* NULL: no performance schema */
extern void set_psi_server(PSI *table) __attribute__((weak));
extern MYSQL_THD _current_thd(void) __attribute__((weak));
extern char server_version[] __attribute__((weak));

#define own statement_own

static PSI *original; /* the server's table; NULL: the plugin's was never installed */
static PSI ours, left;
static _Atomic unsigned openings; /* how often the plugin's table was installed */

/* Address of the server's state for the statement of this thread; NULL: none. The address of
 * this variable identifies the thread. */
static _Thread_local const void *place;
static _Thread_local unsigned opening; /* the installation that `place` belongs to */

/* Statements -------------------------------------------------------------------------------- */

/* The statement there began on this thread, and has not ended elsewhere. */
static inline bool is_own(const struct PSI_statement_locker *locker) {
  return (const void *)locker == place &&
         (const void *)((const PSI_statement_locker_state *)locker)->m_thread == &place;
}

static struct PSI_statement_locker *on_start(PSI_statement_locker_state *state,
                                             PSI_statement_key key, const void *charset,
                                             PSI_sp_share *share) {
  (void)key, (void)charset, (void)share;
  MYSQL_THD thd = _current_thd();
  const unsigned now = atomic_load_explicit(&openings, memory_order_relaxed);
  /* Nested in the client's statement; but not if that began before the plugin's table was
   * removed. */
  if (place != NULL && place != state && own.thd == thd && opening == now) return NULL;
  if (own.phase != IDLE) statement_forget();
  place = state;
  opening = now;
  own.thd = thd;
  state->m_thread = (struct PSI_thread *)(uintptr_t)&place;
  return (struct PSI_statement_locker *)state;
}

/* The server refines the kind of statement: keys do not depend on it. */
static struct PSI_statement_locker *on_refine(struct PSI_statement_locker *locker,
                                              PSI_statement_key key) {
  (void)key;
  return locker;
}

static void on_text(struct PSI_statement_locker *locker, const char *text, uint length) {
  if (!is_own(locker) || own.phase != IDLE || !statement_is_wanted()) return;
  const struct known *known = recent_find(text, length);
  if (known != NULL) {
    statement_begin_known(own.thd, known);
    return;
  }
  enum hm_verb verb = hm_statement_verb(HM_DIALECT_MARIADB, text, length);
  if (verb == HM_VERB_EXECUTE)
    statement_begin_unknown(own.thd, verb);
  else if (verb != HM_VERB_OTHER)
    (void)statement_begin_text(own.thd, verb, text, length);
}

static void on_end(struct PSI_statement_locker *locker, void *diagnostics) {
  (void)diagnostics;
  if ((const void *)locker != place) return; /* another thread began it */
  const bool began_here = is_own(locker);
  place = NULL;
  if (own.phase != OPEN) return;
  if (!began_here)
    statement_forget(); /* the open statement ended on another thread, and this one began there */
  else if (own.keyed)
    statement_end();
  else
    statement_cancel(); /* EXECUTE of what is not known */
}

/* Prepared statements ----------------------------------------------------------------------- */

/* Stored as the server's PSI_prepared_stmt. It may outlive this plugin: another build, installed
 * later, must not read it. */
struct prepared {
  const void *owner;  /* address of `ours`; must remain the first member */
  struct known known; /* without a key: no section */
  char origin[SQL_ORIGIN_LENGTH];
  char *key; /* of length known.key_length */
};

static PSI_prepared_stmt *on_create(void *identity, uint id, PSI_statement_locker *locker,
                                    const char *name, size_t length) {
  (void)identity, (void)id, (void)locker, (void)name, (void)length;
  struct prepared *prepared = calloc(1, sizeof *prepared);
  if (prepared != NULL) prepared->owner = &ours;
  return (PSI_prepared_stmt *)prepared;
}

static void on_prepared_text(PSI_prepared_stmt *statement, const char *text, uint length) {
  struct prepared *prepared = (struct prepared *)statement;
  if (prepared->owner != &ours) return;
  struct known *known = &prepared->known;
  const enum hm_verb verb = hm_statement_verb(HM_DIALECT_MARIADB, text, length);
  if (verb == HM_VERB_OTHER || verb == HM_VERB_EXECUTE) return;
  char key[HM_STATEMENT_LONGEST];
  (void)known_read(text, length, verb, key, known);
  free(prepared->key); /* the server prepares it again after a table has changed */
  prepared->key = malloc(known->key_length);
  if (prepared->key == NULL) {
    known->key_length = 0;
    return;
  }
  memcpy(prepared->key, key, known->key_length);
  known->key = prepared->key;
  if (known->origin_length > 0) memcpy(prepared->origin, known->origin, known->origin_length);
  known->origin = prepared->origin;
}

static void on_execute(PSI_statement_locker *locker, PSI_prepared_stmt *statement) {
  const struct prepared *prepared = (const struct prepared *)statement;
  const struct known *known = &prepared->known;
  if (!is_own(locker) || prepared->owner != &ours || known->key_length == 0) return;
  if (own.phase == OPEN)
    statement_note_known(known);
  else if (statement_is_wanted())
    statement_begin_known(own.thd, known);
}

static void on_destroy(PSI_prepared_stmt *statement) {
  struct prepared *prepared = (struct prepared *)statement;
  if (prepared != NULL && prepared->owner == &ours) free(prepared->key);
  free(prepared);
}

/* The table of functions -------------------------------------------------------------------- */

/* The table's layout depends on the release (10.11) and contains no version. Within a release it
 * is stable: the server's own build checks it (psi_abi_v1.h). */
static bool is_release(const char *version) {
  const char *dot = strchr(MYSQL_SERVER_VERSION, '.');
  if (dot != NULL) dot = strchr(dot + 1, '.');
  return dot != NULL &&
         strncmp(version, MYSQL_SERVER_VERSION, (size_t)(dot + 1 - MYSQL_SERVER_VERSION)) == 0;
}

/* Filled once; threads may read it at any time afterwards. */
static void make_tables(void) {
  original = PSI_server;
  left = *original;
  left.destroy_prepared_stmt = on_destroy; /* of what was made before */
  ours = left;
  ours.get_thread_statement_locker = on_start;
  ours.refine_statement = on_refine;
  ours.set_statement_text = on_text;
  ours.end_statement = on_end;
  ours.create_prepared_stmt = on_create;
  ours.set_prepared_stmt_text = on_prepared_text;
  ours.execute_prepared_stmt = on_execute;
}

const char *instrumentation_open(void) {
  if (&PSI_server == NULL || &PSI_hook == NULL || set_psi_server == NULL || _current_thd == NULL ||
      server_version == NULL || PSI_server == NULL)
    return "the server does not export it";
  if (!is_release(server_version))
    return "the plugin was built for the release of " MYSQL_SERVER_VERSION;
  if (PSI_hook != NULL) return "the performance schema has it";
  if (PSI_server == &ours) return NULL;
  if (original == NULL) make_tables();
  if (PSI_server != original && PSI_server != &left) return "another plugin has it";
  atomic_fetch_add(&openings, 1);
  set_psi_server(&ours);
  return NULL;
}

void instrumentation_close(void) {
  if (original != NULL && PSI_server == &ours) set_psi_server(&left);
}
