/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Simulated time. clock.h has the invariant.
 */
#include "clock.h"

void hm_advance_clock_max(uint64_t clock) {
  uint64_t seen = atomic_load_explicit(&hm_sim.header->clock_max, memory_order_relaxed);
  while (seen < clock && !atomic_compare_exchange_weak(&hm_sim.header->clock_max, &seen, clock)) {
  }
}

void hm_forget_counts(void) {
  hm_sim.packed_counts = 0;
  hm_sim.instructions = hm_sim.loads = hm_sim.stores = 0;
  hm_sim.stall_cycles = 0;
}

uint64_t hm_cycles(void) {
  return hm_sim.on_core ? hm_sim.core->clock + hm_running_cycles() : hm_sim.release_clock;
}
