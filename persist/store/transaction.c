/* Writes: private copies of pages, and the page count. pager.h has the invariants. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "durable.h"
#include "images.h"

p3l_code p3l_pager_begin(p3l_pager *pager, p3l_pager_transaction **transaction, p3l_error *error) {
  if (pager->read_only)
    return p3l_fail(error, P3L_READ_ONLY, "%s is open for reading only", pager->path);
  p3l_code code = p3l_pager_inherited(pager, error);
  if (code != P3L_OK) return code;
  pthread_mutex_lock(&pager->writer);
  code = p3l_pager_usable(pager, error);
  if (code != P3L_OK) {
    pthread_mutex_unlock(&pager->writer);
    return code;
  }
  p3l_frames_clear(&pager->frames);
  pager->transaction.marked = NULL;
  *transaction = &pager->transaction;
  return P3L_OK;
}

p3l_code p3l_page_for_writing(p3l_pager_transaction *transaction, p3l_page_number number,
                              p3l_page **page, p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  p3l_image *image = p3l_image_of(transaction, number);
  if (image != NULL && image->private_copy != NULL) {
    *page = image->private_copy;
    return P3L_OK;
  }
  p3l_page *copy = p3l_buffer_take(&pager->buffers);
  p3l_code code = copy == NULL ? P3L_NO_MEMORY : P3L_OK;
  if (code == P3L_OK && image != NULL && image->committed != NULL)
    *copy = *image->committed; /* only this thread changes it */
  else if (code == P3L_OK)
    code = p3l_committed_read(transaction, number, copy, error);
  if (code == P3L_OK && image == NULL) {
    image = p3l_image_add(pager, number);
    if (image == NULL) code = P3L_NO_MEMORY;
  }
  if (code != P3L_OK) {
    p3l_buffer_give(&pager->buffers, copy);
    if (code == P3L_NO_MEMORY)
      p3l_fail(error, code, "%s: no memory for a copy of page %llu", pager->path,
               (unsigned long long)number.n);
    return code;
  }
  image->private_copy = copy;
  image->next = transaction->pages;
  transaction->pages = image;
  *page = copy;
  return P3L_OK;
}

/* The page did not exist before, so there is nothing to read. */
static p3l_code new_page(p3l_pager_transaction *transaction, p3l_page_number number,
                         p3l_page **page, p3l_error *error) {
  p3l_image *image = p3l_image_add(transaction->pager, number);
  if (image != NULL && image->private_copy == NULL) {
    image->private_copy = p3l_buffer_take(&transaction->pager->buffers);
    if (image->private_copy != NULL) {
      image->next = transaction->pages;
      transaction->pages = image;
    }
  }
  if (image == NULL || image->private_copy == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory for page %llu", transaction->pager->path,
                    (unsigned long long)number.n);
  *page = image->private_copy;
  return P3L_OK;
}

void p3l_page_changed(p3l_pager_transaction *transaction, p3l_page *page, uint32_t offset,
                      uint32_t length) {
  p3l_image *image = p3l_image_of(transaction, (p3l_page_number){page->number});
  if (length == 0 || image == NULL || image->private_copy != page) return;
  image->early = false;
  image->changed |= p3l_units(offset, length);
}

p3l_code p3l_page_allocate(p3l_pager_transaction *transaction, p3l_page_number *number,
                           p3l_page **page, p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  p3l_page *zero;
  p3l_code code = p3l_page_for_writing(transaction, (p3l_page_number){0}, &zero, error);
  if (code != P3L_OK) return code;
  p3l_header *header = p3l_header_of(zero);
  uint16_t generation = 0;

  if (header->first_free != 0) {
    *number = (p3l_page_number){header->first_free};
    code = p3l_page_for_writing(transaction, *number, page, error);
    if (code != P3L_OK) return code;
    if ((*page)->kind != P3L_PAGE_FREE || header->free_count == 0)
      return p3l_fail(error, P3L_CORRUPT,
                      "%s: page %llu is on the list of free pages and is not free", pager->path,
                      (unsigned long long)number->n);
    header->first_free = (*page)->next;
    header->free_count--;
    generation = (*page)->generation;
  } else {
    *number = (p3l_page_number){header->page_count};
    code = new_page(transaction, *number, page, error);
    if (code != P3L_OK) return code;
    header->page_count++;
  }
  p3l_page_changed(transaction, zero, offsetof(p3l_page, payload), sizeof(*header));
  p3l_page_init(*page, P3L_PAGE_DATA, *number);
  (*page)->generation = generation;
  p3l_page_changed(transaction, *page, 0, P3L_PAGE_SIZE);
  return P3L_OK;
}

/* True if the free list begins with `count` adjacent pages, ascending. */
static p3l_code run_is_free(p3l_pager_transaction *transaction, size_t count, p3l_page_number first,
                            bool *is_free, p3l_error *error) {
  *is_free = false;
  for (size_t i = 0; i < count; i++) {
    const p3l_page *page;
    p3l_page_number number = {first.n + i};
    if (first.n == 0 || number.n >= p3l_transaction_page_count(transaction)) return P3L_OK;
    p3l_code code = p3l_page_seen(transaction, number, &page, error);
    if (code != P3L_OK) return code;
    if (page->kind != P3L_PAGE_FREE || (i + 1 < count && page->next != number.n + 1)) return P3L_OK;
  }
  *is_free = true;
  return P3L_OK;
}

p3l_code p3l_page_allocate_run(p3l_pager_transaction *transaction, size_t count,
                               p3l_page_number *first, p3l_error *error) {
  p3l_page *zero, *page;
  bool is_free;
  p3l_code code = p3l_page_for_writing(transaction, (p3l_page_number){0}, &zero, error);
  if (code != P3L_OK) return code;
  p3l_header *header = p3l_header_of(zero);
  *first = (p3l_page_number){header->first_free};
  code = run_is_free(transaction, count, *first, &is_free, error);
  if (code != P3L_OK) return code;
  if (is_free && count > 0) {
    for (size_t i = 0; i < count && code == P3L_OK; i++) {
      p3l_page_number number;
      code = p3l_page_allocate(transaction, &number, &page, error);
    }
    return code;
  }
  *first = (p3l_page_number){header->page_count};
  for (size_t i = 0; i < count; i++) {
    p3l_page_number number = {first->n + i};
    code = new_page(transaction, number, &page, error);
    if (code != P3L_OK) return code;
    p3l_page_init(page, P3L_PAGE_DATA, number);
    p3l_page_changed(transaction, page, 0, P3L_PAGE_SIZE);
    header->page_count++;
  }
  p3l_page_changed(transaction, zero, offsetof(p3l_page, payload), sizeof(*header));
  return P3L_OK;
}

p3l_code p3l_page_release(p3l_pager_transaction *transaction, p3l_page_number number,
                          p3l_error *error) {
  p3l_page *zero, *page;
  p3l_code code = p3l_page_for_writing(transaction, (p3l_page_number){0}, &zero, error);
  if (code == P3L_OK) code = p3l_page_for_writing(transaction, number, &page, error);
  if (code != P3L_OK) return code;
  if (page->kind != P3L_PAGE_DATA)
    return p3l_fail(error, P3L_MISUSE, "%s: page %llu is not a data page and cannot be released",
                    transaction->pager->path, (unsigned long long)number.n);
  p3l_header *header = p3l_header_of(zero);
  /* The old contents are no longer needed, but logging zeros would cost a page of log. */
  page->kind = P3L_PAGE_FREE;
  page->next = header->first_free;
  p3l_page_changed(transaction, page, 0, offsetof(p3l_page, payload));
  header->first_free = number.n;
  header->free_count++;
  p3l_page_changed(transaction, zero, offsetof(p3l_page, payload), sizeof(*header));
  return P3L_OK;
}

p3l_code p3l_format_raise(p3l_pager_transaction *transaction, p3l_error *error) {
  const p3l_page *seen;
  p3l_page *zero;
  p3l_code code = p3l_page_seen(transaction, (p3l_page_number){0}, &seen, error);
  if (code != P3L_OK || ((const p3l_header *)seen->payload)->version >= P3L_FORMAT_VERSION)
    return code;
  code = p3l_page_for_writing(transaction, (p3l_page_number){0}, &zero, error);
  if (code != P3L_OK) return code;
  p3l_header_of(zero)->version = P3L_FORMAT_VERSION;
  p3l_page_changed(transaction, zero, offsetof(p3l_page, payload), sizeof(p3l_header));
  return P3L_OK;
}

void p3l_pager_abort(p3l_pager_transaction *transaction) {
  p3l_pager *pager = transaction->pager;
  p3l_images_discard(transaction);
  pthread_mutex_unlock(&pager->writer);
}
