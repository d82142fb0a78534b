/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Simulated time: what this process counted since it got its core, and what that takes.
 *
 * Invariant: a count is the sum of its field in the packed word and of its own counter
 * (simulator.h); hm_slice_is_over() moves the one into the other.
 */
#ifndef HM_CLOCK_H
#define HM_CLOCK_H

#include "simulator.h"

static inline uint64_t hm_instructions_run(void) {
  return hm_sim.instructions + (hm_sim.packed_counts & HM_PACKED_MOST(HM_PACKED_INSTRUCTION_BITS));
}

static inline uint64_t hm_loads_run(void) {
  return hm_sim.loads +
         (hm_sim.packed_counts >> HM_PACKED_INSTRUCTION_BITS & HM_PACKED_MOST(HM_PACKED_LOAD_BITS));
}

static inline uint64_t hm_stores_run(void) {
  return hm_sim.stores +
         (hm_sim.packed_counts >> (HM_PACKED_INSTRUCTION_BITS + HM_PACKED_LOAD_BITS));
}

static inline uint64_t hm_running_cycles(void) {
  return hm_instructions_run() * hm_sim.config.milli_cpi / 1000 + hm_sim.stall_cycles;
}

/* The latest clock of all cores is at least this: a process that is woken goes on from there. */
void hm_advance_clock_max(uint64_t clock);

/* Drops the counts since the core was taken. */
void hm_forget_counts(void);

#endif
