/*
 * The interface between the store and a file: six calls, and two that a test device may leave out.
 * The real device is a file descriptor. Test devices record what is written between two syncs, fail
 * at a chosen call, or lose what was not synced.
 */
#ifndef P3L_DEVICE_H
#define P3L_DEVICE_H

#include <stddef.h>
#include <sys/uio.h>

#include "units.h"

typedef struct p3l_device p3l_device;
struct p3l_device {
  /* Reads all bytes or fails. Returns 0 or an errno value; reading beyond the end is ENODATA. */
  int (*read)(p3l_device *device, void *bytes, size_t length, p3l_file_offset at);
  int (*write)(p3l_device *device, const void *bytes, size_t length, p3l_file_offset at);
  /* Writes several parts to adjacent places of the file. The callee may change the list. */
  int (*write_parts)(p3l_device *device, struct iovec *parts, size_t count, p3l_file_offset at);
  /*
   * Starts writing the given range to the disk without waiting; NULL: writing begins with the sync.
   */
  void (*start)(p3l_device *device, p3l_file_offset at, size_t length);
  /* Returns when everything written before is on stable storage. Returns 0 or an errno value. */
  int (*sync)(p3l_device *device);
  int (*size)(p3l_device *device, uint64_t *bytes);
  void (*close)(p3l_device *device);
  /* Truncates the file; NULL: not supported. Called for unneeded bytes only. */
  int (*shorten)(p3l_device *device, uint64_t bytes);
  /* Returns the file descriptor, for io_uring; NULL: there is none. Used for reading only. */
  int (*descriptor)(p3l_device *device);
};

/* Returns the device's file descriptor, or -1 if it is not a file. */
static inline int p3l_file_descriptor(p3l_device *device) {
  return device->descriptor == NULL ? -1 : device->descriptor(device);
}

typedef enum p3l_open_mode { P3L_OPEN_READ, P3L_OPEN_WRITE, P3L_OPEN_CREATE } p3l_open_mode;

/*
 * Opens a regular file. P3L_OPEN_CREATE fails with EEXIST if the file exists. If `lock` is set,
 * takes the writer's lock (readers.h): shared for reading, otherwise exclusive; EWOULDBLOCK if
 * another process has it.
 */
int p3l_file_open(const char *path, p3l_open_mode mode, bool lock, p3l_device **device);

#endif
