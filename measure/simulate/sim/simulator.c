/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The one instance of the simulated machine as this process sees it. simulator.h has the
 * picture and the invariants.
 */
#include "simulator.h"

struct hm_simulator hm_sim;
uint64_t hm_filter_load[HM_L1_SETS * HM_FILTER_SLOTS] __attribute__((aligned(64)));
uint64_t hm_filter_store[HM_L1_SETS * HM_FILTER_SLOTS] __attribute__((aligned(64)));
uint64_t hm_filter_fetch[HM_L1_SETS * HM_FILTER_SLOTS] __attribute__((aligned(64)));
