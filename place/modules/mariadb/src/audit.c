/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Audit events of a statement, and their effect on sections (MariaDB 10.11, observed in a run and
 * read in its source):
 *
 *   text       LOG 'Query' ──> [LOG 'Execute' of EXECUTE] ──> TABLE/LOCK ... ──> STATUS      LOG has the whole text
 *   by number  LOG 'Execute' ──> TABLE/LOCK ... ──> STATUS                                   ... of the prepared statement
 *              begin                 tables, as a note              end
 *
 * Traps, with tests in tests/split_database_mariadb.rs and test/test_audit.c:
 *   - The statements within CALL, and those of functions, have LOG 'Query' and STATUS, too. Their STATUS has a query id of their own:
 *     only the one that fits ends a section, and until then no LOG begins one.
 *   - Several statements in one packet have one LOG, and a STATUS each. The section of a later one begins when the one before ends,
 *     and gets its kind at its own end, when its text is known.
 *   - The thread pool may take a statement off its thread while its commit is written, and let another thread send the answer
 *     (asynchronous commit, since 10.6). Then STATUS comes on a thread that has no such section, and `ended_elsewhere` reports to the
 *     first thread that its open section has ended.
 *   - A client that goes, or is killed, in the middle: STATUS comes nevertheless; should it not, DISCONNECT or the thread's next
 *     statement tidies up.
 */
#include "audit.h"

#include <stdatomic.h>
#include <string.h>

#include "groups.h"
#include "statement.h"

#define CONNECTIONS 4096 /* 2^12: place_of */

#define own statement_own
/* State of the statement that only this interface needs. */
static _Thread_local struct {
  unsigned long long query_id; /* 0: not known yet (go_on) */
  uint8_t rest;                /* number of statements that follow in the same packet */
} packet;

/* By connection: the query id of the latest statement that was ended by another thread than
 * began it; ids only grow. Two connections may share an entry; then a nested statement is taken
 * for the next one, and the outer one is not counted. */
static _Atomic unsigned long long ended_elsewhere[CONNECTIONS];

static _Atomic unsigned long long *place_of(MYSQL_THD thd) {
  return &ended_elsewhere[((uintptr_t)thd * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
}

/* Beginning --------------------------------------------------------------------------------- */

static uint8_t statements_in(const char *text, size_t length) {
  char unused[HM_STATEMENT_LONGEST];
  uint8_t count = 0;
  size_t next = 0;
  do {
    text += next;
    length -= next;
    count++;
    hm_statement_normalise(HM_DIALECT_MARIADB, text, length, unused, &next);
  } while (next != 0 && count < UINT8_MAX);
  return count;
}

static void begin(MYSQL_THD thd, unsigned long long query_id, enum hm_verb verb, const char *text,
                  size_t length, const struct known *known) {
  size_t next = 0;
  packet.query_id = query_id;
  packet.rest = 0;
  if (verb == HM_VERB_EXECUTE)
    statement_begin_unknown(thd, verb);
  else if (known != NULL)
    statement_begin_known(thd, known);
  else
    next = statement_begin_text(thd, verb, text, length);
  /* The body of a procedure has semicolons, too. */
  if (next != 0 && verb != HM_VERB_CREATE) packet.rest = statements_in(text + next, length - next);
}

/* Events ------------------------------------------------------------------------------------ */

static bool is_command(const struct mysql_event_general *event, const char *command) {
  size_t length = strlen(command);
  return event->general_command_length == length &&
         memcmp(event->general_command, command, length) == 0;
}

static bool is_own(MYSQL_THD thd, unsigned long long query_id) {
  return own.thd == thd && packet.query_id == query_id;
}

/* Whether the thread is at work on a statement of this client, of which this event is part then. */
static bool is_within(MYSQL_THD thd) {
  if (own.phase == IDLE || own.thd != thd) return false;
  return !groups_are_pool() ||
         atomic_load_explicit(place_of(thd), memory_order_relaxed) < packet.query_id ||
         packet.query_id == 0;
}

static void on_query(MYSQL_THD thd, const struct mysql_event_general *event) {
  if (is_within(thd)) {
    if (packet.query_id == 0) packet.query_id = event->query_id;
    return;
  }
  statement_forget(); /* a statement without an end was passed to another thread */
  const char *text = event->general_query;
  size_t length = event->general_query_length;
  const struct known *known = recent_find(text, length);
  enum hm_verb verb =
      known != NULL ? known->verb : hm_statement_verb(HM_DIALECT_MARIADB, text, length);
  if (verb != HM_VERB_OTHER) {
    begin(thd, event->query_id, verb, text, length, known);
  } else {
    own.phase = IGNORED;
    own.thd = thd;
    packet.query_id = event->query_id;
  }
}

/* For EXECUTE, the text that it executes; otherwise the begin of a statement executed by number. */
static void on_execute(MYSQL_THD thd, const struct mysql_event_general *event) {
  if (own.phase != IDLE && is_own(thd, event->query_id)) {
    if (own.phase == OPEN && !own.keyed)
      statement_note_key(event->general_query, event->general_query_length);
    return;
  }
  statement_forget();
  const char *text = event->general_query;
  size_t length = event->general_query_length;
  const struct known *known = recent_find(text, length);
  enum hm_verb verb =
      known != NULL ? known->verb : hm_statement_verb(HM_DIALECT_MARIADB, text, length);
  if (verb == HM_VERB_OTHER || verb == HM_VERB_EXECUTE) return;
  begin(thd, event->query_id, verb, text, length, known);
}

static void on_lock(MYSQL_THD thd, const struct mysql_event_table *event) {
  if (own.phase != OPEN || own.thd != thd) return;
  if (packet.query_id == 0) packet.query_id = event->query_id;
  statement_note_table(event->database.str, event->database.length, event->table.str,
                       event->table.length);
}

/* LOG begins the first statement of a packet; each later one begins at the end of its
 * predecessor. */
static void go_on(uint8_t rest) {
  packet.rest = rest;
  packet.query_id = 0; /* unknown: the next STATUS has it */
  statement_begin_unknown(own.thd, HM_VERB_OTHER);
}

static void on_status(MYSQL_THD thd, const struct mysql_event_general *event) {
  bool fits = is_own(thd, event->query_id) || (own.thd == thd && packet.query_id == 0);
  if (own.phase == IDLE || !fits) {
    if (groups_are_pool())
      atomic_store_explicit(place_of(thd), event->query_id, memory_order_relaxed);
    return;
  }
  if (own.phase == IGNORED) {
    own.phase = IDLE;
    return;
  }
  uint8_t rest = event->general_error_code == 0 ? packet.rest : 0;
  bool counts = is_command(event, "Query") || is_command(event, "Execute") ||
                is_command(event, "Bulk_execute"); /* not: PREPARE, and others that lock tables */
  if (counts && !own.keyed) {
    counts = hm_statement_verb(HM_DIALECT_MARIADB, event->general_query,
                               event->general_query_length) != HM_VERB_OTHER;
    if (counts) statement_note_key(event->general_query, event->general_query_length);
  }
  if (counts) {
    statement_end();
  } else {
    statement_cancel();
  }
  if (rest > 0 && statement_is_wanted()) go_on(rest - 1);
}

void audit_event(MYSQL_THD thd, unsigned event_class, const void *event) {
  if (thd == NULL) return;
  if (own.phase != OPEN && !statement_is_wanted()) {
    own.phase = IDLE; /* an ignored statement has no STATUS */
    return;
  }
  if (event_class == MYSQL_AUDIT_GENERAL_CLASS) {
    const struct mysql_event_general *general = event;
    if (general->event_subclass == MYSQL_AUDIT_GENERAL_STATUS) {
      on_status(thd, general);
    } else if (general->event_subclass == MYSQL_AUDIT_GENERAL_LOG) {
      if (is_command(general, "Query"))
        on_query(thd, general);
      else if (is_command(general, "Execute") || is_command(general, "Bulk_execute"))
        on_execute(thd, general);
    }
  } else if (event_class == MYSQL_AUDIT_TABLE_CLASS) {
    const struct mysql_event_table *table = event;
    if (table->event_subclass == MYSQL_AUDIT_TABLE_LOCK) on_lock(thd, table);
  } else if (event_class == MYSQL_AUDIT_CONNECTION_CLASS) {
    const struct mysql_event_connection *connection = event;
    if (connection->event_subclass == MYSQL_AUDIT_CONNECTION_DISCONNECT && own.thd == thd)
      statement_forget();
  }
}
