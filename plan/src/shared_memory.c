/*
 * Whether dynamic shared memory can be allocated.
 *
 * Core has no way to ask: an allocation in a DSA area without space in /dev/shm raises an error, with
 * locks of the area held. So the file system is asked before. Others may take the space meanwhile;
 * then core's error ends the statement (posix_fallocate() reports it; pages that are mapped exist).
 */
#include "shared_memory.h"

#include <sys/statvfs.h>

#include "storage/dsm.h"
#include "storage/dsm_impl.h"
#include "storage/pg_shmem.h"

/* A segment has a map of its pages, too, and an area's next segment is no smaller than this at first. */
#define SEGMENT_SLACK (2 * 1024 * 1024)
#define PAGE_MAP_SHARE 128

bool shared_memory_has(Size bytes) {
  struct statvfs space;

  /* Otherwise the memory is not in /dev/shm, or part of it was allocated when the server started. */
  if (dynamic_shared_memory_type != DSM_IMPL_POSIX || min_dynamic_shared_memory > 0) return true;
  if (statvfs("/dev/shm", &space) != 0) return true;
  if (space.f_blocks == 0) return true; /* a tmpfs without a limit reports no blocks, and none free */
  return (uint64)space.f_bavail * space.f_frsize >= bytes + bytes / PAGE_MAP_SHARE + SEGMENT_SLACK;
}
