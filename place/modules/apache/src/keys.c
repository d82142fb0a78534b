#include "keys.h"

#include "text.h"

#include <stdbool.h>
#include <string.h>

enum { SEGMENTS = 8, LONGEST_NAME = 32 };

/* Independent of the locale: the same URL is the same kind on every machine. */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_of_an_id(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '-';
}

static bool is_id(const char *segment, size_t length) {
  if (length > LONGEST_NAME) return true;
  bool digit = false;
  for (size_t i = 0; i < length; i++) {
    if (!is_of_an_id(segment[i])) return false;
    digit = digit || is_digit(segment[i]);
  }
  return digit;
}

/* Length up to the last dot of a name if a short suffix follows (a file type), else the whole
 * length. */
static size_t stem_length(const char *segment, size_t length) {
  const char *dot = memrchr(segment, '.', length);
  if (!dot || dot == segment || length - (size_t)(dot - segment) > 6) return length;
  return (size_t)(dot - segment);
}

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool key_is_entry(const char *path, const char *file) {
  const char *name = name_of(file);
  return strncmp(name, "index.", 6) == 0 || strcmp(name_of(path), name) != 0;
}

size_t key_pattern(const char *path, char *pattern, size_t size) {
  struct text text = {pattern, 0, size};
  if (size == 0) return 0;
  for (int segments = 0; *path != '\0' && segments < SEGMENTS; segments++) {
    if (*path == '/') {
      if (!text_append(&text, "/", 1)) break;
      path++;
    }
    size_t length = strcspn(path, "/");
    size_t stem = stem_length(path, length);
    bool id = stem > 0 && is_id(path, stem);
    bool fits = id ? text_append(&text, "<id>", 4) : text_append(&text, path, stem);
    if (!fits || !text_append(&text, path + stem, length - stem)) break;
    path += length;
  }
  pattern[text.length] = '\0';
  return text.length;
}
