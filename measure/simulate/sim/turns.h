/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Threads advance together in simulated time, so that a line that several cores use moves between
 * them as often as on a processor.
 *
 * Whose turn it is.  One thread of a process runs at a time.  It hands over when its core's clock is
 * ahead of that of the thread furthest behind: by a slice of a microsecond if they have nothing to do
 * with one another (tool/turns.c), and at an access to a contended line already by two thirds of a
 * transfer (hm_end_contended_access).
 *
 * When a line moves.  A core that asks for a line gets it when the one before has got it, and used it:
 *
 *   core 0   has it ──────────────────┐ asks · · · · · · · · · · · · · · · ┌ has it ────
 *   core 1     asks · · · · ·         │          ┌ has it ─────────────┐ asks · · · · · ·
 *                   requested      leaves     arrives               leaves     arrives
 *                        <─ 1/3 ─><─── 2/3 ───><──────── 1/3 ───────><──── 2/3 ────>
 *
 * in parts of the transfer latency.  The request takes a third of it, the line two thirds; a request
 * that waits for a line reaches its holder a third after the line did.  So a line under constant demand
 * moves once in a transfer latency, and its holder uses it for a third of that time.  The accesses of a
 * core that has lost the line, before the time at which it leaves, still hit: the directory (coherence.h)
 * has the new holder already, for that one was the first to be simulated.
 *
 * What a core knows it cannot ignore: a load of a word that the new holder wrote misses, and so does any
 * access after a system call in which the core waited.  Two threads that pass a flag to and fro therefore
 * have a transfer for each pass.  Not so the load of an update (x = x + 1): a processor forwards it the
 * value that it stored itself just before, and x loses increments.
 *
 * Invariants:
 *  1. All of this happens only with HM_FLAG_INTERLEAVE.
 *  2. Times of a record are compared with a core's clock only if they are near (is_near): processes have
 *     clocks of their own.
 *  3. slowest_waiting is the clock of a thread that waits, or UINT64_MAX.
 */
#ifndef HM_TURNS_H
#define HM_TURNS_H

#include "coherence.h"

/* A locked instruction that has its line: 18 to 20 cycles on Intel's cores since Skylake (Fog,
 * instruction tables). */
#define HM_LOCKED_CYCLES 18u

static inline int hm_interleaves(void) { return (hm_sim.config.flags & HM_FLAG_INTERLEAVE) != 0; }

/* Whether this core still has its copy for this access, though another core has asked for the line. */
int hm_still_has_line(const struct hm_contended_line *record, const struct hm_access *access,
                      uint16_t words);

/* The line leaves the cores `losing` it and comes to this one: the access waits for it. */
void hm_move_line(struct hm_contended_line *record, struct hm_access *access, uint64_t losing);

/* After an access to a contended line. */
void hm_end_contended_access(const struct hm_access *access);

#endif
