/*
 * Writing: private copies of pages, commit, group commit. pager.h has the invariants.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "images.h"

p3l_code p3l_pager_usable(p3l_pager *pager, p3l_error *error) {
  pthread_mutex_lock(&pager->sync);
  bool broken = pager->broken;
  pthread_mutex_unlock(&pager->sync);
  if (!broken) return P3L_OK;
  return p3l_fail(error, P3L_BROKEN,
                  "%s: the disk failed to sync; nothing more is written. Mend the disk, then open "
                  "the store again",
                  pager->path);
}

p3l_code p3l_pager_begin(p3l_pager *pager, p3l_pager_transaction **transaction, p3l_error *error) {
  if (pager->read_only)
    return p3l_fail(error, P3L_READ_ONLY, "%s is open for reading only", pager->path);
  pthread_mutex_lock(&pager->writer);
  p3l_code code = p3l_pager_usable(pager, error);
  if (code != P3L_OK) {
    pthread_mutex_unlock(&pager->writer);
    return code;
  }
  *transaction = &pager->transaction;
  return P3L_OK;
}

p3l_code p3l_page_for_writing(p3l_pager_transaction *transaction, p3l_page_number number,
                              p3l_page **page, p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  p3l_image *image = p3l_image_find(pager, number);
  if (image != NULL && image->private_copy != NULL) {
    *page = image->private_copy;
    return P3L_OK;
  }
  p3l_page *copy = malloc(sizeof(*copy));
  p3l_code code = copy == NULL ? P3L_NO_MEMORY : p3l_pager_read(pager, number, copy, error);
  if (code == P3L_OK) {
    image = p3l_image_add(pager, number);
    if (image == NULL) code = P3L_NO_MEMORY;
  }
  if (code != P3L_OK) {
    free(copy);
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

/* A page that did not exist: nothing to read. */
static p3l_code new_page(p3l_pager_transaction *transaction, p3l_page_number number,
                         p3l_page **page, p3l_error *error) {
  p3l_image *image = p3l_image_add(transaction->pager, number);
  if (image != NULL && image->private_copy == NULL) {
    image->private_copy = malloc(sizeof(p3l_page));
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
  p3l_image *image = p3l_image_find(transaction->pager, (p3l_page_number){page->number});
  if (length == 0 || image == NULL || image->private_copy != page) return;
  uint32_t first = offset / P3L_UNIT, last = (offset + length - 1) / P3L_UNIT;
  image->changed |= (~UINT64_C(0) << first) & (~UINT64_C(0) >> (63 - last));
}

p3l_code p3l_page_allocate(p3l_pager_transaction *transaction, p3l_page_number *number,
                           p3l_page **page, p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  p3l_page *zero;
  p3l_code code = p3l_page_for_writing(transaction, (p3l_page_number){0}, &zero, error);
  if (code != P3L_OK) return code;
  p3l_header *header = p3l_header_of(zero);

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
  } else {
    *number = (p3l_page_number){header->page_count};
    code = new_page(transaction, *number, page, error);
    if (code != P3L_OK) return code;
    header->page_count++;
  }
  p3l_page_changed(transaction, zero, offsetof(p3l_page, payload), sizeof(*header));
  p3l_page_init(*page, P3L_PAGE_DATA, *number);
  p3l_page_changed(transaction, *page, 0, P3L_PAGE_SIZE);
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
  /* What was there is no longer needed, but logging it as zeros would cost a page of log. */
  page->kind = P3L_PAGE_FREE;
  page->next = header->first_free;
  p3l_page_changed(transaction, page, 0, offsetof(p3l_page, payload));
  header->first_free = number.n;
  header->free_count++;
  p3l_page_changed(transaction, zero, offsetof(p3l_page, payload), sizeof(*header));
  return P3L_OK;
}

/* ---- commit ---- */

/* One frame for each run of changed units, or one for the page. */
static p3l_code log_page(p3l_pager *pager, const p3l_image *image, p3l_error *error) {
  const uint8_t *bytes = (const uint8_t *)image->private_copy;
  p3l_address address = {image->number * P3L_PAGE_SIZE};
  if (!image->logged)
    return p3l_frames_add(&pager->frames, &pager->log, P3L_FRAME_IMAGE, address, bytes,
                          P3L_PAGE_SIZE, error);
  uint64_t left = image->changed;
  p3l_code code = P3L_OK;
  while (left != 0 && code == P3L_OK) {
    unsigned first = (unsigned)__builtin_ctzll(left);
    uint64_t from_first = left >> first;
    unsigned run = from_first == ~UINT64_C(0) ? 64 : (unsigned)__builtin_ctzll(~from_first);
    code = p3l_frames_add(&pager->frames, &pager->log, P3L_FRAME_RANGE,
                          (p3l_address){address.byte + first * P3L_UNIT}, bytes + first * P3L_UNIT,
                          run * P3L_UNIT, error);
    left &= first + run == 64 ? 0 : ~UINT64_C(0) << (first + run);
  }
  return code;
}

p3l_code p3l_log_make_durable(p3l_pager *pager, p3l_lsn position, p3l_error *error) {
  pthread_mutex_lock(&pager->sync);
  while (pager->durable.byte < position.byte && !pager->broken) {
    if (pager->syncing) {
      pthread_cond_wait(&pager->synced, &pager->sync);
      continue;
    }
    pager->syncing = true;
    p3l_lsn reached = pager->appended;
    pthread_mutex_unlock(&pager->sync);
    int failed = pager->log.device->sync(pager->log.device);
    pthread_mutex_lock(&pager->sync);
    pager->syncing = false;
    if (failed != 0)
      pager->broken = true;
    else
      pager->durable = reached;
    pthread_cond_broadcast(&pager->synced);
  }
  pthread_mutex_unlock(&pager->sync);
  return p3l_pager_usable(pager, error);
}

p3l_code p3l_pager_commit(p3l_pager_transaction *transaction, p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  p3l_code code = P3L_OK;
  bool changed = false;

  pthread_mutex_lock(&pager->sync);
  pager->log.durable = pager->durable;
  pthread_mutex_unlock(&pager->sync);
  p3l_frames_clear(&pager->frames);
  for (p3l_image *image = transaction->pages; image != NULL && code == P3L_OK;
       image = image->next) {
    if (image->changed == 0) continue;
    changed = true;
    code = log_page(pager, image, error);
  }
  if (code == P3L_OK && changed) code = p3l_frames_add_commit(&pager->frames, &pager->log, error);
  if (code == P3L_OK && changed) code = p3l_log_append(&pager->log, &pager->frames, error);
  if (code != P3L_OK || !changed) {
    p3l_pager_abort(transaction);
    return code;
  }

  p3l_lsn mine = pager->log.end;
  bool long_log = mine.byte - pager->log.start.byte > pager->checkpoint_bytes;
  pthread_mutex_lock(&pager->sync);
  pager->appended = mine;
  pthread_mutex_unlock(&pager->sync);
  p3l_images_publish(transaction);
  pthread_mutex_unlock(&pager->writer);

  code = p3l_log_make_durable(pager, mine, error);
  /* A checkpoint that fails for want of space is tried again by the next commit; this one has
   * committed. */
  if (code == P3L_OK && long_log) p3l_pager_checkpoint(pager, NULL);
  return code;
}

void p3l_pager_abort(p3l_pager_transaction *transaction) {
  p3l_pager *pager = transaction->pager;
  p3l_images_discard(transaction);
  pthread_mutex_unlock(&pager->writer);
}
