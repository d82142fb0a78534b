/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What of the first level need not be reported again: the filters (simulator.h), the
 * epochs of their sets, and the translations known.  hierarchy.c says why lines may be
 * skipped.
 *
 *   a line     not in ── put_into_... ──> in its slot ── take_out, begin_epoch,
 *              its slot                    │              hm_empty_... ──> not in its slot
 *                                          └ another line of the slot ──> not in its slot
 *
 * Invariants:
 *  1. A line is in a filter only while its L1 holds it and its page is known.
 *  2. A page is known only while the first-level TLB holds it; it has one of two places.
 *  3. A slot that may hold a line has its bit in `filled` of the set; known_page.lines has
 *     a bit for each line of the page that may be in a slot.
 */
#ifndef HM_FILTERS_H
#define HM_FILTERS_H

#include "access.h"
#include "simulator.h"

#define HM_PAGE_LINES_BITS (HM_PAGE_BITS - HM_LINE_BITS)
#define HM_PAGE_LINES_MASK ((1u << HM_PAGE_LINES_BITS) - 1)

/* Known translations, and the lines of each page that may be in the filters. Two pages with the
 * same place would evict each other: so each page has two adjacent places. (With one place, a
 * query of PostgreSQL had 340,000 evictions in 8 million calls, in a table of 256.) */
#define HM_KNOWN_PAGES 1024
#define HM_NO_PAGE UINT64_MAX
struct known_page {
  uint64_t page;  /* with HM_WATCHED, so that the fast path does not match */
  uint64_t lines; /* a bit per line of the page */
  hm_pte pte;
};

/* Marks a page whose lines other cores may write: coherence.h. */
#define HM_WATCHED (1ull << 63)

INLINE int is_known(const struct known_page *known, uint64_t page) {
  return (known->page & ~HM_WATCHED) == page;
}

/* The first of its two places, and the one that holds it, or the first if neither does. */
INLINE struct known_page *hm_places_of(struct known_page *table, uint64_t page) {
  return &table[page % (HM_KNOWN_PAGES / 2) * 2];
}

INLINE struct known_page *hm_find_known(struct known_page *table, uint64_t page) {
  struct known_page *places = hm_places_of(table, page);
  return places + is_known(&places[1], page);
}

/* The parameters that differ between code and data. */
struct first_level {
  const struct hm_cache *cache;
  struct hm_shadow *shadow;
  uint64_t *const *touched, *const *touched_by_other;
  uint64_t *filter, *second_filter;
  uint8_t *seen;    /* lines of each set seen in its present epoch; they come first */
  uint32_t *filled; /* one bit for each slot of a set that may hold a line */
  const struct hm_tlb *tlb;
  struct known_page *known;
  uint64_t *places;
  enum hm_event miss, tlb_miss;
};

_Static_assert(HM_FILTER_SLOTS <= 32, "a bit for each slot");
extern uint32_t hm_data_filled[HM_L1_SETS], hm_code_filled[HM_L1_SETS];

/* All of them: another process had the core, or pages were unmapped (hierarchy.c). */
void hm_empty_filters(void);
/* Removes the lines that other cores requested. */
void hm_empty_slots_called_for(void);

INLINE void hm_heed_other_cores(void) {
  if (unlikely(atomic_load_explicit(&hm_sim.core->attention, memory_order_relaxed) != 0))
    hm_empty_slots_called_for();
}

/* Begins an epoch: every line of the set must be seen again. */
INLINE void begin_epoch(const struct first_level *level, uint32_t set) {
  for (uint32_t filled = level->filled[set]; filled != 0; filled &= filled - 1) {
    uint32_t number = (uint32_t)__builtin_ctz(filled);
    if (level->second_filter == NULL) {
      level->filter[set * HM_FILTER_SLOTS + number] = HM_NO_LINE;
    } else {
      uint32_t slot = number * level->cache->sets + set;
      level->filter[slot] = level->second_filter[slot] = HM_NO_LINE;
    }
  }
  level->filled[set] = 0;
  level->seen[set] = 1; /* the line being accessed */
}

INLINE void take_out(uint64_t *slot, uint64_t address) {
  if (*slot == address) *slot = HM_NO_LINE;
}

INLINE uint32_t physical_line(hm_pte pte, uint64_t address) {
  return HM_PTE_FRAME(pte) << HM_PAGE_LINES_BITS |
         ((uint32_t)(address >> HM_LINE_BITS) & HM_PAGE_LINES_MASK);
}

/* The set of a line, and the bit of its slot within the set. */
INLINE void note_filled(uint32_t *filled, const struct hm_cache *l1, uint64_t address,
                        uint32_t number) {
  uint64_t line = address >> HM_LINE_BITS;
  filled[line & l1->set_mask] |= 1u << number;
}

INLINE void put_into_data_filters(struct known_page *known, uint64_t address, int writable) {
  uint64_t base = address & ~(uint64_t)(HM_LINE_SIZE - 1);
  *hm_data_slot(hm_filter_load, address) = base;
  *hm_data_slot(hm_filter_store, address) = writable ? base : HM_NO_LINE;
  note_filled(hm_data_filled, &hm_sim.l1d, address,
              (uint32_t)(address >> HM_LINE_BITS >> hm_sim.l1d.set_bits) & (HM_FILTER_SLOTS - 1));
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
  note_filled(hm_code_filled, &hm_sim.l1i, line_address, hm_code_slot_of_set(line_address));
  known->lines |= 1ull << (line_address >> HM_LINE_BITS & HM_PAGE_LINES_MASK);
}

#endif
