/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * The identity of an SQL statement: its text without the parts that vary between executions, and
 * a hash of that. All parts of Hardmeter use this lexer, so that a statement has the same id
 * everywhere.
 *
 *     SELECT  name FROM items -- hot
 *       WHERE id IN (1, 2,3) AND seller = 'bob'     ->     select name from items where id in(?) and seller=?
 *
 *   1. Literals are '?': numbers with their sign, strings, bit and hexadecimal strings, $1, and
 *      NULL, TRUE and FALSE where a value is expected.
 *   2. A list of literals in parentheses or brackets is one '?'. Equal neighbours among the groups
 *      of a list (rows of VALUES) are one group.
 *   3. Comments are dropped. White space is written only where tokens would join. Words are in
 *      lower case, quoted names are kept as they are, quotes included.
 *   4. Semicolons at the end are dropped.
 *
 * Bounds: at most HM_STATEMENT_READ bytes are read and HM_STATEMENT_LONGEST bytes written; text
 * beyond either does not distinguish statements. No memory is allocated. Of libc only memchr and
 * memcmp are used.
 *
 * Limits: multi-byte encodings with bytes below 128 inside characters (GBK, Shift-JIS);
 * ANSI_QUOTES and NO_BACKSLASH_ESCAPES of MariaDB and standard_conforming_strings = off of
 * PostgreSQL are not supported; "a" and a are different names. */
#ifndef HM_STATEMENT_H
#define HM_STATEMENT_H

#include <stddef.h>
#include <stdint.h>

#define HM_STATEMENT_LONGEST 8192
#define HM_STATEMENT_READ (1u << 20)

/* Lexical rules of a server. MariaDB: `names`, "strings", backslashes in strings, comments from
 * #, @variables. PostgreSQL: "names", E'' and $$ strings, nested comments, operators of several
 * characters. */
enum hm_dialect { HM_DIALECT_MARIADB, HM_DIALECT_POSTGRES };

/* Normalises a text and returns the length. `next` NULL: the whole text, statements separated by
 * ';'. Else the first statement only; *next is the offset of the following one, 0 if there is
 * none. */
size_t hm_statement_normalise(enum hm_dialect dialect, const char *text, size_t length,
                              char normalised[HM_STATEMENT_LONGEST], size_t *next);

/* The StatementId: hash of a normalised text. 0 for an empty text, else never 0 and never 1. */
uint64_t hm_statement_id(const char *normalised, size_t length);

/* Offset of the statement within a normalised EXPLAIN, PREPARE ... AS or DECLARE CURSOR; 0 for
 * other statements. The text from there equals that statement's own normalised text. */
size_t hm_statement_inner(const char *normalised, size_t length);

/* The longest prefix of at most `room` bytes that ends with a complete UTF-8 character, for
 * truncated copies. */
size_t hm_statement_cut(const char *text, size_t length, size_t room);

/* The type of a statement, by its first word. */
enum hm_verb {
  HM_VERB_OTHER = 0, /* BEGIN, COMMIT, SET, SHOW etc.: shorter than their measurement */
  HM_VERB_SELECT,
  HM_VERB_INSERT,
  HM_VERB_UPDATE,
  HM_VERB_DELETE,
  HM_VERB_REPLACE,
  HM_VERB_WITH,
  HM_VERB_CALL,
  HM_VERB_DO,
  HM_VERB_VALUES,
  HM_VERB_LOAD,
  HM_VERB_CREATE, /* CREATE, ALTER, DROP, TRUNCATE, OPTIMIZE, REPAIR, CHECK, ANALYZE: work on whole tables */
  HM_VERB_EXECUTE, /* executes a statement of PREPARE, which counts instead */
  HM_VERBS
};

/* The verb; reads only the beginning of the text. */
enum hm_verb hm_statement_verb(enum hm_dialect dialect, const char *text, size_t length);

/* "select"; "" for HM_VERB_OTHER. */
const char *hm_verb_name(enum hm_verb verb);

#endif
