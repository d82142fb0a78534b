/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "lower_levels.h"

#include "coherence.h"
#include "host.h"
#include "lock.h"
#include "reuse.h"

/* Whether the bit was not set yet (a cold miss); sets it. */
INLINE int first_touch(uint64_t *touched, uint32_t physical_line) {
  uint64_t bit = 1ull << (physical_line & 63);
  uint64_t *word = &touched[physical_line >> 6];
  if ((*word & bit) != 0) return 0;
  *word |= bit;
  return 1;
}

INLINE uint8_t cause_of(int cold, int shadow_held_it) {
  return cold ? HM_CAUSE_COLD : shadow_held_it ? HM_CAUSE_CONFLICT : HM_CAUSE_CAPACITY;
}

/* The last level is shared by all cores; with one core, the core's lock protects it. A line that
 * another core has modified is supplied by it through the last level, which keeps a copy: the
 * latency is that of a transfer. */
static void access_l3(struct hm_access *access, uint32_t line) {
  int place, cold = 0, held = 0, causes = causes_wanted(HM_L3_MISS);
  uint32_t set = hm_cache_set(&hm_sim.l3, line);
  int shared = hm_sim.config.cores > 1;
  if (shared) hm_lock_acquire(&hm_sim.shared->l3_lock, hm_sim.pid);
  place = hm_cache_access(&hm_sim.l3, set, line);
  if (causes && !is_recent(&hm_sim.l3, place)) {
    held = hm_shadow_access(&hm_sim.l3_shadow, &hm_sim.l3, line);
    cold = first_touch(hm_sim.touched_all, line);
  }
  if (shared) hm_lock_release(&hm_sim.shared->l3_lock);
  int from_other_core = (access->line_found & HM_IN_OTHER_CORE) != 0;
  if (place >= 0 || from_other_core) {
    access->level = (uint8_t)max32(access->level, HM_LEVEL_L3);
    access->latency = max32(access->latency, hm_sim.l3.latency);
    if (from_other_core) access->latency = max32(access->latency, hm_transfer_latency());
    return;
  }
  access->events |= 1u << HM_L3_MISS;
  access->set[2] = set;
  if (causes) access->cause[2] = cause_of(cold, held);
  access->level = HM_LEVEL_MEMORY;
  access->latency = max32(access->latency, hm_sim.config.memory_latency);
}

/* A last level has many megabytes of tags: prefetch them while the second level's shadow is
 * searched. */
INLINE void expect_l3(uint32_t line) {
  if (hm_sim.l3.sets == 0) return;
  const uint32_t *way = hm_sim.l3.tags + (uint64_t)hm_cache_set(&hm_sim.l3, line) * hm_sim.l3.ways;
  __builtin_prefetch(way);
  __builtin_prefetch(way + hm_sim.l3.ways - 1);
}

/* Below L1; `first` is 1 if this L1 never had the line, -1 if unknown. A line that neither L1 of
 * the core ever had is new to its L2, too, and misses there: so it needs to be determined only
 * after an L2 miss. */
INLINE void access_below_l1(struct hm_access *access, const struct first_level *level,
                            uint32_t line, int first) {
  if (hm_sim.reuse != NULL && unlikely(hm_reuse_follows(line)))
    hm_reuse_count(hm_sim.reuse, hm_sim.reuse_counts, line,
                   HM_REUSE_ONE_LINE_IN * hm_sim.config.set_sampling);
  if (hm_sim.l2.sets != 0) {
    int causes = causes_wanted(HM_L2_MISS);
    uint32_t set = hm_cache_set(&hm_sim.l2, line);
    int place = hm_cache_access(&hm_sim.l2, set, line);
    if (place < 0) expect_l3(line);
    int held = causes && !is_recent(&hm_sim.l2, place)
                   ? hm_shadow_access(&hm_sim.l2_shadow, &hm_sim.l2, line)
                   : 0;
    int lost = (access->line_found & HM_IN_L2) != 0; /* out of date: treated as absent */
    if (place >= 0 && !lost) {
      access->level = (uint8_t)max32(access->level, HM_LEVEL_L2);
      access->latency = max32(access->latency, hm_sim.l2.latency);
      return;
    }
    access->events |= 1u << HM_L2_MISS;
    access->set[1] = set;
    if (causes) {
      if (first < 0) first = first_touch(*level->touched, line);
      int other = ((*level->touched_by_other)[line >> 6] & 1ull << (line & 63)) != 0;
      access->cause[1] = cause_of(first && !other, held);
    }
    if (lost) access->cause[1] = HM_CAUSE_COHERENCE;
  }
  if (hm_sim.l3.sets != 0) {
    access_l3(access, line);
  } else {
    access->level = HM_LEVEL_MEMORY;
    access->latency = max32(access->latency, hm_sim.config.memory_latency);
  }
}

void hm_miss_l1(struct hm_access *access, const struct first_level *level, uint32_t set,
                uint32_t line) {
  access->events |= 1u << level->miss;
  access->set[0] = set;
  access->physical_line = line;
  int first = -1; /* first access of this L1: not known yet */
  if (causes_wanted(level->miss)) {
    int held = hm_shadow_access(level->shadow, level->cache, line);
    first = first_touch(*level->touched, line);
    access->cause[0] = cause_of(first, held);
  }
  if ((access->line_found & HM_IN_L1) != 0) access->cause[0] = HM_CAUSE_COHERENCE;
  access_below_l1(access, level, line, first);
}
