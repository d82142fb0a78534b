/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The moment when a counter expires.
 */
#include "access.h"

#include "clock.h"

void hm_expire(const struct hm_access *access, enum hm_event event) {
  uint64_t period = hm_sim.config.period[event];
  hm_sim.core->countdown[event] = period;
  struct hm_sample sample = {event, period, hm_cycles(), hm_sim.cpu, access};
  hm_host_sample(&sample);
}
