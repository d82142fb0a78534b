/*
 * E's software scheme (White and DeWitt, VLDB 1992: EPVM), over an image: pages are read into
 * frames and not changed; each dereference calls a function that finds the object by its id in a
 * hash table and pins it, and another that unpins it. Pointers are never swizzled. Independent
 * of OO1.
 */
#ifndef OO1_E_H
#define OO1_E_H

#include <stdbool.h>
#include <stdint.h>

#include "image.h"

/* A program's handle of an object in use. */
typedef struct e_object {
  uint64_t id; /* offset in the image */
  void *address;
  uint32_t pins;
} e_object;

void e_open(const char *path, bool writable);
void e_close(void);

e_object *e_pin(uint64_t id);
void e_unpin(e_object *object);
e_object *e_root(void); /* pinned */
/* A new object, zeroed, pinned; adjacent to the previous one. */
e_object *e_new(uint32_t bytes, const image_field *fields);
/* Before `bytes` of it are changed. */
void e_dirty(e_object *object, uint32_t bytes);
void e_commit(void);

typedef struct e_figures {
  uint64_t objects; /* in the hash table */
  uint64_t pages_read;
  uint64_t bytes_logged;
} e_figures;
e_figures e_look(void);

#endif
