/*
 * Memory for copies of pages. A commit copies each page that it is the first to change since the last
 * checkpoint: 24 pages in an OO1 Insert. With malloc() each copy caused a page fault during the
 * commit: 2 us in a virtual machine, more than reading the page. A slab is one huge page. It takes
 * one fault for 511 buffers, so that each costs a tenth of that time.
 *
 *   slab   | head | buffer | buffer | ... | buffer |     aligned, so that a buffer leads to its head
 *
 * Only the pager's writer may use them.
 */
#ifndef P3L_BUFFERS_H
#define P3L_BUFFERS_H

#include "page.h"

typedef struct p3l_slab p3l_slab;

typedef struct p3l_buffers {
  p3l_slab *with_room; /* slabs with a free buffer */
  p3l_slab *all;
} p3l_buffers;

/* Takes a buffer; its bytes are not zeroed. NULL: no memory. */
p3l_page *p3l_buffer_take(p3l_buffers *buffers);
/* Gives a buffer back; NULL is allowed and ignored. */
void p3l_buffer_give(p3l_buffers *buffers, p3l_page *buffer);
/* All buffers are given back, at the price of their slabs: they are not touched. */
void p3l_buffers_give_all(p3l_buffers *buffers);
/* Frees everything, also buffers that were not given back. */
void p3l_buffers_end(p3l_buffers *buffers);

#endif
