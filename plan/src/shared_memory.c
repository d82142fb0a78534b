/*
 * Dynamic shared memory for the tables of a parallel plan.
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

/* Core's keys are the numbers of plan nodes, and begin with 0xE0 or 0xFF. */
#define SHARED_BYTES_KEY UINT64CONST(0xCC00000000000001)

/* Room for the sum comes once for each node; the first that begins uses it. */
void shared_memory_estimate(ParallelContext *context) {
  shm_toc_estimate_chunk(&context->estimator, sizeof(SharedBytes));
  shm_toc_estimate_keys(&context->estimator, 1);
}

SharedBytes *shared_memory_begin(shm_toc *toc) {
  SharedBytes *bytes_of_area = shm_toc_lookup(toc, SHARED_BYTES_KEY, true);

  if (bytes_of_area != NULL) return bytes_of_area;
  bytes_of_area = shm_toc_allocate(toc, sizeof(SharedBytes));
  pg_atomic_init_u64(&bytes_of_area->sum, 0);
  shm_toc_insert(toc, SHARED_BYTES_KEY, bytes_of_area);
  return bytes_of_area;
}

static bool has_space(Size bytes) {
  struct statvfs space;

  /* Otherwise the memory is not in /dev/shm, or part of it was allocated when the server started. */
  if (dynamic_shared_memory_type != DSM_IMPL_POSIX || min_dynamic_shared_memory > 0) return true;
  if (statvfs("/dev/shm", &space) != 0) return true;
  if (space.f_blocks == 0)
    return true; /* a tmpfs without a limit reports no blocks, and none free */
  return (uint64)space.f_bavail * space.f_frsize >= bytes + bytes / PAGE_MAP_SHARE + SEGMENT_SLACK;
}

dsa_pointer shared_memory_allocate(dsa_area *area, SharedBytes *bytes_of_area, Size bytes) {
  Size before = pg_atomic_fetch_add_u64(&bytes_of_area->sum, bytes);

  /* The next segment may be as large as those before it together, however little is asked for:
   * segments have 1, 2, 2, 4, 4, 8 ... MB at least. */
  if (has_space(Max(bytes, before))) return dsa_allocate_extended(area, bytes, DSA_ALLOC_HUGE);
  pg_atomic_fetch_sub_u64(&bytes_of_area->sum, bytes);
  return InvalidDsaPointer;
}

void shared_memory_free(dsa_area *area, SharedBytes *bytes_of_area, dsa_pointer block, Size bytes) {
  dsa_free(area, block);
  pg_atomic_fetch_sub_u64(&bytes_of_area->sum, bytes);
}
