/*
 * Makes a store of pages, wherever they come from. Inside of the pager only.
 */
#ifndef P3L_BUILD_H
#define P3L_BUILD_H

#include "increment.h"

/* `count` pages from `first` on, checked. */
typedef p3l_code (*p3l_page_reader)(void *state, p3l_page_number first, size_t count,
                                    p3l_page *pages, p3l_error *error);

typedef struct p3l_build {
  uint64_t pages;
  const p3l_version *version; /* the store says that it is a copy of it; NULL: it does not */
  p3l_page_reader read;
  void *state;
} p3l_build;

/* As p3l_pager_backup(). */
p3l_code p3l_build_store(const p3l_build *build, const char *path, p3l_backup *backup,
                         p3l_error *error);

#endif
