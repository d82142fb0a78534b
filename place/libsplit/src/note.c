/* Data that is added while a section runs, and the id that it passes to the next tier. */
#include "affinity.h"
#include "process.h"
#include "slice.h"

#include <errno.h>
#include <string.h>

struct split_open *split_open_of(const split_section *section);

/* Parses up to six digits of lower-case hexadecimal; returns the number of digits, 0: none. */
static size_t parse_number(const char *text, size_t length, uint32_t *number) {
  size_t i = 0;
  *number = 0;
  for (; i < length && i < 6; i++) {
    char c = text[i];
    if (c >= '0' && c <= '9')
      *number = *number << 4 | (uint32_t)(c - '0');
    else if (c >= 'a' && c <= 'f')
      *number = *number << 4 | (uint32_t)(c - 'a' + 10);
    else
      break;
  }
  return i;
}

/*
 * Accepts exactly "<app>.<code>": the text comes from an untrusted source, and only its two numbers
 * are used.
 */
static bool parse_origin(const char *text, size_t length, uint32_t *app, uint32_t *code) {
  size_t first = parse_number(text, length, app);
  if (first == 0 || first >= length || text[first] != '.') return false;
  size_t rest = length - first - 1;
  size_t second = parse_number(text + first + 1, rest, code);
  return second != 0 && second == rest && *app != 0 && *code < SPLIT_KINDS_MAX;
}

static void note_key(struct split_self *self, struct split_open *open, const void *key,
                     size_t length) {
  uint32_t code = split_kind_of_key(self->mapping, key, length);
  if (code == SPLIT_CODE_NONE) return;
  if (code == SPLIT_CODE_OTHER && open->code != SPLIT_CODE_OTHER)
    atomic_fetch_add_explicit(&self->mapping->header->without_room, 1, memory_order_relaxed);
  split_open_of_kind(self->mapping, open, code);
  split_slice_section(self, open);
  split_place_section(self, open);
}

static void note(struct split_open *open, enum split_note_type type, const void *text,
                 size_t length) {
  if (!open || !text) return;
  struct split_self *self = split_self_here;
  int before = errno;
  switch (type) {
    case SPLIT_NOTE_KEY: note_key(self, open, text, length); break;
    case SPLIT_NOTE_TEXT: split_kind_note(self->mapping, open->code, text, length); break;
    case SPLIT_NOTE_STATEMENT: {
      uint64_t statement;
      if (length != sizeof statement) break;
      memcpy(&statement, text, sizeof statement);
      split_kind_statement(self->mapping, open->code, statement);
      break;
    }
    case SPLIT_NOTE_ORIGIN: {
      uint32_t app, code;
      if (!parse_origin(text, length, &app, &code)) {
        atomic_fetch_add_explicit(&self->mapping->header->bad_origins, 1, memory_order_relaxed);
      } else {
        open->flags |= SPLIT_OPEN_CAUSED;
        open->related_app = app;
        open->related_code = code;
      }
      break;
    }
  }
  errno = before;
}

void split_note(enum split_note_type type, const void *text, size_t length) {
  note(split_open_of(NULL), type, text, length);
}

void split_note_section(split_section *section, enum split_note_type type, const void *text,
                        size_t length) {
  note(split_open_of(section), type, text, length);
}

static size_t hexadecimal(uint32_t number, char *to) {
  static const char digits[] = "0123456789abcdef";
  size_t length = number ? (size_t)(35 - __builtin_clz(number)) / 4 : 1;
  for (size_t i = length; i-- > 0; number >>= 4) to[i] = digits[number & 15];
  return length;
}

size_t split_origin(char *buffer) {
  buffer[0] = '\0';
  const struct split_self *self = split_self_here;
  if (!self || !self->innermost || self->mapping != split_mapping_in_use()) return 0;
  const struct split_open *open = self->innermost;
  if (open->code == SPLIT_CODE_NONE) return 0;
  size_t length = hexadecimal(self->mapping->app_id, buffer);
  buffer[length++] = '.';
  length += hexadecimal(open->code, buffer + length);
  buffer[length] = '\0';
  return length;
}
