/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A lane: what it takes to follow one process, so that as many can be followed at the same time as there
 * are lanes. Each has a channel, and thereby a stopper and a watchdog of its own; the emulator serves
 * them all.
 *
 *   idle ── follow.c: window ordered ──> open ── closed by the stopper, all stretches done ──> idle
 *
 * Invariants:
 *  1. The processes on two lanes are on different simulated cores.
 *  2. `before` are that core's counts when the window was ordered: the core runs nothing else
 *     meanwhile.
 */
#ifndef HM_GHOST_LANE_H
#define HM_GHOST_LANE_H

#include "family.h"
#include "ghost.h"
#include "segment.h"

struct hm_lane {
  uint32_t number;
  struct hm_channel *channel;
  uint32_t taken;         /* snapshots processed */
  struct hm_follower *of; /* NULL: idle */
  uint32_t stretches;     /* of the window so far */
  const struct hm_snapshot
      *last; /* of the window, if it was executed and ended as the server's did */
  uint64_t last_instructions;
  uint64_t kept, kept_instructions;
  struct hm_core_counts before;
};

/* stretch.c: once, before all others. */
void hm_stretches_begin(const struct hm_options *options);
/* Runs one stretch on the simulated core, and judges it by what the server did. */
void hm_emulate_stretch(struct hm_lane *lane, struct hm_snapshot *slot);
void hm_wait_for_end(const struct hm_lane *lane, const struct hm_snapshot *slot);
/* Without the watchdogs no process is stopped any more, and no stretch ends. */
int hm_watchdog_is_gone(void);
/* Whether many stretches on this simulated core were lost, or would be without a scout; whether enough
 * are known to say that they are few. */
int hm_loses_many(uint32_t core);
int hm_loses_few(uint32_t core);
/* From now on all stretches that are the same are counted. */
void hm_run_in_is_over(void);

/* pace.c: the time of an instruction of a process that is not followed. */

/* Copies at the beginnings of two stretches, and the instructions between them. */
void hm_pace_sees(uint32_t core, const struct hm_snapshot *before, const struct hm_snapshot *after,
                  uint64_t instructions);
/* A stretch that ended as the server's did. */
void hm_pace_of_stretch(const struct hm_snapshot *slot, uint64_t instructions);
/* Nanoseconds of an instruction in followed stretches; 0: not known. */
double hm_pace_followed(void);
/* A window of the process is over; the next begins. */
void hm_pace_begin(struct hm_follower *of);
void hm_pace_end(struct hm_follower *of);
/* In nanoseconds; 0: not known. */
double hm_pace_of(uint32_t core);

/* weight.c: how much a window stands for. */

/* Scales the kept stretches of the window, and writes their records. */
void hm_weigh_window(struct hm_lane *lane);

#endif
