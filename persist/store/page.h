/*
 * The pages of a store file: their header, their checksum, the header page. The layout is the same
 * on disk and in memory.
 *
 *   0        4      6   8             16             24            32                 4096
 *   +--------+------+---+-------------+--------------+-------------+------------ ... --+
 *   | crc32c | kind | g | page number | log position | of the kind | payload           |
 *   +--------+------+---+-------------+--------------+-------------+------------ ... --+
 *
 * Invariants:
 *  1. The checksum covers all bytes of the page except its own four. In the file it is correct
 *     unless a write to the page is in progress. In memory it is not maintained: it is computed
 *     when the page is written, and checked when it is read.
 *  2. The page contains its own number, so that a page at a wrong place is detected.
 *  3. The log position is the position of the checkpoint that wrote the page.
 *  4. The generation (g) counts, modulo P3L_GENERATIONS, how often the page's free space held other
 *     objects before; it is kept when the page is released and allocated again (object_page.h). It
 *     is 0 for page 0.
 *
 * Version 1 of the format has no generations: those bytes, and the bits of generations in type ids
 * and pointers, are zero there. So a store of version 1 can be read unchanged, and becomes one of
 * version 2 with the first deletion (p3l_format_raise()). After that, libraries for version 1 only
 * refuse it.
 */
#ifndef P3L_PAGE_H
#define P3L_PAGE_H

#include "p3l_status.h"
#include "units.h"

#define P3L_PAGE_SIZE 4096u
/* Changes of a page are reported in units of this many bytes, so that one word says which. */
#define P3L_UNIT (P3L_PAGE_SIZE / 64)
#define P3L_FORMAT_VERSION 2u
#define P3L_OLDEST_VERSION 1u

typedef enum p3l_page_kind {
  P3L_PAGE_HEADER = 1, /* page 0 */
  P3L_PAGE_FREE = 2,   /* unowned; `next` is the next free page */
  P3L_PAGE_DATA = 3    /* owned by its allocator */
} p3l_page_kind;

typedef struct p3l_page {
  uint32_t checksum;
  uint16_t kind;
  uint16_t generation;
  uint64_t number;
  uint64_t checkpoint; /* log position */
  uint64_t next; /* free pages: number of the next one, 0 at the end; data pages: the owner's */
  uint8_t payload[P3L_PAGE_SIZE - 32];
} p3l_page;
_Static_assert(sizeof(p3l_page) == P3L_PAGE_SIZE, "a page is a page");

/* The payload of page 0. */
typedef struct p3l_header {
  char magic[16];      /* P3L_MAGIC */
  uint32_t version;    /* P3L_FORMAT_VERSION */
  uint32_t byte_order; /* P3L_BYTE_ORDER in the byte order of the machine that made the store */
  uint32_t page_size;
  uint32_t pointer_size; /* bytes */
  uint8_t store_id[16];  /* random; the log has the same id */
  uint64_t page_count;   /* pages 0 .. page_count-1 exist */
  uint64_t first_free;   /* head of the list of free pages, 0 if there is none */
  uint64_t free_count;   /* length of that list */
  uint8_t owner[256];    /* data of the layer above: roots, types */
} p3l_header;
_Static_assert(sizeof(p3l_header) == 16 + 16 + 16 + 24 + 256, "no padding in the file");

#define P3L_MAGIC \
  "P3L store\r\n\x1a\n\0\0" /* 16 bytes with terminator; a transfer in text mode changes it */
#define P3L_BYTE_ORDER 0x01020304u

static inline p3l_header *p3l_header_of(p3l_page *page) { return (p3l_header *)page->payload; }

/* CRC-32C of the bytes, continuing from `seed` (0 at the beginning). */
uint32_t p3l_crc32c(uint32_t seed, const void *bytes, size_t length);

/* The units that have one of the bytes from `offset` on; `length` is not 0. */
static inline uint64_t p3l_units(uint32_t offset, uint32_t length) {
  uint32_t first = offset / P3L_UNIT, last = (offset + length - 1) / P3L_UNIT;
  return (~UINT64_C(0) << first) & (~UINT64_C(0) >> (63 - last));
}

/* Makes an empty page of a kind. */
void p3l_page_init(p3l_page *page, p3l_page_kind kind, p3l_page_number number);
/* Called before a page is written: establishes invariants 1 to 3. */
void p3l_page_seal(p3l_page *page, p3l_lsn checkpoint);
/* Checks a page after it was read. Returns NULL or the fault, worded as the end of a sentence
   ("page 7 ...").
 */
const char *p3l_page_fault(const p3l_page *page, p3l_page_number number);
/* The same without the checksum: for pages from the log, whose frames were checked. */
const char *p3l_page_head_fault(const p3l_page *page, p3l_page_number number);

/* Makes page 0 of a new store. */
void p3l_header_init(p3l_page *page, const uint8_t store_id[16]);
/* Checks that this build can use the store with this page 0. `path` is for the message. */
p3l_code p3l_header_check(const p3l_page *page, const char *path, p3l_error *error);

#endif
