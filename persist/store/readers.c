/*
 * Locks bytes beyond the end of the file. readers.h has the invariants.
 */
#include "readers.h"

#include <errno.h>
#include <fcntl.h>

/* Locks belong to the open file, not to the process: two threads of one process exclude each
 * other too. */
static int set_lock(int descriptor, short type, uint64_t start, uint64_t length) {
  struct flock lock = {
      .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)start, .l_len = (off_t)length};
  if (fcntl(descriptor, F_OFD_SETLK, &lock) == 0) return 0;
  return errno == EAGAIN || errno == EACCES ? EWOULDBLOCK : errno;
}

/* Finds a lock of another open file on [start, end) that conflicts with one of `type`; end 0: no
 * end. *found: its first byte. */
static bool find_lock(int descriptor, short type, uint64_t start, uint64_t end, uint64_t *found) {
  struct flock lock = {.l_type = type,
                       .l_whence = SEEK_SET,
                       .l_start = (off_t)start,
                       .l_len = end == 0 ? 0 : (off_t)(end - start)};
  if (start == end || fcntl(descriptor, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
    return false;
  *found = (uint64_t)lock.l_start < start ? start : (uint64_t)lock.l_start;
  return true;
}

int p3l_writer_lock(int descriptor, bool exclusive) {
  return set_lock(descriptor, exclusive ? F_WRLCK : F_RDLCK, 0, P3L_READER_BYTES);
}

bool p3l_writer_is_there(int descriptor) {
  uint64_t found;
  return find_lock(descriptor, F_RDLCK, 0, P3L_READER_BYTES, &found);
}

int p3l_reader_register(int descriptor, p3l_lsn base) {
  return set_lock(descriptor, F_RDLCK, P3L_READER_BYTES + base.byte, 1);
}

void p3l_reader_leave(int descriptor, p3l_lsn base) {
  set_lock(descriptor, F_UNLCK, P3L_READER_BYTES + base.byte, 1);
}

bool p3l_readers_span(int descriptor, p3l_lsn *oldest, p3l_lsn *newest) {
  uint64_t any, first, last;
  /* The kernel returns any one of the locks, so each call excludes the range beyond the last one
   * found. */
  if (!find_lock(descriptor, F_WRLCK, P3L_READER_BYTES, 0, &any)) return false;
  first = last = any;
  while (find_lock(descriptor, F_WRLCK, P3L_READER_BYTES, first, &any)) first = any;
  while (find_lock(descriptor, F_WRLCK, last + 1, 0, &any)) last = any;
  *oldest = (p3l_lsn){first - P3L_READER_BYTES};
  *newest = (p3l_lsn){last - P3L_READER_BYTES};
  return true;
}
