/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Follows a process in windows of stretches. Each stretch is emulated, compared with what the server
 * did, and counted or dropped.
 *
 *   resting ── its share of pauses is used up ── window ordered ──> stretches ── closed ──> resting
 *
 *   stretch:  load, run on the simulated core ─> the server's registers at its next call
 *                 the same, or no call within the limit ─> counters stay, records are written
 *                 otherwise                             ─> counters restored, records dropped
 *
 * Run-in.  The simulated caches begin empty. They keep their contents between windows and are never
 * reset. Counting begins when the L2 misses per instruction have stopped falling, that is, when they
 * fall by at most a fifth from one million instructions to the next. The first stretches of each
 * window are not counted either, because the contents of L1 are still those of the last window.
 *
 * Invariants:
 *  1. Every emulation is bounded by instructions and by time (hm_limits).
 *  2. The counters contain exactly the stretches that were kept. A stretch that is dropped leaves
 *     events, cycles, reuse and countdowns unchanged, but not the contents of the caches.
 *  3. Only one process's pages are mapped at a time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "ghost.h"
#include "guest.h"
#include "host.h"
#include "simulator.h"
#include "statistics.h"

#define STRETCH_LIMIT_NS 400000000ull
#define SETTLING 2u /* first stretches of a window */
#define CHUNK 1000000ull
#define FALLS_NO_LONGER 0.8
#define MOST_RUN_IN 12000000ull
#define MOST_FOLLOWED 256

void hm_explain_refusal(int process, int error, FILE *out);

struct follower {
  int process;
  uint64_t rests_until, paused;
  uint32_t next_stretches; /* small at first: the hot pages are not known yet */
  int gone;
};

static struct follower follower[MOST_FOLLOWED];
static uint32_t followers;
static struct hm_statistics statistics;
static const struct hm_options *options;
static struct hm_channel *channel;
static uint32_t taken; /* snapshots processed */
static int current;    /* the process whose mappings are known */
static uint64_t layout;
static volatile sig_atomic_t asked_to_end;

static void end_asked(int number) {
  (void)number;
  asked_to_end = 1;
}

/* --- Run-in -------------------------------------------------------------------------------- */

static struct {
  int over;
  uint64_t instructions, misses, all;
  double last_rate;
} run_in;

static void run_in_sees(uint64_t instructions, uint64_t misses) {
  run_in.instructions += instructions;
  run_in.misses += misses;
  run_in.all += instructions;
  if (run_in.instructions < CHUNK) return;
  double rate = (double)run_in.misses / (double)run_in.instructions;
  if (run_in.last_rate > 0 && rate >= FALLS_NO_LONGER * run_in.last_rate) run_in.over = 1;
  if (run_in.all >= MOST_RUN_IN) run_in.over = 1;
  run_in.last_rate = rate > 0 ? rate : 1e-9;
  run_in.instructions = run_in.misses = 0;
}

/* --- A stretch ------------------------------------------------------------------------------ */

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

static int same_registers(const struct user_regs_struct *a, const struct user_regs_struct *b) {
  return a->rdi == b->rdi && a->rsi == b->rsi && a->rdx == b->rdx && a->rbx == b->rbx &&
         a->rbp == b->rbp && a->rsp == b->rsp && a->r12 == b->r12 && a->r13 == b->r13 &&
         a->r14 == b->r14 && a->r15 == b->r15;
}

static enum hm_verdict_of_stretch judge(enum hm_ghost_end ghost, const struct hm_snapshot *slot) {
  if (atomic_load(&slot->state) != HM_SNAPSHOT_ENDED) return HM_UNFINISHED;
  if (slot->end_kind == HM_END_BY_SIGNAL) return HM_SIGNAL;
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
}

/* Prepares for the snapshot's process if it is another one or its mappings may have changed.
   Returns 0 if the mappings cannot be read. */
static int look_at_process(const struct hm_snapshot *slot) {
  if (slot->process == current && !slot->first) return 1;
  if (hm_read_mappings(slot->process) != NULL) return 0;
  if (hm_code_layout() != layout) { /* a library came or went */
    hm_engine_forget_code();
    hm_forget_memory();
  }
  layout = hm_code_layout();
  hm_follow_memory_of(slot->process);
  if (slot->process != current) hm_host_stretch(slot->process, slot->began);
  current = slot->process;
  return 1;
}

/* Without the watchdog no process is stopped any more, and no stretch ends. */
static int watchdog_is_gone(void) {
  static int gone;
  if (!gone) gone = waitpid(-1, NULL, WNOHANG) > 0;
  return gone;
}

static void wait_for_end(const struct hm_snapshot *slot) {
  while (atomic_load(&slot->state) == HM_SNAPSHOT_BEGUN && !watchdog_is_gone()) {
    uint32_t news = atomic_load(&channel->news);
    if (atomic_load(&slot->state) == HM_SNAPSHOT_BEGUN)
      hm_wait_for_change(&channel->news, news, 10000000);
  }
}

/* Runs the ghost's stretch on the simulated core. */
static enum hm_ghost_end run(const struct hm_snapshot *slot, uint64_t *instructions) {
  const struct hm_limits limits = {options->instructions, STRETCH_LIMIT_NS};
  hm_begin_memory(slot);
  hm_guest_load(&slot->registers, slot->xstate, slot->xstate_size);
  hm_native_load(slot->xstate, slot->xstate_size);
  hm_sim.filters_stale |= 1; /* report each line once more: its page is hot */
  hm_sim.waited = 1;
  hm_enter_core();
  uint64_t began = hm_now();
  enum hm_ghost_end end = hm_engine_run(&limits);
  statistics.emulated_ns += hm_now() - began;
  *instructions = hm_instructions_run();
  hm_leave_core();
  return end;
}

static void emulate(struct hm_snapshot *slot, uint32_t of_window) {
  struct saved before;
  uint64_t instructions = 0;
  if (!look_at_process(slot)) {
    wait_for_end(slot);
    statistics.verdicts[HM_UNFINISHED]++;
    return;
  }
  hm_host_stretch(slot->process, slot->began);
  save(&before);
  hm_pending_begin();
  enum hm_ghost_end ghost = run(slot, &instructions);
  wait_for_end(slot);
  enum hm_verdict_of_stretch verdict = judge(ghost, slot);
  statistics.verdicts[verdict]++;
  statistics.instructions += instructions;
  int good = verdict == HM_SAME || verdict == HM_UNCHECKED;
  if (options->verbose && !good) say(hm_verdict_name[verdict], slot, of_window, instructions);
  uint64_t misses = hm_sim.counts->events[HM_L2_MISS] - before.counts.events[HM_L2_MISS];
  int settles = of_window < SETTLING && slot->at_call;
  if (good && run_in.over && !settles) {
    if (verdict == HM_SAME)
      statistics.checked_instructions += instructions;
    else
      statistics.unchecked_instructions += instructions;
    hm_pending_commit();
  } else {
    restore(&before);
    hm_pending_drop();
    if (good) {
      statistics.run_in_stretches++;
      statistics.run_in_instructions += instructions;
    }
  }
  if (good && !run_in.over) run_in_sees(instructions, misses);
  hm_publish_hot(channel);
}

static void note_pauses(const struct hm_snapshot *slot, struct follower *of) {
  if (statistics.pauses < HM_MOST_PAUSES)
    statistics.pause[statistics.pauses++] = (uint32_t)slot->pause_copy;
  statistics.paused_ns += slot->pause_copy + slot->pause_end;
  of->paused += slot->pause_copy + slot->pause_end;
}

/* --- A window -------------------------------------------------------------------------------- */

static int is_over(uint64_t deadline) {
  struct hm_header *header = hm_sim.header;
  if (asked_to_end || (deadline != 0 && hm_now() >= deadline)) return 1;
  if (options->segment == NULL) return 0;
  uint32_t recorder = atomic_load(&header->recorder_pid);
  return atomic_load(&header->measuring) == 0 || recorder == 0 || !hm_host_process_exists(recorder);
}

/*
 * Processes the available snapshots; returns when the window is closed and all its stretches are
 * done.
 */
static void work_off(struct follower *of) {
  uint32_t of_window = 0;
  for (;;) {
    uint32_t news = atomic_load(&channel->news);
    if (taken != atomic_load(&channel->begun)) {
      struct hm_snapshot *slot = &channel->snapshot[taken % HM_SNAPSHOTS];
      emulate(slot, of_window++);
      note_pauses(slot, of);
      atomic_store(&slot->state, HM_SNAPSHOT_FREE);
      taken++;
    } else if (atomic_load(&channel->window) == HM_WINDOW_CLOSED) {
      if (taken == atomic_load(&channel->begun)) return;
    } else {
      hm_wait_for_change(&channel->news, news, 20000000);
      if (watchdog_is_gone()) return;
    }
  }
}

static void follow_one(struct follower *of) {
  uint64_t began = hm_now();
  of->paused = 0;
  channel->process = of->process;
  channel->stretches = of->next_stretches;
  if (of->next_stretches < options->stretches)
    of->next_stretches =
        of->next_stretches * 2 < options->stretches ? of->next_stretches * 2 : options->stretches;
  atomic_store(&channel->window, HM_WINDOW_ORDERED);
  hm_wake_waiter(&channel->window);
  work_off(of);
  statistics.windows++;
  statistics.followed_ns += hm_now() - began;
  switch (channel->end_kind) {
    case HM_WINDOW_REFUSED:
      statistics.refused_windows++;
      hm_explain_refusal(of->process, channel->error_number, stderr);
      of->gone = 1;
      break;
    case HM_WINDOW_GONE: of->gone = 1; break;
    case HM_WINDOW_IDLE: statistics.idle_windows++; break;
    case HM_WINDOW_KILLED: statistics.killed++; break;
    default: break;
  }
  /* Stops may take at most this part of the process's time. It rests for the remainder. */
  of->rests_until = hm_now() + (uint64_t)((double)of->paused * (100.0 / options->share - 1));
}

static struct follower *next_follower(uint64_t *wakes) {
  static uint32_t turn;
  uint64_t now = hm_now();
  *wakes = UINT64_MAX;
  for (uint32_t i = 0; i < followers; i++) {
    struct follower *candidate = &follower[(turn + i) % followers];
    if (candidate->gone) continue;
    if (candidate->rests_until <= now) {
      turn = (turn + i + 1) % followers;
      return candidate;
    }
    if (candidate->rests_until < *wakes) *wakes = candidate->rests_until;
  }
  return NULL;
}

static void rest(uint64_t until, uint64_t deadline) {
  uint64_t now = hm_now(), most = now + 20000000; /* the recorder may want to end */
  if (deadline != 0 && deadline < most) most = deadline;
  if (until > most) until = most;
  if (until <= now) return;
  struct timespec pause = {0, (long)(until - now)};
  nanosleep(&pause, NULL);
}

static void collect(void) {
  statistics.counted = *hm_sim.counts;
  statistics.fetched = hm_pages_fetched();
  statistics.hot_pages = hm_pages_hot();
  statistics.translations = hm_engine_translations();
  statistics.native = hm_native_count();
  statistics.real_time = (int)channel->real_time;
}

/* Writes the names and mappings of all processes, before their first samples. */
static void announce(void) {
  for (uint32_t i = 0; i < followers; i++) {
    const char *problem = hm_read_mappings(follower[i].process);
    if (problem == NULL) {
      hm_announce_process(follower[i].process);
      continue;
    }
    fprintf(stderr, "hardmeter-ghost: process %d cannot be followed: %s\n", follower[i].process,
            problem);
    follower[i].gone = 1;
  }
}

int hm_follow(const struct hm_options *with, struct hm_channel *shared) {
  options = with;
  channel = shared;
  for (uint32_t i = 0; i < options->process_count && followers < MOST_FOLLOWED; i++)
    follower[followers++] =
        (struct follower){.process = options->processes[i], .next_stretches = 1};
  struct sigaction action = {.sa_handler = end_asked};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  hm_memory_begin();
  hm_engine_begin();
  announce();
  while (options->segment != NULL && atomic_load(&hm_sim.header->measuring) == 0 && !asked_to_end &&
         hm_host_process_exists(atomic_load(&hm_sim.header->recorder_pid)))
    rest(UINT64_MAX, 0);
  uint64_t deadline = options->seconds > 0 ? hm_now() + (uint64_t)(options->seconds * 1e9) : 0;
  uint64_t half = options->seconds > 0 ? hm_now() + (uint64_t)(options->seconds * 5e8) : 0;
  while (!is_over(deadline)) {
    uint64_t wakes;
    struct follower *next = next_follower(&wakes);
    if (half != 0 && hm_now() >= half) run_in.over = 1;
    if (next == NULL && wakes == UINT64_MAX) break; /* no process is left */
    if (next != NULL)
      follow_one(next);
    else
      rest(wakes, deadline);
    if (watchdog_is_gone()) break;
  }
  atomic_store(&channel->finish, 1);
  collect();
  hm_print_statistics(&statistics, stderr);
  if (options->report != NULL && !hm_store_statistics(&statistics, options->report))
    fprintf(stderr, "hardmeter-ghost: cannot write %s: %s\n", options->report, strerror(errno));
  return statistics.windows == statistics.refused_windows ? 1 : 0;
}
