/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Events that touch no memory: instructions executed, branches predicted wrongly.
 */
#include "access.h"

static void expire_without_memory(uint64_t address, uint64_t site, enum hm_event event) {
  struct hm_access access;
  begin(&access, address, site, 0);
  access.level = HM_LEVEL_NONE;
  access.translation = HM_TLB_NONE;
  hm_expire(&access, event);
}

void hm_instruction(uint64_t site) {
  if (likely(--hm_sim.core->countdown[HM_INSTRUCTIONS] != 0)) return;
  expire_without_memory(HM_SITE_IP(site), site, HM_INSTRUCTIONS);
}

/* --- Branches: gshare for directions, last target for indirect ones ------- */

static void mispredicted(uint64_t target, uint64_t site) {
  hm_sim.counts->events[HM_BRANCH_MISS]++;
  if (--hm_sim.core->countdown[HM_BRANCH_MISS] == 0)
    expire_without_memory(target, site, HM_BRANCH_MISS);
}

void hm_branch(uint64_t taken, uint64_t site) {
  struct hm_branch_predictor *predictor = &hm_sim.core->predictor;
  uint32_t index = ((uint32_t)HM_SITE_IP(site) ^ predictor->history) & ((1u << 14) - 1);
  uint8_t counter = predictor->direction[index];
  predictor->history = predictor->history << 1 | (taken & 1);
  if ((taken & 1) != 0) {
    if (counter < 3) predictor->direction[index]++;
  } else if (counter > 0) {
    predictor->direction[index]--;
  }
  if ((counter >= 2) != (taken & 1)) mispredicted(HM_SITE_IP(site), site);
}

void hm_indirect_branch(uint64_t target, uint64_t site) {
  uint32_t *slot = &hm_sim.core->predictor.target[(HM_SITE_IP(site) >> 1) & ((1u << 9) - 1)];
  uint32_t low = (uint32_t)target;
  if (*slot == low) return;
  *slot = low;
  mispredicted(target, site);
}
