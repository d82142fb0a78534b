/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * How much the stretches of a window stand for: the CPU time that the process spent in its own code
 * since its last window that kept any, over the time that these instructions would have taken without
 * any stop. An instruction's time is that of pace.c; before it is known, the slope of CPU
 * time over instructions of followed stretches, which is too long: what a stop adds to each stretch is
 * in the intercept, but the caches that copying emptied are in the slope.
 */
#include "lane.h"
#include "simulator.h"
#include "statistics.h"

/* Nanoseconds of an instruction when the process is not followed. Before enough is known, the
 * simulated core's. */
static double time_of_instruction(const struct hm_lane *lane) {
  double known = hm_pace_of(lane->of->core);
  if (known <= 0) known = hm_pace_followed();
  uint64_t run = hm_sim.counts->events[HM_INSTRUCTIONS] - lane->before.events[HM_INSTRUCTIONS];
  if (known > 0) return known;
  return (double)(hm_sim.counts->cycles - lane->before.cycles) * 1e3 / hm_sim.config.clock_mhz /
         (double)(run + 1);
}

void hm_weigh_window(struct hm_lane *lane) {
  struct hm_follower *of = lane->of;
  if (lane->kept == 0) return;
  hm_run_on(of->core);
  double kept = time_of_instruction(lane) * (double)lane->kept_instructions, weight = 1;
  uint64_t ran = hm_cpu_time(of->process);
  if (ran <= of->accounted) ran = of->ran; /* it has ended: what was seen last */
  double user = ran > of->accounted ? (double)(ran - of->accounted) * hm_user_part(of) : 0;
  if (kept > 0 && user > kept) weight = user / kept;
  of->accounted = ran > of->accounted ? ran : of->accounted;
  hm_statistics.kept_ns += kept;
  hm_statistics.stood_for_ns += kept * weight;
  for (int event = 0; event < HM_EVENTS; event++)
    hm_statistics.scaled[event] +=
        weight * (double)(hm_sim.counts->events[event] - lane->before.events[event]);
  hm_pending_commit(lane->number, weight);
}

void hm_store_pace(struct hm_statistics *into) {
  double sum = 0, cores = 0;
  for (uint32_t core = 0; core < HM_MAX_CORES; core++) {
    sum += hm_pace_of(core);
    cores += hm_pace_of(core) > 0;
  }
  into->ns_followed = hm_pace_followed();
  into->ns_alone = cores > 0 ? sum / cores : 0;
}
