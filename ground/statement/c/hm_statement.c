/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * One pass over the text. The separator before a token depends only on the previously written
 * token, so that white space in the text makes no difference.
 *
 * Invariants:
 *   1. The output is a function of the tokens, never of the white space or comments between them.
 *   2. Written text is removed only from its end (`at` decreases): a sign, the prefix of a string,
 *      a word that is a literal, a comma within a list of literals, a row that repeats the one
 *      before it.
 *   3. Nothing is written beyond HM_STATEMENT_LONGEST; `full` is set when that would be needed.
 */
#include "hm_hash.h"
#include "hm_statement_read.h"

/* A single table, since every byte passes through it. */
#define R4(a) (a), (a) + 1, (a) + 2, (a) + 3
#define R16(a) R4(a), R4((a) + 4), R4((a) + 8), R4((a) + 12)
#define R26(a) R16(a), R4((a) + 16), R4((a) + 20), (a) + 24, (a) + 25
#define R64(a) R16(a), R16((a) + 16), R16((a) + 32), R16((a) + 48)
#define WORDS(at)                                                \
  ['$'] = '$', ['0'] = R4('0'), R4('4'), '8', '9', ['@'] = (at), \
  R26('a'), ['_'] = '_', ['a'] = R26('a'), [128] = R64(128), R64(192)
const uint8_t hm_statement_words[2][256] = {
    [HM_DIALECT_MARIADB] = {WORDS('@')},
    [HM_DIALECT_POSTGRES] = {WORDS(0)},
};
#undef WORDS
#undef R64
#undef R26
#undef R16
#undef R4

#define DEPTH 32 /* parentheses within parentheses whose groups are still compared */

/* The kind of the token written last. Between two of WORD to CLOSED there is a blank. */
enum before {
  BEFORE_NONE,
  BEFORE_WORD,
  BEFORE_LITERAL,
  BEFORE_STAR,
  BEFORE_CLOSED, /* ) or ] */
  BEFORE_OPERATOR,
  BEFORE_SIGN, /* + or - where a value is expected */
  BEFORE_DOT,  /* a name follows, whatever it reads like */
  BEFORE_OTHER
};

struct writer {
  char *out;
  size_t at;
  enum before before;
  bool full;
  size_t word; /* where the last word or quoted name began */
  /* Start of the last sign including the blank before it, and the kind of the token before that. */
  size_t sign;
  enum before before_sign;
  unsigned depth;
  /* At each depth: start of the open pair of parentheses, and the last complete one (end 0:
   * none). */
  uint16_t open[DEPTH], row_begin[DEPTH], row_end[DEPTH];
};

/* Reading ------------------------------------------------------------------------------- */

/* From after the opening quote to after the closing one; a doubled quote stands for itself. */
static void skip_quoted(struct reader *reader, unsigned char quote, bool backslashes) {
  while (reader->at < reader->end) {
    unsigned char byte = reader->text[reader->at++];
    if (byte == '\\' && backslashes) {
      if (reader->at < reader->end) reader->at++;
    } else if (byte == quote) {
      if (peek(reader, 0) != quote) return;
      reader->at++;
    }
  }
}

/* $tag$ ... $tag$; returns false if there is none here. */
static bool skip_dollar_quoted(struct reader *reader) {
  const unsigned char *begin = reader->text + reader->at;
  size_t tag = 1, left = reader->end - reader->at;
  while (tag < left && begin[tag] != '$' && is_word_byte(reader, begin[tag])) tag++;
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

/* 12, 1.5e-3, 0x1f, 1_000: up to the first byte that cannot be part of a number. */
static void skip_number(struct reader *reader) {
  bool hexadecimal = peek(reader, 0) == '0' && (peek(reader, 1) | 0x20) == 'x';
  while (reader->at < reader->end) {
    unsigned char byte = reader->text[reader->at];
    if (!is_word_byte(reader, byte) && byte != '.') {
      bool exponent = !hexadecimal && (byte == '-' || byte == '+') &&
                      (reader->text[reader->at - 1] | 0x20) == 'e' && is_digit(peek(reader, 1));
      if (!exponent) return;
    }
    reader->at++;
  }
}

/* Bit 1: of an operator. Bit 2: also one that lets PostgreSQL's operators end with a sign. */
static const uint8_t operators[128] = {
    ['+'] = 1, ['-'] = 1, ['*'] = 1, ['/'] = 1, ['<'] = 1, ['>'] = 1, ['='] = 1, ['~'] = 3,
    ['!'] = 3, ['@'] = 3, ['#'] = 3, ['%'] = 3, ['^'] = 3, ['&'] = 3, ['|'] = 3,
};

static bool is_operator(int byte) { return byte >= 0 && byte < 128 && operators[byte] != 0; }

/* PostgreSQL: the longest run of operator characters; without one of ~!@#%^&| it does not end with a sign. */
static size_t operator_of_postgres(const struct reader *reader) {
  size_t length = 0;
  unsigned kinds = 0;
  for (int byte; is_operator(byte = peek(reader, length)); length++) {
    int next = peek(reader, length + 1);
    if (length > 0 && ((byte == '-' && next == '-') || (byte == '/' && next == '*'))) break;
    kinds |= operators[byte];
  }
  while (length > 1 && (kinds & 2) == 0 &&
         (peek(reader, length - 1) == '-' || peek(reader, length - 1) == '+'))
    length--;
  return length;
}

/* MariaDB has a fixed set: <=> <= << <> >= >> != && || -> ->> and single characters. */
static size_t operator_of_mariadb(const struct reader *reader) {
  int first = peek(reader, 0), second = peek(reader, 1), third = peek(reader, 2);
  switch (first) {
    case '<':
      if (second == '=') return third == '>' ? 3 : 2;
      return second == '<' || second == '>' ? 2 : 1;
    case '>': return second == '=' || second == '>' ? 2 : 1;
    case '!': return second == '=' ? 2 : 1;
    case '&':
    case '|': return second == first ? 2 : 1;
    case '-': return second != '>' ? 1 : third == '>' ? 3 : 2;
    default: return 1;
  }
}

/* Writing ------------------------------------------------------------------------------- */

static void put(struct writer *writer, char byte) {
  if (writer->at >= HM_STATEMENT_LONGEST)
    writer->full = true;
  else
    writer->out[writer->at++] = byte;
}

static void part_words(struct writer *writer) {
  if (writer->before >= BEFORE_WORD && writer->before <= BEFORE_CLOSED) put(writer, ' ');
}

/* After these words a value is expected: a sign or NULL belongs to it. */
static bool announces_value(const char *word, size_t length) {
  static const char words[][10] = {
      "select", "values", "when",  "then",  "else",  "and",    "or",        "in",
      "limit",  "offset", "where", "on",    "by",    "case",   "like",      "between",
      "any",    "all",    "using", "ilike", "fetch", "having", "returning", "return",
  };
  if (length < 2 || length > 9) return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (words[i][0] == *word && memcmp(words[i], word, length) == 0 && words[i][length] == '\0')
      return true;
  return false;
}

/* Whether a value is expected: the text written last ends at `end`, and began at `word` if it is
 * a word. */
static bool expects_value(enum before before, const char *word, const char *end) {
  switch (before) {
    case BEFORE_WORD: return announces_value(word, (size_t)(end - word));
    case BEFORE_LITERAL:
    case BEFORE_CLOSED:
    case BEFORE_DOT: return false;
    default: return true;
  }
}

static void write_literal(struct writer *writer) {
  if (writer->before == BEFORE_SIGN) {
    writer->at = writer->sign;
    writer->before = writer->before_sign;
  }
  if (writer->before == BEFORE_LITERAL) return; /* 'a' 'b' is one string */
  const char *out = writer->out + writer->at;
  if (writer->at >= 3 && out[-1] == ',' && out[-2] == '?' && (out[-3] == '(' || out[-3] == '[')) {
    writer->at--;
  } else {
    part_words(writer);
    put(writer, '?');
  }
  writer->before = BEFORE_LITERAL;
}

static bool is_constant(const char *word, size_t length) {
  return (length == 4 && (memcmp(word, "null", 4) == 0 || memcmp(word, "true", 4) == 0)) ||
         (length == 5 && memcmp(word, "false", 5) == 0);
}

/* A word directly before a quote is a prefix of the string: N'', x'', b'', E'', _utf8'' and
 * U&''. Returns whether it was one. */
__attribute__((noinline)) static bool skip_prefixed_string(struct reader *reader, const char *word,
                                                           size_t length) {
  const bool is_mariadb = reader->dialect == HM_DIALECT_MARIADB;
  int quote = peek(reader, 0);
  if (quote != '&' && quote != '\'' && quote != '"') return false;
  if (quote == '&') {
    if (is_mariadb || length != 1 || *word != 'u' || peek(reader, 1) != '\'') return false;
    reader->at++;
    quote = '\'';
  } else if (!(length == 1 && (*word == 'n' || *word == 'x' || *word == 'b' || *word == 'e')) &&
             !(is_mariadb && *word == '_')) {
    return false;
  }
  if (quote == '"' && !is_mariadb) return false;
  reader->at++;
  skip_quoted(reader, (unsigned char)quote, is_mariadb || *word == 'e');
  return true;
}

/* Copies a word in lower case, at most `most` bytes; returns its length. */
static inline size_t copy_word(const uint8_t *words, const unsigned char *from, char *to,
                               size_t most) {
  size_t i = 0;
  uint8_t byte;
  for (; i + 4 <= most; i += 4) {
    if ((byte = words[from[i]]) == 0) return i;
    to[i] = (char)byte;
    if ((byte = words[from[i + 1]]) == 0) return i + 1;
    to[i + 1] = (char)byte;
    if ((byte = words[from[i + 2]]) == 0) return i + 2;
    to[i + 2] = (char)byte;
    if ((byte = words[from[i + 3]]) == 0) return i + 3;
    to[i + 3] = (char)byte;
  }
  for (; i < most && (byte = words[from[i]]) != 0; i++) to[i] = (char)byte;
  return i;
}

static void write_word(struct writer *writer, struct reader *reader) {
  const size_t at_before = writer->at, word_before = writer->word;
  const enum before before = writer->before;
  part_words(writer);
  const size_t at = writer->word = writer->at;
  const unsigned char *from = reader->text + reader->at;
  const size_t left = reader->end - reader->at;
  char *word = writer->out + at;
  const size_t length =
      copy_word(reader->words, from, word,
                left < HM_STATEMENT_LONGEST - at ? left : HM_STATEMENT_LONGEST - at);
  reader->at += length;
  writer->at = at + length;
  if (writer->at == HM_STATEMENT_LONGEST) writer->full = true;
  writer->before = BEFORE_WORD;
  const bool is_literal =
      /* " & and ' are among these six. */
      (length < left && from[length] - (unsigned)'"' < 6 &&
       skip_prefixed_string(reader, word, length)) ||
      /* NULL as in `a = null`, not as in `a is null`. */
      ((length == 4 || length == 5) && is_constant(word, length) &&
       expects_value(before, writer->out + word_before, writer->out + at_before));
  if (!is_literal) return;
  writer->at = at_before;
  writer->before = before;
  writer->word = word_before;
  write_literal(writer);
}

static void write_quoted_name(struct writer *writer, struct reader *reader, unsigned char quote) {
  size_t begin = reader->at++;
  skip_quoted(reader, quote, false);
  part_words(writer);
  writer->word = writer->at;
  for (size_t at = begin; at < reader->at && !writer->full; at++)
    put(writer, (char)reader->text[at]);
  writer->before = BEFORE_WORD;
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

/* A text cut within a row or a list is treated as if it had ended there. */
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
  if (writer->at >= 2 && writer->at < HM_STATEMENT_LONGEST && writer->out[writer->at - 1] == '?' &&
      writer->out[writer->at - 2] == '(')
    writer->out[writer->at++] = ')';
}

static void write_operator(struct writer *writer, struct reader *reader, unsigned char byte) {
  size_t length = reader->dialect == HM_DIALECT_POSTGRES ? operator_of_postgres(reader)
                                                         : operator_of_mariadb(reader);
  if (byte == '*' && length == 1) {
    reader->at++;
    part_words(writer);
    put(writer, '*');
    writer->before = BEFORE_STAR;
    return;
  }
  const bool is_sign =
      length == 1 && (byte == '-' || byte == '+') &&
      expects_value(writer->before, writer->out + writer->word, writer->out + writer->at);
  if (is_sign) {
    writer->sign = writer->at;
    writer->before_sign = writer->before;
  }
  if (writer->before == BEFORE_OPERATOR || writer->before == BEFORE_SIGN ||
      writer->before == BEFORE_STAR)
    put(writer, ' ');
  for (; length > 0; length--) put(writer, (char)reader->text[reader->at++]);
  writer->before = is_sign ? BEFORE_SIGN : BEFORE_OPERATOR;
}

static void write_other(struct writer *writer, struct reader *reader) {
  unsigned char byte = reader->text[reader->at];
  switch (byte) {
    case '\'':
      reader->at++;
      skip_quoted(reader, byte, reader->dialect == HM_DIALECT_MARIADB);
      write_literal(writer);
      return;
    case '"':
      if (reader->dialect == HM_DIALECT_POSTGRES) {
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
    case '.':
      if (is_digit(peek(reader, 1)) && writer->before != BEFORE_WORD) {
        skip_number(reader);
        write_literal(writer);
        return;
      }
      break;
    default:
      if (is_operator(byte)) {
        write_operator(writer, reader, byte);
        return;
      }
      break;
  }
  reader->at++;
  put(writer, (char)byte);
  writer->before = byte == ']' ? BEFORE_CLOSED : byte == '.' ? BEFORE_DOT : BEFORE_OTHER;
}

/* Advances past semicolons to the next statement; returns false if there is none. */
static bool skip_to_statement(struct reader *reader) {
  do skip_blanks(reader);
  while (peek(reader, 0) == ';' && reader->at++ < reader->end);
  return reader->at < reader->end;
}

/* $1 or $$...$$; returns false for a word that begins with a dollar. */
static bool write_dollar(struct writer *writer, struct reader *reader) {
  if (is_digit(peek(reader, 1)))
    skip_number(reader);
  else if (!skip_dollar_quoted(reader))
    return false;
  write_literal(writer);
  return true;
}

size_t hm_statement_normalise(enum hm_dialect dialect, const char *text, size_t length,
                              char normalised[HM_STATEMENT_LONGEST], size_t *next) {
  struct reader reader = reader_of(dialect, text, length);
  struct writer writer;

  writer.out = normalised;
  writer.at = writer.word = 0;
  writer.before = BEFORE_NONE;
  writer.full = false;
  writer.depth = 0;
  writer.row_end[0] = 0;
  if (next != NULL) *next = 0;
  while (!writer.full && reader.at < reader.end) {
    unsigned char byte = reader.text[reader.at];
    if (reader.words[byte] != 0) {
      if (is_digit(byte)) {
        skip_number(&reader);
        write_literal(&writer);
      } else if (byte != '$' || dialect != HM_DIALECT_POSTGRES || !write_dollar(&writer, &reader)) {
        write_word(&writer, &reader);
      }
    } else if (is_space(byte)) {
      reader.at++;
    } else if ((byte == '-' || byte == '/' || byte == '#' || byte == '*') &&
               skip_if_comment(&reader)) {
      continue;
    } else if (byte == ';' && writer.depth == 0) {
      reader.at++;
      bool is_first = writer.at == 0; /* an empty statement before the first */
      if (!skip_to_statement(&reader)) break;
      if (is_first) continue;
      if (next != NULL) {
        *next = reader.at;
        return writer.at;
      }
      put(&writer, ';');
      writer.before = BEFORE_OTHER;
    } else {
      write_other(&writer, &reader);
    }
  }
  if (writer.full || length > HM_STATEMENT_READ) mend_end(&writer);
  return writer.at;
}

uint64_t hm_statement_id(const char *normalised, size_t length) {
  return length == 0 ? 0 : hm_hash_text(normalised, length);
}

size_t hm_statement_cut(const char *text, size_t length, size_t room) {
  if (length <= room) return length;
  /* Back to the first byte of the character that does not fit. */
  size_t at = room;
  while (at > 0 && room - at < 4 && ((unsigned char)text[at] & 0xc0) == 0x80) at--;
  return ((unsigned char)text[at] & 0xc0) == 0x80 ? room : at;
}
