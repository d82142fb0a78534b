/*
 * A file that is written under another name, and gets its own when it is complete.
 *
 *   p3l_copy_begin: FRESH locked, empty ──> p3l_copy_write ... ──> p3l_copy_sync ──> (checked) ──> p3l_copy_name ──> p3l_copy_end
 *                     │ another process has it                         any failure: p3l_copy_end removes FRESH
 *                     └──> P3L_BUSY
 *
 * Invariants:
 *  1. A process writes to FRESH only with the lock on that file, and after it saw that FRESH still names
 *     it; the lock goes with the process. So what a killed one left is written over, never appended to.
 *  2. A file that exists is not replaced.
 *
 * Inside of the pager only.
 */
#ifndef P3L_COPY_FILE_H
#define P3L_COPY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "p3l_status.h"

typedef struct p3l_copy_file {
  const char *path, *fresh; /* the caller's */
  int descriptor;
  bool named;
} p3l_copy_file;

/* P3L_MISUSE: there is a file at `path`. P3L_BUSY: another process writes to `fresh`. */
p3l_code p3l_copy_begin(p3l_copy_file *copy, const char *path, const char *fresh, p3l_error *error);
p3l_code p3l_copy_write(const p3l_copy_file *copy, const void *bytes, size_t length, uint64_t at,
                        p3l_error *error);
p3l_code p3l_copy_sync(const p3l_copy_file *copy, p3l_error *error);
p3l_code p3l_copy_name(p3l_copy_file *copy, p3l_error *error);
/* Closes it; removes it if it has no name. To be called if p3l_copy_begin() succeeded. */
void p3l_copy_end(p3l_copy_file *copy);
/* As pread(), all of it. P3L_CORRUPT: the file is shorter. */
p3l_code p3l_copy_read(int descriptor, const char *path, void *bytes, size_t length, uint64_t at,
                       p3l_error *error);

#endif
