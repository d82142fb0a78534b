/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The work of a thread: one statement of a client, which is a section of the library, or none. Who begins it and ends it is one of
 * two interfaces of the server: instrumentation.c or audit.c.
 */
#ifndef SPLIT_MARIADB_STATEMENT_H
#define SPLIT_MARIADB_STATEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "hm_statement.h"
#include "recent.h"
#include "server.h"
#include "split.h"

#define STATEMENT_NOTE 63 /* the library's limit (SPLIT_NOTE_TEXT) */

enum phase {
  IDLE = 0,
  OPEN,    /* a section is open */
  IGNORED, /* a statement without a section: its table locks begin none either */
};

/* Nested statements belong to the outer one: there is no stack. */
struct statement {
  MYSQL_THD thd;
  enum phase phase;
  enum hm_verb verb;
  bool keyed;      /* its kind is known */
  bool wants_note; /* the kind's tables are not noted yet */
  uint8_t note_length;
  split_code_id code;
  char note[STATEMENT_NOTE];
  split_section section;
};
/* This thread's. */
extern _Thread_local struct statement statement_own __attribute__((visibility("hidden")));

/* Whether statements are sections now. A section that is open when this changes is ended as usual. */
void statement_switch(bool on);

/* Whether statements are to be lexed: neither split_engine nor `hardmeter split off` switched it
 * off. */
bool statement_is_wanted(void);

/* Notes the tables named in a statement's text, since the interface does not report locks. Set
 * before the first statement. */
void statement_tables_of_text(bool on);

/* Begins a section whose kind is set later (statement_note_key); without a kind it is not
 * counted. */
void statement_begin_unknown(MYSQL_THD thd, enum hm_verb verb);

/* A section of a kind that was read before begins. */
void statement_begin_known(MYSQL_THD thd, const struct known *known);

/* Begins a section for a text's first statement; returns the offset of the next one, 0 if there
 * is none. */
size_t statement_begin_text(MYSQL_THD thd, enum hm_verb verb, const char *text, size_t length);

/* Sets the kind of an open section: from a text, or from known properties. */
void statement_note_key(const char *text, size_t length);
void statement_note_known(const struct known *known);

/* Notes a table that the open section locks, except for the server's own (statistics,
 * procedures). */
void statement_note_table(const char *database, size_t database_length, const char *table,
                          size_t table_length);

/* Ends the section and counts it. */
void statement_end(void);

/* It does not count. */
void statement_cancel(void);

/* Drops a section that was passed to another thread. */
void statement_forget(void);

/* Number of sections that another thread continued (asynchronous commit in the thread pool), or
 * that never ended. */
uint64_t statement_abandoned(void);

#endif
