/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * One stretch of a followed process: executed from its copy on the simulated core, compared with what
 * the server did, and counted or dropped.
 *
 *   load, run on the simulated core ─> the server's registers at its next call
 *       the same, or no call within the limit ─> counters stay, records wait for the window's weight
 *       otherwise                             ─> counters restored, records dropped
 *
 * Run-in.  The simulated caches begin empty; they are carried from window to window and never reset.
 * Each simulated core has a run-in of its own (family.c says who is on it).  Nothing is counted
 * until the L2 misses per instruction no longer fall: from one million instructions to the next by a
 * fifth at most; or a quarter of a million has hardly any, as with a small working set.  The first
 * stretches of each window meet an L1 that is of an earlier time, and are not counted either.
 *
 * Losses.  A scout (scout.c) adds pages to the copies, which makes each stop longer. It helps until
 * 64 stretches of a simulated core were checked; and for good on a core where three of 32 did not end
 * as the server's did, or half of them wrote to pages that were copied only because the scout added
 * them.
 *
 * Invariants:
 *  1. Every emulation is bounded by instructions and by time (hm_limits).
 *  2. The counters have exactly the stretches that were kept: a stretch that is not leaves
 *     events, cycles, reuse and countdowns as they were; only the state of caches stays.
 *  3. One process's changing pages are there at a time; constant ones stay while the next process
 *     has the same.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "clock.h"
#include "guest.h"
#include "lane.h"
#include "simulator.h"
#include "statistics.h"

#define STRETCH_LIMIT_NS 400000000ull
#define SETTLING 2u /* stretches at the beginning of a window */
#define RUN_UP 100000ull
#define COMPUTES_FOR 16u /* windows */
#define CHUNK 1000000ull
#define LOSSES_OF 32u
#define MANY_LOST 48u /* points */
#define LOST 16u
#define PERHAPS_LOST 3u
#define ENOUGH_KNOWN 64u
#define KNOWN 8u /* stretches of a window: its process was met before */
#define FALLS_NO_LONGER 0.8
#define PART_OF_CHUNK 250000ull
#define FEW_MISSES 3u /* of such a part: fewer end the run-in */
#define MOST_RUN_IN 12000000ull

static const struct hm_options *options;

void hm_stretches_begin(const struct hm_options *with) { options = with; }

/* --- Run-in -------------------------------------------------------------------------------- */

static struct run_in {
  int over;
  uint64_t instructions, misses, all;
  uint64_t part_instructions, part_misses;
  double last_rate;
} run_in[HM_MAX_CORES];

static void run_in_sees(struct run_in *of, uint64_t instructions, uint64_t misses) {
  of->instructions += instructions;
  of->misses += misses;
  of->all += instructions;
  of->part_instructions += instructions;
  of->part_misses += misses;
  if (of->part_instructions >= PART_OF_CHUNK) {
    if (of->part_misses < FEW_MISSES) of->over = 1;
    of->part_instructions = of->part_misses = 0;
  }
  if (of->instructions < CHUNK) return;
  double rate = (double)of->misses / (double)of->instructions;
  if (of->last_rate > 0 && rate >= FALLS_NO_LONGER * of->last_rate) of->over = 1;
  if (of->all >= MOST_RUN_IN) of->over = 1;
  of->last_rate = rate > 0 ? rate : 1e-9;
  of->instructions = of->misses = 0;
}

/* L2 misses since then, without those of lines that another core took, which do not become fewer. */
static uint64_t filling_misses(const struct hm_core_counts *then) {
  const uint64_t *now = hm_sim.counts->events;
  uint64_t all = now[HM_L2_MISS] - then->events[HM_L2_MISS];
  uint64_t lost = now[HM_COHERENCE_MISS] - then->events[HM_COHERENCE_MISS];
  return all > lost ? all - lost : 0;
}

void hm_run_in_is_over(void) {
  for (uint32_t core = 0; core < HM_MAX_CORES; core++) run_in[core].over = 1;
}

/* --- Losses -------------------------------------------------------------------------------- */

static struct losses {
  uint32_t checked, lost, all;
  int many;
} losses[HM_MAX_CORES];

static void losses_see(struct losses *of, enum hm_verdict_of_stretch verdict, int perhaps_lost) {
  if (of->many || (verdict != HM_SAME && verdict != HM_OTHER_CALL &&
                   verdict != HM_OTHER_REGISTERS && verdict != HM_DIED))
    return;
  of->lost += verdict != HM_SAME ? LOST : perhaps_lost ? PERHAPS_LOST : 0;
  if (of->lost >= MANY_LOST) of->many = 1;
  of->all++;
  if (++of->checked == LOSSES_OF) of->checked = of->lost = 0;
}

int hm_loses_many(uint32_t core) { return losses[core].many; }
int hm_loses_few(uint32_t core) { return losses[core].all >= ENOUGH_KNOWN && !losses[core].many; }

/* --- Counters --------------------------------------------------------------------------------- */

struct saved {
  struct hm_core_counts counts;
  struct hm_reuse_counts reuse;
  uint64_t countdown[HM_EVENTS];
};

static void save(struct saved *into) {
  into->counts = *hm_sim.counts;
  if (hm_sim.reuse_counts != NULL) into->reuse = *hm_sim.reuse_counts;
  memcpy(into->countdown, hm_sim.core->countdown, sizeof into->countdown);
}

static void restore(const struct saved *from) {
  *hm_sim.counts = from->counts;
  if (hm_sim.reuse_counts != NULL) *hm_sim.reuse_counts = from->reuse;
  memcpy(hm_sim.core->countdown, from->countdown, sizeof from->countdown);
}

/* --- The verdict -------------------------------------------------------------------------------- */

static int same_registers(const struct user_regs_struct *a, const struct user_regs_struct *b) {
  return a->rdi == b->rdi && a->rsi == b->rsi && a->rdx == b->rdx && a->rbx == b->rbx &&
         a->rbp == b->rbp && a->rsp == b->rsp && a->r12 == b->r12 && a->r13 == b->r13 &&
         a->r14 == b->r14 && a->r15 == b->r15;
}

static enum hm_verdict_of_stretch judge(enum hm_ghost_end ghost, const struct hm_snapshot *slot) {
  if (atomic_load(&slot->state) != HM_SNAPSHOT_ENDED) return HM_UNFINISHED;
  if (slot->end_kind == HM_END_BY_SIGNAL) return HM_SIGNAL;
  if (slot->end_kind == HM_END_OF_PROCESS) return HM_UNFINISHED;
  switch (ghost) {
    case HM_GHOST_UNSUPPORTED: return HM_UNSUPPORTED;
    case HM_GHOST_UNMAPPED:
    case HM_GHOST_STRAYED:
    case HM_GHOST_TRAPPED: return HM_DIED;
    case HM_GHOST_LIMIT:
    case HM_GHOST_SLOW: return HM_UNCHECKED;
    default: break;
  }
  if (slot->end_kind != HM_END_AT_CALL) return HM_UNFINISHED;
  struct user_regs_struct at;
  hm_guest_registers(&at);
  if (at.rip != slot->end.rip || at.orig_rax != slot->end.orig_rax) return HM_OTHER_CALL;
  return same_registers(&at, &slot->end) ? HM_SAME : HM_OTHER_REGISTERS;
}

static void say(const char *what, const struct hm_snapshot *slot, uint32_t of_window,
                uint64_t instructions) {
  struct user_regs_struct at;
  hm_guest_registers(&at);
  const struct hm_mapping *mapping = hm_find_mapping(at.rip);
  fprintf(stderr,
          "%-15s process %d, stretch %u, %lu instructions, at %#lx (%s+%#lx), call %ld; server at "
          "%#llx, call "
          "%ld\n",
          what, slot->process, of_window, instructions, (unsigned long)at.rip,
          mapping != NULL ? mapping->name : "?",
          mapping != NULL ? (unsigned long)(at.rip - mapping->start + mapping->offset) : 0ul,
          (long)at.orig_rax, slot->end.rip, (long)slot->end.orig_rax);
  struct hm_late late = hm_pages_late();
  fprintf(stderr,
          "                %u pages copied, %u of these by the scout; %u fetched late, which it "
          "writes: %u shared, %u private\n",
          slot->pages, slot->pages - slot->listed, late.all, late.stored_shared,
          late.stored_private);
}

/* --- Running -------------------------------------------------------------------------------------- */

/* Another process's, or its mappings may have changed. */
static int look_at_process(const struct hm_lane *lane, const struct hm_snapshot *slot) {
  hm_use_mappings(lane->number);
  if (slot->first) {
    if (hm_read_mappings(slot->process) != NULL) return 0;
    if (lane->of->layout != hm_code_layout()) hm_announce_process(slot->process);
    lane->of->layout = hm_code_layout();
  }
  hm_engine_use_layout(hm_code_layout());
  hm_follow_memory_of(slot->process);
  return 1;
}

int hm_watchdog_is_gone(void) {
  static int gone, status;
  if (gone || waitpid(-1, &status, WNOHANG) <= 0) return gone;
  gone = 1;
  if (WIFSIGNALED(status))
    fprintf(stderr, "hardmeter-ghost: ends: its watchdog was killed by signal %d\n",
            WTERMSIG(status));
  else if (WEXITSTATUS(status) == HM_WATCHDOG_NO_FORK)
    fprintf(stderr,
            "hardmeter-ghost: ends: it could not start a process\n"
            "  remedy: raise the limit of processes (ulimit -u, or pids.max of its cgroup)\n");
  else if (WEXITSTATUS(status) != 0)
    fprintf(stderr,
            "hardmeter-ghost: ends: its stopper processes were lost\n"
            "  remedy: record again; the server continues\n");
  return gone;
}

void hm_wait_for_end(const struct hm_lane *lane, const struct hm_snapshot *slot) {
  _Atomic uint32_t *bell = lane->channel->bell;
  while (atomic_load(&slot->state) == HM_SNAPSHOT_BEGUN && !hm_watchdog_is_gone()) {
    uint32_t news = atomic_load(bell);
    if (atomic_load(&slot->state) == HM_SNAPSHOT_BEGUN) hm_wait_for_change(bell, news, 10000000);
  }
}

/* Runs the ghost's stretch on the simulated core.  One that begins somewhere in the code runs up
 * first; `counted` is 0 if it came no further. */
static enum hm_ghost_end run(const struct hm_lane *lane, const struct hm_snapshot *slot,
                             struct saved *before, uint64_t *instructions, int *counted) {
  const struct hm_limits limits = {options->instructions, STRETCH_LIMIT_NS};
  const struct hm_limits run_up = {RUN_UP, STRETCH_LIMIT_NS};
  hm_begin_memory(slot, lane->number);
  hm_guest_load(&slot->registers, slot->xstate, slot->xstate_size);
  hm_native_load(slot->xstate, slot->xstate_size);
  hm_sim.filters_stale |= 1; /* report each line once more: its page is hot */
  hm_sim.waited = 1;
  hm_enter_core();
  hm_host_clock_begins(hm_cycles());
  uint64_t began = hm_now();
  enum hm_ghost_end end = HM_GHOST_LIMIT;
  if (!slot->at_call) {
    end = hm_engine_run(&run_up);
    *instructions = hm_instructions_run();
    *counted = end == HM_GHOST_LIMIT;
    hm_leave_core();
    if (*counted) {
      restore(before);
      hm_pending_drop();
      hm_pending_begin(lane->number);
    }
    hm_enter_core();
  }
  if (end == HM_GHOST_LIMIT) end = hm_engine_run(&limits);
  hm_statistics.emulated_ns += hm_now() - began;
  if (*counted) *instructions = hm_instructions_run();
  hm_leave_core();
  return end;
}

static void keep(struct hm_lane *lane, enum hm_verdict_of_stretch verdict, uint64_t instructions) {
  if (verdict == HM_SAME)
    hm_statistics.checked_instructions += instructions;
  else
    hm_statistics.unchecked_instructions += instructions;
  hm_pending_keep();
  hm_statistics.kept++;
  lane->kept++;
  lane->kept_instructions += instructions;
}

void hm_emulate_stretch(struct hm_lane *lane, struct hm_snapshot *slot) {
  struct saved before;
  struct run_in *kind = &run_in[lane->of->core];
  uint32_t of_window = lane->stretches;
  uint64_t instructions = 0;
  hm_run_on(lane->of->core);
  if (!look_at_process(lane, slot)) {
    hm_wait_for_end(lane, slot);
    hm_statistics.verdicts[HM_UNFINISHED]++;
    return;
  }
  hm_host_stretch(slot->process, slot->began);
  save(&before);
  hm_pending_begin(lane->number);
  int counted = 1;
  enum hm_ghost_end ghost = run(lane, slot, &before, &instructions, &counted);
  hm_wait_for_end(lane, slot);
  enum hm_verdict_of_stretch verdict = judge(ghost, slot);
  hm_statistics.verdicts[verdict]++;
  hm_statistics.added += slot->pages - slot->listed;
  if (lane->channel->stretches >= KNOWN)
    losses_see(&losses[lane->of->core], verdict, hm_pages_late().stored_added > 0);
  hm_statistics.instructions += instructions;
  int good = verdict == HM_SAME || verdict == HM_UNCHECKED;
  if (options->verbose && !good) say(hm_verdict_name[verdict], slot, of_window, instructions);
  uint64_t misses = filling_misses(&before.counts);
  int settles = slot->at_call ? of_window < SETTLING : !counted;
  /* Met at its next call, it would always be met at the same place. */
  if (verdict == HM_UNCHECKED) lane->of->computes = COMPUTES_FOR;
  if (good && kind->over && !settles) {
    keep(lane, verdict, instructions);
  } else {
    restore(&before);
    hm_pending_drop();
    if (good) {
      hm_statistics.run_in_stretches++;
      hm_statistics.run_in_instructions += instructions;
    }
  }
  if (verdict == HM_SAME) hm_pace_of_stretch(slot, instructions);
  if (lane->last != NULL && slot->at_call)
    hm_pace_sees(lane->of->core, lane->last, slot, lane->last_instructions);
  lane->last = verdict == HM_SAME && slot->at_call ? slot : NULL;
  lane->last_instructions = instructions;
  if (good && !kind->over) run_in_sees(kind, instructions, misses);
  hm_publish_hot(lane->channel);
}
