/*
 * Pages where the kernel has them: the file, mapped, as far as it is in the page cache. A frame costs
 * the kernel a page to clear and a page to copy, which was half of the time of a large store where
 * little is used; a page that is looked at once, for an object to be copied from it, needs neither.
 *
 * Invariants:
 *   1. Of a store that is open for reading, pages are used where they are, and only while no image is
 *      newer than the file: then it is not written, which the lock ensures, and a page stays as it was
 *      when it was checked. Of one that is open for writing, a transaction copies pages that no image is
 *      newer than, and checks the copy: its own checkpoint, which alone writes to the file, waits for it.
 *   2. A page is looked at in the mapping only after the kernel has said that its window is in memory
 *      and was brought into the mapping without an error. Everything else goes by p3l_pager_read(), which
 *      tells an I/O error, a short file and a damaged page by name. What is left is a page that the
 *      kernel dropped since and then cannot read: SIGBUS, as for every mapped file.
 *
 * Inside of the pager only.
 */
#ifndef P3L_MAPPING_H
#define P3L_MAPPING_H

#include "device.h"
#include "page.h"

typedef struct p3l_mapping p3l_mapping;

/* Of the first `pages` pages. NULL: it cannot be, or the kernel would not say what it has. */
p3l_mapping *p3l_mapping_open(p3l_device *file, uint64_t pages);
uint64_t p3l_mapping_pages(const p3l_mapping *mapping);
/* NULL: nothing to do. */
void p3l_mapping_close(p3l_mapping *mapping);
/* A page whose bytes are in memory, unchecked; NULL: read it. */
const p3l_page *p3l_mapping_page(p3l_mapping *mapping, p3l_page_number number);

#endif
