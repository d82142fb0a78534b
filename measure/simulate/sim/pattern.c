/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The pattern of an instruction's misses. pattern.h has the rules and the invariants.
 */
#include "pattern.h"

#define INSTRUCTIONS 1024u

static struct {
  uint64_t ip, last;
  int64_t distance; /* 0: only one miss, or the same address twice */
} instruction[INSTRUCTIONS];

void hm_pattern_begin(void) {
  for (uint32_t i = 0; i < INSTRUCTIONS; i++) instruction[i].ip = 0;
}

void hm_pattern_observe(struct hm_access *access, enum hm_dependence dependence) {
  uint64_t ip = HM_SITE_IP(access->site), place = (ip ^ ip >> 10) % INSTRUCTIONS;
  int known = instruction[place].ip == ip;
  int64_t distance = known ? (int64_t)(access->address - instruction[place].last) : 0;
  if (known && distance != 0 && distance == instruction[place].distance) access->stride = distance;
  instruction[place].ip = ip;
  instruction[place].last = access->address;
  instruction[place].distance = distance;
  if (dependence == HM_AFTER_CHAIN)
    access->pattern = HM_CHASE;
  else if (access->stride != 0)
    access->pattern = HM_STRIDE;
  else if (dependence == HM_AFTER_LOAD)
    access->pattern = HM_INDIRECT;
  else
    access->pattern = known ? HM_SCATTERED : HM_NO_PATTERN;
}
