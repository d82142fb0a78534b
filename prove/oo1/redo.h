/*
 * The log of the modes texas, e and offset: the changes of a transaction, made durable by one write
 * and one fdatasync; the file itself is written afterwards, and synced when it is closed.
 *
 *   file.log:  | magic, bytes, checksum | offset, length, bytes | offset, length, bytes | ... || the next commit
 */
#ifndef OO1_REDO_H
#define OO1_REDO_H

#include <stdint.h>

typedef struct redo redo;

/* Replays the log of `path` into it, if there is one that was not closed, and empties it. */
void redo_recover(const char *path, int descriptor);
redo *redo_open(const char *path, int descriptor);
/* Adds new contents for these bytes of the file. */
void redo_add(redo *log, uint64_t offset, const void *bytes, uint64_t count);
/* Commits all added changes: durable on return, and written to the file. */
void redo_commit(redo *log);
uint64_t redo_bytes(const redo *log); /* logged since open */
/* Syncs the file, empties the log. */
void redo_close(redo *log);

#endif
