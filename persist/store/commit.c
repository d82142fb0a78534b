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

enum {
  WORDS = P3L_PAGE_SIZE / sizeof(uint64_t),
  UNIT_WORDS = P3L_UNIT / sizeof(uint64_t),
  /* Words that are the same, between two that are not, of which a frame of its own is no shorter. */
  GAP_WORDS = sizeof(p3l_frame) / sizeof(uint64_t)
};

static uint64_t word_at(const p3l_page *page, unsigned word) {
  uint64_t value;
  memcpy(&value, (const uint8_t *)page + word * sizeof(value), sizeof(value));
  return value;
}

/* The next word from `word` on that differs; WORDS: none does. */
static unsigned next_difference(const p3l_image *image, unsigned word) {
  while (word < WORDS) {
    uint64_t units = image->changed >> word / UNIT_WORDS;
    if (units == 0) return WORDS;
    unsigned skipped = (unsigned)__builtin_ctzll(units);
    if (skipped > 0)
      word = (word / UNIT_WORDS + skipped) * UNIT_WORDS;
    else if (word_at(image->private_copy, word) != word_at(image->committed, word))
      return word;
    else
      word++;
  }
  return WORDS;
}

/* One frame for each run of words that differ, or one for the page. */
static p3l_code log_page(p3l_pager *pager, const p3l_image *image, p3l_error *error) {
  p3l_address address = {image->number * P3L_PAGE_SIZE};
  if (!image->logged) {
    pager->frames.images += P3L_PAGE_SIZE;
    if (image->number < pager->checkpoint_pages) pager->frames.old_images += P3L_PAGE_SIZE;
    return p3l_frames_add(&pager->frames, &pager->log, P3L_FRAME_IMAGE, address,
                          image->private_copy, P3L_PAGE_SIZE, error);
  }
  p3l_code code = P3L_OK;
  unsigned first = next_difference(image, 0);
  while (first < WORDS && code == P3L_OK) {
    unsigned end = first + 1, next = next_difference(image, end);
    while (next < WORDS && next - end <= GAP_WORDS) {
      end = next + 1;
      next = next_difference(image, end);
    }
    uint32_t at = first * (uint32_t)sizeof(uint64_t);
    code =
        p3l_frames_add(&pager->frames, &pager->log, P3L_FRAME_RANGE,
                       (p3l_address){address.byte + at}, (const uint8_t *)image->private_copy + at,
                       (end - first) * (uint32_t)sizeof(uint64_t), error);
    first = next;
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
  pager->images_logged += pager->frames.images;
  pager->old_images_logged += pager->frames.old_images;
  pthread_mutex_unlock(&pager->sync);
  p3l_images_publish(transaction);
  p3l_old_pages_trim(pager, false);
  pthread_mutex_unlock(&pager->writer);
  return P3L_OK;
}

/* A log this many times its intended length makes a commit wait for the writer. */
enum { PATIENCE = 4 };

/*
 * Whether the log is to be emptied: it is longer than `checkpoint_bytes`; and, if the program did not say how
 * long it may get, what is in it of old pages' images has paid, which each checkpoint makes necessary
 * again: the frames of what changed in them after that are as long as PAID times the images; or all
 * images, which are in memory, are more than they may be. So where the same pages change repeatedly,
 * the log is at most 1 + PAID times as long as they are; where new ones are made, it is as long as ever.
 */
enum { PAID = 2 };

static bool is_long(p3l_pager *pager, uint64_t *length) {
  pthread_mutex_lock(&pager->sync);
  *length = pager->appended.byte - pager->emptied.byte;
  uint64_t images = pager->images_logged, old_images = pager->old_images_logged;
  pthread_mutex_unlock(&pager->sync);
  if (*length <= pager->checkpoint_bytes) return false;
  return images >= pager->image_bytes || *length - images >= PAID * old_images;
}

/* A checkpoint that fails for lack of space is repeated by the next commit; the present one is
 * committed. */
static void shorten_log(p3l_pager *pager) {
  uint64_t length;
  if (!is_long(pager, &length)) return;
  if (pthread_mutex_trylock(&pager->writer) != 0) {
    if (length / PATIENCE <= pager->checkpoint_bytes) return;
    pthread_mutex_lock(&pager->writer);
  }
  /* Unless another thread has made it meanwhile. */
  if (is_long(pager, &length)) p3l_checkpoint_locked(pager, false, NULL);
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
