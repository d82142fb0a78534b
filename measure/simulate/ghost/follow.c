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
 * Run-in.  The simulated caches begin empty; they are carried from window to window and never reset.
 * Each kind of process has a simulated core, and a run-in, of its own (family.c).  Nothing is counted
 * until the L2 misses per instruction no longer fall: from one million instructions to the next by a
 * fifth at most.  The first stretches of each window meet an L1 that is of an earlier time, and are
 * not counted either.
 *
 * Weight.  A window's kept stretches stand for what the process did since the last window that kept
 * any: the CPU time that it spent in its own code since, over theirs.  What a stretch takes while it
 * is followed is longer than it would be (the stop itself, caches that the copy has emptied): its
 * instructions are counted, and an instruction's time is the slope of CPU time over instructions.
 *
 * Invariants:
 *  1. Every emulation is bounded by instructions and by time (hm_limits).
 *  2. The counters have exactly the stretches that were kept: a stretch that is not leaves
 *     events, cycles, reuse and countdowns as they were; only the state of caches stays.
 *  3. One process's pages are there at a time.
 *  4. Records of a window are written when it is over, with its weight, or not at all.
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
#include "family.h"
#include "ghost.h"
#include "guest.h"
#include "host.h"
#include "simulator.h"
#include "statistics.h"

#define STRETCH_LIMIT_NS 400000000ull
#define SETTLING 2u /* stretches at the beginning of a window */
#define RUN_UP 100000ull
#define COMPUTES_FOR 16u /* windows */
#define CHUNK 1000000ull
#define FALLS_NO_LONGER 0.8
#define MOST_RUN_IN 12000000ull

void hm_explain_refusal(int process, int error, FILE *out);

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

static struct run_in {
  int over;
  uint64_t instructions, misses, all;
  double last_rate;
} run_in[HM_MAX_CORES];

static void run_in_sees(struct run_in *of, uint64_t instructions, uint64_t misses) {
  of->instructions += instructions;
  of->misses += misses;
  of->all += instructions;
  if (of->instructions < CHUNK) return;
  double rate = (double)of->misses / (double)of->instructions;
  if (of->last_rate > 0 && rate >= FALLS_NO_LONGER * of->last_rate) of->over = 1;
  if (of->all >= MOST_RUN_IN) of->over = 1;
  of->last_rate = rate > 0 ? rate : 1e-9;
  of->instructions = of->misses = 0;
}

/* --- How much a window stands for ----------------------------------------------------------- */

static struct {
  uint64_t kept; /* stretches */
  uint64_t instructions;
  struct hm_core_counts before;
} window;

/* CPU time over instructions of the stretches of which both are known. */
static struct { double n, x, y, xx, xy; } pace;
#define LEAST_PACE 50

static void pace_sees(const struct hm_snapshot *slot, uint64_t instructions, int good) {
  int known = slot->ran_before != 0 && slot->ran_after > slot->ran_before && slot->at_call &&
              slot->end_kind == HM_END_AT_CALL;
  if (good && known) {
    double x = (double)instructions, y = (double)(slot->ran_after - slot->ran_before);
    pace.n += 1;
    pace.x += x;
    pace.y += y;
    pace.xx += x * x;
    pace.xy += x * y;
  }
}

static void window_sees(uint64_t instructions) {
  window.kept++;
  window.instructions += instructions;
}

/* Nanoseconds of an instruction when the process is not followed: the slope, for a stop adds the same
 * to a stretch of any length.  Before enough is known, the simulated core's. */
static double time_of_instruction(void) {
  double spread = pace.n * pace.xx - pace.x * pace.x;
  double slope = spread > 0 ? (pace.n * pace.xy - pace.x * pace.y) / spread : 0;
  uint64_t run = hm_sim.counts->events[HM_INSTRUCTIONS] - window.before.events[HM_INSTRUCTIONS];
  if (pace.n >= LEAST_PACE && slope > 0) return slope;
  return (double)(hm_sim.counts->cycles - window.before.cycles) * 1e3 / hm_sim.config.clock_mhz /
         (double)(run + 1);
}

static void close_window(struct hm_follower *of) {
  if (window.kept == 0) return;
  hm_run_on(of->model);
  double kept = time_of_instruction() * (double)window.instructions, weight = 1;
  uint64_t ran = hm_cpu_time(of->process);
  if (ran <= of->accounted) ran = of->ran; /* the process has ended: use the last CPU time read */
  double user = ran > of->accounted ? (double)(ran - of->accounted) * hm_user_part(of) : 0;
  if (kept > 0 && user > kept) weight = user / kept;
  of->accounted = ran > of->accounted ? ran : of->accounted;
  statistics.kept_ns += kept;
  statistics.stood_for_ns += kept * weight;
  for (int event = 0; event < HM_EVENTS; event++)
    statistics.scaled[event] +=
        weight * (double)(hm_sim.counts->events[event] - window.before.events[event]);
  hm_pending_commit(weight);
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
}

/* Another process's, or its mappings may have changed. */
static int look_at_process(const struct hm_snapshot *slot, struct hm_follower *of) {
  if (slot->process == current && !slot->first) return 1;
  if (hm_read_mappings(slot->process) != NULL) return 0;
  if (of->layout != hm_code_layout()) hm_announce_process(slot->process);
  of->layout = hm_code_layout();
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

/* Runs the ghost's stretch on the simulated core.  One that begins somewhere in the code runs up
 * first; `counted` is 0 if it came no further. */
static enum hm_ghost_end run(const struct hm_snapshot *slot, struct saved *before,
                             uint64_t *instructions, int *counted) {
  const struct hm_limits limits = {options->instructions, STRETCH_LIMIT_NS};
  const struct hm_limits run_up = {RUN_UP, STRETCH_LIMIT_NS};
  hm_begin_memory(slot);
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
      hm_pending_begin();
    }
    hm_enter_core();
  }
  if (end == HM_GHOST_LIMIT) end = hm_engine_run(&limits);
  statistics.emulated_ns += hm_now() - began;
  if (*counted) *instructions = hm_instructions_run();
  hm_leave_core();
  return end;
}

static void emulate(struct hm_snapshot *slot, struct hm_follower *of, uint32_t of_window) {
  struct saved before;
  struct run_in *kind = &run_in[of->model];
  uint64_t instructions = 0;
  if (!look_at_process(slot, of)) {
    wait_for_end(slot);
    statistics.verdicts[HM_UNFINISHED]++;
    return;
  }
  hm_host_stretch(slot->process, slot->began);
  save(&before);
  hm_pending_begin();
  int counted = 1;
  enum hm_ghost_end ghost = run(slot, &before, &instructions, &counted);
  wait_for_end(slot);
  enum hm_verdict_of_stretch verdict = judge(ghost, slot);
  statistics.verdicts[verdict]++;
  statistics.instructions += instructions;
  int good = verdict == HM_SAME || verdict == HM_UNCHECKED;
  if (options->verbose && !good) say(hm_verdict_name[verdict], slot, of_window, instructions);
  uint64_t misses = hm_sim.counts->events[HM_L2_MISS] - before.counts.events[HM_L2_MISS];
  int settles = slot->at_call ? of_window < SETTLING : !counted;
  /* Met at its next call, it would always be met at the same place. */
  if (verdict == HM_UNCHECKED) of->computes = COMPUTES_FOR;
  if (good && kind->over && !settles) {
    if (verdict == HM_SAME)
      statistics.checked_instructions += instructions;
    else
      statistics.unchecked_instructions += instructions;
    hm_pending_keep();
    window_sees(instructions);
  } else {
    restore(&before);
    hm_pending_drop();
    if (good) {
      statistics.run_in_stretches++;
      statistics.run_in_instructions += instructions;
    }
  }
  pace_sees(slot, instructions, verdict == HM_SAME);
  if (good && !kind->over) run_in_sees(kind, instructions, misses);
  hm_publish_hot(channel);
}

static void note_pauses(const struct hm_snapshot *slot, struct hm_follower *of) {
  if (statistics.pauses < HM_MOST_PAUSES)
    statistics.pause[statistics.pauses++] = (uint32_t)slot->pause_copy;
  statistics.paused_ns += slot->pause_copy + slot->pause_end;
  of->paused += slot->pause_copy + slot->pause_end;
}

/* --- A window -------------------------------------------------------------------------------- */

static int is_over(uint64_t deadline) {
  struct hm_header *header = hm_sim.header;
  uint64_t same = statistics.verdicts[HM_SAME];
  if (asked_to_end || (deadline != 0 && hm_now() >= deadline)) return 1;
  if (options->enough != 0 && same >= options->enough) return 1;
  if (options->segment == NULL) return 0;
  uint32_t recorder = atomic_load(&header->recorder_pid);
  return atomic_load(&header->measuring) == 0 || recorder == 0 || !hm_host_process_exists(recorder);
}

/* Deals with what there is; returns when the window is closed and all its stretches are done.  At the
 * end of the recording the window is called off, and what is left of it is not emulated. */
static void work_off(struct hm_follower *of, uint64_t deadline) {
  uint32_t of_window = 0;
  for (;;) {
    uint32_t news = atomic_load(&channel->news);
    int over = is_over(deadline);
    if (over && atomic_load(&channel->finish) == 0) atomic_store(&channel->finish, 1);
    if (taken != atomic_load(&channel->begun)) {
      struct hm_snapshot *slot = &channel->snapshot[taken % HM_SNAPSHOTS];
      if (over)
        wait_for_end(slot);
      else
        emulate(slot, of, of_window++);
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

static void follow_one(struct hm_follower *of, uint64_t deadline) {
  uint64_t began = hm_now();
  of->paused = 0;
  channel->process = of->process;
  channel->stretches = of->next_stretches;
  channel->at_once = of->computes > 0;
  if (of->computes > 0) of->computes--;
  if (of->next_stretches < options->stretches)
    of->next_stretches =
        of->next_stretches * 2 < options->stretches ? of->next_stretches * 2 : options->stretches;
  hm_run_on(of->model);
  memset(&window, 0, sizeof window);
  window.before = *hm_sim.counts;
  atomic_store(&channel->window, HM_WINDOW_ORDERED);
  hm_wake_waiter(&channel->window);
  work_off(of, deadline);
  close_window(of);
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

static void rest(uint64_t until, uint64_t deadline) {
  uint64_t now = hm_now(), most = now + 20000000; /* the recorder may want to end */
  if (deadline != 0 && deadline < most) most = deadline;
  if (until > most) until = most;
  if (until <= now) return;
  struct timespec pause = {0, (long)(until - now)};
  nanosleep(&pause, NULL);
}

static void collect(void) {
  for (uint32_t core = 0; core < hm_sim.config.cores; core++) {
    const struct hm_core_counts *counts = &hm_sim.header->counts[core];
    for (int event = 0; event < HM_EVENTS; event++)
      statistics.counted.events[event] += counts->events[event];
  }
  statistics.fetched = hm_pages_fetched();
  statistics.hot_pages = hm_pages_hot();
  statistics.translations = hm_engine_translations();
  statistics.native = hm_native_count();
  statistics.real_time = (int)channel->real_time;
}

static uint32_t announced;

/* The names and mappings of new processes, before their first samples. */
static void announce(void) {
  for (uint32_t i = 0; i < hm_family_size(); i++) {
    struct hm_follower *of = hm_family_member(i);
    if (of->gone || of->layout != 0) continue;
    const char *problem = hm_read_mappings(of->process);
    if (problem == NULL) {
      hm_announce_process(of->process);
      of->layout = hm_code_layout();
      announced++;
      continue;
    }
    of->gone = 1;
    if (hm_host_process_exists((uint32_t)of->process))
      fprintf(stderr, "hardmeter-ghost: process %d cannot be followed: %s\n", of->process, problem);
  }
}

static void begin(void) {
  struct sigaction action = {.sa_handler = end_asked};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  hm_memory_begin();
  hm_engine_begin();
  hm_family_begin(options->processes, options->process_count, options->descendants,
                  hm_sim.config.cores);
  announce();
  while (options->segment != NULL && atomic_load(&hm_sim.header->measuring) == 0 && !asked_to_end &&
         hm_host_process_exists(atomic_load(&hm_sim.header->recorder_pid)))
    rest(UINT64_MAX, 0);
}

int hm_follow(const struct hm_options *with, struct hm_channel *shared) {
  options = with;
  channel = shared;
  begin();
  uint64_t started = hm_now(), all = (uint64_t)(options->seconds * 1e9);
  uint64_t deadline = all > 0 ? started + all : 0;
  while (!is_over(deadline) && !watchdog_is_gone()) {
    uint64_t wakes;
    /* A short measurement counts in its second half, whatever the run-in says. */
    if ((all > 0 && hm_now() - started >= all / 2) ||
        (options->enough > 0 && statistics.verdicts[HM_SAME] >= options->enough / 2))
      for (uint32_t kind = 0; kind < HM_MAX_CORES; kind++) run_in[kind].over = 1;
    if (hm_family_look() > 0) announce();
    struct hm_follower *next = hm_family_next(&wakes);
    if (next == NULL && hm_family_is_gone()) break;
    if (next != NULL)
      follow_one(next, deadline);
    else
      rest(wakes, deadline);
  }
  atomic_store(&channel->finish, 1);
  collect();
  if (!options->quiet) hm_print_statistics(&statistics, stderr);
  if (options->report != NULL && !hm_store_statistics(&statistics, options->report))
    fprintf(stderr, "hardmeter-ghost: cannot write %s: %s\n", options->report, strerror(errno));
  int none_followed = statistics.windows == statistics.refused_windows;
  return none_followed && (announced == 0 || statistics.windows > 0) ? 1 : 0;
}
