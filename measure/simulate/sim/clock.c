/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Simulated time. clock.h has the invariant.
 */
#include "clock.h"

void hm_forget_counts(void) {
  hm_sim.packed_counts = 0;
  hm_sim.instructions = hm_sim.loads = hm_sim.stores = 0;
  hm_sim.stall_cycles = 0;
}

uint64_t hm_cycles(void) {
  return hm_sim.on_core ? hm_sim.core->clock + hm_running_cycles() : hm_sim.release_clock;
}
