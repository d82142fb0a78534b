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

/* The page whole, or all of it that is not zero. */
static p3l_code log_image(p3l_pager *pager, const p3l_image *image, p3l_error *error) {
  p3l_frames *frames = &pager->frames;
  p3l_page_number number = {image->number};
  size_t before = p3l_frames_length(frames);
  p3l_code code = P3L_OK;
  bool added = false;
  if (pager->log.version > 1 && p3l_delta_is_worth(image->private_copy))
    code = p3l_frames_add_changes(frames, &pager->log, number, image->private_copy, NULL, 0, &added,
                                  error);
  if (code == P3L_OK && !added)
    code = p3l_frames_add(frames, &pager->log, P3L_FRAME_IMAGE,
                          (p3l_address){number.n * P3L_PAGE_SIZE}, image->private_copy,
                          P3L_PAGE_SIZE, error);
  if (code != P3L_OK) return code;
  if (image->logged) return P3L_OK;
  size_t bytes = p3l_frames_length(frames) - before;
  frames->images++;
  frames->image_bytes += bytes;
  if (number.n < pager->checkpoint_pages) frames->old_image_bytes += bytes;
  return P3L_OK;
}

/* The bytes that changed since the page's last commit; the whole page if that is shorter, or if the log
 * does not have the page yet. */
static p3l_code log_page(p3l_pager *pager, const p3l_image *image, p3l_error *error) {
  bool added = false;
  if (image->logged && pager->log.version > 1) {
    p3l_code code = p3l_frames_add_changes(&pager->frames, &pager->log,
                                           (p3l_page_number){image->number}, image->private_copy,
                                           image->committed, image->changed, &added, error);
    if (code != P3L_OK || added) return code;
  }
  return log_image(pager, image, error);
}

uint64_t p3l_pager_bytes_logged(p3l_pager *pager) {
  pthread_mutex_lock(&pager->sync);
  uint64_t bytes = pager->bytes_logged;
  pthread_mutex_unlock(&pager->sync);
  return bytes;
}

/* Makes frames of the pages that the log has (`logged`), or of the others. */
static p3l_code make_page_frames(p3l_pager_transaction *transaction, bool logged,
                                 p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  for (p3l_image *image = transaction->pages; image != NULL; image = image->next) {
    if (image->early || image->logged != logged) continue;
    /* The committed image of a logged page is in memory: both are kept until the checkpoint. */
    if (logged) leave_out_unchanged(image);
    if (image->changed == 0) continue;
    p3l_code code = p3l_log_disturb(&pager->log, error);
    if (code == P3L_OK) code = log_page(pager, image, error);
    if (code != P3L_OK) return code;
  }
  return P3L_OK;
}

/* Makes the frames of a transaction, its commit frame last; none if it changed nothing. */
static p3l_code make_frames(p3l_pager_transaction *transaction, p3l_error *error) {
  p3l_pager *pager = transaction->pager;
  pthread_mutex_lock(&pager->sync);
  pager->log.durable = pager->durable;
  pthread_mutex_unlock(&pager->sync);
  /* Whole pages first: changes that follow one another are one frame. */
  p3l_code code = make_page_frames(transaction, false, error);
  if (code == P3L_OK) code = make_page_frames(transaction, true, error);
  if (code != P3L_OK) return code;
  return p3l_frames_length(&pager->frames) == 0
             ? P3L_OK
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
  pager->images_logged += pager->frames.images;
  pager->image_bytes_logged += pager->frames.image_bytes;
  pager->old_image_bytes_logged += pager->frames.old_image_bytes;
  pthread_mutex_unlock(&pager->sync);
  p3l_images_publish(transaction);
  p3l_old_pages_trim(pager, false);
  pthread_mutex_unlock(&pager->writer);
  return P3L_OK;
}

/* A log this many times its intended length, or images of so much memory, make a commit wait for the
 * writer. */
enum { PATIENCE = 4 };

/*
 * Whether the log is to be emptied: it is longer than `checkpoint_bytes`; and, if the program did not say how
 * long it may get, what is in it of old pages' images has paid, which each checkpoint makes necessary
 * again: the frames of what changed in them after that are as long as PAID times the images. So where the
 * same pages change repeatedly, the log is at most 1 + PAID times as long as their images; where new
 * ones are made, it is as long as ever. Or the images, of which the log may have little, take more memory
 * than they may. True if the limits are exceeded by the factor `times`.
 */
enum { PAID = 2 };

static bool is_long(p3l_pager *pager, uint64_t times) {
  pthread_mutex_lock(&pager->sync);
  uint64_t length = pager->appended.byte - pager->emptied.byte;
  uint64_t memory = pager->images_logged * P3L_PAGE_SIZE, images = pager->image_bytes_logged,
           old_images = pager->old_image_bytes_logged;
  pthread_mutex_unlock(&pager->sync);
  if (memory / times > pager->image_bytes && memory / times > pager->checkpoint_bytes) return true;
  if (length / times <= pager->checkpoint_bytes) return false;
  return memory >= pager->image_bytes || length - images >= PAID * old_images;
}

/* A checkpoint that fails for lack of space is repeated by the next commit; the present one is
 * committed. */
static void shorten_log(p3l_pager *pager) {
  bool now = is_long(pager, 1);
  if (!now && !p3l_checkpoint_may_begin(pager)) return;
  if (pthread_mutex_trylock(&pager->writer) != 0) {
    if (!now || !is_long(pager, PATIENCE)) return;
    pthread_mutex_lock(&pager->writer);
  }
  /* Unless another thread has made it meanwhile. */
  if (!is_long(pager, 1))
    p3l_checkpoint_begin(pager);
  else if (!p3l_checkpoint_put_off(pager))
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
