/*
 * A file as the store uses it: six calls, and two that a device of tests need not have. The real one
 * is a file descriptor; tests record what is written between two syncs, fail at a chosen call, or
 * lose what was not synced.
 */
#ifndef P3L_DEVICE_H
#define P3L_DEVICE_H

#include <stddef.h>
#include <sys/uio.h>

#include "units.h"

typedef struct p3l_device p3l_device;
struct p3l_device {
  /* All or nothing: 0, or an errno value. Reading beyond the end is ENODATA. */
  int (*read)(p3l_device *device, void *bytes, size_t length, p3l_file_offset at);
  int (*write)(p3l_device *device, const void *bytes, size_t length, p3l_file_offset at);
  /* The same from several places, side by side in the file. The list is the callee's to change. */
  int (*write_parts)(p3l_device *device, struct iovec *parts, size_t count, p3l_file_offset at);
  /* The disk may begin with what was written there; NULL: it begins with the sync. */
  void (*start)(p3l_device *device, p3l_file_offset at, size_t length);
  /* Returns when everything written before is on stable storage. */
  int (*sync)(p3l_device *device);
  int (*size)(p3l_device *device, uint64_t *bytes);
  void (*close)(p3l_device *device);
  /* Truncates the file; NULL: not supported. Used for unneeded bytes only. */
  int (*shorten)(p3l_device *device, uint64_t bytes);
  /* The file descriptor, for io_uring; NULL if there is none. Reading only. */
  int (*descriptor)(p3l_device *device);
};

/* Its descriptor, or -1: not a file. */
static inline int p3l_file_descriptor(p3l_device *device) {
  return device->descriptor == NULL ? -1 : device->descriptor(device);
}

typedef enum p3l_open_mode { P3L_OPEN_READ, P3L_OPEN_WRITE, P3L_OPEN_CREATE } p3l_open_mode;

/*
 * Opens a regular file. P3L_OPEN_CREATE fails with EEXIST if there is one. Takes the writer's lock
 * (readers.h) if `lock` is set: shared for reading, exclusive otherwise; EWOULDBLOCK if another
 * process has it.
 */
int p3l_file_open(const char *path, p3l_open_mode mode, bool lock, p3l_device **device);

#endif
