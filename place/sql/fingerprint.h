/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * A statement without what changes from one execution to the next: two statements with the same fingerprint are of one kind.
 *
 *     SELECT  name FROM items -- hot
 *       WHERE id IN (1, 2,3) AND seller = 'bob'      ->   select name from items where id in(?) and seller=?
 *
 *   - Literals (numbers, strings, bit and hexadecimal strings, $1) are '?'.
 *   - A list of literals in parentheses is (?), however long; rows of VALUES that are alike are one row.
 *   - Comments are dropped, white space is where words would touch, words are in lower case. Quoted names stay as they are.
 *
 * Bounded: at most SQL_FINGERPRINT_LENGTH bytes come out, and at most SQL_FINGERPRINT_READ are looked at, so that an INSERT of a
 * gigabyte costs as little as one of a page. What was cut does not tell kinds apart.
 *
 * Known to be inexact: strings in which a byte of a character looks like a backslash (GBK, Shift-JIS); double quotes in MariaDB are
 * taken for a string whatever sql_mode says; settings that change what a backslash means are not asked for.
 */
#ifndef SPLIT_SQL_FINGERPRINT_H
#define SPLIT_SQL_FINGERPRINT_H

#include <stddef.h>

#define SQL_FINGERPRINT_LENGTH 1024
#define SQL_FINGERPRINT_READ 16384

enum sql_dialect { SQL_MARIADB, SQL_POSTGRES };

/* What a statement is, by its first word. */
enum sql_verb {
  SQL_OTHER = 0, /* BEGIN, COMMIT, SET, SHOW and the like: over before a measurement would be */
  SQL_SELECT,
  SQL_INSERT,
  SQL_UPDATE,
  SQL_DELETE,
  SQL_REPLACE,
  SQL_WITH,
  SQL_CALL,
  SQL_DO,
  SQL_VALUES,
  SQL_LOAD,
  SQL_CREATE, /* and ALTER, DROP, TRUNCATE, OPTIMIZE, REPAIR, CHECK, ANALYZE: what works on whole tables */
  SQL_EXECUTE, /* of a statement prepared by PREPARE: its kind is that one's */
  SQL_VERBS
};

/* The verb; looks at no more than the text's beginning. */
enum sql_verb sql_verb(enum sql_dialect dialect, const char *text, size_t length);

/* "select"; "" for SQL_OTHER. */
const char *sql_verb_name(enum sql_verb verb);

/* Writes the fingerprint of the first statement of `text`; returns its length. `next`: where the statement behind it begins, 0 if there
 * is none (or none within SQL_FINGERPRINT_READ). */
size_t sql_fingerprint(enum sql_dialect dialect, const char *text, size_t length,
                       char fingerprint[SQL_FINGERPRINT_LENGTH], size_t *next);

#endif
