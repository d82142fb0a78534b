/*
 * Memory for copies of pages. A commit takes one for each page that it is the first to change since the
 * last checkpoint, 24 of an OO1 Insert, and from malloc() each was a page fault in the middle of the
 * commit: 2 us in a virtual machine, more than reading the page. Slabs of a huge page are one fault for
 * 511 of them, at a tenth of that each.
 *
 *   slab   | head | buffer | buffer | ... | buffer |     aligned, so that a buffer leads to its head
 *
 * By the pager's writer only.
 */
#ifndef P3L_BUFFERS_H
#define P3L_BUFFERS_H

#include "page.h"

typedef struct p3l_slab p3l_slab;

typedef struct p3l_buffers {
  p3l_slab *with_room; /* slabs with a free buffer */
} p3l_buffers;

/* Not zeroed; NULL: no memory. */
p3l_page *p3l_buffer_take(p3l_buffers *buffers);
/* NULL: nothing to do. */
void p3l_buffer_give(p3l_buffers *buffers, p3l_page *buffer);
/* All were given back: the slab that was kept for the next goes, too. */
void p3l_buffers_end(p3l_buffers *buffers);

#endif
