/* Creates a store. The file gets its name only when it is complete. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "create.h"
#include "device.h"
#include "log.h"
#include "pager.h"

static p3l_code format(p3l_device *file, p3l_device *log, const char *path, p3l_error *error) {
  uint8_t store_id[16];
  p3l_page zero;
  if (getrandom(store_id, sizeof(store_id), 0) != (ssize_t)sizeof(store_id))
    return p3l_fail_errno(error, errno, "%s: asking the kernel for a random number", path);
  p3l_header_init(&zero, store_id);
  p3l_page_seal(&zero, (p3l_lsn){0});
  int failed = file->write(file, &zero, sizeof(zero), (p3l_file_offset){0});
  if (failed == 0) failed = file->sync(file);
  if (failed != 0) return p3l_fail_errno(error, failed, "%s: writing the header page", path);
  return p3l_log_create(log, path, store_id, error);
}

p3l_code p3l_store_format(p3l_device *file, p3l_device *log, p3l_error *error) {
  return format(file, log, "(memory)", error);
}

/* Names become durable when their folder is synced. */
int p3l_sync_folder(const char *path) {
  char *copy = strdup(path);
  if (copy == NULL) return ENOMEM;
  int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int failed = folder < 0 || fsync(folder) != 0 ? errno : 0;
  if (folder >= 0) close(folder);
  free(copy);
  return failed;
}

static p3l_code create(const char *path, const char *log_path, const char *new_path,
                       const char *new_log, p3l_error *error) {
  p3l_device *file = NULL, *log = NULL;
  unlink(new_path); /* left by a process that was killed while creating a store */
  unlink(new_log);
  int failed = p3l_file_open(new_path, P3L_OPEN_CREATE, false, &file);
  if (failed == 0) failed = p3l_file_open(new_log, P3L_OPEN_CREATE, false, &log);
  p3l_code code = failed == 0 ? format(file, log, path, error)
                              : p3l_fail_errno(error, failed, "%s: making it", path);
  if (file != NULL) file->close(file);
  if (log != NULL) log->close(log);
  if (code != P3L_OK) return code;
  /* Names the log first: a store without its log would look like one that lost it. Neither call
   * replaces an existing file. */
  if (renameat2(AT_FDCWD, new_log, AT_FDCWD, log_path, RENAME_NOREPLACE) != 0)
    return p3l_fail_errno(error, errno, "%s: giving the new log its name", log_path);
  if (renameat2(AT_FDCWD, new_path, AT_FDCWD, path, RENAME_NOREPLACE) != 0) {
    failed = errno;
    unlink(log_path);
    return p3l_fail_errno(error, failed, "%s: giving the new store its name", path);
  }
  failed = p3l_sync_folder(path);
  return failed == 0 ? P3L_OK : p3l_fail_errno(error, failed, "%s: syncing its folder", path);
}

p3l_code p3l_store_create(const char *path, p3l_error *error) {
  char *log_path = NULL, *new_path = NULL, *new_log = NULL;
  p3l_code code;
  if (access(path, F_OK) == 0)
    return p3l_fail(error, P3L_MISUSE, "%s exists; a store is not made over it", path);
  if (asprintf(&log_path, "%s-log", path) < 0 || asprintf(&new_path, "%s-new", path) < 0 ||
      asprintf(&new_log, "%s-log-new", path) < 0) {
    code = p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to make it", path);
  } else {
    code = create(path, log_path, new_path, new_log, error);
    unlink(new_path);
    unlink(new_log);
  }
  free(log_path);
  free(new_path);
  free(new_log);
  return code;
}
