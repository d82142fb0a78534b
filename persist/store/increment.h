/*
 * Increments: files with the pages of a store that changed between two versions, and what is made of them.
 *
 *   backup    a store of its own, which says of which version it is a copy (p3l_origin)
 *   increment  +------+--------+--------+-- ... --+--------+    pages in ascending order, each with its
 *              | head | page 0 | page 7 |         | page n |    number, its checksum and the increment's
 *              +------+--------+--------+-- ... --+--------+    version; the head is as long as a page
 *
 *   version 1      version 2      version 3
 *   full ────────> increment ───> increment     p3l_restore(): the pages as of the last ──> a store
 *      └───────────────────────── increment     (one since version 1 will do, too)
 *
 * Invariants:
 *  1. An increment has every page that changed after version `since`, up to its own; it may have others.
 *     A version is a position in the log of the store with that id: positions only grow.
 *  2. A page is left out only if the file has it as a checkpoint up to `since` wrote it, no later commit
 *     changed it, and it existed then. (A load writes pages that are new as of the checkpoint before it;
 *     load.h, invariant 3.)
 *  3. Nothing has its final name before it is on stable storage, was read again and was checked.
 *  4. A page of another increment, or of another version of this one, is not taken for one of it: each
 *     says its version, as the checkpoint that wrote it (page.h).
 */
#ifndef P3L_INCREMENT_H
#define P3L_INCREMENT_H

#include "pager.h"

/* A version of a store. */
typedef struct p3l_version {
  uint8_t store_id[16];
  uint64_t position; /* in its log */
  uint64_t page_count;
} p3l_version;

/* In the header page of a backup, at this byte of the payload: what it is a copy of. A store that was
 * restored, or newly made, has zeros there. */
#define P3L_ORIGIN_AT 1024u
#define P3L_ORIGIN_MAGIC "P3L copy"
typedef struct p3l_origin {
  char magic[8]; /* without its end */
  p3l_version version;
} p3l_origin;
_Static_assert(sizeof(p3l_origin) == 8 + 32, "no padding in the file");

#define P3L_INCREMENT_MAGIC "P3L increment\r\n" /* 16 bytes with its end */
#define P3L_INCREMENT_VERSION 1u
typedef struct p3l_increment_head {
  char magic[16];
  uint32_t version;    /* of this format */
  uint32_t byte_order; /* P3L_BYTE_ORDER */
  p3l_version to;
  uint64_t since; /* position; 0: all pages are there */
  uint64_t pages; /* that follow */
  uint8_t zero[P3L_PAGE_SIZE - 16 - 8 - 32 - 16 - 8];
  uint32_t also_zero;
  uint32_t checksum; /* crc32c of what is before */
} p3l_increment_head;
_Static_assert(sizeof(p3l_increment_head) == P3L_PAGE_SIZE, "a page is a page");

/* What a file is that something can be restored from. */
typedef struct p3l_source {
  p3l_version to;
  uint64_t since; /* 0: all pages are there */
  uint64_t pages;
  bool is_store; /* a backup; else an increment */
} p3l_source;

/* The version that a reader sees. */
p3l_version p3l_pager_version(p3l_pager *pager);
/* P3L_NOT_A_STORE: neither a backup nor an increment, or a backup that was written to. Checks what it
 * says of itself, not its pages. */
p3l_code p3l_source_look(const char *path, p3l_source *source, p3l_error *error);

/*
 * Writes an increment to `path` by way of `fresh`, which is locked meanwhile: the pages that changed
 * since `since`, or all of them if that is NULL. `news`, if not NULL and not `everywhere`, says which
 * they are, and then no others are read. P3L_MISUSE: there is a file at `path`, or `since` is of
 * another store or of a later version. P3L_BUSY: another process makes one by way of `fresh`.
 */
p3l_code p3l_pager_increment(p3l_pager *pager, const p3l_version *since, const p3l_news *news,
                             const char *path, const char *fresh, p3l_source *made,
                             p3l_error *error);

/*
 * Makes a store at `path` of sources, the oldest first; the first has all pages, each of the others begins
 * at or before the version of the one before it. `backup` as for p3l_pager_backup(): the store is
 * checked before it has its name. It has an id of its own.
 */
p3l_code p3l_restore(const char *const *sources, size_t count, const char *path, p3l_backup *backup,
                     p3l_error *error);

#endif
