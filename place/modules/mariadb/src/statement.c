/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "statement.h"

#include <stdatomic.h>
#include <string.h>

#include "decided.h"
#include "groups.h"
#include "tables.h"

#define TABLES 8    /* a note has no space for more */
#define CODES 65536 /* maximum number of kinds (SPLIT_HASH_SIZE) */

_Thread_local struct statement statement_own;
#define own statement_own

static bool tables_of_text;
static _Atomic bool switched_on;
static _Atomic uint64_t abandoned;
/* Kinds whose tables are noted: one bit each. If two threads note one, the library keeps the
 * first. */
static _Atomic uint64_t noted[CODES / 64];

void statement_switch(bool on) {
  if (on) /* the segment may have been replaced */
    for (unsigned i = 0; i < CODES / 64; i++)
      atomic_store_explicit(&noted[i], 0, memory_order_relaxed);
  atomic_store_explicit(&switched_on, on, memory_order_relaxed);
}

void statement_tables_of_text(bool on) { tables_of_text = on; }

bool statement_is_wanted(void) {
  return atomic_load_explicit(&switched_on, memory_order_relaxed) && split_collecting();
}

uint64_t statement_abandoned(void) {
  return atomic_load_explicit(&abandoned, memory_order_relaxed);
}

/* Notes ------------------------------------------------------------------------------------- */

static void note_append(const char *text, size_t length) {
  size_t room = STATEMENT_NOTE - own.note_length;
  if (length > room) length = room;
  memcpy(own.note + own.note_length, text, length);
  own.note_length = (uint8_t)(own.note_length + length);
}

static bool note_has(const char *table, size_t length) {
  const char *at = own.note + strlen(hm_verb_name(own.verb)), *end = own.note + own.note_length;
  while (at < end) {
    at++; /* the blank or comma before a table */
    const char *next = memchr(at, ',', (size_t)(end - at));
    if (next == NULL) next = end;
    if ((size_t)(next - at) == length && memcmp(at, table, length) == 0) return true;
    at = next;
  }
  return false;
}

void statement_note_table(const char *database, size_t database_length, const char *table,
                          size_t table_length) {
  static const char system[] =
      "mysql"; /* statistics of tables, procedures: the server's own queries */
  if (!own.wants_note || table == NULL || own.note_length >= STATEMENT_NOTE) return;
  if (database_length == sizeof system - 1 && memcmp(database, system, sizeof system - 1) == 0)
    return;
  if (own.note_length == 0) {
    const char *verb = hm_verb_name(own.verb);
    note_append(verb, strlen(verb));
    note_append(" ", 1);
  } else if (note_has(table, table_length)) {
    return;
  } else {
    note_append(",", 1);
  }
  note_append(table, table_length);
}

/* Once per kind, also without tables. */
__attribute__((noinline)) static void note_tables(const char *key, size_t length) {
  struct sql_table tables[TABLES];
  const size_t count = sql_tables(key, length, tables, TABLES);
  for (size_t i = 0; i < count; i++)
    statement_note_table(tables[i].database, tables[i].database_length, tables[i].name,
                         tables[i].name_length);
  if (own.note_length == 0) note_append(hm_verb_name(own.verb), strlen(hm_verb_name(own.verb)));
}

static void note_origin(const char *origin, size_t length) {
  if (length > 0) split_note_section(&own.section, SPLIT_NOTE_ORIGIN, origin, length);
}

/* Beginning and ending ---------------------------------------------------------------------- */

static inline void open_section(MYSQL_THD thd, enum hm_verb verb) {
  own.thd = thd;
  own.verb = verb;
  own.phase = OPEN;
  own.keyed = own.wants_note = false;
  own.note_length = 0;
  groups_begin(thd);
}

static inline void know_code(split_code_id code, const struct known *known) {
  own.code = code;
  own.keyed = true;
  own.wants_note = code < CODES && code > SPLIT_CODE_OTHER &&
                   (atomic_load_explicit(&noted[code / 64], memory_order_relaxed) &
                    UINT64_C(1) << code % 64) == 0;
  if (own.wants_note)
    split_note_section(&own.section, SPLIT_NOTE_STATEMENT, &known->statement,
                       sizeof known->statement);
  if (own.wants_note && tables_of_text) note_tables(known->key, known->key_length);
}

void statement_begin_unknown(MYSQL_THD thd, enum hm_verb verb) {
  open_section(thd, verb);
  own.code = split_begin(&own.section, 0, NULL, 0);
}

void statement_begin_known(MYSQL_THD thd, const struct known *known) {
  open_section(thd, known->verb);
  know_code(split_begin_hashed(&own.section, known->statement, known->key, known->key_length),
            known);
  note_origin(known->origin, known->origin_length);
}

size_t statement_begin_text(MYSQL_THD thd, enum hm_verb verb, const char *text, size_t length) {
  char key[HM_STATEMENT_LONGEST];
  struct known known;
  const size_t next = known_read(text, length, verb, key, &known);
  if (next == 0) recent_keep(text, length, &known);
  statement_begin_known(thd, &known);
  return next;
}

void statement_note_known(const struct known *known) {
  own.verb = known->verb;
  split_note_section(&own.section, SPLIT_NOTE_KEY, known->key, known->key_length);
  own.keyed = true;
  note_origin(known->origin, known->origin_length);
}

void statement_note_key(const char *text, size_t length) {
  char key[HM_STATEMENT_LONGEST];
  struct known known;
  if (text == NULL || length == 0) return;
  (void)known_read(text, length, hm_statement_verb(HM_DIALECT_MARIADB, text, length), key, &known);
  if (known.key_length > 0) statement_note_known(&known);
}

void statement_end(void) {
  if (own.wants_note && own.note_length > 0) {
    split_note_section(&own.section, SPLIT_NOTE_TEXT, own.note, own.note_length);
    atomic_fetch_or_explicit(&noted[own.code / 64], UINT64_C(1) << own.code % 64,
                             memory_order_relaxed);
  }
  split_finish(&own.section);
  groups_end(own.thd, own.code);
  own.phase = IDLE;
}

void statement_cancel(void) {
  split_cancel(&own.section);
  own.phase = IDLE;
}

void statement_forget(void) {
  if (own.phase == OPEN) {
    split_cancel(&own.section);
    atomic_fetch_add_explicit(&abandoned, 1, memory_order_relaxed);
  }
  own.phase = IDLE;
}
