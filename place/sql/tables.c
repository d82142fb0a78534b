/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * Word by word; a few words say that a table's name comes next:
 *
 *     from, behind a select or delete of the same parentheses: extract(year from x) has none
 *     join
 *     the statement's first word: update, insert, replace, truncate; and `table` behind others'
 *
 * Behind a name an alias may come, and behind that a comma and another name.
 */
#include "tables.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define DEPTH 32 /* parentheses within parentheses in which FROM is recognised */

enum token { TOKEN_END, TOKEN_WORD, TOKEN_QUOTED, TOKEN_OTHER };

struct scan {
  const char *at, *end;
  enum token token;
  const char *text; /* of the token, without quotes */
  size_t length;
};

static bool is_word_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '_' ||
         byte == '$' || byte == '@' || (unsigned char)byte >= 128;
}

static void next(struct scan *scan) {
  while (scan->at < scan->end && *scan->at == ' ') scan->at++;
  scan->text = scan->at;
  scan->length = 1;
  if (scan->at == scan->end) {
    scan->token = TOKEN_END;
    scan->length = 0;
  } else if (is_word_byte(*scan->at)) {
    while (scan->at < scan->end && is_word_byte(*scan->at)) scan->at++;
    scan->token = TOKEN_WORD;
    scan->length = (size_t)(scan->at - scan->text);
  } else if (*scan->at == '`' || *scan->at == '"') {
    const char *quote =
        memchr(scan->at + 1, *scan->at, (size_t)(scan->end - scan->at - 1)); /* or cut */
    if (quote == NULL) quote = scan->end;
    scan->token = TOKEN_QUOTED;
    scan->text = scan->at + 1;
    scan->length = (size_t)(quote - scan->text);
    scan->at = quote < scan->end ? quote + 1 : quote;
  } else {
    scan->token = TOKEN_OTHER;
    scan->at++;
  }
}

static bool is_word(const struct scan *scan, const char *word) {
  return scan->token == TOKEN_WORD && scan->length == strlen(word) &&
         memcmp(scan->text, word, scan->length) == 0;
}

static bool is_one_of(const struct scan *scan, const char *const *words) {
  for (; *words != NULL; words++)
    if (is_word(scan, *words)) return true;
  return false;
}

static bool is_other(const struct scan *scan, char byte) {
  return scan->token == TOKEN_OTHER && *scan->text == byte;
}

/* The words allowed between the keyword that announces a name and the name. */
static const char *const before_name[] = {
    "into",    "table", "ignore", "low_priority", "high_priority", "delayed", "quick",
    "only",    "if",    "not",    "exists",       "temporary",     "or",      "replace",
    "lateral", NULL};
/* Words that are not aliases. */
static const char *const behind_name[] = {
    "where",     "on",      "using",         "set",       "join",   "inner",     "left",
    "right",     "cross",   "full",          "group",     "order",  "limit",     "having",
    "union",     "natural", "for",           "lock",      "value",  "use",       "force",
    "partition", "ignore",  "window",        "procedure", "values", "select",    "into",
    "fetch",     "from",    "straight_join", "returning", "except", "intersect", NULL};
/* First words that a name follows, at once or after `table`. */
static const char *const first_words[] = {"update", "insert", "replace", "truncate", NULL};
static const char *const of_tables[] = {"create", "alter", "drop",    "optimize", "repair",
                                        "check",  "load",  "analyze", "truncate", NULL};

/* Reads a name, possibly of several parts, and moves the scan past it. False: a variable, or
 * nothing between the quotes. */
static bool read_name(struct scan *scan, struct sql_table *table) {
  *table = (struct sql_table){.name = scan->text, .name_length = scan->length};
  next(scan);
  while (is_other(scan, '.')) {
    next(scan);
    if (scan->token != TOKEN_WORD && scan->token != TOKEN_QUOTED) break;
    table->database = table->name;
    table->database_length = table->name_length;
    table->name = scan->text;
    table->name_length = scan->length;
    next(scan);
  }
  return table->name_length > 0 && table->name[0] != '@';
}

/* Called after a name: whether another one follows. */
static bool goes_on(struct scan *scan) {
  if (is_word(scan, "as")) next(scan);
  if (scan->token == TOKEN_QUOTED || (scan->token == TOKEN_WORD && !is_one_of(scan, behind_name)))
    next(scan);
  if (!is_other(scan, ',')) return false;
  next(scan);
  return true;
}

size_t sql_tables(const char *fingerprint, size_t length, struct sql_table *tables, size_t most) {
  struct scan scan = {.at = fingerprint, .end = fingerprint + length};
  size_t count = 0, depth = 0;
  bool has_rows[DEPTH] = {false}; /* a select or a delete was seen within these parentheses */

  next(&scan);
  const bool takes_one = is_word(&scan, "insert") || is_word(&scan, "replace");
  const bool works_on_tables = is_one_of(&scan, of_tables);
  bool expects = is_one_of(&scan, first_words), takes_from = false, was_select = false;
  if (expects) next(&scan);
  while (scan.token != TOKEN_END && count < most) {
    if (expects && is_one_of(&scan, before_name)) {
      next(&scan);
    } else if (expects && (scan.token == TOKEN_QUOTED ||
                           (scan.token == TOKEN_WORD && !is_one_of(&scan, behind_name)))) {
      /* from json_table(...): a function */
      if (read_name(&scan, &tables[count]) && !(takes_from && is_other(&scan, '('))) count++;
      expects = (takes_from || !takes_one) && goes_on(&scan);
    } else {
      if (is_other(&scan, '(')) {
        if (++depth < DEPTH) has_rows[depth] = false;
      } else {
        if (is_other(&scan, ')') && depth > 0) depth--;
        expects = false;
      }
      const bool is_select = is_word(&scan, "select");
      if ((is_select || is_word(&scan, "delete")) && depth < DEPTH) has_rows[depth] = true;
      if ((is_word(&scan, "from") && depth < DEPTH && has_rows[depth]) || is_word(&scan, "join") ||
          (is_word(&scan, "straight_join") && !was_select)) {
        expects = takes_from = true;
      } else if (works_on_tables && is_word(&scan, "table")) {
        expects = true;
      }
      was_select = is_select;
      next(&scan);
    }
  }
  return count;
}
