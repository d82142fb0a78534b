/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What huge pages would change: copies of the second-level TLB (of the first-level data
 * TLB where there is no second) in which an entry reaches over 2 MiB.  In one copy all
 * memory is in huge pages, in the other only shared memory is, as with PostgreSQL's
 * huge_pages.  Their misses are the page walks that would remain; HM_STLB_MISS (or, with
 * one level, the first-level misses) counts those of today.
 *
 * An approximation: the copies see the accesses that miss the first level as it is.  With huge
 * pages that level would reach further, and hide accesses that here keep entries of the
 * copy young.  Entries are as many as for small pages; some processors have fewer.
 */
#ifndef HM_HUGE_PAGES_H
#define HM_HUGE_PAGES_H

#include "simulator.h"

#define HM_HUGE_BITS 9                                 /* pages in a huge page: 2^9 */
#define HM_HUGE_KEY (1ull << (HM_TLB_SPACE_SHIFT - 1)) /* marks keys of huge pages */

static inline uint64_t hm_tlb_key(uint64_t page) {
  return (uint64_t)hm_sim.space << HM_TLB_SPACE_SHIFT | page;
}

static inline uint64_t hm_huge_key(uint64_t page) {
  return hm_tlb_key(page >> HM_HUGE_BITS) | HM_HUGE_KEY;
}

/* Returns 1 if the copy needed a walk. */
static inline uint64_t hm_huge_walk(const struct hm_tlb *twin, uint64_t page, int huge) {
  uint64_t key = huge ? hm_huge_key(page) : hm_tlb_key(page);
  uint32_t set = hm_tlb_set(twin, huge ? page >> HM_HUGE_BITS : page), entry;
  if (hm_tlb_lookup(twin, set, key, &entry)) return 0;
  hm_tlb_fill(twin, set, key, 0);
  return 1;
}

/* A translation that the first level did not hold. */
static inline void hm_huge_translate(uint64_t page, int shared) {
  if (hm_sim.huge_all.sets == 0) return;
  hm_sim.counts->walks_all_huge += hm_huge_walk(&hm_sim.huge_all, page, 1);
  hm_sim.counts->walks_shared_huge += hm_huge_walk(&hm_sim.huge_shared, page, shared);
}

#endif
