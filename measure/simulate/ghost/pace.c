/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * How long an instruction takes of a process that is not followed.
 *
 * A process that is stopped at each call, and copied from, runs with caches and TLBs that others have
 * emptied: its stretches take up to three times the time that they would. So the work that it does
 * between windows is counted by a word of its own memory (odometer.c), which is read when a window is
 * over and when the next begins:
 *
 *   ns per instruction = CPU time in its own code / (counts / counts per instruction)
 *
 *   idle ── hm_pace_begin: a window is over ──> counting ── hm_pace_end: the next begins ──> idle
 *
 * Where no word counts, the slope of CPU time over instructions remains (weight.c).
 *
 * Invariant: nothing is written into the process, and it is not stopped for this.
 */
#include "lane.h"

#include "odometer.h"
#include "simulator.h"

#define LEAST_COUNTED 100.0
/* Nanoseconds of an instruction: no processor is faster; without stops it is not much slower than with
 * them, though a process that mostly waits meets cold caches, too. A word that says otherwise does not
 * count the work. */
#define LEAST_TIME 0.05
#define MOST_TIME 3.0
#define LEAST_STRETCHES 50.0
#define LEAST_PERIOD 1e6 /* of CPU time, for a verdict */

/* Of the processes on a simulated core. */
static struct pace {
  struct hm_odometer odometer;
  double counts, ns, instructions; /* between windows */
} pace[HM_MAX_CORES];

/* CPU time over instructions of the stretches of which both are known. */
static struct { double n, x, y, xx, xy; } followed;

void hm_pace_of_stretch(const struct hm_snapshot *slot, uint64_t instructions) {
  if (slot->ran_before == 0 || slot->ran_after <= slot->ran_before || !slot->at_call ||
      slot->end_kind != HM_END_AT_CALL)
    return;
  double x = (double)instructions, y = (double)(slot->ran_after - slot->ran_before);
  followed.n += 1;
  followed.x += x;
  followed.y += y;
  followed.xx += x * x;
  followed.xy += x * y;
}

double hm_pace_followed(void) {
  double spread = followed.n * followed.xx - followed.x * followed.x;
  double value = spread > 0 ? (followed.n * followed.xy - followed.x * followed.y) / spread : 0;
  return followed.n >= LEAST_STRETCHES && value > 0 ? value : 0;
}

static const void *copy_of(const struct hm_snapshot *in, uint64_t page, uint32_t *from) {
  while (*from < in->listed && in->page[*from] < page) ++*from;
  return *from < in->listed && in->page[*from] == page ? in->data[*from] : NULL;
}

void hm_pace_sees(uint32_t core, const struct hm_snapshot *before, const struct hm_snapshot *after,
                  uint64_t instructions) {
  struct hm_odometer *odometer = &pace[core].odometer;
  uint32_t from = 0;
  hm_odometer_pair(odometer, (double)instructions, (double)(after->began - before->began));
  for (uint32_t i = 0; i < after->listed; i++) {
    const struct hm_mapping *mapping = hm_find_mapping(after->page[i]);
    const void *old = copy_of(before, after->page[i], &from);
    if (old != NULL && mapping != NULL && !mapping->shared)
      hm_odometer_page(odometer, after->page[i], old, after->data[i]);
  }
  hm_odometer_pair_ends(odometer);
}

void hm_pace_begin(struct hm_follower *of) {
  of->odometer = hm_odometer_best(&pace[of->core].odometer, &of->counts_per_instruction);
  if (of->gone || of->odometer == 0) return;
  of->odometer_began = hm_cpu_time(of->process);
  if (!hm_read_process(of->process, of->odometer, &of->odometer_value, 4)) of->odometer = 0;
}

void hm_pace_end(struct hm_follower *of) {
  struct pace *known = &pace[of->core];
  double per_instruction;
  uint32_t value;
  uint64_t word = of->odometer, ran = hm_cpu_time(of->process);
  of->odometer = 0;
  if (word == 0 || ran <= of->odometer_began) return;
  if (hm_odometer_best(&known->odometer, &per_instruction) != word) return;
  if (!hm_read_process(of->process, word, &value, sizeof value)) return;
  double counts = (double)(value - of->odometer_value), instructions = counts / per_instruction;
  double time = (double)(ran - of->odometer_began) * hm_user_part(of);
  double most = hm_pace_followed() > 0 ? 2 * hm_pace_followed() : MOST_TIME;
  if (time < LEAST_PERIOD) return;
  if (time < instructions * LEAST_TIME || time > instructions * most) {
    hm_odometer_spoil(&known->odometer, word);
    known->counts = known->ns = known->instructions = 0;
    return;
  }
  known->counts += counts;
  known->ns += time;
  known->instructions += instructions;
}

double hm_pace_of(uint32_t core) {
  const struct pace *of = &pace[core];
  return of->counts >= LEAST_COUNTED ? of->ns / of->instructions : 0;
}
