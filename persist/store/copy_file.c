#include "copy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "create.h"
#include "readers.h"

p3l_code p3l_copy_begin(p3l_copy_file *copy, const char *path, const char *fresh,
                        p3l_error *error) {
  struct stat opened, named;
  *copy = (p3l_copy_file){.path = path, .fresh = fresh, .descriptor = -1};
  if (access(path, F_OK) == 0)
    return p3l_fail(error, P3L_MISUSE, "%s exists; a copy is not made over it", path);
  int descriptor = open(fresh, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
  if (descriptor < 0) return p3l_fail_errno(error, errno, "%s: making it", fresh);
  int failed = p3l_writer_lock(descriptor, true);
  if (failed == 0 && (fstat(descriptor, &opened) != 0 || stat(fresh, &named) != 0 ||
                      opened.st_ino != named.st_ino || opened.st_dev != named.st_dev))
    failed = EWOULDBLOCK;
  if (failed == 0 && !S_ISREG(opened.st_mode)) failed = EINVAL;
  /* A file of another length was left by a killed process. */
  if (failed == 0 && ftruncate(descriptor, 0) != 0) failed = errno;
  if (failed == 0) {
    copy->descriptor = descriptor;
    return P3L_OK;
  }
  close(descriptor);
  return failed == EWOULDBLOCK
             ? p3l_fail(error, P3L_BUSY, "%s is being made by another process", path)
             : p3l_fail_errno(error, failed, "%s: making it", fresh);
}

p3l_code p3l_copy_write(const p3l_copy_file *copy, const void *bytes, size_t length, uint64_t at,
                        p3l_error *error) {
  for (size_t done = 0; done < length;) {
    ssize_t put =
        pwrite(copy->descriptor, (const char *)bytes + done, length - done, (off_t)(at + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return p3l_fail_errno(error, errno, "%s: writing it", copy->fresh);
    done += (size_t)put;
  }
  return P3L_OK;
}

p3l_code p3l_copy_sync(const p3l_copy_file *copy, p3l_error *error) {
  return fsync(copy->descriptor) == 0 ? P3L_OK
                                      : p3l_fail_errno(error, errno, "%s: syncing it", copy->fresh);
}

p3l_code p3l_copy_name(p3l_copy_file *copy, p3l_error *error) {
  if (renameat2(AT_FDCWD, copy->fresh, AT_FDCWD, copy->path, RENAME_NOREPLACE) != 0)
    return p3l_fail_errno(error, errno, "%s: giving the copy its name", copy->path);
  copy->named = true;
  int failed = p3l_sync_folder(copy->path);
  return failed == 0 ? P3L_OK : p3l_fail_errno(error, failed, "%s: syncing its folder", copy->path);
}

void p3l_copy_end(p3l_copy_file *copy) {
  if (!copy->named) unlink(copy->fresh);
  close(copy->descriptor);
}

p3l_code p3l_copy_read(int descriptor, const char *path, void *bytes, size_t length, uint64_t at,
                       p3l_error *error) {
  for (size_t done = 0; done < length;) {
    ssize_t got = pread(descriptor, (char *)bytes + done, length - done, (off_t)(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return p3l_fail_errno(error, errno, "%s: reading it", path);
    if (got == 0)
      return p3l_fail(error, P3L_CORRUPT, "%s is shorter than it says; take another copy of it",
                      path);
    done += (size_t)got;
  }
  return P3L_OK;
}
