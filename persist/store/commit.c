/* Commit: appends frames to the log; one sync serves many commits. pager.h has the invariants. */
#include <string.h>

#include "checkpoint.h"
#include "durable.h"
#include "images.h"
#include "load.h"
#include "old_pages.h"

/* Removes from `changed` the reported units that equal their committed state: the object layer
 * reports whole pages. */
static void leave_out_unchanged(p3l_image *image) {
  const uint8_t *now = (const uint8_t *)image->private_copy;
  const uint8_t *before = (const uint8_t *)image->committed;
  for (uint64_t left = image->changed; left != 0; left &= left - 1) {
    unsigned unit = (unsigned)__builtin_ctzll(left);
    if (memcmp(now + unit * P3L_UNIT, before + unit * P3L_UNIT, P3L_UNIT) == 0)
      image->changed &= ~(UINT64_C(1) << unit);
  }
}

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

uint64_t p3l_pager_bytes_logged(p3l_pager *pager) {
  pthread_mutex_lock(&pager->sync);
  uint64_t bytes = pager->bytes_logged;
  pthread_mutex_unlock(&pager->sync);
  return bytes;
}

/* Makes the frames of a transaction, its commit frame last; none if it changed nothing. */
static p3l_code make_frames(p3l_pager_transaction *transaction, p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  pthread_mutex_lock(&pager->sync);
  pager->log.durable = pager->durable;
  pthread_mutex_unlock(&pager->sync);
  for (p3l_image *image = transaction->pages; image != NULL; image = image->next) {
    if (image->early) continue;
    /* The committed image of a logged page is in memory: both are kept until the checkpoint. */
    if (image->logged) leave_out_unchanged(image);
    if (image->changed == 0) continue;
    p3l_code code = p3l_log_disturb(&pager->log, error);
    if (code == P3L_OK) code = log_page(pager, image, error);
    if (code != P3L_OK) return code;
  }
  return pager->frames.length == 0 ? P3L_OK
                                   : p3l_frames_add_commit(&pager->frames, &pager->log, error);
}

void p3l_pager_mark(p3l_pager_transaction *transaction) {
  transaction->marked = transaction->pages;
}

p3l_code p3l_pager_append_early(p3l_pager_transaction *transaction, size_t least,
                                p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  size_t count = 0;
  if (pager->loading) return P3L_OK;
  for (p3l_image *image = transaction->pages; image != transaction->marked; image = image->next)
    count += !image->logged && !image->early && image->changed != 0;
  if (count < least) return P3L_OK;
  p3l_code code = p3l_log_disturb(&pager->log, error);
  for (p3l_image *image = transaction->pages; image != transaction->marked && code == P3L_OK;
       image = image->next) {
    if (image->logged || image->early || image->changed == 0) continue;
    code = log_page(pager, image, error);
    image->early = code == P3L_OK;
  }
  return code == P3L_OK ? p3l_log_write_early(&pager->log, &pager->frames, error) : code;
}

p3l_code p3l_pager_append(p3l_pager_transaction *transaction, p3l_lsn *position, p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  *position = (p3l_lsn){0};
  p3l_code code = p3l_pager_inherited(pager, error);
  size_t length = 0;
  if (code == P3L_OK && pager->loading) return p3l_load_append(transaction, error);
  if (code == P3L_OK) {
    code = make_frames(transaction, error);
    length = pager->frames.length;
  }
  if (code == P3L_OK && length > 0) code = p3l_log_append(&pager->log, &pager->frames, error);
  if (code != P3L_OK || length == 0) {
    p3l_pager_abort(transaction);
    return code;
  }
  *position = pager->log.end;
  pthread_mutex_lock(&pager->sync);
  pager->appended = pager->log.end;
  pager->bytes_logged += length;
  pthread_mutex_unlock(&pager->sync);
  p3l_images_publish(transaction);
  p3l_old_pages_trim(pager, false);
  pthread_mutex_unlock(&pager->writer);
  return P3L_OK;
}

/* A log this many times its intended length makes a commit wait for the writer. */
enum { PATIENCE = 4 };

/* A checkpoint that fails for lack of space is repeated by the next commit; the current commit
 * succeeds. */
static void shorten_log(p3l_pager *pager) {
  pthread_mutex_lock(&pager->sync);
  uint64_t length = pager->appended.byte - pager->emptied.byte;
  pthread_mutex_unlock(&pager->sync);
  if (length <= pager->checkpoint_bytes) return;
  if (pthread_mutex_trylock(&pager->writer) != 0) {
    if (length / PATIENCE <= pager->checkpoint_bytes) return;
    pthread_mutex_lock(&pager->writer);
  }
  /* Another thread may have made the checkpoint in the meantime. */
  if (pager->log.end.byte - pager->log.start.byte > pager->checkpoint_bytes)
    p3l_checkpoint_locked(pager, false, NULL);
  pthread_mutex_unlock(&pager->writer);
}

p3l_code p3l_pager_wait(p3l_pager *pager, p3l_lsn position, p3l_error *error) {
  if (position.byte == 0) return P3L_OK; /* nothing was changed */
  p3l_code code = p3l_log_make_durable(pager, position, error);
  if (code == P3L_OK) shorten_log(pager);
  return code;
}

p3l_code p3l_pager_commit(p3l_pager_transaction *transaction, p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  p3l_lsn position;
  p3l_code code = p3l_pager_append(transaction, &position, error);
  return code == P3L_OK ? p3l_pager_wait(pager, position, error) : code;
}
