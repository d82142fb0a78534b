/*
 * Reads pages: the images that are newer than the file, otherwise the file. pager.h has the
 * invariants.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "images.h"
#include "mapping.h"
#include "old_pages.h"

static p3l_file_offset place_of(p3l_page_number number) {
  return (p3l_file_offset){number.n * P3L_PAGE_SIZE};
}

bool p3l_image_read(p3l_pager *pager, p3l_page_number number, p3l_page *page, bool *exists) {
  pthread_rwlock_rdlock(&pager->readers);
  const p3l_image *image = p3l_image_find(pager, number);
  bool found = image != NULL && image->committed != NULL;
  if (found) memcpy(page, image->committed, sizeof(*page));
  *exists = number.n < pager->page_count;
  pthread_rwlock_unlock(&pager->readers);
  return found;
}

p3l_code p3l_pager_read(p3l_pager *pager, p3l_page_number number, p3l_page *page,
                        p3l_error *error) {
  const char *fault = NULL;
  if (!pager->read_only && p3l_pager_is_inherited(pager)) return p3l_pager_inherited(pager, error);
  /*
   * Between the look-up of the images and the read, a checkpoint may write the page. Then the read
   * is torn, and the second look-up finds the image, or the file is complete again.
   */
  for (int attempt = 0; attempt < 3; attempt++) {
    bool exists;
    if (p3l_image_read(pager, number, page, &exists)) return P3L_OK;
    if (!exists)
      return p3l_fail(error, P3L_MISUSE, "%s has no page %llu", pager->path,
                      (unsigned long long)number.n);
    int failed = pager->file->read(pager->file, page, sizeof(*page), place_of(number));
    if (failed != 0 && failed != ENODATA)
      return p3l_fail_errno(error, failed, "%s: reading page %llu", pager->path,
                            (unsigned long long)number.n);
    fault = failed == ENODATA ? "is missing, the file is too short"
                              : p3l_file_page_fault(pager, page, number);
    if (fault == NULL) return P3L_OK;
    if (!pager->follows) continue;
    bool found;
    p3l_code code = p3l_old_pages_read(pager, number, page, &found, error);
    if (code != P3L_OK || found) return code;
  }
  return p3l_fail(error, P3L_CORRUPT, "%s: page %llu %s; restore the store from a copy",
                  pager->path, (unsigned long long)number.n, fault);
}

static bool any_images(p3l_pager *pager) {
  pthread_rwlock_rdlock(&pager->readers);
  bool any = pager->images != NULL;
  pthread_rwlock_unlock(&pager->readers);
  return any;
}

/* The part of a run that contains all pages without an image; empty if there are none. */
static void copy_images(p3l_pager *pager, p3l_page_number first, size_t count, p3l_page *pages,
                        size_t *from, size_t *to) {
  bool exists;
  *from = 0;
  *to = count;
  if (!any_images(pager)) return;
  *to = 0;
  for (size_t i = 0; i < count; i++) {
    if (p3l_image_read(pager, (p3l_page_number){first.n + i}, &pages[i], &exists)) continue;
    if (*to == 0) *from = i;
    *to = i + 1;
  }
}

p3l_code p3l_pager_read_run(p3l_pager *pager, p3l_page_number first, size_t count, p3l_page *pages,
                            p3l_error *error) {
  size_t from, to;
  if (!pager->read_only && p3l_pager_is_inherited(pager)) return p3l_pager_inherited(pager, error);
  uint64_t page_count = p3l_pager_page_count(pager);
  if (first.n >= page_count || count > page_count - first.n)
    return p3l_fail(error, P3L_MISUSE, "%s has no page %llu", pager->path,
                    (unsigned long long)(first.n >= page_count ? first.n : page_count));
  copy_images(pager, first, count, pages, &from, &to);
  if (from == to) return P3L_OK;
  int failed = pager->file->read(pager->file, &pages[from], (to - from) * sizeof(*pages),
                                 place_of((p3l_page_number){first.n + from}));
  if (failed != 0 && failed != ENODATA)
    return p3l_fail_errno(error, failed, "%s: reading %zu pages from page %llu on", pager->path,
                          to - from, (unsigned long long)(first.n + from));
  /*
   * Look up the images again, for pages in between and for pages committed in the meantime. A page
   * that looks damaged is read separately, which distinguishes a running checkpoint from damage,
   * and gives the right message.
   */
  bool images = any_images(pager);
  for (size_t i = from; i < to; i++) {
    p3l_page_number number = {first.n + i};
    bool exists;
    if (images && p3l_image_read(pager, number, &pages[i], &exists)) continue;
    if (failed == 0 && p3l_file_page_fault(pager, &pages[i], number) == NULL) continue;
    p3l_code code = p3l_pager_read(pager, number, &pages[i], error);
    if (code != P3L_OK) return code;
  }
  return P3L_OK;
}

/* Returns the mapping of the first `pages` pages, made on first use; NULL: not available. */
static p3l_mapping *mapping_of(p3l_pager *pager, uint64_t pages) {
  if (pager->mapping == NULL && !pager->unmapped) {
    if (pages > 0) pager->mapping = p3l_mapping_open(pager->file, pages);
    pager->unmapped = pager->mapping == NULL;
  }
  return pager->mapping;
}

const p3l_page *p3l_pager_mapped(p3l_pager *pager, p3l_page_number number) {
  /* If another process writes, a page may change between its check and its use. */
  if (!pager->read_only || pager->follows) return NULL;
  /* While the store is open for reading nothing changes: neither the file's length nor the
   * recovered images. */
  p3l_mapping *mapping = mapping_of(pager, any_images(pager) ? 0 : pager->page_count);
  const p3l_page *page = mapping == NULL ? NULL : p3l_mapping_page(mapping, number);
  return page == NULL || p3l_page_fault(page, number) != NULL ? NULL : page;
}

void p3l_pager_soon(p3l_pager *pager, p3l_page_number first, uint64_t count) {
  int descriptor = p3l_file_descriptor(pager->file);
  if (descriptor < 0) return;
  /* Request 256 KB at a time, so that the first page does not wait for the last. */
  for (uint64_t at = 0; at < count; at += 64) {
    uint64_t pages = count - at < 64 ? count - at : 64;
    posix_fadvise(descriptor, (off_t)place_of((p3l_page_number){first.n + at}).byte,
                  (off_t)(pages * P3L_PAGE_SIZE), POSIX_FADV_WILLNEED);
  }
}

uint64_t p3l_pager_page_count(p3l_pager *pager) {
  pthread_rwlock_rdlock(&pager->readers);
  uint64_t count = pager->page_count;
  pthread_rwlock_unlock(&pager->readers);
  return count;
}

const char *p3l_pager_path(const p3l_pager *pager) { return pager->path; }

/* ---- reads of a transaction, the only one that changes the data read here ---- */

/*
 * The smallest store that its writer maps. A window costs two calls, so mapping is worthwhile if
 * many pages of few windows are used. An OO1 Insert changes 24 pages of 1,100, and reads each with
 * a call of 1 us.
 */
enum { MAPPED_PAGES = (64 << 20) / P3L_PAGE_SIZE };

static uint64_t pages_to_map(p3l_pager *pager) {
  uint64_t bytes;
  if (pager->page_count > MAPPED_PAGES || pager->file->size(pager->file, &bytes) != 0) return 0;
  /* Pages committed since the last checkpoint may lie beyond the end of the file. */
  uint64_t pages = bytes / P3L_PAGE_SIZE;
  return pages < pager->page_count ? pages : pager->page_count;
}

p3l_code p3l_committed_read(p3l_pager_transaction *transaction, p3l_page_number number,
                            p3l_page *page, p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  if ((pager->mapping != NULL || !pager->unmapped) && !p3l_pager_is_inherited(pager)) {
    p3l_mapping *mapping =
        pager->mapping != NULL ? pager->mapping : mapping_of(pager, pages_to_map(pager));
    const p3l_page *mapped = mapping == NULL ? NULL : p3l_mapping_page(mapping, number);
    if (mapped != NULL) *page = *mapped;
    if (mapped != NULL && p3l_page_fault(page, number) == NULL) return P3L_OK;
  }
  return p3l_pager_read(pager, number, page, error);
}

p3l_pager *p3l_pager_of(p3l_pager_transaction *transaction) { return transaction->pager; }

p3l_page *p3l_page_private(p3l_pager_transaction *transaction, p3l_page_number number) {
  const p3l_image *image = p3l_image_of(transaction, number);
  return image == NULL ? NULL : image->private_copy;
}

p3l_code p3l_page_seen(p3l_pager_transaction *transaction, p3l_page_number number,
                       const p3l_page **page, p3l_error *error) {
  const p3l_image *image = p3l_image_of(transaction, number);
  if (image != NULL && image->private_copy != NULL) {
    *page = image->private_copy;
  } else if (image != NULL && image->committed != NULL) {
    *page = image->committed; /* a checkpoint would drop it, but waits for us */
  } else {
    *page = &transaction->seen;
    return p3l_committed_read(transaction, number, &transaction->seen, error);
  }
  return P3L_OK;
}

uint64_t p3l_transaction_page_count(p3l_pager_transaction *transaction) {
  p3l_page *zero = p3l_page_private(transaction, (p3l_page_number){0});
  return zero == NULL ? transaction->pager->page_count : p3l_header_of(zero)->page_count;
}
