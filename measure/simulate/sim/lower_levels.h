/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the first level does not hold: L2, L3, memory, and why it was missed.
 */
#ifndef HM_LOWER_LEVELS_H
#define HM_LOWER_LEVELS_H

#include "filters.h"

/* Causes are tracked only for levels whose misses are sampled. */
INLINE int causes_wanted(enum hm_event miss) {
  return (hm_sim.config.flags & HM_FLAG_CAUSES) != 0 && hm_sim.config.period[miss] != 0;
}

/* In the recent half of its set: the shadow does not see such hits (shadow.h). */
INLINE int is_recent(const struct hm_cache *cache, int place) {
  return place >= 0 && place < (int)((cache->ways + 1) / 2);
}

/* The first level missed: prefetches what the second level will need into the host's caches. */
INLINE void hm_expect_miss(uint32_t line) {
  if (hm_sim.l2.sets == 0) return;
  __builtin_prefetch(hm_sim.l2.tags + (uint64_t)hm_cache_set(&hm_sim.l2, line) * hm_sim.l2.ways);
  if (causes_wanted(HM_L2_MISS)) __builtin_prefetch(hm_shadow_bucket(&hm_sim.l2_shadow, line));
}

/* The line is on its way into the first level already. */
void hm_miss_l1(struct hm_access *access, const struct first_level *level, uint32_t set,
                uint32_t line);

#endif
