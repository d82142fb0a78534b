/*
 * Tracks which versions of a store other processes read. The kernel's lock table serves as the
 * table of readers.
 *
 *   byte 0 .. 2^62 - 1         exclusive: the writer. Shared: a reader that excludes writers
 *   byte 2^62 + position       shared: readers whose file pages are those of the checkpoint at `position`,
 *                              which is their base
 *   byte 2^62 + 2^61           shared: readers that are looking for a base
 *
 * Invariants:
 *  1. A lock belongs to an open file, and disappears when the last process that has it open ends,
 *     in whatever way. So there are no stale readers, the table is never full, and a reader does
 *     not have to write.
 *  2. Readers of a version and the writer never lock the same byte: neither waits for the other.
 * snapshot.h describes when a reader takes its lock, and old_pages.h how a checkpoint uses the
 * locks.
 *
 * Internal to the pager.
 */
#ifndef P3L_READERS_H
#define P3L_READERS_H

#include "units.h"

/* The first byte of the readers' locks; all bytes below are for the writer's lock. The file is
 * never that long. */
#define P3L_READER_BYTES (UINT64_C(1) << 62)

/* The base of a reader that looks for a version: later than every other base. */
#define P3L_ARRIVING (UINT64_C(1) << 61)

/* Takes the writer's lock. Returns 0, EWOULDBLOCK (another process has a conflicting lock), or
 * another errno value. */
int p3l_writer_lock(int descriptor, bool exclusive);
/* True if another open file has the lock exclusively. */
bool p3l_writer_is_there(int descriptor);

/* Returns 0 or an errno value. Call it once per open file and base, because locks are not
 * counted. */
int p3l_reader_register(int descriptor, p3l_lsn base);
void p3l_reader_leave(int descriptor, p3l_lsn base);
/* Finds the oldest and the newest base that other open files read. Returns false if there is no
 * reader. */
bool p3l_readers_span(int descriptor, p3l_lsn *oldest, p3l_lsn *newest);

#endif
