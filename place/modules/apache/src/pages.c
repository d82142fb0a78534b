#include "pages.h"

#include "keys.h"
#include "text.h"

#include <string.h>

enum { ARGUMENTS = 6, LONGEST_ARGUMENT = 24, TRIES = 16 };

/* FNV-1a. */
static uint64_t hash_of(const char *bytes, size_t length) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
  return hash ? hash : 1;
}

/* True if the word is this hash now, perhaps because it was free. */
static bool take(_Atomic uint64_t *word, uint64_t hash) {
  uint64_t seen = 0;
  return atomic_compare_exchange_strong(word, &seen, hash) || seen == hash;
}

static struct pages_place *place_of(struct pages *pages, uint64_t hash) {
  for (size_t i = 0; i < TRIES; i++) {
    struct pages_place *place = &pages->places[(hash + i) % PAGES_PLACES];
    if (take(&place->place, hash)) return place;
  }
  return NULL;
}

/* Whether the name is distinguished from others at the place that `before` leads to. */
static bool is_distinguished(struct pages *pages, const char *before, size_t length,
                             const char *name, size_t name_length) {
  struct pages_place *place = place_of(pages, hash_of(before, length));
  if (!place || atomic_load_explicit(&place->full, memory_order_relaxed)) return false;
  const uint64_t hash = hash_of(name, name_length);
  for (size_t i = 0; i < PAGES_NAMES; i++)
    if (take(&place->names[i], hash)) return true;
  atomic_store_explicit(&place->full, true, memory_order_relaxed);
  return false;
}

struct argument {
  const char *name;
  size_t length;
};

static int compared(const struct argument *a, const struct argument *b) {
  const size_t length = a->length < b->length ? a->length : b->length;
  const int order = memcmp(a->name, b->name, length);
  if (order != 0) return order;
  return (a->length > b->length) - (a->length < b->length);
}

static bool is_of_a_name(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '-' || c == '.';
}

/* Sorts a name in; one that is there already, or beyond the last place, is left out. */
static size_t sort_in(struct argument sorted[ARGUMENTS], size_t count, struct argument new) {
  size_t at = 0;
  while (at < count && compared(&sorted[at], &new) < 0) at++;
  if (at < count && compared(&sorted[at], &new) == 0) return count;
  if (at == ARGUMENTS) return count;
  if (count == ARGUMENTS) count--;
  memmove(&sorted[at + 1], &sorted[at], (count - at) * sizeof *sorted);
  sorted[at] = new;
  return count + 1;
}

/* The first names in alphabetical order. A name ends before what forms and frameworks put behind it:
 * filter[price]=7. */
static size_t names_of(const char *arguments, struct argument sorted[ARGUMENTS]) {
  size_t count = 0;
  while (*arguments) {
    size_t length = 0;
    while (is_of_a_name(arguments[length])) length++;
    if (length > LONGEST_ARGUMENT) length = LONGEST_ARGUMENT;
    if (length > 0) count = sort_in(sorted, count, (struct argument){arguments, length});
    arguments += strcspn(arguments, "&;");
    if (*arguments) arguments++;
  }
  return count;
}

/* The pattern of the path with ids at full places. */
static void append_path(struct pages *pages, struct text *page, const char *pattern) {
  while (*pattern) {
    if (*pattern == '/') {
      if (!text_append(page, "/", 1)) return;
      pattern++;
      continue;
    }
    const size_t length = strcspn(pattern, "/");
    const bool apart = is_distinguished(pages, page->at, page->length, pattern, length);
    if (!text_append(page, apart ? pattern : "<id>", apart ? length : 4)) return;
    pattern += length;
  }
}

static void append_arguments(struct pages *pages, struct text *page, const char *arguments) {
  struct argument sorted[ARGUMENTS];
  const size_t count = names_of(arguments, sorted);
  if (count == 0 || !text_append(page, "?", 1)) return;
  const size_t before = page->length;
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && !text_append(page, "&", 1)) break;
    if (!text_append(page, sorted[i].name, sorted[i].length)) break;
  }
  if (is_distinguished(pages, page->at, before, page->at + before, page->length - before)) return;
  page->length = before;
  text_append(page, "<any>", 5);
}

size_t pages_page(struct pages *pages, const char *path, const char *arguments, char *text,
                  size_t size) {
  if (size == 0) return 0;
  struct text page = {text, 0, size};
  char pattern[KEY_PATTERN_MOST];
  key_pattern(path, pattern, sizeof pattern);
  append_path(pages, &page, pattern);
  if (arguments) append_arguments(pages, &page, arguments);
  text[page.length] = '\0';
  return page.length;
}
