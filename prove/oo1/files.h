/* File operations for modes with files of their own. */
#ifndef OO1_FILES_H
#define OO1_FILES_H

#include <stddef.h>
#include <stdint.h>

/* A new file with these bytes, synced. */
void oo1_file_write(const char *path, const void *bytes, uint64_t count);
void oo1_write_all(int descriptor, const char *path, const void *bytes, uint64_t count,
                   uint64_t offset);
void oo1_read_all(int descriptor, const char *path, void *bytes, uint64_t count, uint64_t offset);

#endif
