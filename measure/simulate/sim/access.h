/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the files of the simulator share on the way of one access: its beginning,
 * and its events, which are counted and now and then become a sample.
 */
#ifndef HM_ACCESS_H
#define HM_ACCESS_H

#include "simulator.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define NOINLINE __attribute__((noinline))
#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t max32(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* The counter of an event reached its period: resets it and takes a sample. */
void hm_expire(const struct hm_access *access, enum hm_event event);

INLINE void count(const struct hm_access *access, enum hm_event event) {
  hm_sim.counts->events[event]++;
  if (unlikely(--hm_sim.core->countdown[event] == 0)) hm_expire(access, event);
}

/* All events of an access are counted after it completed. */
INLINE void count_events(const struct hm_access *access) {
  for (uint32_t events = access->events; events != 0; events &= events - 1)
    count(access, (enum hm_event)__builtin_ctz(events));
}

INLINE void begin(struct hm_access *access, uint64_t address, uint64_t site, uint32_t latency) {
  *access = (struct hm_access){.address = address,
                               .site = site,
                               .latency = latency,
                               .level = HM_LEVEL_L1,
                               .translation = HM_TLB_L1};
}

#endif
