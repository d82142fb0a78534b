/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Statements that this thread has read lately. A program's statement mostly differs from an earlier one in numbers and strings only; where
 * all else is the same byte by byte, so are its verb, its id and its origin, and it need not be read as SQL again.
 */
#ifndef SPLIT_MARIADB_RECENT_H
#define SPLIT_MARIADB_RECENT_H

#include <stddef.h>
#include <stdint.h>

#include "hm_statement.h"
#include "origin.h"

#define RECENT_TEXT \
  320 /* longer statements are not kept: lexing is cheap compared with their execution */
#define RECENT_KEY 256

/* The known properties of a statement. */
struct known {
  enum hm_verb verb;
  uint16_t key_length;
  uint16_t origin_length; /* 0: none */
  uint64_t statement;     /* StatementId: the hash of the key, equal to the library's */
  const char *key, *origin;
};

/* The properties of a statement with this text; NULL if unknown. Valid until this thread's next
 * recent_keep. */
const struct known *recent_find(const char *text, size_t length);

/* Lexes the first statement of a text. known->key points into `key`, known->origin into the
 * text. Returns the offset of the next statement, 0 if there is none. */
size_t known_read(const char *text, size_t length, enum hm_verb verb,
                  char key[HM_STATEMENT_LONGEST], struct known *known);

/* Stores a copy of a lexed text of one statement, if it is short and plain enough. */
void recent_keep(const char *text, size_t length, const struct known *known);

#endif
