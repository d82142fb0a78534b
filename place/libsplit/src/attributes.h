/* Scheduling attributes of threads, of which the time slice is one. Async-signal-safe. */
#ifndef SPLIT_ATTRIBUTES_H
#define SPLIT_ATTRIBUTES_H

#include <stdbool.h>
#include <stdint.h>

/* The kernel's struct sched_attr, in its first size: current C libraries do not define it. */
struct split_attributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t
      runtime; /* for a fair thread: its time slice in nanoseconds; 0: the kernel's default, or none */
  uint64_t deadline, period;
};
_Static_assert(sizeof(struct split_attributes) == 48, "SCHED_ATTR_SIZE_VER0");

/* Returns the attributes of a thread; `tid` 0: this thread. */
bool split_attributes_of(uint32_t tid, struct split_attributes *attributes);
bool split_attributes_set(uint32_t tid, struct split_attributes *attributes);
/*
 * True if the thread can have a time slice: not real-time threads, and no thread on a kernel before
 * 6.12.
 */
bool split_attributes_fair(const struct split_attributes *attributes);
/* Restores a thread's own slice and, if it is in the background (SCHED_IDLE), its class. */
bool split_slice_restore(uint32_t tid, uint64_t original_ns, uint32_t original_policy);

#endif
