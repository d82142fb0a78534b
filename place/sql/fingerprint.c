/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * One pass over the text. What was written last decides what has to come between it and the next token, so that white space in the
 * text makes no difference.
 */
#include "fingerprint.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* What a byte of a word is written as, 0 for all that is no part of a word: letters in lower case, digits, '_', '$', '@' and all above
 * ASCII. In one table, since every byte passes here. */
#define R4(a) (a), (a) + 1, (a) + 2, (a) + 3
#define R16(a) R4(a), R4((a) + 4), R4((a) + 8), R4((a) + 12)
#define R26(a) R16(a), R4((a) + 16), R4((a) + 20), (a) + 24, (a) + 25
#define R64(a) R16(a), R16((a) + 16), R16((a) + 32), R16((a) + 48)
static const uint8_t word_bytes[256] = {
    ['$'] = '$', ['0'] = R4('0'),  R4('4'),          '8',      '9', ['@'] = '@', R26('a'),
    ['_'] = '_', ['a'] = R26('a'), [128] = R64(128), R64(192),
};
#undef R64
#undef R26
#undef R16
#undef R4

static bool is_space(int byte) { return (byte >= 0 && byte <= ' ') || byte == 127; }

static bool is_digit(int byte) { return byte >= '0' && byte <= '9'; }

#define DEPTH 32 /* parentheses within parentheses that are still compared with their neighbours */

/* What was written last, as far as the next token must know it. */
enum before { BEFORE_NONE, BEFORE_WORD, BEFORE_LITERAL, BEFORE_STAR, BEFORE_CLOSED, BEFORE_OTHER };

struct writer {
  char *out;
  size_t at;
  size_t word; /* where the last word began */
  enum before before;
  bool full;
  unsigned depth;
  /* At each depth: where the pair of parentheses that is open began, and the last complete one (a row of VALUES; end 0: none). */
  uint16_t open[DEPTH], row_begin[DEPTH], row_end[DEPTH];
};

struct reader {
  enum sql_dialect dialect;
  const unsigned char *text;
  size_t at, end;
};

static int peek(const struct reader *reader, size_t ahead) {
  size_t at = reader->at + ahead;
  return at < reader->end ? reader->text[at] : -1;
}

static bool is_word_byte(int byte) { return byte >= 0 && word_bytes[byte] != 0; }

/* Reading ----------------------------------------------------------------------------------- */

static void skip_line(struct reader *reader) {
  const unsigned char *from = reader->text + reader->at;
  const unsigned char *newline = memchr(from, '\n', reader->end - reader->at);
  reader->at = newline != NULL ? (size_t)(newline - reader->text) + 1 : reader->end;
}

/* From behind the opening to behind the closing. PostgreSQL's comments nest. */
static void skip_comment(struct reader *reader) {
  unsigned depth = 1;
  while (reader->at < reader->end) {
    if (peek(reader, 0) == '*' && peek(reader, 1) == '/') {
      reader->at += 2;
      if (--depth == 0) return;
    } else if (reader->dialect == SQL_POSTGRES && peek(reader, 0) == '/' &&
               peek(reader, 1) == '*') {
      reader->at += 2;
      depth++;
    } else {
      reader->at++;
    }
  }
}

/* Skips a comment if there is one here. What MariaDB executes in a comment stays. */
static bool skip_if_comment(struct reader *reader) {
  int byte = peek(reader, 0);
  if (byte == '-' && peek(reader, 1) == '-') {
    int third = peek(reader, 2);
    if (reader->dialect == SQL_MARIADB && third >= 0 && !is_space(third)) return false;
  } else if (byte == '/' && peek(reader, 1) == '*') {
    reader->at += 2;
    if (reader->dialect == SQL_MARIADB) {
      size_t mark = peek(reader, 0) == 'M' ? 1 : 0;
      if (peek(reader, mark) == '!') {
        reader->at += mark + 1;
        while (peek(reader, 0) >= '0' && peek(reader, 0) <= '9') reader->at++;
        return true;
      }
    }
    skip_comment(reader);
    return true;
  } else if (byte == '*' && peek(reader, 1) == '/' && reader->dialect == SQL_MARIADB) {
    reader->at += 2; /* the end of a comment that is executed */
    return true;
  } else if (byte != '#' || reader->dialect != SQL_MARIADB) {
    return false;
  }
  skip_line(reader);
  return true;
}

static void skip_blanks(struct reader *reader) {
  for (;;) {
    while (reader->at < reader->end && is_space(reader->text[reader->at])) reader->at++;
    if (reader->at >= reader->end || !skip_if_comment(reader)) return;
  }
}

/* From behind the opening quote to behind the closing one; a doubled quote stands for itself. */
static void skip_quoted(struct reader *reader, unsigned char quote, bool backslashes) {
  while (reader->at < reader->end) {
    unsigned char byte = reader->text[reader->at++];
    if (byte == '\\' && backslashes) {
      reader->at++;
    } else if (byte == quote) {
      if (peek(reader, 0) != quote) return;
      reader->at++;
    }
  }
}

/* $tag$ ... $tag$; false: there is none here. */
static bool skip_dollar_quoted(struct reader *reader) {
  const unsigned char *begin = reader->text + reader->at;
  size_t tag = 1, left = reader->end - reader->at;
  while (tag < left && begin[tag] != '$' && is_word_byte(begin[tag])) tag++;
  if (tag >= left || begin[tag] != '$') return false;
  tag++;
  for (const unsigned char *from = begin + tag; (size_t)(from - begin) + tag <= left; from++) {
    from = memchr(from, '$', left - (size_t)(from - begin));
    if (from == NULL || (size_t)(from - begin) + tag > left) break;
    if (memcmp(from, begin, tag) == 0) {
      reader->at += (size_t)(from - begin) + tag;
      return true;
    }
  }
  reader->at = reader->end;
  return true;
}

/* 12, 1.5e-3, 0x1f, 1_000: up to the first byte that no number has. */
static void skip_number(struct reader *reader) {
  bool hexadecimal = peek(reader, 0) == '0' && (peek(reader, 1) | 0x20) == 'x';
  while (reader->at < reader->end) {
    unsigned char byte = reader->text[reader->at];
    if (!is_word_byte(byte) && byte != '.') {
      bool exponent = !hexadecimal && (byte == '-' || byte == '+') &&
                      (reader->text[reader->at - 1] | 0x20) == 'e';
      if (!exponent) return;
    }
    reader->at++;
  }
}

/* Writing ----------------------------------------------------------------------------------- */

static void put(struct writer *writer, char byte) {
  if (writer->at >= SQL_FINGERPRINT_LENGTH)
    writer->full = true;
  else
    writer->out[writer->at++] = byte;
}

static void part_words(struct writer *writer) {
  if (writer->before >= BEFORE_WORD && writer->before <= BEFORE_CLOSED) put(writer, ' ');
}

static void write_word(struct writer *writer, struct reader *reader) {
  part_words(writer);
  writer->word = writer->at;
  const unsigned char *from = reader->text + reader->at, *end = reader->text + reader->end;
  char *to = writer->out + writer->at;
  size_t room = SQL_FINGERPRINT_LENGTH - writer->at;
  if ((size_t)(end - from) > room) end = from + room;
  uint8_t byte;
  while (from < end && (byte = word_bytes[*from]) != 0) {
    *to++ = (char)byte;
    from++;
  }
  reader->at = (size_t)(from - reader->text);
  writer->at = (size_t)(to - writer->out);
  if (writer->at == SQL_FINGERPRINT_LENGTH) writer->full = true;
  writer->before = BEFORE_WORD;
}

static void write_quoted_name(struct writer *writer, struct reader *reader, unsigned char quote) {
  size_t begin = reader->at++;
  skip_quoted(reader, quote, false);
  part_words(writer);
  writer->word = writer->at;
  for (size_t at = begin; at < reader->at && at < reader->end && !writer->full; at++)
    put(writer, (char)reader->text[at]);
  writer->before = BEFORE_WORD;
}

/* Whether the byte before the sign makes it the sign of a number rather than an operator between two. */
static bool is_sign(const struct writer *writer) {
  if (writer->at == 0) return false;
  char sign = writer->out[writer->at - 1];
  if (sign != '-' && sign != '+') return false;
  return writer->at == 1 || strchr("(,=<>+-*/%|&^~!", writer->out[writer->at - 2]) != NULL;
}

static void write_literal(struct writer *writer) {
  if (writer->before == BEFORE_LITERAL) return; /* 'a' 'b' is one string */
  if (is_sign(writer)) {
    writer->at--;
    writer->before = BEFORE_OTHER;
    if (writer->at > 0 && writer->out[writer->at - 1] == '*') writer->before = BEFORE_STAR;
  }
  const char *out = writer->out + writer->at;
  if (writer->at >= 3 && out[-1] == ',' && out[-2] == '?' && out[-3] == '(') {
    writer->at--;
  } else {
    part_words(writer);
    put(writer, '?');
  }
  writer->before = BEFORE_LITERAL;
}

/* A word directly before a quote says what the string is (N'', x'', _utf8''): it goes with it. */
static void take_back_prefix(struct writer *writer, const struct reader *reader) {
  size_t length = writer->at - writer->word;
  if (writer->before != BEFORE_WORD || reader->at == 0 ||
      !is_word_byte(reader->text[reader->at - 1]) || length == 0)
    return;
  const char *word = writer->out + writer->word;
  bool prefix = (length == 1 && strchr("nxbe", word[0]) != NULL) ||
                (reader->dialect == SQL_MARIADB && word[0] == '_');
  if (!prefix) return;
  writer->at = writer->word;
  /* The blank that part_words put, if it did. */
  if (writer->at > 0 && writer->out[writer->at - 1] == ' ') writer->at--;
  writer->before = BEFORE_OTHER;
  if (writer->at == 0) {
    writer->before = BEFORE_NONE;
  } else {
    unsigned char last = (unsigned char)writer->out[writer->at - 1];
    if (is_word_byte(last)) writer->before = BEFORE_WORD;
    if (last == ')') writer->before = BEFORE_CLOSED;
    if (last == '*') writer->before = BEFORE_STAR;
  }
}

static bool is_escape_string(const struct writer *writer, const struct reader *reader) {
  return writer->before == BEFORE_WORD && writer->at - writer->word == 1 && reader->at > 0 &&
         writer->out[writer->word] == 'e' && (reader->text[reader->at - 1] | 0x20) == 'e';
}

static void write_open(struct writer *writer) {
  if (writer->depth < DEPTH) writer->open[writer->depth] = (uint16_t)writer->at;
  writer->depth++;
  if (writer->depth < DEPTH) writer->row_end[writer->depth] = 0;
  put(writer, '(');
  writer->before = BEFORE_OTHER;
}

static void write_closed(struct writer *writer) {
  put(writer, ')');
  writer->before = BEFORE_CLOSED;
  if (writer->depth == 0) return;
  unsigned depth = --writer->depth;
  if (depth >= DEPTH || writer->full) return;
  size_t begin = writer->open[depth], length = writer->at - begin;
  size_t row = writer->row_begin[depth], row_end = writer->row_end[depth];
  if (row_end != 0 && row_end + 1 == begin && writer->out[row_end] == ',' &&
      row_end - row == length && memcmp(writer->out + row, writer->out + begin, length) == 0) {
    writer->at = row_end; /* the same row once more */
    return;
  }
  writer->row_begin[depth] = (uint16_t)begin;
  writer->row_end[depth] = (uint16_t)writer->at;
}

/* Where the text or the room ended in the middle of a row or a list: as if it had ended there. */
static void mend_end(struct writer *writer) {
  for (unsigned depth = 0; depth < writer->depth && depth < DEPTH; depth++) {
    size_t row_end = writer->row_end[depth];
    if (row_end != 0 && row_end < writer->at && writer->out[row_end] == ',' &&
        writer->open[depth] == row_end + 1) {
      writer->at = row_end;
      return;
    }
  }
  if (writer->at >= 1 && writer->out[writer->at - 1] == ',') writer->at--;
  if (writer->at >= 2 && writer->at < SQL_FINGERPRINT_LENGTH &&
      writer->out[writer->at - 1] == '?' && writer->out[writer->at - 2] == '(')
    writer->out[writer->at++] = ')';
}

static void write_other(struct writer *writer, struct reader *reader) {
  unsigned char byte = reader->text[reader->at];
  switch (byte) {
    case '\'': {
      bool backslashes = reader->dialect == SQL_MARIADB || is_escape_string(writer, reader);
      take_back_prefix(writer, reader);
      reader->at++;
      skip_quoted(reader, byte, backslashes);
      write_literal(writer);
      return;
    }
    case '"':
      if (reader->dialect == SQL_POSTGRES) {
        write_quoted_name(writer, reader, byte);
        return;
      }
      reader->at++;
      skip_quoted(reader, byte, true);
      write_literal(writer);
      return;
    case '`': write_quoted_name(writer, reader, byte); return;
    case '?': /* where a parameter will be */
      reader->at++;
      write_literal(writer);
      return;
    case '(':
      reader->at++;
      write_open(writer);
      return;
    case ')':
      reader->at++;
      write_closed(writer);
      return;
    case '*':
      reader->at++;
      part_words(writer);
      put(writer, '*');
      writer->before = BEFORE_STAR;
      return;
    case '.':
      if (peek(reader, 1) >= '0' && peek(reader, 1) <= '9' && writer->before != BEFORE_WORD) {
        skip_number(reader);
        write_literal(writer);
        return;
      }
      break;
    default: break;
  }
  reader->at++;
  put(writer, (char)byte);
  writer->before = BEFORE_OTHER;
}

size_t sql_fingerprint(enum sql_dialect dialect, const char *text, size_t length,
                       char fingerprint[SQL_FINGERPRINT_LENGTH], size_t *next) {
  struct reader reader = {dialect, (const unsigned char *)text, 0, length};
  struct writer writer;
  bool cut = false;

  writer.out = fingerprint;
  writer.at = writer.word = 0;
  writer.before = BEFORE_NONE;
  writer.full = false;
  writer.depth = 0;
  writer.row_end[0] = 0;
  *next = 0;
  if (reader.end > SQL_FINGERPRINT_READ) {
    reader.end = SQL_FINGERPRINT_READ;
    cut = true;
  }
  while (!writer.full) {
    while (reader.at < reader.end && is_space(reader.text[reader.at])) reader.at++;
    if (reader.at >= reader.end) break;
    unsigned char byte = reader.text[reader.at];
    if (is_digit(byte)) {
      skip_number(&reader);
      write_literal(&writer);
      continue;
    }
    if (word_bytes[byte] != 0) {
      if (byte == '$' && dialect == SQL_POSTGRES) {
        bool parameter = is_digit(peek(&reader, 1));
        if (parameter) skip_number(&reader);
        if (parameter || skip_dollar_quoted(&reader)) {
          write_literal(&writer);
          continue;
        }
      }
      write_word(&writer, &reader);
      continue;
    }
    if ((byte == '-' || byte == '/' || byte == '#' || byte == '*') && skip_if_comment(&reader))
      continue;
    if (byte == ';' && writer.depth == 0) {
      if (writer.at == 0) { /* an empty statement before the first */
        reader.at++;
        continue;
      }
      reader.at++;
      do skip_blanks(&reader);
      while (peek(&reader, 0) == ';' && reader.at++ < reader.end);
      if (reader.at < reader.end) *next = reader.at;
      return writer.at;
    }
    write_other(&writer, &reader);
  }
  if (cut || writer.full) mend_end(&writer);
  return writer.at;
}

/* Verbs ------------------------------------------------------------------------------------- */

static const struct {
  const char *word;
  enum sql_verb verb;
} verbs[] = {
    {"select", SQL_SELECT},   {"insert", SQL_INSERT},   {"update", SQL_UPDATE},
    {"delete", SQL_DELETE},   {"replace", SQL_REPLACE}, {"with", SQL_WITH},
    {"call", SQL_CALL},       {"do", SQL_DO},           {"values", SQL_VALUES},
    {"load", SQL_LOAD},       {"create", SQL_CREATE},   {"alter", SQL_CREATE},
    {"drop", SQL_CREATE},     {"truncate", SQL_CREATE}, {"optimize", SQL_CREATE},
    {"repair", SQL_CREATE},   {"check", SQL_CREATE},    {"analyze", SQL_CREATE},
    {"execute", SQL_EXECUTE},
};

enum sql_verb sql_verb(enum sql_dialect dialect, const char *text, size_t length) {
  struct reader reader = {dialect, (const unsigned char *)text, 0,
                          length > SQL_FINGERPRINT_READ ? SQL_FINGERPRINT_READ : length};
  char word[16];
  size_t at = 0;

  for (;;) {
    skip_blanks(&reader);
    int byte = peek(&reader, 0);
    if (byte != '(' && byte != ';') break; /* (SELECT ...) UNION (SELECT ...) */
    reader.at++;
  }
  while (at < sizeof word - 1 && is_word_byte(peek(&reader, 0)))
    word[at++] = (char)word_bytes[reader.text[reader.at++]];
  word[at] = '\0';
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
    if (word[0] == verbs[i].word[0] && strcmp(word, verbs[i].word) == 0) return verbs[i].verb;
  return SQL_OTHER;
}

const char *sql_verb_name(enum sql_verb verb) {
  static const char *const names[SQL_VERBS] = {
      "",     "select", "insert", "update", "delete", "replace", "with",
      "call", "do",     "values", "load",   "ddl",    "execute",
  };
  return verb < SQL_VERBS ? names[verb] : "";
}
