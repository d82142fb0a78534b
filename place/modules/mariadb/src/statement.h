/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What a thread works on: one statement of a client, which is a section of the library, or none. Who begins it and ends it is one of
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

#define STATEMENT_NOTE 63 /* as long as the library keeps (SPLIT_NOTE_TEXT) */

enum phase {
  IDLE = 0,
  OPEN,    /* a section is open */
  IGNORED, /* a statement that is no section: what it locks begins none either */
};

/* Statements do not nest here: those within a statement belong to it. */
struct statement {
  MYSQL_THD thd;
  enum phase phase;
  enum hm_verb verb;
  bool keyed;      /* its kind is known */
  bool wants_note; /* nobody has noted the kind's tables yet */
  uint8_t note_length;
  split_code_id code;
  char note[STATEMENT_NOTE];
  split_section section;
};
/* This thread's. */
extern _Thread_local struct statement statement_own __attribute__((visibility("hidden")));

/* Whether statements are sections now. A section that is open when this changes is ended as usual. */
void statement_switch(bool on);

/* Neither split_engine nor `hardmeter split off` says otherwise: off, no statement is read. */
bool statement_is_wanted(void);

/* Tables are noted by what a statement's text names, since nobody tells what it locks. Set before statements come. */
void statement_tables_of_text(bool on);

/* A section begins, whose kind is known later (statement_note_key) or, if never, not counted by one. */
void statement_begin_unknown(MYSQL_THD thd, enum hm_verb verb);

/* A section of a kind that was read before begins. */
void statement_begin_known(MYSQL_THD thd, const struct known *known);

/* A section of a text's first statement begins; returns where the next one begins, 0: there is none. */
size_t statement_begin_text(MYSQL_THD thd, enum hm_verb verb, const char *text, size_t length);

/* The kind of an open section that was begun without: from a text, or as it is known. */
void statement_note_key(const char *text, size_t length);
void statement_note_known(const struct known *known);

/* A table that the open section works on, as it is locked. The server's own (statistics, procedures) are not noted. */
void statement_note_table(const char *database, size_t database_length, const char *table,
                          size_t table_length);

/* The section has ended; it counts. */
void statement_end(void);

/* It does not count. */
void statement_cancel(void);

/* What was not ended has been left to another thread. */
void statement_forget(void);

/* Sections that another thread went on with (asynchronous commit in the thread pool), or that never ended. */
uint64_t statement_abandoned(void);

#endif
