#include "comment.h"

#include <string.h>

#define OPENING " /*split_id='"
#define CLOSING "'*/"
#define KEY "split_id="

enum { HALF_MOST = 8 /* 32 bits */ };

static size_t hexadecimal(const char *text, size_t length) {
  size_t digits = 0;
  while (digits < length && ((text[digits] >= '0' && text[digits] <= '9') ||
                             (text[digits] >= 'a' && text[digits] <= 'f')))
    digits++;
  return digits;
}

size_t comment_make(const char *id, size_t length, char comment[COMMENT_MOST]) {
  size_t app = hexadecimal(id, length);
  if (app == 0 || app > HALF_MOST || app == length || id[app] != '.') return 0;
  size_t code = hexadecimal(id + app + 1, length - app - 1);
  if (code == 0 || code > HALF_MOST || app + 1 + code != length) return 0;
  _Static_assert(sizeof OPENING - 1 + 2 * HALF_MOST + 1 + sizeof CLOSING - 1 <= COMMENT_MOST,
                 "every id has room");
  char *end = comment;
  memcpy(end, OPENING, sizeof OPENING - 1);
  end += sizeof OPENING - 1;
  memcpy(end, id, length);
  end += length;
  memcpy(end, CLOSING, sizeof CLOSING - 1);
  end += sizeof CLOSING - 1;
  return (size_t)(end - comment);
}

void comment_turns_begin(struct comment_turns *turns) {
  turns->left = COMMENT_FIRST;
  turns->passed = 0;
}

/* Between two with a comment, 0 to 2 * (COMMENT_EVERY - 1) go without, each number with the same
 * probability. */
static uint32_t pass_over(struct comment_turns *turns) {
  uint32_t x = turns->random ? turns->random : 1; /* xorshift */
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  turns->random = x;
  return (uint32_t)((uint64_t)x * (2 * COMMENT_EVERY - 1) >> 32);
}

bool comment_turn(struct comment_turns *turns) {
  if (turns->left > 0) {
    if (--turns->left == 0) turns->passed = pass_over(turns);
    return true;
  }
  if (turns->passed > 0) {
    turns->passed--;
    return false;
  }
  turns->passed = pass_over(turns);
  return true;
}

static bool ends_a_statement(char c) {
  return c == ';' || c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The last slash and star before `end` that open a comment. */
static bool last_opening(const char *statement, size_t end, size_t *at) {
  /* Stars are rare, and sought many bytes at a time. */
  for (const char *star; (star = memrchr(statement, '*', end)) != NULL;) {
    end = (size_t)(star - statement);
    if (end > 0 && star[-1] == '/') {
      *at = end - 1;
      return true;
    }
  }
  return false;
}

/* Whether the last comment has no end, as far as this can be determined without parsing: a
 * string may look like a comment. */
static bool ends_in_open_comment(const char *statement, size_t length, size_t opening) {
  return memmem(statement + opening + 2, length - opening - 2, "*/", 2) == NULL;
}

static bool ends_with_id(const char *statement, size_t length, size_t opening) {
  return memcmp(statement + length - 2, "*/", 2) == 0 &&
         memmem(statement + opening, length - opening, KEY, sizeof KEY - 1) != NULL;
}

bool comment_place(const char *statement, size_t length, size_t *place) {
  if (length > COMMENT_STATEMENT_MOST) return false;
  while (length > 0 && ends_a_statement(statement[length - 1])) length--;
  if (length == 0) return false;
  size_t opening;
  if (last_opening(statement, length, &opening) &&
      (ends_in_open_comment(statement, length, opening) ||
       ends_with_id(statement, length, opening)))
    return false;
  *place = length;
  return true;
}
