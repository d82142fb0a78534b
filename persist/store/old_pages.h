/*
 * History files keep pages as they were before a checkpoint overwrote them, for readers of other
 * processes that still need them. Each checkpoint has one history file, STORE-old-<position of the
 * checkpoint>.
 *
 *   0                  4096                                          multiple of 4096
 *   +-----------------+---------------------------------+ ... 0 ... +--------+--------+-- ... --+
 *   | head            | page numbers, ascending         |           | page   | page   |         |
 *   +-----------------+---------------------------------+           +--------+--------+-- ... --+
 *
 *   the log, after its headers: position of the last checkpoint with a history file
 *      └──> STORE-old-<that> ── head.previous ──> STORE-old-<earlier> ──> ... ──> needed by no reader
 *
 * Invariants:
 *  1. Before a checkpoint changes the first page of the file, the history file is complete, and the
 *     log names it. It has every page that the checkpoint changes and that a registered reader may
 *     need, that is, every page whose own checkpoint is not newer than the newest base being read.
 *  2. A history file of position p is removed only when no reader has a base below p.
 *  3. A reader with base b takes from the file only pages of checkpoints up to b (page.h, invariant
 *     3). It takes other pages from the history files of positions above b: the newest state of the
 *     page that is not newer than b. Invariants 1 and 2 guarantee that it exists.
 *  4. History files are valid only while the kernel that has the locks runs. They are not synced,
 *     and a writer that finds history files but no reader removes them.
 *
 * Internal to the pager.
 */
#ifndef P3L_OLD_PAGES_H
#define P3L_OLD_PAGES_H

#include "pager.h"

struct p3l_image;
typedef struct p3l_old_pages p3l_old_pages;

/* ---- the writer ---- */

/* Finds the history files of the previous writer and removes those that no reader needs. For a
 * reader: prepares the functions below. */
p3l_code p3l_old_pages_open(p3l_pager *pager, p3l_error *error);
/* True if a process reads the store, or begins to: only then is anything to be kept. Frames appended
 * before are seen by every process that begins later. */
bool p3l_old_pages_needed(const p3l_pager *pager);
/* Establishes invariant 1 for a checkpoint of these images (by ascending number) at `position`. */
p3l_code p3l_old_pages_save(p3l_pager *pager, struct p3l_image *const *images, size_t count,
                            p3l_lsn position, p3l_error *error);
/* Removes history files that no reader needs any more. Checks at most once a second unless
 * `now`. */
void p3l_old_pages_trim(p3l_pager *pager, bool now);

/* ---- a reader ---- */

/* Invariant 3: looks for the page in the history files. *found is set to true if it is there. */
p3l_code p3l_old_pages_read(p3l_pager *pager, p3l_page_number number, p3l_page *page, bool *found,
                            p3l_error *error);
/* Closes history files that the reader's base no longer needs. */
void p3l_old_pages_forget(p3l_pager *pager, p3l_lsn base);

/* For the writer and for readers. */
void p3l_old_pages_close(p3l_pager *pager);

#endif
