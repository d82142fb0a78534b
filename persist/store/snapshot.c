/*
 * Takes a version, and the next one. snapshot.h has the invariants.
 */
#include "snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "images.h"
#include "old_pages.h"
#include "readers.h"
#include "recover.h"

/*
 * Number of rounds that may end while their frames are read, before the version is taken from the
 * file alone.
 */
enum { PATIENCE = 3 };

typedef struct taking {
  p3l_pager *pager;
  const uint8_t *store_id;
  const p3l_lsn *kept; /* base of the current version, whose lock stays; NULL: none */
  p3l_redone redone;
  p3l_log_tail tail;
} taking;

static p3l_code header_again(const taking *taking, bool *same, p3l_error *error) {
  p3l_log log;
  const p3l_log *known = &taking->pager->log;
  p3l_code code = p3l_log_open(&log, known->device, known->path, taking->store_id, error);
  *same = code == P3L_OK && log.round == known->round;
  return code;
}

static p3l_code register_as(const p3l_pager *pager, p3l_lsn base, p3l_error *error) {
  int failed = p3l_reader_register(p3l_file_descriptor(pager->file), base);
  if (failed == 0) return P3L_OK;
  return p3l_fail_errno(error, failed, "%s: registering as a reader of it", pager->path);
}

/*
 * Makes one attempt with the header in pager->log. *done is false if the round ended in the
 * meantime.
 */
static p3l_code attempt(taking *taking, bool frames, p3l_log_reading reading, bool *done,
                        p3l_error *error) {
  p3l_pager *pager = taking->pager;
  p3l_code code = register_as(pager, pager->log.start, error);
  if (code == P3L_OK) code = header_again(taking, done, error);
  if (code != P3L_OK || !*done) return code;
  pager->base = pager->log.start;
  p3l_error why;
  if (frames) code = p3l_recover_frames(pager, reading, &taking->redone, &taking->tail, &why);
  p3l_code again = header_again(taking, done, error);
  if (again != P3L_OK || !*done) return again; /* results of the read are void, including errors */
  if (code != P3L_OK) {
    if (error != NULL) *error = why;
    return code;
  }
  return p3l_recover_check(pager, &taking->redone, error);
}

/* Takes a version, beginning with the header. Leaves no images if it fails. */
static p3l_code take(taking *taking, p3l_error *error) {
  p3l_pager *pager = taking->pager;
  int descriptor = p3l_file_descriptor(pager->file);
  p3l_code code = P3L_OK;
  bool done = false, arriving = false;
  for (int n = 0; code == P3L_OK && !done; n++) {
    p3l_log log;
    if (n > 0 && !arriving) {
      code = register_as(pager, (p3l_lsn){P3L_ARRIVING}, error);
      arriving = code == P3L_OK;
    }
    if (code == P3L_OK)
      code = p3l_log_open(&log, pager->log.device, pager->log_path, taking->store_id, error);
    if (code != P3L_OK) break;
    pager->log = log;
    taking->redone.count = taking->redone.transactions = 0;
    taking->tail = (p3l_log_tail){0};
    bool live = taking->kept != NULL || p3l_writer_is_there(descriptor);
    code = attempt(taking, n < PATIENCE, live ? P3L_LOG_LIVE : P3L_LOG_AT_REST, &done, error);
    if (code == P3L_OK && done) break;
    p3l_images_forget(pager);
    if (taking->kept == NULL || taking->kept->byte != log.start.byte)
      p3l_reader_leave(descriptor, log.start);
  }
  if (arriving) p3l_reader_leave(descriptor, (p3l_lsn){P3L_ARRIVING});
  return code;
}

p3l_code p3l_snapshot_open(p3l_pager *pager, const uint8_t store_id[16], p3l_recovery *recovery,
                           p3l_error *error) {
  taking taking = {.pager = pager, .store_id = store_id};
  p3l_code code = p3l_old_pages_open(pager, error);
  if (code == P3L_OK) code = take(&taking, error);
  if (code == P3L_OK && recovery != NULL) {
    *recovery = (p3l_recovery){.transactions = taking.redone.transactions,
                               .written = p3l_writer_is_there(p3l_file_descriptor(pager->file))};
    for (p3l_image *image = pager->images; image != NULL; image = image->hh.next)
      recovery->pages += image->committed != NULL;
    recovery->interrupted = !recovery->written && (taking.tail.frames > 0 || taking.tail.torn);
  }
  p3l_redone_free(&taking.redone);
  return code;
}

/* ---- the next version ---- */

/* Reads the frames after the version. *done: its round has not ended. */
static p3l_code read_on(taking *taking, bool *done, p3l_error *error) {
  p3l_code code = header_again(taking, done, error);
  if (code != P3L_OK || !*done) return code;
  p3l_error why;
  code = p3l_recover_frames(taking->pager, P3L_LOG_NEWS, &taking->redone, &taking->tail, &why);
  p3l_code again = header_again(taking, done, error);
  if (again != P3L_OK || !*done) return again; /* results of the read are void, including errors */
  if (code != P3L_OK) {
    if (error != NULL) *error = why;
    return code;
  }
  return p3l_recover_check(taking->pager, &taking->redone, error);
}

/* Takes a version of another round; restores the old one if that fails. */
static p3l_code take_another(taking *taking, p3l_error *error) {
  p3l_pager *pager = taking->pager;
  p3l_image *images = pager->images;
  p3l_buffers buffers = pager->buffers;
  p3l_log log = pager->log;
  p3l_lsn base = pager->base;
  uint64_t page_count = pager->page_count;
  int descriptor = p3l_file_descriptor(pager->file);
  taking->kept = &base;
  pager->images = NULL;
  pager->buffers = (p3l_buffers){0};
  p3l_code code = take(taking, error);
  if (code != P3L_OK) {
    p3l_buffers_end(&pager->buffers);
    pager->images = images;
    pager->buffers = buffers;
    pager->log = log;
    pager->base = base;
    pager->page_count = page_count;
    return code;
  }
  p3l_image *fresh = pager->images;
  p3l_buffers fresh_buffers = pager->buffers;
  pager->images = images;
  pager->buffers = buffers;
  p3l_images_forget(pager);
  p3l_buffers_end(&pager->buffers);
  pager->images = fresh;
  pager->buffers = fresh_buffers;
  if (pager->base.byte != base.byte) p3l_reader_leave(descriptor, base);
  p3l_old_pages_forget(pager, pager->base);
  return P3L_OK;
}

static int by_number(const void *a, const void *b) {
  uint64_t left = ((const p3l_news_page *)a)->number, right = ((const p3l_news_page *)b)->number;
  return left < right ? -1 : left > right;
}

/* Takes each page once. */
static void take_pages(p3l_news *news, p3l_redone *redone) {
  p3l_news_page *pages = redone->pages;
  qsort(pages, redone->count, sizeof(*pages), by_number);
  for (size_t at = 0; at < redone->count; at++)
    if (news->count > 0 && pages[news->count - 1].number == pages[at].number)
      pages[news->count - 1].units |= pages[at].units;
    else
      pages[news->count++] = pages[at];
  news->pages = pages;
  *redone = (p3l_redone){0};
}

void p3l_news_free(p3l_news *news) {
  free(news->pages);
  *news = (p3l_news){0};
}

bool p3l_pager_is_news(p3l_pager *pager, const p3l_news *news, p3l_page_number number) {
  p3l_page page;
  bool exists;
  if (p3l_image_read(pager, number, &page, &exists) || !exists) return true;
  /* A checkpoint later than the previous base wrote the page, or one is writing it now. */
  const size_t head = offsetof(p3l_page, payload);
  return pager->file->read(pager->file, &page, head, (p3l_file_offset){number.n * P3L_PAGE_SIZE}) !=
             0 ||
         page.checkpoint > news->since.byte;
}

p3l_code p3l_pager_refresh(p3l_pager *pager, p3l_news *news, p3l_error *error) {
  *news = (p3l_news){.since = pager->base};
  if (!pager->follows) return P3L_OK;
  p3l_code code = p3l_pager_inherited(pager, error);
  if (code != P3L_OK) return code;
  uint8_t store_id[16];
  memcpy(store_id, pager->log.store_id, sizeof(store_id));
  taking taking = {.pager = pager, .store_id = store_id};
  uint64_t before = pager->log.end.byte;
  bool done;
  code = read_on(&taking, &done, error);
  if (code == P3L_OK && !done) {
    code = take_another(&taking, error);
    news->everywhere = true;
  }
  news->changed = pager->log.end.byte != before;
  if (news->changed && !news->everywhere) take_pages(news, &taking.redone);
  p3l_redone_free(&taking.redone);
  return code;
}
