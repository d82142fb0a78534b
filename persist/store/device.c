/* The device of a real file: system calls with a descriptor. */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "readers.h"

typedef struct file {
  p3l_device device; /* first, so that a pointer to it is a pointer to the file */
  int descriptor;
} file;

static int file_read(p3l_device *device, void *bytes, size_t length, p3l_file_offset at) {
  int descriptor = ((file *)device)->descriptor;
  size_t done = 0;
  while (done < length) {
    ssize_t got = pread(descriptor, (char *)bytes + done, length - done, (off_t)(at.byte + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return ENODATA;
    done += (size_t)got;
  }
  return 0;
}

static int file_write(p3l_device *device, const void *bytes, size_t length, p3l_file_offset at) {
  int descriptor = ((file *)device)->descriptor;
  size_t done = 0;
  while (done < length) {
    ssize_t put =
        pwrite(descriptor, (const char *)bytes + done, length - done, (off_t)(at.byte + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    done += (size_t)put;
  }
  return 0;
}

/* Removes the bytes already written from the list of parts; returns the number of complete
 * parts. */
static size_t leave_out(struct iovec *parts, size_t count, size_t written) {
  size_t done = 0;
  while (done < count && written >= parts[done].iov_len) written -= parts[done++].iov_len;
  if (done < count) {
    parts[done].iov_base = (char *)parts[done].iov_base + written;
    parts[done].iov_len -= written;
  }
  return done;
}

static int file_write_parts(p3l_device *device, struct iovec *parts, size_t count,
                            p3l_file_offset at) {
  int descriptor = ((file *)device)->descriptor;
  while (count > 0) {
    ssize_t put =
        pwritev(descriptor, parts, count < IOV_MAX ? (int)count : IOV_MAX, (off_t)at.byte);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    size_t done = leave_out(parts, count, (size_t)put);
    parts += done;
    count -= done;
    at.byte += (uint64_t)put;
  }
  return 0;
}

/* The last page is left out, because more will be written to it. */
static void file_start(p3l_device *device, p3l_file_offset at, size_t length) {
  off_t end = (off_t)((at.byte + length) & ~(uint64_t)4095);
  if (end > (off_t)at.byte)
    sync_file_range(((file *)device)->descriptor, (off_t)at.byte, end - (off_t)at.byte,
                    SYNC_FILE_RANGE_WRITE);
}

static int file_sync(p3l_device *device) {
  /* Not repeated after an error: the kernel may have dropped the pages and would then report
   * success. */
  return fdatasync(((file *)device)->descriptor) == 0 ? 0 : errno;
}

static int file_size(p3l_device *device, uint64_t *bytes) {
  struct stat status;
  if (fstat(((file *)device)->descriptor, &status) != 0) return errno;
  *bytes = (uint64_t)status.st_size;
  return 0;
}

static void file_close(p3l_device *device) {
  close(((file *)device)->descriptor);
  free(device);
}

static int file_shorten(p3l_device *device, uint64_t bytes) {
  return ftruncate(((file *)device)->descriptor, (off_t)bytes) == 0 ? 0 : errno;
}

static int file_descriptor(p3l_device *device) { return ((file *)device)->descriptor; }

int p3l_file_open(const char *path, p3l_open_mode mode, bool lock, p3l_device **device) {
  int flags = O_CLOEXEC | O_NOCTTY | (mode == P3L_OPEN_READ ? O_RDONLY : O_RDWR);
  if (mode == P3L_OPEN_CREATE) flags |= O_CREAT | O_EXCL;
  int descriptor = open(path, flags, 0600);
  if (descriptor < 0) return errno;

  struct stat status;
  int failed = fstat(descriptor, &status) == 0 ? 0 : errno;
  if (failed == 0 && !S_ISREG(status.st_mode)) failed = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  if (failed == 0 && lock) failed = p3l_writer_lock(descriptor, mode != P3L_OPEN_READ);
  file *opened = failed == 0 ? malloc(sizeof(*opened)) : NULL;
  if (failed == 0 && opened == NULL) failed = ENOMEM;
  if (failed != 0) {
    close(descriptor);
    return failed;
  }
  *opened = (file){.device = {.read = file_read,
                              .write = file_write,
                              .write_parts = file_write_parts,
                              .start = file_start,
                              .sync = file_sync,
                              .size = file_size,
                              .close = file_close,
                              .shorten = file_shorten,
                              .descriptor = file_descriptor},
                   .descriptor = descriptor};
  *device = &opened->device;
  return 0;
}
