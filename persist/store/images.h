/*
 * Pages in memory that are newer than the file, by number. Internal to the pager; pager.h has
 * the invariants.
 */
#ifndef P3L_IMAGES_H
#define P3L_IMAGES_H

/* If memory is short, uthash then omits the element instead of ending the process. */
#define HASH_NONFATAL_OOM 1
/* The keys are page numbers, one word: uthash's own hash and comparison of byte strings took a
 * tenth of a commit. */
#define HASH_FUNCTION(key, length, hash) ((hash) = p3l_hash_of_number(key))
#define HASH_KEYCMP(a, b, length) p3l_numbers_differ(a, b)
#include <pthread.h>
#include <uthash.h>

#include "buffers.h"
#include "log.h"
#include "pager.h"

/* Page numbers come in runs; a multiplication spreads them. */
static inline unsigned p3l_hash_of_number(const void *key) {
  return (unsigned)(*(const uint64_t *)key * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static inline int p3l_numbers_differ(const void *a, const void *b) {
  return *(const uint64_t *)a != *(const uint64_t *)b;
}

typedef struct p3l_image {
  uint64_t number;        /* key */
  p3l_page *committed;    /* what readers see; NULL: the page in the file */
  p3l_page *private_copy; /* of the running transaction, or NULL */
  uint64_t changed;       /* bit i: unit i of the private copy was changed */
  bool early;             /* the private copy, unchanged since, is already among the frames */
  bool logged;  /* its whole image is in the log since the last checkpoint (log.h, invariant 3) */
  bool in_file; /* the file has what is committed; it is not synced */
  p3l_lsn first, last;    /* ends of the log after the first and the last commit of it */
  struct p3l_image *next; /* list of the transaction's pages */
  UT_hash_handle hh;
} p3l_image;

/*
 * Allocations look up the same few pages repeatedly (catalog, header, the page being filled): some
 * 2,700 times in an OO1 Insert, an eighth of its instructions. So a transaction caches the images
 * it found, by the low bits of the page number. No image is removed while the transaction runs; the
 * cache is emptied when it ends.
 */
enum { P3L_RECENT = 64 };

struct p3l_pager_transaction {
  p3l_pager *pager;
  p3l_image *pages;  /* images with private copies, newest first */
  p3l_image *marked; /* the first of these at p3l_pager_mark() */
  p3l_image *recent[P3L_RECENT];
  p3l_page seen; /* the page that p3l_page_seen() read from the file */
};

/* A checkpoint that is put off: checkpoint.h. */
typedef struct p3l_put_off {
  uint64_t times;
  p3l_lsn since;    /* the first time: log.end */
  size_t unwritten; /* and p3l_pager.unwritten */
} p3l_put_off;

struct p3l_pager {
  char *path, *log_path; /* for messages */
  p3l_device *file;
  struct p3l_readers *many;    /* read_many.c: rings and buffers kept for the next call */
  struct p3l_mapping *mapping; /* made on first use; for a writer, guarded by `writer` */
  bool unmapped;               /* mapping was tried and is impossible */
  bool read_only;
  bool follows;              /* a reader while another process writes: snapshot.h */
  p3l_lsn base;              /* of such a reader: readers.h */
  struct p3l_old_pages *old; /* old_pages.h; NULL: none were needed so far */
  unsigned forks;            /* value of p3l_forks() when it was opened */
  uint64_t checkpoint_bytes;
  uint64_t image_bytes;      /* of images, that make a checkpoint; 0: checkpoint_bytes alone does */
  uint64_t checkpoint_pages; /* page_count as of the last checkpoint; guarded by `writer` */
  bool loading;              /* load.h; with what follows guarded by `writer` */
  uint64_t load_pages;       /* page_count at begin */
  size_t load_most;          /* images that are kept of pages that are new since */
  size_t load_next;          /* above this number of images they are written */

  /* One writer at a time, from begin until its frames are appended. Guards log (except durable),
   * frames, buffers, transaction. */
  pthread_mutex_t writer;
  p3l_log log;
  p3l_frames frames;
  p3l_buffers buffers; /* for images' committed, private_copy */
  p3l_pager_transaction transaction;

  /* Guards images and page_count against readers; the writer may read them without the lock. */
  pthread_rwlock_t readers;
  p3l_image *images; /* in the order of their first change */
  uint64_t page_count;
  p3l_image *begun; /* the last one that was examined before a checkpoint (checkpoint.c); NULL:
                     * none. Guarded by `writer`, as the next two */
  size_t unwritten; /* committed images that are not `in_file` */
  p3l_put_off put_off;
  p3l_lsn begin_next; /* where the log is to be for its next call. Guarded by `sync` */

  /* Group commit: the first thread syncs everything appended by then. */
  pthread_mutex_t sync;
  pthread_cond_t synced;
  bool syncing;
  bool broken;      /* pager.h, invariant 4 */
  p3l_lsn appended; /* log.end at the last append */
  p3l_lsn durable;
  p3l_lsn emptied; /* log.start at the last checkpoint */
  uint64_t bytes_logged;
  /* Since the last checkpoint: p3l_frames. */
  uint64_t images_logged, image_bytes_logged, old_image_bytes_logged;
};

/* Finds the committed header page if it is newer than the file's. For a transaction, finds its
 * private copy if there is one. */
p3l_image *p3l_image_find(p3l_pager *pager, p3l_page_number number);
/* The same for the running transaction. */
p3l_image *p3l_image_of(p3l_pager_transaction *transaction, p3l_page_number number);
/* Copies the committed state of a page if it is newer than the file's; otherwise returns false.
 * *exists is set to true if the store has a page of this number. Any thread may call it; takes
 * the readers' lock. */
bool p3l_image_read(p3l_pager *pager, p3l_page_number number, p3l_page *page, bool *exists);
/* Like p3l_pager_read(), for the running transaction and a page without a newer image. Needs no
 * system call if the page is in the page cache (mapping.h). */
p3l_code p3l_committed_read(p3l_pager_transaction *transaction, p3l_page_number number,
                            p3l_page *page, p3l_error *error);
/* Finds or adds an image; NULL: no memory. Takes the readers' lock to add. */
p3l_image *p3l_image_add(p3l_pager *pager, p3l_page_number number);
/* Makes the private copies visible to readers. Discards those that did not change and were not
 * logged. */
void p3l_images_publish(p3l_pager_transaction *transaction);
/* Discards all private copies. */
void p3l_images_discard(p3l_pager_transaction *transaction);

/* Returns NULL, or the fault of a page read from the file: that of p3l_page_fault(), or, for a
 * reader while another process writes, that a checkpoint later than its version wrote the page
 * (old_pages.h, invariant 3). */
static inline const char *p3l_file_page_fault(const p3l_pager *pager, const p3l_page *page,
                                              p3l_page_number number) {
  const char *fault = p3l_page_fault(page, number);
  if (fault != NULL || !pager->follows || page->checkpoint <= pager->base.byte) return fault;
  return "was written over, and its old state was not kept";
}

/* Removes these images, which have no private copies. */
void p3l_images_drop(p3l_pager *pager, p3l_image **images, size_t count);
/* Removes all images, which have all of the buffers; no transaction may be running. */
void p3l_images_forget(p3l_pager *pager);

/* Returns the number of forks between the first process and this one. */
unsigned p3l_forks(void);

#endif
