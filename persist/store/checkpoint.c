/*
 * Checkpoint: writes the images of committed pages to the file and resets the log. pager.h has the
 * invariants.
 *
 *   log durable ──> old pages kept ──> images written ──> file synced ──> log reset ──> images forgotten
 *                   (for readers of        │ fails: nothing lost         │ the disk refuses to say:
 *                    other processes)      └──> as before                └──> p3l_pager_break
 *
 * Before it, by commits: resting images written (p3l_checkpoint_begin), then, while many are left, others
 * (p3l_checkpoint_put_off).
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

enum {
  /* Adjacent pages are written with one call. */
  WRITE_PAGES = 64,
  /* After this number of pages the disk starts to write them. */
  START_PAGES = 256
};

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
  for (size_t at = 0, started = 0; at < count && code == P3L_OK;) {
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
    if (code != P3L_OK || (at < count && at - started < START_PAGES)) continue;
    if (pager->file->start != NULL)
      pager->file->start(pager->file, place_of((p3l_page_number){images[started]->number}),
                         (images[at - 1]->number + 1 - images[started]->number) * P3L_PAGE_SIZE);
    started = at;
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
    if (image->committed != NULL && !image->in_file) images[count++] = image;
  p3l_images_sort(images, count);
  code = p3l_old_pages_save(pager, images, count, pager->log.end, error);
  if (code == P3L_OK) code = p3l_images_write(pager, images, count, error);
  free(images);
  if (code != P3L_OK) return code;
  if (pager->images != NULL && pager->file->sync(pager->file) != 0)
    return p3l_pager_break(pager, error);

  code = p3l_log_reset(&pager->log, last, error);
  if (code == P3L_BROKEN) return p3l_pager_break(pager, error);
  if (code != P3L_OK) return code;
  pthread_mutex_lock(&pager->sync);
  pager->appended = pager->durable = pager->emptied = pager->begin_next = pager->log.end;
  pager->images_logged = pager->image_bytes_logged = pager->old_image_bytes_logged = 0;
  pthread_mutex_unlock(&pager->sync);
  p3l_images_forget(pager);
  pager->put_off.times = 0;
  pager->checkpoint_pages = pager->page_count;
  remap_if_longer(pager);
  return P3L_OK;
}

/* ---- the beginning ---- */

enum {
  /* An image rests if the log got longer than this part of `checkpoint_bytes` since its last change. */
  REST_PART = 16,
  /* It begins this often in that time. */
  BEGINS = 4,
  /* Pages written at a time. */
  BEGIN_PAGES = 256
};

bool p3l_checkpoint_may_begin(p3l_pager *pager) {
  pthread_mutex_lock(&pager->sync);
  bool may = pager->appended.byte >= pager->begin_next.byte;
  pthread_mutex_unlock(&pager->sync);
  return may;
}

/* Finds images that rest and that the file does not have, beginning after the last one that was seen.
 * Those that change often are passed over, and are left to the checkpoint. */
static size_t resting(p3l_pager *pager, p3l_image **images) {
  uint64_t rest = pager->checkpoint_bytes / REST_PART, end = pager->log.end.byte;
  size_t count = 0;
  p3l_image *image = pager->begun == NULL ? pager->images : pager->begun->hh.next;
  while (image != NULL && count < BEGIN_PAGES && end - image->first.byte >= rest) {
    if (!image->in_file && end - image->last.byte >= rest) images[count++] = image;
    pager->begun = image;
    image = image->hh.next;
  }
  return count;
}

/* The file has them from now on, but not yet on stable storage. */
static bool write_some(p3l_pager *pager, p3l_image **images, size_t count) {
  p3l_images_sort(images, count);
  if (count == 0 || p3l_images_write(pager, images, count, NULL) != P3L_OK) return false;
  for (size_t at = 0; at < count; at++) images[at]->in_file = true;
  pager->unwritten -= count;
  return true;
}

void p3l_checkpoint_begin(p3l_pager *pager) {
  pthread_mutex_lock(&pager->sync);
  bool durable = pager->durable.byte >= pager->log.end.byte && !pager->broken;
  pager->begin_next.byte = pager->log.end.byte + pager->checkpoint_bytes / REST_PART / BEGINS;
  pthread_mutex_unlock(&pager->sync);
  if (!durable || pager->loading || p3l_old_pages_needed(pager)) return;
  p3l_image *images[BEGIN_PAGES];
  write_some(pager, images, resting(pager, images));
}

/* ---- putting off ---- */

enum {
  /* With fewer pages to write the checkpoint is made. */
  FEW_PAGES = 1024,
  /* Pages that a commit writes that puts it off, and images that it examines. */
  SLICE_PAGES = 512,
  SLICE_IMAGES = 16384,
  /* It is put off as long as each time there are that many fewer, those that commits change again
   * included, and until the log got longer by this part of `checkpoint_bytes`. */
  PROGRESS_PAGES = 128,
  PUT_OFF_PART = 4
};

/* Finds images that the file does not have, whenever they changed, beginning after the last one that was
 * seen; from the first one on again after the last. */
static size_t unwritten(p3l_pager *pager, p3l_image **images) {
  size_t count = 0, all = HASH_COUNT(pager->images);
  for (size_t seen = 0; seen < SLICE_IMAGES && seen < all && count < SLICE_PAGES; seen++) {
    p3l_image *image = pager->begun == NULL ? NULL : pager->begun->hh.next;
    if (image == NULL) image = pager->images;
    if (image->committed != NULL && !image->in_file) images[count++] = image;
    pager->begun = image;
  }
  return count;
}

bool p3l_checkpoint_put_off(p3l_pager *pager) {
  if (pager->loading || pager->unwritten <= FEW_PAGES || p3l_old_pages_needed(pager)) return false;
  if (pager->put_off.times == 0)
    pager->put_off = (p3l_put_off){.since = pager->log.end, .unwritten = pager->unwritten};
  const p3l_put_off *off = &pager->put_off;
  if (pager->log.end.byte - off->since.byte > pager->checkpoint_bytes / PUT_OFF_PART ||
      pager->unwritten + off->times * PROGRESS_PAGES > off->unwritten)
    return false;
  pager->put_off.times++;
  if (p3l_log_make_durable(pager, pager->log.end, NULL) != P3L_OK) return false;
  p3l_image *images[SLICE_PAGES];
  return write_some(pager, images, unwritten(pager, images));
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
