/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
#include "origin.h"

#include <stdbool.h>
#include <string.h>

static bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

/* Whether the text from `first` to `at` is within a comment that began there. */
static bool is_comment(const char *text, size_t first, size_t at) {
  for (; at > first; at--) {
    if (text[at] == '*' && text[at - 1] == '/') return true;
    if (text[at] == '/' && text[at - 1] == '*') return false;
  }
  return false;
}

size_t sql_origin(const char *text, size_t length, const char **origin) {
  static const char key[] = "split_id='";
  const size_t key_length = sizeof key - 1;
  size_t end = length;
  size_t first = length > SQL_ORIGIN_READ ? length - SQL_ORIGIN_READ : 0;

  while (end > first && (is_space(text[end - 1]) || text[end - 1] == ';')) end--;
  if (end < first + key_length + 5 || text[end - 1] != '/' || text[end - 2] != '*') return 0;
  end -= 2;
  /* Search backwards for the comment's beginning: the key is in this comment or missing. */
  for (size_t at = end - 1; at > first; at--) {
    if (text[at] == '*' && text[at - 1] == '/') return 0;
    if (text[at] != '=' || at < first + key_length - 2) continue;
    size_t begin = at + 2 - key_length;
    char before = begin > first ? text[begin - 1] : '\0';
    if ((before != '*' && before != ',' && !is_space(before)) || at + 1 >= end ||
        memcmp(text + begin, key, key_length) != 0)
      continue;
    const char *value = text + at + 2;
    size_t room = end - (at + 2);
    if (room > SQL_ORIGIN_LENGTH + 1) room = SQL_ORIGIN_LENGTH + 1;
    const char *quote = memchr(value, '\'', room);
    if (quote == NULL || !is_comment(text, first, begin)) return 0;
    *origin = value;
    return (size_t)(quote - value);
  }
  return 0;
}
