/*
 * The version that a reader sees while another process writes: docs/design/readers.md.
 *
 *   base      the log's start: the reader reads the file's pages of checkpoints up to there;
 *             pages overwritten since are in history files (old_pages.h)
 *   images    pages that commits changed from base up to the version, read from the log into memory
 *
 *   header read ──> lock on base ──> header again ──> frames read ──> header again ──> the version
 *        ^                              │ another round                  │ another round
 *        └──────────────────────────────┴────────────────────────────────┘
 *
 * Invariants:
 *  1. The lock on base is held from before the frames are read until the reader has another
 *     version.
 *  2. If the round is the same before and after the frames were read, they were not overwritten in
 *     the meantime. A checkpoint that looked for readers before the lock was taken, or the beginning
 *     of one (checkpoint.h), writes pages as commits left them whose frames were in the log before it
 *     looked. So it writes nothing but these images.
 *  3. From the second attempt on the reader is also registered as arriving, and then a checkpoint
 *     keeps every page that it changes. So after a few rounds that ended while their frames were
 *     read, the reader may take base itself, that is, the file without any frame, because the
 *     checkpoint that ends its round began after the reader was registered. This version is not
 *     older than the reader's previous one.
 *
 * Internal to the pager.
 */
#ifndef P3L_SNAPSHOT_H
#define P3L_SNAPSHOT_H

#include "pager.h"

/* Takes the last committed version, for a pager that was just made. */
p3l_code p3l_snapshot_open(p3l_pager *pager, const uint8_t store_id[16], p3l_recovery *recovery,
                           p3l_error *error);
#endif
