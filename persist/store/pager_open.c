/*
 * Recovers, opens and closes a store. pager.h has the invariants.
 */
#include "pager.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint.h"
#include "images.h"
#include "load.h"
#include "mapping.h"
#include "old_pages.h"
#include "read_many.h"
#include "recover.h"
#include "snapshot.h"

#define DEFAULT_CHECKPOINT_BYTES (UINT64_C(16) << 20)
#define MOST_IMAGE_BYTES (UINT64_C(256) << 20)
#define MEMORY_PART 32

static uint64_t default_image_bytes(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / MEMORY_PART : 0;
  return bytes < DEFAULT_CHECKPOINT_BYTES ? DEFAULT_CHECKPOINT_BYTES
         : bytes < MOST_IMAGE_BYTES       ? bytes
                                          : MOST_IMAGE_BYTES;
}

/* ---- recovery ---- */

static p3l_code recover(p3l_pager *pager, p3l_recovery *recovery, p3l_error *error) {
  p3l_redone redone = {0};
  p3l_log_tail tail;
  p3l_recovery found = {0};
  p3l_code code = p3l_recover_frames(pager, P3L_LOG_AT_REST, &redone, &tail, error);
  if (code == P3L_OK) code = p3l_recover_check(pager, &redone, error);
  found.transactions = redone.transactions;
  p3l_redone_free(&redone);
  if (code != P3L_OK) return code;
  found.interrupted = tail.frames > 0 || tail.torn;
  for (p3l_image *image = pager->images; image != NULL; image = image->hh.next)
    found.pages += image->committed != NULL;
  if (recovery != NULL) *recovery = found;
  /* Recovered frames may only be in the page cache, so they are not counted as `durable`: the
   * checkpoint syncs them first. */
  pager->appended = pager->log.end;
  pager->durable = pager->emptied = pager->log.start;
  if (pager->read_only) return P3L_OK;
  code = p3l_old_pages_open(pager, error);
  return code == P3L_OK ? p3l_checkpoint_locked(pager, false, error) : code;
}

/* ---- opening and closing ---- */

/*
 * Page 0 of the file may be torn by an interrupted checkpoint; then the log has its image. Before
 * recovery only the constant fields can be checked: magic, version, sizes, store id. They lie in
 * the first sector.
 */
static p3l_code read_store_id(p3l_device *file, const char *path, uint8_t store_id[16],
                              p3l_error *error) {
  p3l_page zero;
  uint64_t size = 0;
  int failed = file->size(file, &size);
  if (failed == 0 && size < sizeof(zero))
    return p3l_fail(error, P3L_NOT_A_STORE, "%s is not a P3L store: it is too short", path);
  if (failed == 0) failed = file->read(file, &zero, sizeof(zero), (p3l_file_offset){0});
  if (failed != 0) return p3l_fail_errno(error, failed, "%s: reading the header page", path);
  p3l_error why;
  p3l_code code = p3l_header_check(&zero, path, &why);
  if (code != P3L_OK && code != P3L_CORRUPT) {
    if (error != NULL) *error = why;
    return code;
  }
  memcpy(store_id, p3l_header_of(&zero)->store_id, 16);
  return P3L_OK;
}

static void pager_free(p3l_pager *pager) {
  p3l_images_forget(pager);
  p3l_buffers_end(&pager->buffers);
  p3l_frames_free(&pager->frames);
  /* The threads and the ring belong to the parent, and are left alone. */
  if (!p3l_pager_is_inherited(pager)) p3l_read_many_end(pager);
  p3l_mapping_close(pager->mapping);
  p3l_old_pages_close(pager);
  if (pager->file != NULL) pager->file->close(pager->file);
  if (pager->log.device != NULL) pager->log.device->close(pager->log.device);
  pthread_mutex_destroy(&pager->writer);
  pthread_mutex_destroy(&pager->sync);
  pthread_cond_destroy(&pager->synced);
  pthread_rwlock_destroy(&pager->readers);
  free(pager->path);
  free(pager->log_path);
  free(pager);
}

static p3l_code pager_open(const char *path, p3l_device *file, p3l_device *log,
                           const p3l_pager_options *options, p3l_pager **opened,
                           p3l_recovery *recovery, p3l_error *error) {
  p3l_pager *pager = calloc(1, sizeof(*pager));
  char *log_path = NULL;
  if (pager == NULL || (pager->path = strdup(path)) == NULL ||
      asprintf(&log_path, "%s-log", path) < 0) {
    if (pager != NULL) free(pager->path);
    free(pager);
    file->close(file);
    log->close(log);
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to open it", path);
  }
  pager->log_path = log_path;
  pager->file = file;
  pager->log.device = log;
  pager->read_only = options->read_only;
  pager->follows =
      options->read_only && !options->excludes_writers && p3l_file_descriptor(file) >= 0;
  pager->checkpoint_bytes =
      options->checkpoint_bytes ? options->checkpoint_bytes : DEFAULT_CHECKPOINT_BYTES;
  if (options->checkpoint_bytes == 0)
    pager->image_bytes = options->image_bytes ? options->image_bytes : default_image_bytes();
  pager->transaction.pager = pager;
  pager->forks = p3l_forks();
  pthread_mutex_init(&pager->writer, NULL);
  pthread_mutex_init(&pager->sync, NULL);
  pthread_cond_init(&pager->synced, NULL);
  pthread_rwlock_init(&pager->readers, NULL);

  uint8_t store_id[16];
  p3l_code code = read_store_id(file, path, store_id, error);
  if (code == P3L_OK && pager->follows) {
    code = p3l_snapshot_open(pager, store_id, recovery, error);
  } else if (code == P3L_OK) {
    code = p3l_log_open(&pager->log, log, log_path, store_id, error);
    if (code == P3L_OK) code = recover(pager, recovery, error);
  }
  if (code != P3L_OK) {
    pager_free(pager);
    return code;
  }
  pager->checkpoint_pages = pager->page_count;
  *opened = pager;
  return P3L_OK;
}

p3l_code p3l_pager_open_devices(p3l_device *file, p3l_device *log, const p3l_pager_options *options,
                                p3l_pager **pager, p3l_recovery *recovery, p3l_error *error) {
  return pager_open("(memory)", file, log, options, pager, recovery, error);
}

p3l_code p3l_pager_open(const char *path, const p3l_pager_options *options, p3l_pager **pager,
                        p3l_recovery *recovery, p3l_error *error) {
  p3l_open_mode mode = options->read_only ? P3L_OPEN_READ : P3L_OPEN_WRITE;
  p3l_device *file, *log;
  bool excludes = !options->read_only || options->excludes_writers;
  int failed = p3l_file_open(path, mode, excludes, &file);
  if (failed == EWOULDBLOCK)
    return p3l_fail(
        error, P3L_BUSY,
        options->read_only
            ? "%s is open for writing by another process; try again when it has closed it, or open "
              "it without excluding writers"
            : "%s is open in another process that writes to it or excludes writers; try again when "
              "it "
              "has closed it",
        path);
  if (failed == EINVAL)
    return p3l_fail(error, P3L_NOT_A_STORE, "%s is not a P3L store: it is not a regular file",
                    path);
  if (failed != 0) return p3l_fail_errno(error, failed, "%s: opening it", path);

  char *log_path = NULL;
  failed =
      asprintf(&log_path, "%s-log", path) < 0 ? ENOMEM : p3l_file_open(log_path, mode, false, &log);
  if (failed != 0) {
    /* Do not look for the log of a foreign file. */
    uint8_t store_id[16];
    p3l_code code = read_store_id(file, path, store_id, error);
    file->close(file);
    if (code == P3L_OK)
      code = failed == ENOENT
                 ? p3l_fail(error, P3L_CORRUPT,
                            "%s is missing: it has what was committed last to %s; put it back "
                            "beside it",
                            log_path, path)
                 : p3l_fail_errno(error, failed, "%s-log: opening it", path);
    free(log_path);
    return code;
  }
  free(log_path);
  return pager_open(path, file, log, options, pager, recovery, error);
}

p3l_code p3l_pager_close(p3l_pager *pager, p3l_error *error) {
  if (p3l_pager_is_inherited(pager)) {
    pager_free(pager);
    return P3L_OK;
  }
  pthread_mutex_lock(&pager->writer);
  p3l_code code = pager->loading ? p3l_load_finish(pager, error) : P3L_OK;
  /* If a load could not be ended, none of its pages are in the store. */
  if (code == P3L_OK && !pager->read_only) code = p3l_checkpoint_locked(pager, true, error);
  if (!pager->read_only) p3l_old_pages_trim(pager, true);
  pthread_mutex_unlock(&pager->writer);
  pager_free(pager);
  return code;
}
