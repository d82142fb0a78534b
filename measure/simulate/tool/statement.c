/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Taking the constants out of a statement.
 *
 * A lexer of SQL as PostgreSQL and MariaDB write it, as far as constants,
 * comments and blanks need one; it does not parse.
 *
 *   SELECT  a FROM t          SELECT a FROM t
 *     WHERE b = -5     -->      WHERE b = ? AND
 *     AND c IN (1,2)            c IN (?)
 *
 *   constant                          becomes
 *   5   -5   1.5e-3   0xff            ?    the sign only where no operand precedes it
 *   'text'  E'a\'b'  $$text$$         ?    across lines, with '' for a quote inside
 *   IN (1, 2, 3)                      IN (?)
 *   VALUES (1, 2), (3, 4)             VALUES (?)   where nothing but constants is listed
 *
 * Kept: names ("a b", `a b`), parameters ($1), operators, case.  A text that is
 * cut in the middle of a constant or a row ends with it.
 */
#include "statement.h"

enum token { BEGINNING, WORD, OPERATOR, CONSTANT, ROW, OTHER };

struct output {
  char *text;
  uint32_t length;
  int blank;       /* there was white space since the last token */
  enum token last; /* the token before */
  uint32_t start;  /* where it begins in `text` */
};

static int is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}
static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}
static int is_operator(char c) {
  for (const char *known = "+-*/<>=~!@#%^&|?:,([{"; *known != 0; known++)
    if (*known == c) return 1;
  return 0;
}
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* --- Where things end ------------------------------------------------------------- */

/* Of a text that begins at `at` with its quote; a doubled quote is part of it, and
 * where there are escapes, any character after a backslash. */
static uint32_t after_quoted(const char *text, uint32_t at, uint32_t length, int escapes) {
  char quote = text[at++];
  while (at < length) {
    if (escapes && text[at] == '\\') {
      at += 2;
    } else if (text[at] != quote) {
      at++;
    } else if (at + 1 < length && text[at + 1] == quote) {
      at += 2;
    } else {
      return at + 1;
    }
  }
  return length;
}

/* Of a number that begins at `at`. */
static uint32_t after_number(const char *text, uint32_t at, uint32_t length) {
  char second = at + 1 < length ? lower(text[at + 1]) : 0;
  if (text[at] == '0' && (second == 'x' || second == 'o' || second == 'b')) {
    at += 2;
    while (at < length && (is_digit(text[at]) || is_letter(text[at]))) at++;
    return at;
  }
  while (at < length) {
    char next = at + 1 < length ? text[at + 1] : 0;
    char third = at + 2 < length ? text[at + 2] : 0;
    int exponent = lower(text[at]) == 'e' &&
                   (is_digit(next) || ((next == '-' || next == '+') && is_digit(third)));
    if (exponent)
      at += 2;
    else if (is_digit(text[at]) || text[at] == '_' || (text[at] == '.' && next != '.'))
      at++;
    else
      break;
  }
  return at;
}

/* Of $tag$ ... $tag$; `at` if it is not one. */
static uint32_t after_dollar_quoted(const char *text, uint32_t at, uint32_t length) {
  uint32_t tag = at + 1;
  while (tag < length && (is_letter(text[tag]) || (tag > at + 1 && is_digit(text[tag])))) tag++;
  if (tag >= length || text[tag] != '$') return at;
  uint32_t size = tag + 1 - at; /* of the tag with both its dollars */
  for (uint32_t end = tag + 1; end + size <= length; end++) {
    uint32_t same = 0;
    while (same < size && text[end + same] == text[at + same]) same++;
    if (same == size) return end + size;
  }
  return length;
}

/* Of a constant that begins at `at`; `at` if none does.  `signs`: a number may have one. */
static uint32_t after_constant(const char *text, uint32_t at, uint32_t length, int signs) {
  char c = text[at], next = at + 1 < length ? text[at + 1] : 0;
  char third = at + 2 < length ? text[at + 2] : 0;
  if (c == '\'') return after_quoted(text, at, length, 0);
  if (next == '\'' && (lower(c) == 'e' || lower(c) == 'b' || lower(c) == 'x' || lower(c) == 'n'))
    return after_quoted(text, at + 1, length, lower(c) == 'e');
  if (is_digit(c) || (c == '.' && is_digit(next))) return after_number(text, at, length);
  if (signs && (c == '-' || c == '+') && (is_digit(next) || (next == '.' && is_digit(third))))
    return after_number(text, at + 1, length);
  if (c == '$' && !is_digit(next)) return after_dollar_quoted(text, at, length);
  return at;
}

/* The end of white space and comments, which nest in PostgreSQL; `at` if there are none. */
static uint32_t after_blanks(const char *text, uint32_t at, uint32_t length) {
  uint32_t depth = 0;
  while (at < length) {
    char next = at + 1 < length ? text[at + 1] : 0;
    if (text[at] == '/' && next == '*') {
      depth++;
      at += 2;
    } else if (depth != 0 && text[at] == '*' && next == '/') {
      depth--;
      at += 2;
    } else if (depth == 0 && text[at] == '-' && next == '-') {
      while (at < length && text[at] != '\n') at++;
    } else if (depth != 0 || is_space(text[at])) {
      at++;
    } else {
      break;
    }
  }
  return at < length ? at : length;
}

/* Of a row of constants and nothing else, whose bracket is at `at`; `at` if it is
 * none.  One that is cut by the end of the text counts. */
static uint32_t after_row(const char *text, uint32_t at, uint32_t length) {
  uint32_t begin = at++;
  for (int first = 1;; first = 0) {
    at = after_blanks(text, at, length);
    if (at >= length) return first ? begin : length;
    uint32_t end = after_constant(text, at, length, 1);
    if (end == at) return begin;
    at = after_blanks(text, end, length);
    if (at >= length) return length;
    if (text[at] == ')') return at + 1;
    if (text[at++] != ',') return begin;
  }
}

/* Of a comma and another row; `at` if something else follows. */
static uint32_t after_next_row(const char *text, uint32_t at, uint32_t length) {
  uint32_t bracket = after_blanks(text, at + 1, length);
  if (bracket >= length || text[bracket] != '(') return at;
  uint32_t end = after_row(text, bracket, length);
  return end == bracket ? at : end;
}

/* --- Writing ------------------------------------------------------------------------ */

static int full(const struct output *out) { return out->length >= HM_STATEMENT_TEXT; }

/* One token, with a blank before it where there was white space. */
static void put(struct output *out, enum token kind, const char *text, uint32_t length) {
  if (out->blank && out->length != 0 && !full(out)) out->text[out->length++] = ' ';
  out->blank = 0;
  out->last = kind;
  out->start = out->length;
  for (uint32_t i = 0; i < length && !full(out); i++) out->text[out->length++] = text[i];
}

static int last_word_is(const struct output *out, const char *wanted) {
  if (out->last != WORD) return 0;
  uint32_t at = out->start;
  for (; *wanted != 0; wanted++, at++)
    if (at >= out->length || lower(out->text[at]) != *wanted) return 0;
  return at == out->length;
}

/* Whether a sign at this place belongs to the number behind it: after an operand
 * it adds or subtracts. */
static int sign_is_of_number(const struct output *out) {
  static const char *const before_operands[] = {
      "select", "values", "when",  "then",  "else",  "and",   "or",    "not",     "in",
      "limit",  "offset", "where", "on",    "by",    "case",  "like",  "between", "set",
      "is",     "any",    "all",   "using", "ilike", "fetch", "having"};
  if (out->last == OPERATOR || out->last == BEGINNING) return 1;
  for (uint32_t i = 0; i < sizeof before_operands / sizeof before_operands[0]; i++)
    if (last_word_is(out, before_operands[i])) return 1;
  return 0;
}

/* Removes a truncated last character (UTF-8). */
static uint32_t whole_characters(const char *text, uint32_t length) {
  uint32_t start = length;
  while (start > 0 && length - start < 4 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
    start--;
  if (start == 0) return length;
  unsigned char first = (unsigned char)text[start - 1];
  uint32_t wanted = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return length - start + 1 < wanted ? start - 1 : length;
}

uint32_t hm_statement_normalise(const char *text, uint32_t length, char *destination) {
  struct output out = {.text = destination, .last = BEGINNING};
  uint32_t at = 0, end;
  while (at < length && !full(&out)) {
    char c = text[at], next = at + 1 < length ? text[at + 1] : 0;
    if ((end = after_blanks(text, at, length)) != at) {
      out.blank = 1;
    } else if ((end = after_constant(text, at, length, sign_is_of_number(&out))) != at) {
      put(&out, CONSTANT, "?", 1);
    } else if (c == '(' && (last_word_is(&out, "in") || last_word_is(&out, "values")) &&
               (end = after_row(text, at, length)) != at) {
      put(&out, ROW, "(?)", 3);
    } else if (c == ',' && out.last == ROW && (end = after_next_row(text, at, length)) != at) {
      out.blank = 0;
    } else if (is_letter(c)) {
      for (end = at + 1;
           end < length && (is_letter(text[end]) || is_digit(text[end]) || text[end] == '$');)
        end++;
      put(&out, WORD, text + at, end - at);
    } else if (c == '"' || c == '`') {
      end = after_quoted(text, at, length, 0);
      put(&out, OTHER, text + at, end - at);
    } else if (c == '$' && is_digit(next)) {
      for (end = at + 1; end < length && is_digit(text[end]);) end++;
      put(&out, OTHER, text + at, end - at);
    } else {
      end = at + 1;
      put(&out, is_operator(c) ? OPERATOR : OTHER, text + at, 1);
    }
    at = end;
  }
  if (full(&out)) out.length = whole_characters(out.text, out.length);
  out.text[out.length] = 0;
  return out.length;
}

uint64_t hm_statement_hash(const char *text, uint32_t length) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (uint32_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3ull;
  return hash != 0 ? hash : 1;
}

/* Open addressing: a slot belongs to the process that put the hash there first, and the
 * length, which comes last, says that the text is whole. */
void hm_statement_register(struct hm_statement *table, uint64_t hash, const char *text,
                           uint32_t length) {
  enum { TRIES = 64 };
  for (uint32_t i = 0; i < TRIES; i++) {
    struct hm_statement *slot = &table[(hash + i) % HM_STATEMENTS];
    uint64_t found = atomic_load_explicit(&slot->hash, memory_order_acquire);
    if (found == 0 && atomic_compare_exchange_strong(&slot->hash, &found, hash)) {
      for (uint32_t byte = 0; byte < length; byte++) slot->text[byte] = text[byte];
      slot->text[length] = 0;
      atomic_store_explicit(&slot->length, length, memory_order_release);
      return;
    }
    if (found == hash) return;
  }
}
