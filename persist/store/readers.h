/*
 * Which versions of a store other processes read: the kernel's lock table is the table of readers.
 *
 *   byte 0 .. 2^62 - 1         exclusive: the writer. Shared: a reader that excludes writers
 *   byte 2^62 + position       shared: readers whose file pages are those of the checkpoint at `position`,
 *                              which is their base
 *   byte 2^62 + 2^61           shared: readers that are looking for a base
 *
 * Invariants:
 *  1. A lock belongs to an open file and goes with the last process that has it open, however that
 *     ends. So there is no stale reader, and no table that is full; a reader needs to write nothing.
 *  2. Readers of a version and the writer never lock the same byte: neither waits for the other.
 * snapshot.h says when a reader takes its lock, old_pages.h what a checkpoint does about it.
 *
 * Inside of the pager only.
 */
#ifndef P3L_READERS_H
#define P3L_READERS_H

#include "units.h"

/* The first byte of the readers' locks; all bytes below are the writer's. The file has no bytes
 * there. */
#define P3L_READER_BYTES (UINT64_C(1) << 62)

/* As a base: later than every other. */
#define P3L_ARRIVING (UINT64_C(1) << 61)

/* Takes the writer's lock. 0; EWOULDBLOCK: another process has a lock that excludes it; or
 * another errno value. */
int p3l_writer_lock(int descriptor, bool exclusive);
/* Whether another open file has it exclusively. */
bool p3l_writer_is_there(int descriptor);

/* Returns 0 or an errno value. Call it once per open file and base: locks are not counted. */
int p3l_reader_register(int descriptor, p3l_lsn base);
void p3l_reader_leave(int descriptor, p3l_lsn base);
/* Finds the oldest and the newest base that other open files read; false: there is no reader. */
bool p3l_readers_span(int descriptor, p3l_lsn *oldest, p3l_lsn *newest);

#endif
