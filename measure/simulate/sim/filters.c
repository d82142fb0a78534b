/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Lines leave the filters. filters.h has the invariants.
 */
#include "filters.h"

uint32_t hm_data_filled[HM_L1_SETS], hm_code_filled[HM_L1_SETS];

/* Virtual and physical addresses agree in the line's position within its page; if an L1 has more
 * sets than a page has lines, several sets are possible. */
NOINLINE void hm_empty_slots_called_for(void) {
  uint64_t lines = atomic_exchange(&hm_sim.core->attention, 0);
  uint32_t sets = hm_sim.l1d.sets, slots = sets * HM_FILTER_SLOTS;
  for (; lines != 0; lines &= lines - 1) {
    uint32_t line = (uint32_t)__builtin_ctzll(lines);
    uint32_t step = sets < 1u << HM_PAGE_LINES_BITS ? sets : 1u << HM_PAGE_LINES_BITS;
    for (uint32_t slot = line & (step - 1); slot < slots; slot += step)
      hm_filter_load[slot] = hm_filter_store[slot] = HM_NO_LINE;
  }
}
