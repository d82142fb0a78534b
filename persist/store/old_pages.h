/*
 * Pages as they were before a checkpoint wrote over them, for readers of other processes that still
 * need them: one history file a checkpoint, STORE-old-<position of the checkpoint>.
 *
 *   0                  4096                                          multiple of 4096
 *   +-----------------+---------------------------------+ ... 0 ... +--------+--------+-- ... --+
 *   | head            | page numbers, ascending         |           | page   | page   |         |
 *   +-----------------+---------------------------------+           +--------+--------+-- ... --+
 *
 *   the log, behind its headers: position of the last checkpoint with a history file
 *      └──> STORE-old-<that> ── head.previous ──> STORE-old-<earlier> ──> ... ──> needed by no reader
 *
 * Invariants:
 *  1. Before a checkpoint changes the first page of the file, the history file is there, whole, and the
 *     log names it. It has every page that the checkpoint changes and that a registered reader may
 *     need: one whose own checkpoint is not newer than the newest base that is read.
 *  2. A history file of position p is removed only when no reader has a base below p.
 *  3. A reader with base b takes from the file only pages of checkpoints up to b (page.h, invariant 3).
 *     Another page it takes from the history files of positions above b: the newest that is not newer
 *     than b. By 1 and 2 it is there.
 *  4. History files mean something only while the kernel that has the locks runs: nothing of them is
 *     synced, and a writer that finds some and no reader removes them.
 *
 * Inside of the pager only.
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
/* Invariant 1, for a checkpoint of these images (by ascending number) at `position`. */
p3l_code p3l_old_pages_save(p3l_pager *pager, struct p3l_image *const *images, size_t count,
                            p3l_lsn position, p3l_error *error);
/* Removes history files that no reader needs any more; checks at most once a second unless
 * `now`. */
void p3l_old_pages_trim(p3l_pager *pager, bool now);

/* ---- a reader ---- */

/* Invariant 3: looks for the page in the history files; *found: whether it is there. */
p3l_code p3l_old_pages_read(p3l_pager *pager, p3l_page_number number, p3l_page *page, bool *found,
                            p3l_error *error);
/* History files that the reader's base does not need any more are closed. */
void p3l_old_pages_forget(p3l_pager *pager, p3l_lsn base);

/* Of both. */
void p3l_old_pages_close(p3l_pager *pager);

#endif
