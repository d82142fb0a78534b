/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What of a miss's latency the core cannot hide: its exposed cycles.
 *
 * The core begins instructions in order, `base_cpi` apart, and retires them in order; between the
 * two lie at most `reorder_window` of them.  An instruction that waits for a miss therefore stops
 * the core when the window behind it is full, until its line is there:
 *
 *   begun      base + stalls applied   grows with the instructions
 *   reached    base + all stalls       when the window behind this instruction will be full, less
 *                                      what the window itself takes
 *   arrival    max(begun, address known, a fill buffer free) + latency
 *   exposed    arrival - (reached + window), if that is positive: added to all stalls, and
 *              applied when the instruction `window` further is begun
 *
 * So a lone miss is exposed by its latency less the window; n misses that depend on one another,
 * by n latencies; n that do not, by n latencies / fill buffers, or as many as the window holds.
 * The sum over all misses is the time the core stood still.
 *
 *   load         the reorder window; waits for the load that its address came from (below)
 *   store        waits in the store buffer: the window is the number of instructions that
 *                execute as many stores, at this program's rate
 *   locked       waits for all before it, and all behind it wait for it: no window
 *   fetch        nothing is begun meanwhile: no window
 *
 * A prefetcher that asked for the line earlier (prefetch.h) began the latency then.  Lines from
 * memory arrive `line_cycles` apart at least, those of L3 half of it (an assumption).
 *
 * Which load an address came from.  Within a block of the program that is known when code is
 * generated (HM_SITE_DEPENDS).  From block to block nothing is followed through registers: that
 * would be work at every instruction.  At a miss, the lines of the load misses under way are
 * compared with its address: it depends on one if the line holds a pointer to just before it
 * (lists, trees, hash chains, tables of pointers), or if, for this instruction, address = base +
 * scale x value read held three times (indices).  What this does not see: addresses computed
 * otherwise from what another block loaded (a hash of it), pointers that came by way of a line
 * that hits, and branches that wait for a load and are predicted wrongly.
 *
 * Invariants:
 *  1. hm_sim.stall_cycles are all stalls since the core was taken, `pending` those of them not yet
 *     applied.
 *  2. Lines under way are read when the next miss comes, if the process stayed in generated code:
 *     the load has then been executed and did not fault.
 */
#ifndef HM_TIMING_H
#define HM_TIMING_H

#include "simulator.h"

/* The state of this core is that of the outstanding misses from now on. */
void hm_timing_select(uint32_t cpu);
/* Another process had the core, or this is another core: there are no outstanding misses. */
void hm_timing_begin(void);
/* The core is taken: after a system call the window is empty. */
void hm_timing_resume(void);
/* Generated code is left: the latest load may have faulted. */
void hm_timing_pause(void);

static inline int hm_timing_is_on(void) { return hm_sim.config.core.reorder_window != 0; }

/* Sets the exposed cycles of a miss that takes `cycles` more than a hit, and applies them to the
 * clock. */
void hm_expose(struct hm_access *access, uint32_t beyond);

#endif
