/*
 * Copies a version of a store. The copy gets its name only when it is complete.
 *
 *   PATH-new locked ──> pages copied ──> synced ──> log made ──> read again, checked ──> PATH-log named ──> PATH named
 *        │ another process has it            any failure: both removed                        │ killed here: a log without
 *        └──> P3L_BUSY                                                                        └──> a store, replaced next time
 *
 * Invariants:
 *  1. A process writes to PATH-new only with the lock on that file, and after it saw that PATH-new
 *     still names it; the lock goes with the process.
 *  2. Nothing is at PATH before everything of it is on stable storage and was checked.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "create.h"
#include "images.h"
#include "readers.h"

/* Pages that are read and written at a time. */
enum { RUN = 64 };

typedef struct names {
  char *path, *log, *fresh, *fresh_log;
} names;

static bool make_names(names *names, const char *path) {
  *names = (struct names){.path = strdup(path)};
  if (asprintf(&names->log, "%s-log", path) < 0) names->log = NULL;
  if (asprintf(&names->fresh, "%s-new", path) < 0) names->fresh = NULL;
  if (asprintf(&names->fresh_log, "%s-new-log", path) < 0) names->fresh_log = NULL;
  return names->path != NULL && names->log != NULL && names->fresh != NULL &&
         names->fresh_log != NULL;
}

static void free_names(names *names) {
  free(names->path);
  free(names->log);
  free(names->fresh);
  free(names->fresh_log);
}

/* Invariant 1. A file of another length was left by a killed process. */
static p3l_code take_name(const names *names, int *taken, p3l_error *error) {
  struct stat opened, named;
  if (access(names->path, F_OK) == 0)
    return p3l_fail(error, P3L_MISUSE, "%s exists; a copy is not made over it", names->path);
  int descriptor = open(names->fresh, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
  if (descriptor < 0) return p3l_fail_errno(error, errno, "%s: making it", names->fresh);
  int failed = p3l_writer_lock(descriptor, true);
  if (failed == 0 && (fstat(descriptor, &opened) != 0 || stat(names->fresh, &named) != 0 ||
                      opened.st_ino != named.st_ino || opened.st_dev != named.st_dev))
    failed = EWOULDBLOCK;
  if (failed == 0 && !S_ISREG(opened.st_mode)) failed = EINVAL;
  if (failed == 0 && ftruncate(descriptor, 0) != 0) failed = errno;
  if (failed == 0) {
    *taken = descriptor;
    return P3L_OK;
  }
  close(descriptor);
  return failed == EWOULDBLOCK
             ? p3l_fail(error, P3L_BUSY, "%s is being made by another process", names->path)
             : p3l_fail_errno(error, failed, "%s: making it", names->fresh);
}

static p3l_code write_all(int descriptor, const void *bytes, size_t length, uint64_t at,
                          const char *path, p3l_error *error) {
  for (size_t done = 0; done < length;) {
    ssize_t put = pwrite(descriptor, (const char *)bytes + done, length - done, (off_t)(at + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return p3l_fail_errno(error, errno, "%s: writing it", path);
    done += (size_t)put;
  }
  return P3L_OK;
}

/* Copies all pages of the version, as those of a new store. */
static p3l_code copy_pages(p3l_pager *pager, int descriptor, const names *names,
                           const uint8_t store_id[16], p3l_backup *backup, p3l_error *error) {
  p3l_page *pages = malloc(RUN * sizeof(*pages));
  if (pages == NULL) return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to copy it", pager->path);
  uint64_t total = p3l_pager_page_count(pager);
  p3l_code code = p3l_pager_check_size(pager, error);
  for (uint64_t first = 0; first < total && code == P3L_OK; first += RUN) {
    size_t count = total - first < RUN ? (size_t)(total - first) : RUN;
    if (backup->progress != NULL) backup->progress(backup->state, "copying", first, total);
    p3l_pager_soon(pager, (p3l_page_number){first + count}, RUN);
    code = p3l_pager_read_run(pager, (p3l_page_number){first}, count, pages, error);
    if (code != P3L_OK) break;
    if (first == 0) memcpy(p3l_header_of(&pages[0])->store_id, store_id, 16);
    for (size_t at = 0; at < count; at++) p3l_page_seal(&pages[at], (p3l_lsn){0});
    code = write_all(descriptor, pages, count * sizeof(*pages), first * P3L_PAGE_SIZE, names->fresh,
                     error);
  }
  free(pages);
  backup->pages = total;
  if (code == P3L_OK && fsync(descriptor) != 0)
    code = p3l_fail_errno(error, errno, "%s: syncing it", names->fresh);
  return code;
}

static p3l_code make_log(const names *names, const uint8_t store_id[16], p3l_error *error) {
  p3l_device *log;
  unlink(names->fresh_log);
  int failed = p3l_file_open(names->fresh_log, P3L_OPEN_CREATE, false, &log);
  if (failed != 0) return p3l_fail_errno(error, failed, "%s: making it", names->fresh_log);
  p3l_code code = p3l_log_create(log, names->fresh_log, store_id, error);
  log->close(log);
  return code;
}

/* Checks the copy as it is read back from the file. */
static p3l_code check(const names *names, p3l_backup *backup, p3l_error *error) {
  p3l_pager *copy;
  p3l_verification found;
  p3l_pager_options options = {.read_only = true};
  p3l_code code = p3l_pager_open(names->fresh, &options, &copy, NULL, error);
  if (code != P3L_OK) return code;
  code = p3l_pager_verify_watched(copy, NULL, backup->progress, backup->state, &found, error);
  if (code == P3L_OK && found.faults > 0)
    code = p3l_fail(error, P3L_CORRUPT,
                    "%s: the copy has %llu faults, and is not kept; p3l verify of the original "
                    "says which",
                    names->path, (unsigned long long)found.faults);
  if (code == P3L_OK && backup->check != NULL) code = backup->check(backup->state, copy, error);
  p3l_pager_close(copy, NULL);
  return code;
}

/* Names the log first: a store without its log would look like one that lost it. A file that
 * already has the log's name belongs to no store, or to a copy that was killed here. */
static p3l_code give_names(const names *names, p3l_error *error) {
  if (access(names->path, F_OK) == 0)
    return p3l_fail(error, P3L_MISUSE, "%s exists; a copy is not made over it", names->path);
  if (rename(names->fresh_log, names->log) != 0)
    return p3l_fail_errno(error, errno, "%s: giving the new log its name", names->log);
  if (renameat2(AT_FDCWD, names->fresh, AT_FDCWD, names->path, RENAME_NOREPLACE) != 0) {
    int failed = errno;
    if (failed != EEXIST) unlink(names->log);
    return p3l_fail_errno(error, failed, "%s: giving the copy its name", names->path);
  }
  int failed = p3l_sync_folder(names->path);
  return failed == 0 ? P3L_OK
                     : p3l_fail_errno(error, failed, "%s: syncing its folder", names->path);
}

static p3l_code backup_to(p3l_pager *pager, const names *names, p3l_backup *backup,
                          p3l_error *error) {
  uint8_t store_id[16];
  int descriptor = -1;
  p3l_code code = take_name(names, &descriptor, error);
  if (code != P3L_OK) return code;
  if (getrandom(store_id, sizeof(store_id), 0) != (ssize_t)sizeof(store_id))
    code = p3l_fail_errno(error, errno, "%s: asking the kernel for a random number", names->path);
  if (code == P3L_OK) code = copy_pages(pager, descriptor, names, store_id, backup, error);
  if (code == P3L_OK) code = make_log(names, store_id, error);
  if (code == P3L_OK) code = check(names, backup, error);
  if (code == P3L_OK) code = give_names(names, error);
  if (code != P3L_OK) {
    unlink(names->fresh);
    unlink(names->fresh_log);
  }
  close(descriptor);
  return code;
}

p3l_code p3l_pager_backup(p3l_pager *pager, const char *path, p3l_backup *backup,
                          p3l_error *error) {
  names names;
  p3l_code code =
      make_names(&names, path)
          ? backup_to(pager, &names, backup, error)
          : p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to copy it", p3l_pager_path(pager));
  free_names(&names);
  return code;
}
