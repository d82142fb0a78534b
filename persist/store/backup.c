/*
 * Copies a version of a store, or what increments make of one. The copy gets its name only when it is
 * complete.
 *
 *   PATH-new locked ──> pages copied ──> synced ──> log made ──> read again, checked ──> PATH-log named ──> PATH named
 *        │ another process has it            any failure: both removed                        │ killed here: a log without
 *        └──> P3L_BUSY                                                                        └──> a store, replaced next time
 *
 * copy_file.h has the invariants, and: nothing is at PATH before everything of it is on stable storage
 * and was checked.
 */
#include "build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "copy_file.h"
#include "images.h"

/* Pages that are read and written at a time. */
enum { RUN = 64 };

typedef struct names {
  char *log, *fresh, *fresh_log;
} names;

static bool make_names(names *names, const char *path) {
  *names = (struct names){0};
  if (asprintf(&names->log, "%s-log", path) < 0) names->log = NULL;
  if (asprintf(&names->fresh, "%s-new", path) < 0) names->fresh = NULL;
  if (asprintf(&names->fresh_log, "%s-new-log", path) < 0) names->fresh_log = NULL;
  return names->log != NULL && names->fresh != NULL && names->fresh_log != NULL;
}

static void free_names(names *names) {
  free(names->log);
  free(names->fresh);
  free(names->fresh_log);
}

/* Of which version it is a copy, if it is one. */
static void put_header(p3l_page *zero, const uint8_t store_id[16], const p3l_version *version) {
  p3l_origin origin = {.version = {.position = 0}};
  if (version != NULL) {
    memcpy(origin.magic, P3L_ORIGIN_MAGIC, sizeof(origin.magic));
    origin.version = *version;
  }
  memcpy(p3l_header_of(zero)->store_id, store_id, 16);
  memcpy(zero->payload + P3L_ORIGIN_AT, &origin, sizeof(origin));
}

/* All pages, as those of a new store. */
static p3l_code copy_pages(const p3l_build *build, const p3l_copy_file *copy,
                           const uint8_t store_id[16], p3l_backup *backup, p3l_error *error) {
  p3l_page *pages = malloc(RUN * sizeof(*pages));
  if (pages == NULL) return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to copy it", copy->path);
  p3l_code code = P3L_OK;
  for (uint64_t first = 0; first < build->pages && code == P3L_OK; first += RUN) {
    size_t count = build->pages - first < RUN ? (size_t)(build->pages - first) : RUN;
    if (backup->progress != NULL) backup->progress(backup->state, "copying", first, build->pages);
    code = build->read(build->state, (p3l_page_number){first}, count, pages, error);
    if (code != P3L_OK) break;
    if (first == 0) put_header(&pages[0], store_id, build->version);
    for (size_t at = 0; at < count; at++) p3l_page_seal(&pages[at], (p3l_lsn){0});
    code = p3l_copy_write(copy, pages, count * sizeof(*pages), first * P3L_PAGE_SIZE, error);
  }
  free(pages);
  backup->pages = build->pages;
  return code == P3L_OK ? p3l_copy_sync(copy, error) : code;
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
static p3l_code check(const p3l_copy_file *file, p3l_backup *backup, p3l_error *error) {
  p3l_pager *copy;
  p3l_verification found;
  p3l_pager_options options = {.read_only = true};
  p3l_code code = p3l_pager_open(file->fresh, &options, &copy, NULL, error);
  if (code != P3L_OK) return code;
  code = p3l_pager_verify_watched(copy, NULL, backup->progress, backup->state, &found, error);
  if (code == P3L_OK && found.faults > 0)
    code = p3l_fail(error, P3L_CORRUPT,
                    "%s: the copy has %llu faults, and is not kept; p3l verify of the original "
                    "says which",
                    file->path, (unsigned long long)found.faults);
  if (code == P3L_OK && backup->check != NULL) code = backup->check(backup->state, copy, error);
  p3l_pager_close(copy, NULL);
  return code;
}

/* Names the log first: a store without its log would look like one that lost it. A file that
 * already has the log's name belongs to no store, or to a copy that was killed here. */
static p3l_code give_names(const names *names, p3l_copy_file *copy, p3l_error *error) {
  if (access(copy->path, F_OK) == 0)
    return p3l_fail(error, P3L_MISUSE, "%s exists; a copy is not made over it", copy->path);
  if (rename(names->fresh_log, names->log) != 0)
    return p3l_fail_errno(error, errno, "%s: giving the new log its name", names->log);
  p3l_code code = p3l_copy_name(copy, error);
  /* Unless another process has made the store meanwhile, whose log it then is. */
  if (!copy->named && access(copy->path, F_OK) != 0) unlink(names->log);
  return code;
}

static p3l_code build_with(const p3l_build *build, const char *path, const names *names,
                           p3l_backup *backup, p3l_error *error) {
  uint8_t store_id[16];
  p3l_copy_file copy;
  p3l_code code = p3l_copy_begin(&copy, path, names->fresh, error);
  if (code != P3L_OK) return code;
  if (getrandom(store_id, sizeof(store_id), 0) != (ssize_t)sizeof(store_id))
    code = p3l_fail_errno(error, errno, "%s: asking the kernel for a random number", path);
  if (code == P3L_OK) code = copy_pages(build, &copy, store_id, backup, error);
  if (code == P3L_OK) code = make_log(names, store_id, error);
  if (code == P3L_OK) code = check(&copy, backup, error);
  if (code == P3L_OK) code = give_names(names, &copy, error);
  if (!copy.named) unlink(names->fresh_log);
  p3l_copy_end(&copy);
  return code;
}

p3l_code p3l_build_store(const p3l_build *build, const char *path, p3l_backup *backup,
                         p3l_error *error) {
  names names;
  p3l_code code = make_names(&names, path)
                      ? build_with(build, path, &names, backup, error)
                      : p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to copy it", path);
  free_names(&names);
  return code;
}

static p3l_code read_version(void *state, p3l_page_number first, size_t count, p3l_page *pages,
                             p3l_error *error) {
  p3l_pager *pager = state;
  p3l_pager_soon(pager, (p3l_page_number){first.n + count}, RUN);
  return p3l_pager_read_run(pager, first, count, pages, error);
}

p3l_code p3l_pager_backup(p3l_pager *pager, const char *path, p3l_backup *backup,
                          p3l_error *error) {
  p3l_version version = p3l_pager_version(pager);
  p3l_build build = {version.page_count, &version, read_version, pager};
  p3l_code code = p3l_pager_check_size(pager, error);
  return code == P3L_OK ? p3l_build_store(&build, path, backup, error) : code;
}
