/*
 * The files of p3l follow in a folder: one for each version that it saw, named by the version. The
 * first has all pages.
 */
#ifndef P3L_FOLLOW_H
#define P3L_FOLLOW_H

#include "increment.h"

typedef struct p3l_shipped {
  char **paths; /* the oldest first */
  size_t count, capacity;
} p3l_shipped;

/* P3L_MISUSE: there are none. What a killed follower left unfinished is not listed. */
p3l_code p3l_shipped_list(const char *folder, p3l_shipped *shipped, p3l_error *error);
void p3l_shipped_free(p3l_shipped *shipped);

#endif
