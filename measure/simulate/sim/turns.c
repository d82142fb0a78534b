/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * When a contended line moves, and when its users take turns. turns.h has the model.
 */
#include "turns.h"

#include "access.h"
#include "clock.h"
#include "host.h"
#include "timing.h"

static int is_near(uint64_t time, uint64_t now) {
  uint64_t reach = (uint64_t)HM_MAX_CORES * hm_transfer_latency();
  return time < now + reach && now < time + reach;
}

int hm_still_has_line(const struct hm_contended_line *record, const struct hm_access *access,
                      uint16_t words) {
  uint64_t now = hm_cycles();
  if ((record->losing >> hm_sim.cpu & 1) == 0) return 0;
  if ((int32_t)(record->leaves[hm_sim.cpu] - (uint32_t)now) <= 0) return 0;
  if (!is_near(record->requested, now) || record->requested < hm_sim.woken[hm_sim.cpu]) return 0;
  return HM_SITE_KIND(access->site) != HM_LOAD || HM_SITE_IS_UPDATE(access->site) ||
         (record->written_since[hm_sim.cpu] & words) == 0;
}

static uint64_t max64(uint64_t a, uint64_t b) { return a > b ? a : b; }

void hm_move_line(struct hm_contended_line *record, struct hm_access *access, uint64_t losing) {
  uint64_t now = hm_cycles(), whole = hm_transfer_latency(), request = whole / 3;
  uint64_t leaves = now + request;
  if (is_near(record->arrives, now)) leaves = max64(leaves, record->arrives + request);
  if (is_near(record->used, now)) leaves = max64(leaves, record->used);
  record->requested = now;
  record->arrives = record->used = leaves + whole - request;
  record->losing = (record->losing | losing) & ~(1ull << hm_sim.cpu);
  for (; losing != 0; losing &= losing - 1)
    record->leaves[__builtin_ctzll(losing)] = (uint32_t)leaves;
  access->latency = max32(access->latency, (uint32_t)(record->arrives - now));
}

void hm_end_contended_access(const struct hm_access *access) {
  if (HM_SITE_LOCKED(access->site) && hm_timing_is_on()) hm_sim.stall_cycles += HM_LOCKED_CYCLES;
  uint64_t slowest = atomic_load_explicit(&hm_sim.slowest_waiting, memory_order_relaxed);
  if (slowest != UINT64_MAX && hm_cycles() > slowest + 2ull * hm_transfer_latency() / 3)
    hm_host_end_turn();
}
