/* Redo: converts the frames of committed transactions to images. */
#include "recover.h"

#include <stdlib.h>
#include <string.h>

#include "images.h"

/* A change of a committed image, kept aside. */
typedef struct change {
  p3l_image *image;
  size_t at, length; /* of its bytes in `bytes` */
  uint16_t offset;   /* in the page, if they are not runs */
  bool runs;         /* as in a frame of changes (delta.h) */
  bool zeros;        /* the page begins as zeros */
} change;

typedef struct recovering {
  p3l_pager *pager;
  p3l_redone *redone;
  size_t committed; /* number of entries of `redone` that are committed */
  /* Of the transaction whose commit frame was not read yet. */
  change *changes;
  size_t count, capacity;
  uint8_t *bytes;
  size_t used, room;
} recovering;

void p3l_redone_free(p3l_redone *redone) {
  free(redone->pages);
  *redone = (p3l_redone){0};
}

/* The array with space for `needed` elements; NULL: no memory, and it stays as it is. */
static void *grown(void *array, size_t *capacity, size_t needed, size_t each) {
  if (needed <= *capacity) return array;
  size_t larger = 2 * *capacity > needed ? 2 * *capacity : needed < 64 ? 64 : needed;
  void *moved = realloc(array, larger * each);
  if (moved != NULL) *capacity = larger;
  return moved;
}

static bool note(p3l_redone *redone, p3l_news_page page) {
  void *pages = grown(redone->pages, &redone->capacity, redone->count + 1, sizeof(page));
  if (pages == NULL) return false;
  redone->pages = pages;
  redone->pages[redone->count++] = page;
  return true;
}

/* Its image is in memory, and so is its place in `bytes`. */
static void make(const change *change, const uint8_t *bytes, p3l_page *page) {
  if (change->zeros) memset(page, 0, P3L_PAGE_SIZE);
  if (!change->runs) {
    memcpy((uint8_t *)page + change->offset, bytes, change->length);
    return;
  }
  p3l_delta_reader reader = {bytes, bytes + change->length, 0, false};
  p3l_delta_apply(&reader, page);
}

static bool keep_aside(recovering *recovering, change change, const uint8_t *bytes) {
  void *changes =
      grown(recovering->changes, &recovering->capacity, recovering->count + 1, sizeof(change));
  if (changes != NULL) recovering->changes = changes;
  void *room = grown(recovering->bytes, &recovering->room, recovering->used + change.length, 1);
  if (room != NULL) recovering->bytes = room;
  if (changes == NULL || room == NULL) return false;
  change.at = recovering->used;
  memcpy(recovering->bytes + change.at, bytes, change.length);
  recovering->used += change.length;
  recovering->changes[recovering->count++] = change;
  return true;
}

/* Gives the page a private copy, if it has none yet. */
static bool begin_page(p3l_pager *pager, p3l_image *image) {
  if (image->private_copy != NULL) return true;
  image->private_copy = p3l_buffer_take(&pager->buffers);
  if (image->private_copy == NULL) return false;
  image->next = pager->transaction.pages;
  pager->transaction.pages = image;
  image->changed = ~UINT64_C(0); /* to be published as a whole */
  return true;
}

/* `whole`: the bytes are all of the page. `units`: where they lie. */
static p3l_code redo_page(recovering *recovering, p3l_page_number number, change change, bool whole,
                          uint64_t units, const uint8_t *bytes, p3l_error *error) {
  p3l_pager *pager = recovering->pager;
  p3l_image *image = change.image = p3l_image_add(pager, number);
  if (image != NULL && image->committed == NULL && image->private_copy == NULL && !whole)
    return p3l_fail(error, P3L_CORRUPT, "%s: the log changes page %llu and never had its image",
                    pager->log_path, (unsigned long long)number.n);
  bool done = image != NULL;
  p3l_page *page = NULL;
  if (done && image->committed != NULL) {
    page = image->committed;
    done = keep_aside(recovering, change, bytes);
  } else if (done) {
    done = begin_page(pager, image);
    page = image->private_copy; /* will be the committed image */
    if (done) make(&change, bytes, page);
    units = ~UINT64_C(0);
  }
  if (done && note(recovering->redone, (p3l_news_page){number.n, units, page})) return P3L_OK;
  return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to recover page %llu", pager->path,
                  (unsigned long long)number.n);
}

static p3l_code redo_changes(recovering *recovering, const p3l_frame *frame, const uint8_t *bytes,
                             p3l_error *error) {
  p3l_delta_reader reader = p3l_delta_read((p3l_address){frame->address}, bytes, frame->length);
  while (reader.at < reader.end) {
    uint64_t units = 0;
    bool right = p3l_delta_next(&reader);
    const uint8_t *begin = reader.at;
    if (!right || !p3l_delta_pass(&reader, &units))
      return p3l_fail(error, P3L_CORRUPT,
                      "%s: the frame at position %llu has malformed changes of pages; "
                      "restore store and log from a copy",
                      recovering->pager->log_path, (unsigned long long)frame->position);
    change change = {.length = (size_t)(reader.at - begin), .runs = true, .zeros = reader.zeros};
    p3l_code code = redo_page(recovering, (p3l_page_number){reader.number}, change, reader.zeros,
                              reader.zeros ? ~UINT64_C(0) : units, begin, error);
    if (code != P3L_OK) return code;
  }
  return P3L_OK;
}

/* Invariant 1. */
static void commit(recovering *recovering) {
  p3l_pager *pager = recovering->pager;
  p3l_images_publish(&pager->transaction);
  pthread_rwlock_wrlock(&pager->readers);
  for (size_t at = 0; at < recovering->count; at++) {
    const change *change = &recovering->changes[at];
    p3l_image *image = change->image;
    make(change, recovering->bytes + change->at, image->committed);
    pager->unwritten += image->in_file;
    image->in_file = false;
    image->last = pager->log.end;
    if (image->number == 0) pager->page_count = p3l_header_of(image->committed)->page_count;
  }
  pthread_rwlock_unlock(&pager->readers);
  recovering->count = recovering->used = 0;
  recovering->redone->transactions++;
  recovering->committed = recovering->redone->count;
}

static p3l_code redo(void *state, const p3l_frame *frame, const uint8_t *bytes, p3l_error *error) {
  recovering *recovering = state;
  if (frame->kind == P3L_FRAME_COMMIT) {
    commit(recovering);
    return P3L_OK;
  }
  if (frame->kind == P3L_FRAME_CHANGES) return redo_changes(recovering, frame, bytes, error);
  uint32_t offset = frame->address % P3L_PAGE_SIZE;
  change change = {.length = frame->length, .offset = (uint16_t)offset};
  return redo_page(recovering, (p3l_page_number){frame->address / P3L_PAGE_SIZE}, change,
                   frame->kind == P3L_FRAME_IMAGE, p3l_units(offset, frame->length), bytes, error);
}

p3l_code p3l_recover_frames(p3l_pager *pager, p3l_log_reading reading, p3l_redone *redone,
                            p3l_log_tail *tail, p3l_error *error) {
  recovering recovering = {.pager = pager, .redone = redone, .committed = redone->count};
  p3l_code code = p3l_log_scan(&pager->log, reading, redo, &recovering, tail, error);
  /* Leave out the pages of a transaction at the end without a commit: it changed nothing, and
   * some of its pages may not exist. */
  redone->count = recovering.committed;
  p3l_images_discard(&pager->transaction);
  free(recovering.changes);
  free(recovering.bytes);
  return code;
}

/* Checks the pages named by the log after it was read completely, because only then page 0 has
 * the final page count. */
static p3l_code check_pages(p3l_pager *pager, const p3l_redone *redone, p3l_error *error) {
  for (size_t at = 0; at < redone->count; at++) {
    const p3l_news_page *redone_page = &redone->pages[at];
    p3l_page_number number = {redone_page->number};
    const char *fault = NULL;
    if (number.n >= pager->page_count)
      fault = "does not exist";
    else if ((redone_page->units & p3l_units(0, offsetof(p3l_page, payload))) != 0)
      fault = p3l_page_head_fault(redone_page->page, number);
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
