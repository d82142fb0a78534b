/*
 * Loading without a log. load.h has the invariants.
 */
#include "load.h"

#include <stdlib.h>

#include "checkpoint.h"
#include "durable.h"
#include "images.h"

static p3l_code no_memory(const p3l_pager *pager, p3l_error *error) {
  return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to load it", pager->path);
}

/* Committed images in order: those of pages added since loading began (`fresh`), or those of
 * earlier pages. The caller frees the list. */
static p3l_image **images_of(p3l_pager *pager, bool fresh, size_t *count) {
  p3l_image **images = malloc(sizeof(*images) * (HASH_COUNT(pager->images) + 1));
  *count = 0;
  if (images == NULL) return NULL;
  for (p3l_image *image = pager->images; image != NULL; image = image->hh.next)
    if (image->committed != NULL && image->private_copy == NULL &&
        (image->number >= pager->load_pages) == fresh)
      images[(*count)++] = image;
  p3l_images_sort(images, *count);
  return images;
}

/* Writes pages added since loading began to the file, and frees their memory. */
static p3l_code write_fresh(p3l_pager *pager, p3l_error *error) {
  size_t count;
  p3l_image **images = images_of(pager, true, &count);
  if (images == NULL) return no_memory(pager, error);
  p3l_code code = p3l_images_write(pager, images, count, error);
  if (code == P3L_OK) p3l_images_drop(pager, images, count);
  free(images);
  pager->load_next = HASH_COUNT(pager->images) + pager->load_most;
  return code;
}

p3l_code p3l_load_append(p3l_pager_transaction *transaction, p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  p3l_code code = P3L_OK;
  if (HASH_COUNT(pager->images) > pager->load_next) code = write_fresh(pager, error);
  if (code != P3L_OK) {
    p3l_pager_abort(transaction);
    return code;
  }
  p3l_images_publish(transaction);
  pthread_mutex_unlock(&pager->writer);
  return P3L_OK;
}

/* Logs the changed earlier pages as one transaction. */
static p3l_code append_changed(p3l_pager *pager, p3l_error *error) {
  size_t count;
  p3l_image **images = images_of(pager, false, &count);
  if (images == NULL) return no_memory(pager, error);
  p3l_frames_clear(&pager->frames);
  pager->log.durable = pager->durable;
  p3l_code code = count == 0 ? P3L_OK : p3l_log_disturb(&pager->log, error);
  for (size_t at = 0; at < count && code == P3L_OK; at++)
    code = p3l_frames_add(&pager->frames, &pager->log, P3L_FRAME_IMAGE,
                          (p3l_address){images[at]->number * P3L_PAGE_SIZE}, images[at]->committed,
                          P3L_PAGE_SIZE, error);
  if (code == P3L_OK && count > 0) code = p3l_frames_add_commit(&pager->frames, &pager->log, error);
  size_t length = pager->frames.length;
  if (code == P3L_OK && count > 0) code = p3l_log_append(&pager->log, &pager->frames, error);
  free(images);
  if (code != P3L_OK) return code;
  pthread_mutex_lock(&pager->sync);
  pager->appended = pager->log.end;
  pager->bytes_logged += length;
  pthread_mutex_unlock(&pager->sync);
  return P3L_OK;
}

p3l_code p3l_load_finish(p3l_pager *pager, p3l_error *error) {
  p3l_code code = p3l_pager_usable(pager, error);
  if (code == P3L_OK) code = write_fresh(pager, error);
  if (code == P3L_OK && pager->file->sync(pager->file) != 0) return p3l_pager_break(pager, error);
  if (code == P3L_OK) code = append_changed(pager, error);
  if (code != P3L_OK) return code;
  pager->loading = false;
  code = p3l_log_make_durable(pager, pager->log.end, error);
  /* A checkpoint that fails for lack of space is repeated by the next commit; the load is
   * already durable. */
  if (code == P3L_OK) p3l_checkpoint_locked(pager, false, NULL);
  return code;
}

p3l_code p3l_pager_load_begin(p3l_pager *pager, uint64_t memory_bytes, p3l_error *error) {
  if (pager->read_only)
    return p3l_fail(error, P3L_READ_ONLY, "%s is open for reading only", pager->path);
  p3l_code code = p3l_pager_inherited(pager, error);
  if (code != P3L_OK) return code;
  pthread_mutex_lock(&pager->writer);
  if (pager->loading) code = p3l_fail(error, P3L_MISUSE, "%s is being loaded already", pager->path);
  if (code == P3L_OK) code = p3l_pager_usable(pager, error);
  if (code == P3L_OK) code = p3l_checkpoint_locked(pager, false, error);
  if (code == P3L_OK) {
    pager->loading = true;
    pager->load_pages = pager->page_count;
    pager->load_next = pager->load_most = (size_t)(memory_bytes / P3L_PAGE_SIZE);
  }
  pthread_mutex_unlock(&pager->writer);
  return code;
}

p3l_code p3l_pager_load_end(p3l_pager *pager, p3l_error *error) {
  p3l_code code = p3l_pager_inherited(pager, error);
  if (code != P3L_OK) return code;
  pthread_mutex_lock(&pager->writer);
  code = pager->loading ? p3l_load_finish(pager, error)
                        : p3l_fail(error, P3L_MISUSE,
                                   "%s is not being loaded: there is nothing to end", pager->path);
  pthread_mutex_unlock(&pager->writer);
  return code;
}
