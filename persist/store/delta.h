/*
 * What a frame of changes has: bytes of pages that differ from what was committed, or, of a page that
 * the log does not have whole yet, all of its bytes except zeros. One frame has many pages.
 *
 *   | page | skip | length | bytes | skip | length | bytes | page | skip | length | bytes | ...
 *   |--------------- a page, two runs of bytes ------------|------- the next page -------|
 *
 * Numbers are LEB128: seven bits a byte, the lowest first; bit 7 is set if another byte follows.
 *   page    2 * z + 1 if the page begins as zeros, else 2 * z; z is the zigzag code of its number less the
 *           one of the page before (the first: less the page of the frame's address)
 *   skip    bytes from the end of the run before (the first: from the page's begin) to the run
 *   length  2 * the number of bytes + 1 if another run of this page follows, else without
 *
 * Of 10,000 edges added to a graph of 1,000,000 nodes, each changes 16 bytes of a node. That took a frame
 * of 48 bytes each; it takes 10 bytes here.
 */
#ifndef P3L_DELTA_H
#define P3L_DELTA_H

#include <stddef.h>

#include "page.h"

/* Changes of pages, as a frame gets them. */
typedef struct p3l_delta {
  uint8_t bytes[P3L_PAGE_SIZE];
  size_t used;
  uint64_t first, last; /* numbers of pages, if `used` is not 0 */
} p3l_delta;

/* Adds the bytes by which `now` differs from `before` in these units (bit i: unit i); NULL: from zeros,
 * and then all units count. False: there is no room for them, and nothing was added. */
bool p3l_delta_add(p3l_delta *delta, p3l_page_number number, const p3l_page *now,
                   const p3l_page *before, uint64_t units);
/* True if enough of the page is zero to leave its zeros out. */
bool p3l_delta_is_worth(const p3l_page *page);

/* Reads a frame's bytes. */
typedef struct p3l_delta_reader {
  const uint8_t *at, *end;
  uint64_t number; /* of the page that was begun last */
  bool zeros;      /* it begins as zeros */
} p3l_delta_reader;

p3l_delta_reader p3l_delta_read(p3l_address address, const uint8_t *bytes, size_t length);
/* Goes to the next page. To be called while `at` is not `end`. False: the bytes are no changes. */
bool p3l_delta_next(p3l_delta_reader *reader);
/* Makes that page's changes. False: the bytes are no changes; some of the page may be changed. */
bool p3l_delta_apply(p3l_delta_reader *reader, p3l_page *page);
/* The same without a page: goes past the changes, and adds the units in which they lie. */
bool p3l_delta_pass(p3l_delta_reader *reader, uint64_t *units);

#endif
