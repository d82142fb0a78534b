#include "files.h"

#include <fcntl.h>
#include <unistd.h>

#include "die.h"

void oo1_write_all(int descriptor, const char *path, const void *bytes, uint64_t count,
                   uint64_t offset) {
  for (const char *from = bytes; count > 0;) {
    ssize_t done = pwrite(descriptor, from, count, (off_t)offset);
    if (done <= 0) oo1_die_errno("%s cannot be written at byte %lu", path, offset);
    from += done, count -= (uint64_t)done, offset += (uint64_t)done;
  }
}

void oo1_read_all(int descriptor, const char *path, void *bytes, uint64_t count, uint64_t offset) {
  for (char *to = bytes; count > 0;) {
    ssize_t done = pread(descriptor, to, count, (off_t)offset);
    if (done < 0) oo1_die_errno("%s cannot be read at byte %lu", path, offset);
    if (done == 0) oo1_die("%s ends at byte %lu\n  remedy: load the store again", path, offset);
    to += done, count -= (uint64_t)done, offset += (uint64_t)done;
  }
}

void oo1_file_write(const char *path, const void *bytes, uint64_t count) {
  int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) oo1_die_errno("%s cannot be made", path);
  oo1_write_all(descriptor, path, bytes, count, 0);
  if (fsync(descriptor) != 0 || close(descriptor) != 0) oo1_die_errno("%s cannot be written", path);
}
