/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * Classifies a statement by its first word, and finds the statement inside another one.
 */
#include "hm_statement_read.h"

static const struct {
  const char *word;
  enum hm_verb verb;
} verbs[] = {
    {"select", HM_VERB_SELECT},   {"insert", HM_VERB_INSERT},   {"update", HM_VERB_UPDATE},
    {"delete", HM_VERB_DELETE},   {"replace", HM_VERB_REPLACE}, {"with", HM_VERB_WITH},
    {"call", HM_VERB_CALL},       {"do", HM_VERB_DO},           {"values", HM_VERB_VALUES},
    {"load", HM_VERB_LOAD},       {"create", HM_VERB_CREATE},   {"alter", HM_VERB_CREATE},
    {"drop", HM_VERB_CREATE},     {"truncate", HM_VERB_CREATE}, {"optimize", HM_VERB_CREATE},
    {"repair", HM_VERB_CREATE},   {"check", HM_VERB_CREATE},    {"analyze", HM_VERB_CREATE},
    {"execute", HM_VERB_EXECUTE},
};

enum hm_verb hm_statement_verb(enum hm_dialect dialect, const char *text, size_t length) {
  struct reader reader = reader_of(dialect, text, length);
  char word[16];
  size_t at = 0;

  for (;;) {
    skip_blanks(&reader);
    int byte = peek(&reader, 0);
    if (byte != '(' && byte != ';') break; /* (SELECT ...) UNION (SELECT ...) */
    reader.at++;
  }
  while (at < sizeof word - 1 && is_word_byte(&reader, peek(&reader, 0)))
    word[at++] = (char)reader.words[reader.text[reader.at++]];
  word[at] = '\0';
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
    if (word[0] == verbs[i].word[0] && strcmp(word, verbs[i].word) == 0) return verbs[i].verb;
  return HM_VERB_OTHER;
}

const char *hm_verb_name(enum hm_verb verb) {
  static const char *const names[HM_VERBS] = {
      "",     "select", "insert", "update", "delete", "replace", "with",
      "call", "do",     "values", "load",   "ddl",    "execute",
  };
  return verb < HM_VERBS ? names[verb] : "";
}

/* A word of a normalised text, or a single byte of it. */
struct piece {
  const char *text;
  size_t length;
};

static struct piece piece_at(const char *text, size_t length, size_t at) {
  const uint8_t *words = hm_statement_words[HM_DIALECT_POSTGRES];
  size_t end = at;
  while (end < length && words[(unsigned char)text[end]] != 0) end++;
  if (end == at && end < length) end++;
  return (struct piece){text + at, end - at};
}

static bool is_word(struct piece piece, const char *word) {
  return piece.length == strlen(word) && memcmp(piece.text, word, piece.length) == 0;
}

/* From an opening parenthesis to behind the closing one. */
static size_t behind_parentheses(const char *text, size_t length, size_t at) {
  unsigned depth = 0;
  for (; at < length; at++) {
    if (text[at] == '(') depth++;
    if (text[at] == ')' && --depth == 0) return at + 1;
  }
  return length;
}

static size_t behind_blank(const char *text, size_t length, size_t at) {
  return at < length && text[at] == ' ' ? at + 1 : at;
}

/* EXPLAIN (options) or EXPLAIN ANALYZE VERBOSE */
static size_t inner_of_explain(const char *text, size_t length, size_t at) {
  if (at < length && text[at] == '(')
    return behind_blank(text, length, behind_parentheses(text, length, at));
  for (;;) {
    at = behind_blank(text, length, at);
    struct piece piece = piece_at(text, length, at);
    if (!is_word(piece, "analyze") && !is_word(piece, "verbose")) return at;
    at += piece.length;
  }
}

/* Offset after the first `word` outside of parentheses; 0 if there is none. */
static size_t behind_word(const char *text, size_t length, size_t at, const char *word) {
  while (at < length) {
    if (text[at] == '(') {
      at = behind_parentheses(text, length, at);
      continue;
    }
    struct piece piece = piece_at(text, length, at);
    at += piece.length;
    if (is_word(piece, word)) return behind_blank(text, length, at);
  }
  return 0;
}

size_t hm_statement_inner(const char *normalised, size_t length) {
  struct piece verb = piece_at(normalised, length, 0);
  size_t at = 0;
  if (is_word(verb, "explain")) at = inner_of_explain(normalised, length, verb.length);
  if (is_word(verb, "prepare")) at = behind_word(normalised, length, verb.length, "as");
  if (is_word(verb, "declare")) at = behind_word(normalised, length, verb.length, "for");
  return at < length ? at : 0;
}
