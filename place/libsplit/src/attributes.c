/* Scheduling attributes of threads: what sched_getattr and sched_setattr take. No state. */
#include "attributes.h"

#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

bool split_attributes_of(uint32_t tid, struct split_attributes *attributes) {
  memset(attributes, 0, sizeof *attributes);
  return syscall(SYS_sched_getattr, tid, attributes, sizeof *attributes, 0) == 0;
}

bool split_attributes_set(uint32_t tid, struct split_attributes *attributes) {
  attributes->size = sizeof *attributes;
  return syscall(SYS_sched_setattr, tid, attributes, 0) == 0;
}

bool split_attributes_fair(const struct split_attributes *attributes) {
  return (attributes->policy == SCHED_OTHER || attributes->policy == SCHED_BATCH ||
          attributes->policy == SCHED_IDLE) &&
         attributes->runtime != 0;
}

bool split_slice_restore(uint32_t tid, uint64_t original_ns, uint32_t original_policy) {
  struct split_attributes attributes;
  if (!split_attributes_of(tid, &attributes) || !split_attributes_fair(&attributes)) return false;
  attributes.runtime = original_ns;
  if (attributes.policy == SCHED_IDLE &&
      (original_policy == SCHED_OTHER || original_policy == SCHED_BATCH))
    attributes.policy = original_policy;
  return split_attributes_set(tid, &attributes);
}
