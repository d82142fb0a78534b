/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Pages whose translations have to leave the TLBs of every core the process runs on.
 *
 * Invariants:
 *  1. hm_sim.forget has the latest HM_FORGET_MOST pages of forget_count that there ever were.
 *  2. A core's TLBs have forgotten the first forgotten[cpu] of them; the rest go before the
 *     process runs on it again (hm_enter_core).
 */
#ifndef HM_UNMAPPED_H
#define HM_UNMAPPED_H

#include <stdint.h>

/* A page's entry changed and this core's TLBs are updated: makes the other cores of the process
 * update theirs. */
void hm_forget_elsewhere(uint64_t page);

#endif
