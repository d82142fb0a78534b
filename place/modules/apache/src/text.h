/* A text of limited size that is written piece by piece. */
#ifndef MOD_SPLIT_TEXT_H
#define MOD_SPLIT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct text {
  char *at;
  size_t length, size;
};

/* False if the piece, with room for a zero behind it, does not fit; then nothing is written. */
static inline bool text_append(struct text *text, const char *bytes, size_t length) {
  if (length >= text->size - text->length) return false;
  memcpy(text->at + text->length, bytes, length);
  text->length += length;
  return true;
}

#endif
