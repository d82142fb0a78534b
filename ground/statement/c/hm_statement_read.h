/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * Where tokens of SQL end: private to this folder. Every function moves the reader forwards, and never beyond its
 * end.
 */
#ifndef HM_STATEMENT_READ_H
#define HM_STATEMENT_READ_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "hm_statement.h"

/* For each dialect: the output byte for a byte of a word; 0 for bytes outside of words. Letters
 * in lower case, digits, '_', '$' and all above ASCII; '@' in MariaDB (in PostgreSQL it is an
 * operator). */
extern const uint8_t hm_statement_words[2][256];

struct reader {
  enum hm_dialect dialect;
  const uint8_t *words;
  const unsigned char *text;
  size_t at, end;
};

static inline bool is_space(int byte) { return (byte >= 0 && byte <= ' ') || byte == 127; }

static inline bool is_digit(int byte) { return byte >= '0' && byte <= '9'; }

static inline struct reader reader_of(enum hm_dialect dialect, const char *text, size_t length) {
  return (struct reader){dialect, hm_statement_words[dialect], (const unsigned char *)text, 0,
                         length > HM_STATEMENT_READ ? HM_STATEMENT_READ : length};
}

static inline int peek(const struct reader *reader, size_t ahead) {
  size_t at = reader->at + ahead;
  return at < reader->end ? reader->text[at] : -1;
}

static inline bool is_word_byte(const struct reader *reader, int byte) {
  return byte >= 0 && reader->words[byte] != 0;
}

static inline void skip_line(struct reader *reader) {
  const unsigned char *from = reader->text + reader->at;
  const unsigned char *newline = memchr(from, '\n', reader->end - reader->at);
  reader->at = newline != NULL ? (size_t)(newline - reader->text) + 1 : reader->end;
}

/* From behind the opening to behind the closing. PostgreSQL's comments nest. */
static inline void skip_comment(struct reader *reader) {
  unsigned depth = 1;
  while (reader->at < reader->end) {
    if (peek(reader, 0) == '*' && peek(reader, 1) == '/') {
      reader->at += 2;
      if (--depth == 0) return;
    } else if (reader->dialect == HM_DIALECT_POSTGRES && peek(reader, 0) == '/' &&
               peek(reader, 1) == '*') {
      reader->at += 2;
      depth++;
    } else {
      reader->at++;
    }
  }
}

/* Skips a comment if there is one here. What MariaDB executes in a comment stays. */
static inline bool skip_if_comment(struct reader *reader) {
  int byte = peek(reader, 0);
  if (byte == '-' && peek(reader, 1) == '-') {
    int third = peek(reader, 2);
    if (reader->dialect == HM_DIALECT_MARIADB && third >= 0 && !is_space(third)) return false;
  } else if (byte == '/' && peek(reader, 1) == '*') {
    reader->at += 2;
    if (reader->dialect == HM_DIALECT_MARIADB) {
      size_t mark = peek(reader, 0) == 'M' ? 1 : 0;
      if (peek(reader, mark) == '!') {
        reader->at += mark + 1;
        while (is_digit(peek(reader, 0))) reader->at++;
        return true;
      }
    }
    skip_comment(reader);
    return true;
  } else if (byte == '*' && peek(reader, 1) == '/' && reader->dialect == HM_DIALECT_MARIADB) {
    reader->at += 2; /* the end of a comment that is executed */
    return true;
  } else if (byte != '#' || reader->dialect != HM_DIALECT_MARIADB) {
    return false;
  }
  skip_line(reader);
  return true;
}

static inline void skip_blanks(struct reader *reader) {
  for (;;) {
    while (reader->at < reader->end && is_space(reader->text[reader->at])) reader->at++;
    if (reader->at >= reader->end || !skip_if_comment(reader)) return;
  }
}

#endif
