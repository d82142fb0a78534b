/*
 * The version that a reader beside a writer sees: docs/design/readers.md.
 *
 *   base      the log's start: the file's pages of checkpoints up to there are what the reader reads,
 *             what was written over since lies in history files (old_pages.h)
 *   images    pages that commits changed from base up to the version, out of the log, in memory
 *
 *   header read ──> lock on base ──> header again ──> frames read ──> header again ──> the version
 *        ^                              │ another round                  │ another round
 *        └──────────────────────────────┴────────────────────────────────┘
 *
 * Invariants:
 *  1. The lock on base is held from before the frames are read until the reader has another version.
 *  2. If the round is the same before and after the frames were read, nothing was written over them
 *     meanwhile; and a checkpoint that looked for readers before the lock was taken had no commit
 *     after it in this round: then the images are all that it writes.
 *  3. From the second attempt on the reader is also registered as arriving, and then a checkpoint keeps
 *     every page that it changes. So after a few rounds that ended while their frames were read, the
 *     version may be that of the file without any frame, base itself: the checkpoint that ends its
 *     round began after the reader was registered. It is no older than what the reader saw before.
 *
 * Internal to the pager.
 */
#ifndef P3L_SNAPSHOT_H
#define P3L_SNAPSHOT_H

#include "pager.h"

/* The last committed version, for a pager that was just made. */
p3l_code p3l_snapshot_open(p3l_pager *pager, const uint8_t store_id[16], p3l_recovery *recovery,
                           p3l_error *error);
#endif
