/*
 * Pages that survive a crash at any moment, with transactions over whole pages, one writer at a
 * time, and many readers.
 *
 *   begin ──> p3l_page_for_writing ──> commit ────────────> images ───── checkpoint ──> file
 *             private copies           frames into the log  committed,                  log emptied
 *                                      one fdatasync        newer than the file
 *
 * Invariants:
 *  1. The file contains the state of the last checkpoint, perhaps with some pages of an interrupted
 *     checkpoint, and never uncommitted data.
 *  2. The image of a committed page that is newer than the file's is in memory (`images`) and in
 *     the log, until a checkpoint has synced the page. Readers look there first.
 *  3. When commit returns P3L_OK, the transaction is on stable storage. When it returns another
 *     code, none of its changes is in the store, now or after a crash. The only exception is
 *     P3L_BROKEN, where the state of the disk is unknown.
 *  4. After a failed sync, or a failed write of the log's header, nothing is written any more
 *     (P3L_BROKEN): the kernel may have dropped data that it could not write, and a second sync
 *     would succeed without that data.
 *  5. A reader sees only committed changes, but a crash at the same moment may still undo them; the
 *     committer gets its result only after the sync.
 *  6. Page 0 is written like any other page, so the number of pages and the list of free ones are
 *     transactional.
 */
#ifndef P3L_PAGER_H
#define P3L_PAGER_H

#include "page.h"

typedef struct p3l_pager p3l_pager;
struct p3l_device;

typedef struct p3l_pager_options {
  bool read_only;
  /* With read_only: no process may have the store open for writing at the same time, and pages
   * of a large store are used in the page cache (mapping.h). */
  bool excludes_writers;
  /* A commit that leaves the log longer than this number of bytes, or more bytes of pages in memory
   * than this and image_bytes, makes a checkpoint. 0: 16 MB, or more, as long as pages that are
   * changed repeatedly make up much of it. */
  uint64_t checkpoint_bytes;
  /* With checkpoint_bytes of 0: memory for pages that are newer than the file. 0: a 32nd of the
   * machine's, at most 256 MB. */
  uint64_t image_bytes;
} p3l_pager_options;

/* What was found in the log of a store that was not closed properly. */
typedef struct p3l_recovery {
  uint64_t transactions; /* committed transactions that were repeated */
  uint64_t pages;        /* pages changed by them */
  bool interrupted;      /* a transaction was incomplete: its changes are dropped */
  bool written; /* another process has it open for writing: the counts above need no recovery */
} p3l_recovery;

/*
 * Creates an empty store at `path` and its log at `path`-log. The names appear only when both files
 * are complete; if a file exists, the result is P3L_MISUSE.
 */
p3l_code p3l_store_create(const char *path, p3l_error *error);

/*
 * Opens a store. One process may have it open for writing (P3L_BUSY). Opening recovers the store
 * first; a reader recovers in its own memory and writes nothing. A reader sees the version that was
 * committed last when it opened the store, independent of later commits (docs/design/readers.md),
 * unless it excludes writers. `recovery` may be NULL.
 */
p3l_code p3l_pager_open(const char *path, const p3l_pager_options *options, p3l_pager **pager,
                        p3l_recovery *recovery, p3l_error *error);
/* The same with devices of the caller, which the pager closes. Takes no locks. For tests. */
p3l_code p3l_pager_open_devices(struct p3l_device *file, struct p3l_device *log,
                                const p3l_pager_options *options, p3l_pager **pager,
                                p3l_recovery *recovery, p3l_error *error);
/* Writes an empty store to two empty devices, which stay open. */
p3l_code p3l_store_format(struct p3l_device *file, struct p3l_device *log, p3l_error *error);

/* Checkpoints (if it can) and closes. The pager is freed in any case. */
p3l_code p3l_pager_close(p3l_pager *pager, p3l_error *error);

/*
 * True if the parent opened the store before this process was forked. In the child a store that is
 * open for writing can be neither read from the file nor written (P3L_MISUSE), because the parent
 * changes it. The lock belongs to the open file, which both share, and ends when both have closed
 * it; p3l_pager_close() in the child only frees memory. A store that is open for reading remains
 * readable.
 */
bool p3l_pager_is_inherited(const p3l_pager *pager);
/* P3L_MISUSE if the store is inherited. */
p3l_code p3l_pager_inherited(const p3l_pager *pager, p3l_error *error);

/* The number of pages: page numbers go from 0 to one less. */
uint64_t p3l_pager_page_count(p3l_pager *pager);
/* The path of the store, for messages. */
const char *p3l_pager_path(const p3l_pager *pager);
/*
 * The number of bytes of the frames appended since the store was opened, including their headers.
 */
uint64_t p3l_pager_bytes_logged(p3l_pager *pager);

/* A page that a reader's next version has and the previous one had not. */
typedef struct p3l_news_page {
  uint64_t number;
  uint64_t units;       /* bit i: unit i (P3L_UNIT) may differ; the others are as before */
  const p3l_page *page; /* valid until the next refresh */
} p3l_news_page;

/* The differences between a reader's next version and the previous one. */
typedef struct p3l_news {
  bool changed;         /* the version is a different one */
  bool everywhere;      /* ask p3l_pager_is_news() about each page; otherwise `pages` lists them */
  p3l_lsn since;        /* the previous base */
  p3l_news_page *pages; /* by ascending number; freed by p3l_news_free() */
  size_t count;
} p3l_news;
void p3l_news_free(p3l_news *news);
/* True if the page may have changed. */
bool p3l_pager_is_news(p3l_pager *pager, const p3l_news *news, p3l_page_number number);

/*
 * Moves a reader to the version that was committed last. `news` is also filled after a failure, if
 * some of the commits were read. No other thread may read at the same time. Has no effect on a
 * store that no other process can write.
 */
p3l_code p3l_pager_refresh(p3l_pager *pager, p3l_news *news, p3l_error *error);

/* ---- reading: any thread, any time ---- */

/* Copies the committed state of a page, and checks it (P3L_CORRUPT). */
p3l_code p3l_pager_read(p3l_pager *pager, p3l_page_number number, p3l_page *page, p3l_error *error);

/* The same for `count` adjacent pages, read with as few requests as possible: one if the file
 * has them all. Checks each page and stops at the first damaged one. */
p3l_code p3l_pager_read_run(p3l_pager *pager, p3l_page_number first, size_t count, p3l_page *pages,
                            p3l_error *error);
/* The same for `count` pages anywhere, with many requests in progress at a time (io_uring, or
 * threads if the kernel does not support it). `visit` is called by this thread for each page as
 * it arrives, in any order; the page is valid during the call. Ends with the first failure of a
 * read or of visit. */
typedef p3l_code (*p3l_page_visitor)(void *state, size_t index, const p3l_page *page,
                                     p3l_error *error);
p3l_code p3l_pager_read_many(p3l_pager *pager, const p3l_page_number *numbers, size_t count,
                             p3l_page_visitor visit, void *state, p3l_error *error);

/*
 * Returns the page in the page cache, checked, without a copy; read-only and valid until the
 * pager is closed. NULL: use p3l_pager_read(), because the page is not cached, is damaged, or
 * the store is open for writing. One thread at a time.
 */
const p3l_page *p3l_pager_mapped(p3l_pager *pager, p3l_page_number number);
/* Announces pages that will be read soon, so that the kernel may prefetch them. */
void p3l_pager_soon(p3l_pager *pager, p3l_page_number first, uint64_t count);

/* ---- writing: one transaction at a time; begin waits for the other ---- */

typedef struct p3l_pager_transaction p3l_pager_transaction;

p3l_code p3l_pager_begin(p3l_pager *pager, p3l_pager_transaction **transaction, p3l_error *error);

/*
 * Returns the transaction's own copy of a page, which may be changed in place. Report every change
 * with p3l_page_changed(). Valid until commit or abort. In the page's header only `next` may be
 * changed, and only in data pages.
 */
p3l_code p3l_page_for_writing(p3l_pager_transaction *transaction, p3l_page_number number,
                              p3l_page **page, p3l_error *error);
void p3l_page_changed(p3l_pager_transaction *transaction, p3l_page *page, uint32_t offset,
                      uint32_t length);
/* Allocates a data page, zeroed, from the free list or at the end of the file. */
p3l_code p3l_page_allocate(p3l_pager_transaction *transaction, p3l_page_number *number,
                           p3l_page **page, p3l_error *error);
/* Allocates `count` adjacent data pages, zeroed, for objects larger than a page. Uses the first
 * pages of the free list if these are adjacent, as are the pages of the object released last;
 * otherwise pages at the end of the file. */
p3l_code p3l_page_allocate_run(p3l_pager_transaction *transaction, size_t count,
                               p3l_page_number *first, p3l_error *error);
p3l_code p3l_page_release(p3l_pager_transaction *transaction, p3l_page_number number,
                          p3l_error *error);
/* Sets the store's format version to the current one in the header page. Call it before a change
 * that earlier versions of the format do not have. */
p3l_code p3l_format_raise(p3l_pager_transaction *transaction, p3l_error *error);

/* Returns the transaction's view of a page: its private copy or the committed state. Valid until
 * the next call with this transaction. */
p3l_code p3l_page_seen(p3l_pager_transaction *transaction, p3l_page_number number,
                       const p3l_page **page, p3l_error *error);
/* Returns the transaction's private copy, or NULL if there is none. */
p3l_page *p3l_page_private(p3l_pager_transaction *transaction, p3l_page_number number);
/* Like p3l_pager_page_count(), including the pages that the transaction allocated. */
uint64_t p3l_transaction_page_count(p3l_pager_transaction *transaction);
p3l_pager *p3l_pager_of(p3l_pager_transaction *transaction);

/*
 * Pages whose private copies were made since p3l_pager_mark() are expected not to change again.
 * p3l_pager_append_early() writes their images to the log, so that the disk starts while the
 * transaction makes the rest of its changes. It commits nothing: images after the end of the log
 * are ignored, and a page that changes again is logged again. Fewer than `least` images (at least
 * one) are left to the commit. On failure the transaction can only be aborted.
 */
void p3l_pager_mark(p3l_pager_transaction *transaction);
p3l_code p3l_pager_append_early(p3l_pager_transaction *transaction, size_t least, p3l_error *error);

/*
 * The first half of a commit: everything that can fail before the frames are in the log. It ends
 * the transaction in any case. After P3L_OK readers see the changes, the next transaction may
 * begin, and this one is committed unless the disk fails; after any other result all its changes
 * are dropped. Of the units of 64 bytes reported to p3l_page_changed(), the bytes are logged that
 * differ from what was committed.
 */
p3l_code p3l_pager_append(p3l_pager_transaction *transaction, p3l_lsn *position, p3l_error *error);
/*
 * The second half: returns when the log is durable up to `position`; one sync serves all waiting
 * threads (group commit). P3L_OK or P3L_BROKEN. Call it without locks that a running transaction
 * could wait for. Makes the checkpoint if the log is long and no transaction is running; before that
 * it writes pages to the file that no commit changed lately. At four times the length it waits for
 * the end of the running transaction, so that the log does not grow without limit.
 */
p3l_code p3l_pager_wait(p3l_pager *pager, p3l_lsn position, p3l_error *error);
/* Performs both halves. Ends the transaction in any case; see invariant 3. */
p3l_code p3l_pager_commit(p3l_pager_transaction *transaction, p3l_error *error);
void p3l_pager_abort(p3l_pager_transaction *transaction);

/* Writes all committed pages to the file and empties the log. Waits for a running transaction. */
p3l_code p3l_pager_checkpoint(p3l_pager *pager, p3l_error *error);

/* ---- loading ---- */

/*
 * Until p3l_pager_load_end() commits write no log. After a crash the store is as it was at this
 * call. p3l_pager_load_end() makes everything durable. New pages are written once, to their final
 * place; at most `memory_bytes` of them are kept in memory. p3l_pager_close() also ends the load.
 * P3L_MISUSE: a load is already in progress. Waits for a running transaction.
 */
p3l_code p3l_pager_load_begin(p3l_pager *pager, uint64_t memory_bytes, p3l_error *error);
p3l_code p3l_pager_load_end(p3l_pager *pager, p3l_error *error);

/* ---- copying ---- */

typedef struct p3l_backup {
  uint64_t pages; /* of the copy */
  /* An additional check before the copy gets its name; NULL: none. */
  p3l_code (*check)(void *state, p3l_pager *copy, p3l_error *error);
  void (*progress)(void *state, const char *what, uint64_t done, uint64_t total); /* or NULL */
  void *state;
} p3l_backup;

/*
 * Copies the version that `pager` reads to a new store at `path` and `path`-log. `pager` must be
 * open for reading. The copy is written to `path`-new and `path`-new-log, synced, read again and
 * checked, then renamed. P3L_MISUSE: there is a file at `path`. P3L_BUSY: another process is making
 * the copy. An unfinished copy leaves nothing at `path`, and the next attempt replaces its files.
 * The copy has an id of its own, so that a log of the original is not mistaken for the log of the
 * copy.
 */
p3l_code p3l_pager_backup(p3l_pager *pager, const char *path, p3l_backup *backup, p3l_error *error);

/* ---- checking ---- */

typedef struct p3l_verification {
  uint64_t pages, data_pages, free_pages;
  uint64_t faults; /* damaged pages and lists; each was reported to the listener */
} p3l_verification;
/* P3L_CORRUPT: the header page counts more pages than the file and the log could have. Must be
 * called before an array with one element per page is allocated, because a damaged count could
 * be arbitrarily large. */
p3l_code p3l_pager_check_size(p3l_pager *pager, p3l_error *error);
/* Reads every page and follows the free list; continues after a fault. */
p3l_code p3l_pager_verify(p3l_pager *pager, void (*listener)(void *state, const char *sentence),
                          void *state, p3l_verification *verification, p3l_error *error);
/* The same, with reports of the progress. */
p3l_code p3l_pager_verify_watched(p3l_pager *pager,
                                  void (*listener)(void *state, const char *sentence),
                                  void (*progress)(void *state, const char *what, uint64_t done,
                                                   uint64_t total),
                                  void *state, p3l_verification *verification, p3l_error *error);

#endif
