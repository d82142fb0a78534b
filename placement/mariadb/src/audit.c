/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the server tells of a statement, and what becomes of it (MariaDB 10.11, seen in a run and read in its source):
 *
 *   text       LOG 'Query' ──> [LOG 'Execute' of EXECUTE] ──> TABLE/LOCK ... ──> STATUS      LOG has the whole text
 *   by number  LOG 'Execute' ──> TABLE/LOCK ... ──> STATUS                                   ... of the prepared statement
 *              begin                 tables, as a note              end
 *
 * Traps, each of which has a test in tests/split_database_mariadb.rs:
 *   - The statements within CALL, and those of functions, have LOG 'Query' and STATUS, too. Their STATUS has a query id of their own:
 *     only the one that fits ends a section, and until then no LOG begins one.
 *   - Several statements in one packet have one LOG, and a STATUS each. The section of a later one begins when the one before ends,
 *     and gets its kind at its own end, when its text is known.
 *   - The thread pool may take a statement off its thread while its commit is written, and let another thread send the answer
 *     (asynchronous commit, since 10.6). Then STATUS comes on a thread that has no such section, and `ended_elsewhere` tells the
 *     first thread that what it has open is over.
 *   - A client that goes, or is killed, in the middle: STATUS comes nevertheless; should it not, DISCONNECT or the thread's next
 *     statement tidies up.
 */
#include "sections.h"

#include <stdatomic.h>
#include <string.h>

#include "decided.h"
#include "fingerprint.h"
#include "groups.h"
#include "origin.h"
#include "recent.h"
#include "split.h"

#define NOTE_LENGTH 63   /* as long as the library keeps (SPLIT_NOTE_TEXT) */
#define CODES 65536      /* as many kinds as there can be (SPLIT_HASH_SIZE) */
#define CONNECTIONS 4096 /* 2^12: place_of */

enum phase {
  IDLE = 0,
  OPEN,    /* a section is open */
  IGNORED, /* a statement that is no section: what it locks begins none either */
};

/* What the thread works on. Statements do not nest here: those within a statement belong to it. */
struct statement {
  MYSQL_THD thd;
  unsigned long long query_id; /* 0: not known yet (go_on) */
  int command; /* thd_sql_command() when a client's text had come; -1: it was executed by number */
  enum phase phase;
  enum sql_verb verb;
  bool keyed;      /* its kind is known */
  bool wants_note; /* nobody has noted the kind's tables yet */
  uint8_t rest;    /* so many statements follow in the same packet */
  uint8_t note_length;
  split_code_id code;
  char note[NOTE_LENGTH];
  split_section section;
};
static _Thread_local struct statement own;

static _Atomic bool switched_on;
static _Atomic uint64_t abandoned;
/* Kinds whose tables are noted: a bit each. Two threads may both note; the library keeps the first. */
static _Atomic uint64_t noted[CODES / 64];
/* The latest statement that another thread ended than had begun it, of each connection: query ids, which only grow. Two connections may
 * share a place; then a statement within a statement is taken for the next one, and the outer one is not counted. */
static _Atomic unsigned long long ended_elsewhere[CONNECTIONS];

static _Atomic unsigned long long *place_of(MYSQL_THD thd) {
  return &ended_elsewhere[((uintptr_t)thd * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
}

void sections_switch(bool on) { atomic_store_explicit(&switched_on, on, memory_order_relaxed); }

/* Neither split_engine nor `hardmeter split off` says otherwise: off, no statement is read. */
static bool is_on(void) {
  return atomic_load_explicit(&switched_on, memory_order_relaxed) && split_collecting();
}

uint64_t sections_abandoned(void) { return atomic_load_explicit(&abandoned, memory_order_relaxed); }

/* Notes ------------------------------------------------------------------------------------- */

static void note_append(const char *text, size_t length) {
  size_t room = NOTE_LENGTH - own.note_length;
  if (length > room) length = room;
  memcpy(own.note + own.note_length, text, length);
  own.note_length = (uint8_t)(own.note_length + length);
}

static bool note_has(const char *table, size_t length) {
  const char *at = own.note + strlen(sql_verb_name(own.verb)), *end = own.note + own.note_length;
  while (at < end) {
    at++; /* the blank or comma before a table */
    const char *next = memchr(at, ',', (size_t)(end - at));
    if (next == NULL) next = end;
    if ((size_t)(next - at) == length && memcmp(at, table, length) == 0) return true;
    at = next;
  }
  return false;
}

static void note_table(const struct mysql_event_table *event) {
  static const char system[] =
      "mysql"; /* statistics of tables, procedures: what the server asks itself */
  if (!own.wants_note || event->table.str == NULL || own.note_length >= NOTE_LENGTH) return;
  if (event->database.length == sizeof system - 1 &&
      memcmp(event->database.str, system, sizeof system - 1) == 0)
    return;
  if (own.note_length == 0) {
    const char *verb = sql_verb_name(own.verb);
    note_append(verb, strlen(verb));
    note_append(" ", 1);
  } else if (note_has(event->table.str, event->table.length)) {
    return;
  } else {
    note_append(",", 1);
  }
  note_append(event->table.str, event->table.length);
}

static void know_code(split_code_id code) {
  own.code = code;
  own.keyed = true;
  own.wants_note = code < CODES && code > SPLIT_CODE_OTHER &&
                   (atomic_load_explicit(&noted[code / 64], memory_order_relaxed) &
                    UINT64_C(1) << code % 64) == 0;
}

/* Beginning and ending ---------------------------------------------------------------------- */

static void forget(void) {
  if (own.phase == OPEN) {
    split_cancel(&own.section);
    atomic_fetch_add_explicit(&abandoned, 1, memory_order_relaxed);
  }
  own.phase = IDLE;
}

static void note_origin(const char *origin, size_t length) {
  if (length > 0) split_note_section(&own.section, SPLIT_NOTE_ORIGIN, origin, length);
}

static uint8_t statements_in(const char *text, size_t length) {
  char unused[SQL_FINGERPRINT_LENGTH];
  uint8_t count = 0;
  size_t next = 0;
  do {
    text += next;
    length -= next;
    count++;
    sql_fingerprint(SQL_MARIADB, text, length, unused, &next);
  } while (next != 0 && count < UINT8_MAX);
  return count;
}

static void begin(MYSQL_THD thd, unsigned long long query_id, enum sql_verb verb, const char *text,
                  size_t length, const struct recent *known) {
  char fingerprint[SQL_FINGERPRINT_LENGTH];
  const char *origin = NULL;
  size_t next, key_length, origin_length;

  own.thd = thd;
  own.query_id = query_id;
  own.verb = verb;
  own.phase = OPEN;
  own.rest = 0;
  own.keyed = own.wants_note = false;
  own.note_length = 0;
  groups_begin(thd);
  if (verb == SQL_EXECUTE) {
    own.code = split_begin(&own.section, 0, NULL, 0);
    return;
  }
  if (known != NULL) {
    know_code(split_begin_hashed(&own.section, known->hash, known->key, known->key_length));
    note_origin(known->origin, known->origin_length);
    return;
  }
  key_length = sql_fingerprint(SQL_MARIADB, text, length, fingerprint, &next);
  origin_length = sql_origin(text, length, &origin);
  if (next == 0) recent_keep(text, length, verb, fingerprint, key_length, origin, origin_length);
  /* The body of a procedure has semicolons, too. */
  if (next != 0 && verb != SQL_CREATE) own.rest = statements_in(text + next, length - next);
  know_code(split_begin(&own.section, 0, fingerprint, key_length));
  note_origin(origin, origin_length);
}

/* The kind of an open section, from a text that is known late. */
static void note_key(const char *text, size_t length) {
  char key[SQL_FINGERPRINT_LENGTH];
  const char *origin = NULL;
  size_t next;

  if (text == NULL || length == 0) return;
  size_t key_length = sql_fingerprint(SQL_MARIADB, text, length, key, &next);
  if (key_length == 0) return;
  own.verb = sql_verb(SQL_MARIADB, text, length);
  split_note_section(&own.section, SPLIT_NOTE_KEY, key, key_length);
  own.keyed = true;
  size_t origin_length = sql_origin(text, length, &origin);
  note_origin(origin, origin_length);
}

static void end(void) {
  if (own.wants_note && own.note_length > 0) {
    split_note_section(&own.section, SPLIT_NOTE_TEXT, own.note, own.note_length);
    atomic_fetch_or_explicit(&noted[own.code / 64], UINT64_C(1) << own.code % 64,
                             memory_order_relaxed);
  }
  split_finish(&own.section);
  groups_end(own.thd, own.code);
  own.phase = IDLE;
}

/* Events ------------------------------------------------------------------------------------ */

static bool is_command(const struct mysql_event_general *event, const char *command) {
  size_t length = strlen(command);
  return event->general_command_length == length &&
         memcmp(event->general_command, command, length) == 0;
}

static bool is_own(MYSQL_THD thd, unsigned long long query_id) {
  return own.thd == thd && own.query_id == query_id;
}

/* Whether the thread is at work on a statement of this client, of which this event is part then. */
static bool is_within(MYSQL_THD thd) {
  if (own.phase == IDLE || own.thd != thd) return false;
  return !groups_are_pool() ||
         atomic_load_explicit(place_of(thd), memory_order_relaxed) < own.query_id ||
         own.query_id == 0;
}

static void on_query(MYSQL_THD thd, const struct mysql_event_general *event) {
  if (is_within(thd)) {
    if (own.query_id == 0) own.query_id = event->query_id;
    return;
  }
  forget(); /* what was not ended has been left to another thread */
  const char *text = event->general_query;
  size_t length = event->general_query_length;
  const struct recent *known = recent_find(text, length);
  enum sql_verb verb = known != NULL ? known->verb : sql_verb(SQL_MARIADB, text, length);
  if (verb != SQL_OTHER) {
    begin(thd, event->query_id, verb, text, length, known);
  } else {
    own.phase = IGNORED;
    own.thd = thd;
    own.query_id = event->query_id;
  }
}

/* Of EXECUTE, this is what it executes; else it is where a statement begins that is executed by number. */
static void on_execute(MYSQL_THD thd, const struct mysql_event_general *event) {
  if (own.phase != IDLE && is_own(thd, event->query_id)) {
    if (own.phase == OPEN && !own.keyed)
      note_key(event->general_query, event->general_query_length);
    return;
  }
  forget();
  const char *text = event->general_query;
  size_t length = event->general_query_length;
  const struct recent *known = recent_find(text, length);
  enum sql_verb verb = known != NULL ? known->verb : sql_verb(SQL_MARIADB, text, length);
  if (verb == SQL_OTHER || verb == SQL_EXECUTE) return;
  begin(thd, event->query_id, verb, text, length, known);
}

static void on_lock(MYSQL_THD thd, const struct mysql_event_table *event) {
  if (own.phase != OPEN || own.thd != thd) return;
  if (own.query_id == 0) own.query_id = event->query_id;
  note_table(event);
}

/* The first statement of a packet has begun at LOG; each of the rest begins when the one before it ends. */
static void go_on(uint8_t rest) {
  own.rest = rest;
  own.phase = OPEN;
  own.query_id = 0; /* has none yet: the next STATUS is its */
  own.keyed = own.wants_note = false;
  own.note_length = 0;
  groups_begin(own.thd);
  own.code = split_begin(&own.section, 0, NULL, 0);
}

static void on_status(MYSQL_THD thd, const struct mysql_event_general *event) {
  bool fits = is_own(thd, event->query_id) || (own.thd == thd && own.query_id == 0);
  if (own.phase == IDLE || !fits) {
    if (groups_are_pool())
      atomic_store_explicit(place_of(thd), event->query_id, memory_order_relaxed);
    return;
  }
  if (own.phase == IGNORED) {
    own.phase = IDLE;
    return;
  }
  uint8_t rest = event->general_error_code == 0 ? own.rest : 0;
  bool counts = is_command(event, "Query") || is_command(event, "Execute") ||
                is_command(event, "Bulk_execute"); /* not: PREPARE, and what else locks tables */
  if (counts && !own.keyed) {
    counts = sql_verb(SQL_MARIADB, event->general_query, event->general_query_length) != SQL_OTHER;
    if (counts) note_key(event->general_query, event->general_query_length);
  }
  if (counts) {
    end();
  } else {
    split_cancel(&own.section);
    own.phase = IDLE;
  }
  if (rest > 0 && is_on()) go_on(rest - 1);
}

void sections_event(MYSQL_THD thd, unsigned event_class, const void *event) {
  if (thd == NULL) return;
  if (own.phase != OPEN && !is_on()) return;
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
    if (connection->event_subclass == MYSQL_AUDIT_CONNECTION_DISCONNECT && own.thd == thd) forget();
  }
}
