/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What of the first level need not be reported again: the filters (simulator.h), the
 * epochs of their sets, and the translations known.  hierarchy.c says why lines may be
 * skipped.
 */
#ifndef HM_FILTERS_H
#define HM_FILTERS_H

#include "access.h"
#include "simulator.h"

#define HM_PAGE_LINES_BITS (HM_PAGE_BITS - HM_LINE_BITS)
#define HM_PAGE_LINES_MASK ((1u << HM_PAGE_LINES_BITS) - 1)

/* Known translations, and which lines of the page may be in the filters. */
#define HM_KNOWN_PAGES 256
#define HM_NO_PAGE UINT64_MAX
struct known_page {
  uint64_t page;  /* with HM_WATCHED, so that the short way is not taken */
  uint64_t lines; /* a bit per line of the page */
  hm_pte pte;
};

/* On a page whose lines other cores may write: coherence.h. */
#define HM_WATCHED (1ull << 63)

INLINE int is_known(const struct known_page *known, uint64_t page) {
  return (known->page & ~HM_WATCHED) == page;
}

/* What differs between code and data. */
struct first_level {
  const struct hm_cache *cache;
  struct hm_shadow *shadow;
  uint64_t *const *touched, *const *touched_by_other;
  uint64_t *filter, *second_filter;
  uint8_t *seen; /* lines of each set seen in its present epoch; they are the first of the set */
  const struct hm_tlb *tlb;
  struct known_page *known;
  enum hm_event miss, tlb_miss;
};

void hm_empty_filters(void);
/* Takes the lines out that other cores called for. */
void hm_empty_slots_called_for(void);

INLINE void hm_heed_other_cores(void) {
  if (unlikely(atomic_load_explicit(&hm_sim.core->attention, memory_order_relaxed) != 0))
    hm_empty_slots_called_for();
}

/* A new epoch: every line of the set has to be seen again. */
INLINE void begin_epoch(const struct first_level *level, uint32_t set) {
  if (level->second_filter == NULL) {
    uint64_t *slots = level->filter + (uint64_t)set * HM_FILTER_SLOTS;
    for (int i = 0; i < HM_FILTER_SLOTS; i++) slots[i] = HM_NO_LINE;
  } else {
    uint32_t sets = level->cache->sets;
    for (uint32_t slot = set; slot < sets * HM_FILTER_SLOTS; slot += sets)
      level->filter[slot] = level->second_filter[slot] = HM_NO_LINE;
  }
  level->seen[set] = 1; /* the line being accessed */
}

INLINE void take_out(uint64_t *slot, uint64_t address) {
  if (*slot == address) *slot = HM_NO_LINE;
}

INLINE uint32_t physical_line(hm_pte pte, uint64_t address) {
  return HM_PTE_FRAME(pte) << HM_PAGE_LINES_BITS |
         ((uint32_t)(address >> HM_LINE_BITS) & HM_PAGE_LINES_MASK);
}

INLINE void put_into_data_filters(struct known_page *known, uint64_t address, int writable) {
  uint64_t base = address & ~(uint64_t)(HM_LINE_SIZE - 1);
  *hm_data_slot(hm_filter_load, address) = base;
  *hm_data_slot(hm_filter_store, address) = writable ? base : HM_NO_LINE;
  known->lines |= 1ull << (address >> HM_LINE_BITS & HM_PAGE_LINES_MASK);
}

INLINE void take_out_of_data_filters(uint64_t address) {
  uint64_t base = address & ~(uint64_t)(HM_LINE_SIZE - 1);
  take_out(hm_data_slot(hm_filter_load, base), base);
  take_out(hm_data_slot(hm_filter_store, base), base);
}

INLINE int in_data_filter(uint64_t address, int writes) {
  return *hm_data_slot(writes ? hm_filter_store : hm_filter_load, address) ==
         (address & ~(uint64_t)(HM_LINE_SIZE - 1));
}

INLINE void put_into_code_filter(struct known_page *known, uint64_t line_address) {
  *hm_code_slot(line_address) = line_address;
  known->lines |= 1ull << (line_address >> HM_LINE_BITS & HM_PAGE_LINES_MASK);
}

#endif
