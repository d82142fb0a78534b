/* Redo: converts the frames of committed transactions to images. */
#include "recover.h"

#include <stdlib.h>
#include <string.h>

#include "images.h"

typedef struct recovering {
  p3l_pager *pager;
  p3l_redone *redone;
  size_t committed; /* number of entries of `redone` that are committed */
} recovering;

void p3l_redone_free(p3l_redone *redone) {
  free(redone->pages);
  *redone = (p3l_redone){0};
}

static bool note(p3l_redone *redone, uint64_t number) {
  if (redone->count == redone->capacity) {
    size_t capacity = redone->capacity == 0 ? 64 : 2 * redone->capacity;
    uint64_t *pages = realloc(redone->pages, capacity * sizeof(*pages));
    if (pages == NULL) return false;
    redone->pages = pages;
    redone->capacity = capacity;
  }
  redone->pages[redone->count++] = number;
  return true;
}

static p3l_code no_memory(const p3l_pager *pager, uint64_t number, p3l_error *error) {
  return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to recover page %llu", pager->path,
                  (unsigned long long)number);
}

/* The transaction's copy of the page, which exists from its first frame on. `whole`: the frame has all
 * of the page. */
static p3l_code join(recovering *recovering, p3l_page_number number, bool whole, p3l_image **joined,
                     p3l_error *error) {
  p3l_pager *pager = recovering->pager;
  p3l_pager_transaction *transaction = &pager->transaction;
  p3l_image *image = *joined = p3l_image_add(pager, number);
  if (image == NULL) return no_memory(pager, number.n, error);
  if (image->private_copy != NULL) return P3L_OK;
  if (image->committed == NULL && !whole)
    return p3l_fail(error, P3L_CORRUPT, "%s: the log changes page %llu and never had its image",
                    pager->log_path, (unsigned long long)number.n);
  image->private_copy = p3l_buffer_take(&pager->buffers);
  if (image->private_copy == NULL || !note(recovering->redone, number.n))
    return no_memory(pager, number.n, error);
  image->next = transaction->pages;
  transaction->pages = image;
  image->changed = ~UINT64_C(0); /* to be published as a whole */
  if (image->committed != NULL) *image->private_copy = *image->committed;
  return P3L_OK;
}

static p3l_code redo_changes(recovering *recovering, const p3l_frame *frame, const uint8_t *bytes,
                             p3l_error *error) {
  p3l_delta_reader reader = p3l_delta_read((p3l_address){frame->address}, bytes, frame->length);
  while (reader.at < reader.end) {
    p3l_image *image;
    bool right = p3l_delta_next(&reader);
    p3l_code code =
        right ? join(recovering, (p3l_page_number){reader.number}, reader.zeros, &image, error)
              : P3L_OK;
    if (code != P3L_OK) return code;
    if (right && reader.zeros) memset(image->private_copy, 0, P3L_PAGE_SIZE);
    if (!right || !p3l_delta_apply(&reader, image->private_copy))
      return p3l_fail(error, P3L_CORRUPT,
                      "%s: the frame at position %llu changes pages in a way that makes no sense; "
                      "restore store and log from a copy",
                      recovering->pager->log_path, (unsigned long long)frame->position);
  }
  return P3L_OK;
}

static p3l_code redo(void *state, const p3l_frame *frame, const uint8_t *bytes, p3l_error *error) {
  recovering *recovering = state;
  if (frame->kind == P3L_FRAME_COMMIT) {
    p3l_images_publish(&recovering->pager->transaction);
    recovering->redone->transactions++;
    recovering->committed = recovering->redone->count;
    return P3L_OK;
  }
  if (frame->kind == P3L_FRAME_CHANGES) return redo_changes(recovering, frame, bytes, error);
  p3l_image *image;
  p3l_page_number number = {frame->address / P3L_PAGE_SIZE};
  p3l_code code = join(recovering, number, frame->kind == P3L_FRAME_IMAGE, &image, error);
  if (code != P3L_OK) return code;
  memcpy((uint8_t *)image->private_copy + frame->address % P3L_PAGE_SIZE, bytes, frame->length);
  return P3L_OK;
}

p3l_code p3l_recover_frames(p3l_pager *pager, p3l_log_reading reading, p3l_redone *redone,
                            p3l_log_tail *tail, p3l_error *error) {
  recovering recovering = {pager, redone, redone->count};
  p3l_code code = p3l_log_scan(&pager->log, reading, redo, &recovering, tail, error);
  /* Leave out the pages of a transaction at the end without a commit: it changed nothing, and
   * some of its pages may not exist. */
  redone->count = recovering.committed;
  p3l_images_discard(&pager->transaction);
  return code;
}

/* Checks the pages named by the log after it was read completely, because only then page 0 has
 * the final page count. */
static p3l_code check_pages(p3l_pager *pager, const p3l_redone *redone, p3l_error *error) {
  for (size_t at = 0; at < redone->count; at++) {
    p3l_page_number number = {redone->pages[at]};
    const p3l_image *image = p3l_image_find(pager, number);
    if (image == NULL || image->committed == NULL) continue;
    const char *fault = number.n < pager->page_count ? p3l_page_head_fault(image->committed, number)
                                                     : "does not exist";
    if (fault != NULL)
      return p3l_fail(error, P3L_CORRUPT,
                      "%s: the log changes page %llu, which %s; restore store and log from a copy",
                      pager->log_path, (unsigned long long)number.n, fault);
  }
  /* If the count were too high, new pages would be written far beyond the end of the file. */
  return pager->read_only ? P3L_OK : p3l_pager_check_size(pager, error);
}

static p3l_code check_header(p3l_pager *pager, p3l_error *error) {
  p3l_page zero;
  pager->page_count = 1;
  p3l_code code = p3l_pager_read(pager, (p3l_page_number){0}, &zero, error);
  if (code != P3L_OK) return code;
  /* An image does not have a checksum yet; a page read from the file was already checked. */
  p3l_page_seal(&zero, (p3l_lsn){0});
  code = p3l_header_check(&zero, pager->path, error);
  pager->page_count = p3l_header_of(&zero)->page_count;
  return code;
}

p3l_code p3l_recover_check(p3l_pager *pager, const p3l_redone *redone, p3l_error *error) {
  p3l_code code = check_header(pager, error);
  return code == P3L_OK ? check_pages(pager, redone, error) : code;
}
