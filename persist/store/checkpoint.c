/*
 * Checkpoint: writes the images of committed pages to the file and resets the log. pager.h has the
 * invariants.
 *
 *   log durable ──> old pages kept ──> images written ──> file synced ──> log reset ──> images forgotten
 *                   (for readers of        │ fails: nothing lost         │ the disk refuses to say:
 *                    other processes)      └──> as before                └──> p3l_pager_break
 */
#include "checkpoint.h"

#include <stdlib.h>

#include "durable.h"
#include "images.h"
#include "mapping.h"
#include "old_pages.h"

static p3l_file_offset place_of(p3l_page_number number) {
  return (p3l_file_offset){number.n * P3L_PAGE_SIZE};
}

/* Adjacent pages are written with one call. */
#define WRITE_PAGES 64

static int by_number(const void *a, const void *b) {
  uint64_t left = (*(p3l_image *const *)a)->number, right = (*(p3l_image *const *)b)->number;
  return left < right ? -1 : left > right;
}

void p3l_images_sort(p3l_image **images, size_t count) {
  qsort(images, count, sizeof(*images), by_number);
}

p3l_code p3l_images_write(p3l_pager *pager, p3l_image **images, size_t count, p3l_error *error) {
  p3l_page *buffer = malloc(sizeof(*buffer) * WRITE_PAGES);
  if (buffer == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory for a checkpoint", pager->path);
  p3l_code code = P3L_OK;
  for (size_t at = 0; at < count && code == P3L_OK;) {
    size_t run = 0;
    do {
      /* Copies the image, because sealing changes it while readers read it. */
      buffer[run] = *images[at + run]->committed;
      p3l_page_seal(&buffer[run], pager->log.end);
      run++;
    } while (run < WRITE_PAGES && at + run < count &&
             images[at + run]->number == images[at]->number + run);
    p3l_page_number first = {images[at]->number};
    int failed = pager->file->write(pager->file, buffer, sizeof(*buffer) * run, place_of(first));
    if (failed != 0)
      code = p3l_fail_errno(error, failed, "%s: writing %zu pages from page %llu on", pager->path,
                            run, (unsigned long long)first.n);
    at += run;
  }
  free(buffer);
  return code;
}

p3l_code p3l_pager_break(p3l_pager *pager, p3l_error *error) {
  pthread_mutex_lock(&pager->sync);
  pager->broken = true;
  pthread_mutex_unlock(&pager->sync);
  return p3l_pager_usable(pager, error);
}

/* If the file now has pages beyond the mapping, or can be mapped for the first time, the next
 * transaction maps it again. */
static void remap_if_longer(p3l_pager *pager) {
  if (pager->mapping != NULL && p3l_mapping_pages(pager->mapping) >= pager->page_count) return;
  p3l_mapping_close(pager->mapping);
  pager->mapping = NULL;
  pager->unmapped = false;
}

p3l_code p3l_checkpoint_locked(p3l_pager *pager, bool last, p3l_error *error) {
  /* The log is synced before the pages: a page must never be newer than the log. */
  p3l_code code = p3l_log_make_durable(pager, pager->log.end, error);
  bool empty = pager->log.end.byte == pager->log.start.byte;
  if (code != P3L_OK || (empty && (!last || pager->log.clean))) return code;

  size_t count = 0;
  p3l_image **images = malloc(sizeof(*images) * (HASH_COUNT(pager->images) + 1));
  if (images == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory for a checkpoint", pager->path);
  for (p3l_image *image = pager->images; image != NULL; image = image->hh.next)
    if (image->committed != NULL) images[count++] = image;
  p3l_images_sort(images, count);
  code = p3l_old_pages_save(pager, images, count, pager->log.end, error);
  if (code == P3L_OK) code = p3l_images_write(pager, images, count, error);
  free(images);
  if (code != P3L_OK) return code;
  if (count > 0 && pager->file->sync(pager->file) != 0) return p3l_pager_break(pager, error);

  code = p3l_log_reset(&pager->log, last, error);
  if (code == P3L_BROKEN) return p3l_pager_break(pager, error);
  if (code != P3L_OK) return code;
  pthread_mutex_lock(&pager->sync);
  pager->appended = pager->durable = pager->emptied = pager->log.end;
  pager->images_logged = pager->old_images_logged = 0;
  pthread_mutex_unlock(&pager->sync);
  p3l_images_forget(pager);
  pager->checkpoint_pages = pager->page_count;
  remap_if_longer(pager);
  return P3L_OK;
}

p3l_code p3l_pager_checkpoint(p3l_pager *pager, p3l_error *error) {
  if (pager->read_only)
    return p3l_fail(error, P3L_READ_ONLY, "%s is open for reading only", pager->path);
  p3l_code code = p3l_pager_inherited(pager, error);
  if (code != P3L_OK) return code;
  pthread_mutex_lock(&pager->writer);
  code = pager->loading
             ? p3l_fail(error, P3L_MISUSE,
                        "%s is being loaded: end that first, which makes it durable", pager->path)
             : p3l_checkpoint_locked(pager, false, error);
  pthread_mutex_unlock(&pager->writer);
  return code;
}
