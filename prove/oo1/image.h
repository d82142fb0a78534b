/*
 * The file of the modes texas, e and offset: pages with objects, each preceded by a bit map of its
 * slots. Independent of OO1.
 *
 *   page 0                      page 1 ...
 *   +-------+--------+------+   +-------+--------+--------+-----+------+
 *   | slots | header | 0    |   | slots | object | object | ... | free |
 *   +-------+--------+------+   +-------+--------+--------+-----+------+
 *   0       64       ...        0       64                         4096
 *
 * An object is named by its byte's offset in the file, and lies in one page. A slot in the file holds
 * such an offset, or 0. Bit i of `slots` says that the page's word i is one.
 */
#ifndef OO1_IMAGE_H
#define OO1_IMAGE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_PAGE 4096u
#define IMAGE_OBJECTS 64u /* where they begin in a page */

/* The slots of a structure: a list that ends with a count of 0. */
typedef struct image_field {
  uint32_t offset, count;
} image_field;

typedef struct image_header {
  uint64_t slots[8]; /* none */
  char magic[16];
  uint64_t end;  /* offset of the next allocation */
  uint64_t root; /* an object */
} image_header;

typedef struct image_page {
  uint64_t slots[8];
  uint8_t objects[IMAGE_PAGE - IMAGE_OBJECTS];
} image_page;
static_assert(sizeof(image_page) == IMAGE_PAGE, "a page");

/* The place of an object of `bytes`, 8-byte aligned; advances *end. */
static inline uint64_t image_place(uint64_t *end, uint64_t bytes) {
  uint64_t offset = (*end + 7) / 8 * 8;
  if (offset % IMAGE_PAGE == 0) offset += IMAGE_OBJECTS;
  if (offset % IMAGE_PAGE + bytes > IMAGE_PAGE)
    offset = (offset / IMAGE_PAGE + 1) * IMAGE_PAGE + IMAGE_OBJECTS;
  *end = offset + bytes;
  return offset;
}

/* Notes the slots of the object at `offset` in the head of its page. */
static inline void image_note(image_page *page, uint64_t offset, const image_field *fields) {
  for (; fields->count != 0; fields++) {
    uint32_t word = (uint32_t)(offset % IMAGE_PAGE + fields->offset) / 8;
    for (uint32_t i = 0; i < fields->count; i++, word++)
      page->slots[word / 64] |= UINT64_C(1) << word % 64;
  }
}

/* Opens a file, replays its log, checks its magic; *bytes is its length, whole pages. */
int image_open(const char *path, uint64_t *bytes);
/* A new file with a header. */
int image_create(const char *path);

#endif
