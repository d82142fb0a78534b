/* A page of roots and the rules for names. Private to objects/. */
#ifndef P3L_ROOT_PAGE_H
#define P3L_ROOT_PAGE_H

#include <string.h>

#include "catalog.h"

static inline bool p3l_root_name_possible(const char *name) {
  size_t length = strnlen(name, P3L_ROOT_NAME_BYTES);
  return length > 0 && length < P3L_ROOT_NAME_BYTES;
}

#endif
