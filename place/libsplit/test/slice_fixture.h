/*
 * Shared by the tests of time slices and of the background: the kernel's attributes, and kinds
 * "short" and "long".
 */
#ifndef SPLIT_TEST_SLICE_FIXTURE_H
#define SPLIT_TEST_SLICE_FIXTURE_H

#include "fixture.h"

#include <sys/syscall.h>

struct attributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

static inline struct attributes attributes_of(pid_t tid) {
  struct attributes attributes = {0};
  syscall(SYS_sched_getattr, tid, &attributes, sizeof attributes, 0);
  return attributes;
}

/* The slice in nanoseconds. */
static inline uint64_t slice_of(pid_t tid) { return attributes_of(tid).runtime; }

static inline bool set_slice(uint64_t ns) {
  struct attributes attributes = attributes_of(0);
  attributes.size = sizeof attributes;
  attributes.policy = SCHED_OTHER;
  attributes.runtime = ns;
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

#define MS UINT64_C(1000000)
static uint64_t own;

/* In the background, too, or not. */
static inline void decide_background(uint32_t code, bool background) {
  struct split_decision *decision = &split_mapping_in_use()->decisions[code];
  atomic_fetch_add(&decision->sequence, 1);
  atomic_store(&decision->background, background);
  atomic_fetch_add(&decision->sequence, 1);
}

static inline uint64_t policy_of(pid_t tid) { return attributes_of(tid).policy; }

static inline void decide_slice(uint32_t code, uint32_t us) {
  struct split_decision *decision = &split_mapping_in_use()->decisions[code];
  atomic_fetch_add(&decision->sequence, 1);
  atomic_store(&decision->actuation, (uint8_t)SPLIT_ACT_TIME);
  atomic_store(&decision->slice_us, us);
  atomic_fetch_add(&decision->sequence, 1);
}

static inline int begin_sliced(void **state) {
  set_slice(0);
  own = slice_of(0);
  if (begin_with_text(state) != 0) return -1;
  heartbeat();
  decide_slice(kind_of("short"), 100);
  decide_slice(kind_of("long"), 100000);
  return 0;
}

static inline int end_sliced(void **state) {
  int failed = remove_folder(state);
  set_slice(0);
  return failed;
}

#define NEEDS_SLICES()                                            \
  do {                                                            \
    if (own == 0) {                                               \
      print_message("skipped: this kernel has no time slices\n"); \
      skip();                                                     \
    }                                                             \
  } while (0)

#endif
