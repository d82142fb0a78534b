/*
 * Uses the pages of the mapped file in the page cache. For a page frame of the library's own the
 * kernel must clear one page and copy one page. This was half of the time for a large store of
 * which little is used. A page from which one object is copied once needs neither.
 *
 * Invariants:
 *   1. If the store is open for reading, pages are used in place, and only while no image is newer
 *      than the file. Then the lock ensures that the file is not written, and a page stays as it
 *      was when it was checked. If the store is open for writing, a transaction copies pages
 *      without a newer image and checks the copy. Only this process's checkpoint writes to the
 *      file, and it waits for the transaction.
 *   2. A page is read in the mapping only after the kernel has reported that its window is in
 *      memory and was brought into the mapping without an error. Everything else is read by
 *      p3l_pager_read(), which reports an I/O error, a short file and a damaged page by name. One
 *      case remains: if the kernel drops the page afterwards and then cannot read it, the process
 *      gets SIGBUS, as for every mapped file.
 *
 * Internal to the pager.
 */
#ifndef P3L_MAPPING_H
#define P3L_MAPPING_H

#include "device.h"
#include "page.h"

typedef struct p3l_mapping p3l_mapping;

/* Maps the first `pages` pages. NULL: not possible, or the kernel would not report which pages
 * are in memory. */
p3l_mapping *p3l_mapping_open(p3l_device *file, uint64_t pages);
uint64_t p3l_mapping_pages(const p3l_mapping *mapping);
/* Unmaps; NULL is allowed and ignored. */
void p3l_mapping_close(p3l_mapping *mapping);
/* Returns a page whose bytes are in memory, unchecked; NULL: it must be read. */
const p3l_page *p3l_mapping_page(p3l_mapping *mapping, p3l_page_number number);

#endif
