/*
 * Uses the pages of the mapped file in the page cache. A page frame of the library's own costs the
 * kernel a page to clear and a page to copy, which was half of the time of a large store where
 * little is used; a page from which one object is copied once needs neither.
 *
 * Invariants:
 *   1. Of a store that is open for reading, pages are used where they are, and only while no image is
 *      newer than the file: then it is not written, which the lock ensures, and a page stays as it was
 *      when it was checked. Of one that is open for writing, a transaction copies pages that no image is
 *      newer than, and checks the copy: its own checkpoint, which alone writes to the file, waits for it.
 *   2. A page is read in the mapping only after the kernel has reported that its window is in memory
 *      and was brought into the mapping without an error. Everything else is read by p3l_pager_read(), which
 *      reports an I/O error, a short file and a damaged page by name. What is left is a page that the
 *      kernel dropped since and then cannot read: SIGBUS, as for every mapped file.
 *
 * Internal to the pager.
 */
#ifndef P3L_MAPPING_H
#define P3L_MAPPING_H

#include "device.h"
#include "page.h"

typedef struct p3l_mapping p3l_mapping;

/* Maps the first `pages` pages. NULL: not possible, or the kernel would not report which are in
 * memory. */
p3l_mapping *p3l_mapping_open(p3l_device *file, uint64_t pages);
uint64_t p3l_mapping_pages(const p3l_mapping *mapping);
/* Unmaps; NULL is allowed and ignored. */
void p3l_mapping_close(p3l_mapping *mapping);
/* Returns a page whose bytes are in memory, unchecked; NULL: it must be read. */
const p3l_page *p3l_mapping_page(p3l_mapping *mapping, p3l_page_number number);

#endif
