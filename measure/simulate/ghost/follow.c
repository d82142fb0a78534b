/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Follows processes in rounds. In a round, up to one process a lane is followed at the same time, each
 * for a window of stretches.
 *
 *   resting ── shares of pauses are used up ── windows ordered ──> stretches ── all closed ──> resting
 *
 * Order.  Stretches of all lanes are executed one at a time, in the order in which the server began
 * them: so each core's stores take lines away from the others at about the moment at which they did.
 * Within a stretch the cores do not alternate. A stretch waits until no lane can publish an earlier
 * one.
 *
 * Invariants:
 *  1. Records of a window are written when its round is over, with its weight, or not at all.
 *  2. Stops take at most options->share of a process's time; after it, the process rests.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "family.h"
#include "guest.h"
#include "host.h"
#include "lane.h"
#include "simulator.h"
#include "statistics.h"

#define PUBLISHED_WITHIN 4000000ull /* nanoseconds from a stretch's begin: the copy is cut short */

void hm_explain_refusal(int process, int error, FILE *out);

static const struct hm_options *options;
static struct hm_lane lane[HM_LANES];
static volatile sig_atomic_t asked_to_end;

static void end_asked(int number) {
  (void)number;
  asked_to_end = 1;
}

/* A recorder that was killed stays a zombie until its parent waits for it. Its own child sees its end by
 * its new parent, which costs a system call of a tenth of a microsecond. */
static int recorder_has_ended(void) {
  static int parent;
  int recorder = (int)atomic_load(&hm_sim.header->recorder_pid);
  if (recorder == 0) return 1;
  if (getppid() == recorder) {
    parent = recorder;
    return 0;
  }
  if (parent == recorder) return 1;
  char state = hm_process_state(recorder);
  return state == 'Z' || state == 'X' || !hm_host_process_exists((uint32_t)recorder);
}

static int is_over(uint64_t deadline) {
  struct hm_header *header = hm_sim.header;
  uint64_t same = hm_statistics.verdicts[HM_SAME];
  if (asked_to_end || (deadline != 0 && hm_now() >= deadline)) return 1;
  if (options->enough != 0 && same >= options->enough) return 1;
  if (options->segment == NULL) return 0;
  return atomic_load(&header->measuring) == 0 || recorder_has_ended();
}

static void finish_all(void) {
  for (uint32_t i = 0; i < options->lanes; i++) atomic_store(&lane[i].channel->finish, 1);
}

/* --- A round ---------------------------------------------------------------------------------- */

static int is_pending(const struct hm_lane *of) {
  return of->taken != atomic_load(&of->channel->begun);
}

static int is_closed(const struct hm_lane *of) {
  return atomic_load(&of->channel->window) == HM_WINDOW_CLOSED && !is_pending(of);
}

static struct hm_snapshot *next_of(const struct hm_lane *of) {
  return &of->channel->snapshot[of->taken % HM_SNAPSHOTS];
}

/* The lane with the earliest stretch; NULL: none, or another lane may still publish an earlier one. */
static struct hm_lane *earliest(uint32_t lanes) {
  struct hm_lane *first = NULL;
  int waits = 0;
  for (uint32_t i = 0; i < lanes; i++) {
    if (is_pending(&lane[i])) {
      if (first == NULL || next_of(&lane[i])->began < next_of(first)->began) first = &lane[i];
    } else {
      waits |= !is_closed(&lane[i]);
    }
  }
  if (first != NULL && waits && hm_now() - next_of(first)->began < PUBLISHED_WITHIN) return NULL;
  return first;
}

static void note_pauses(const struct hm_snapshot *slot, struct hm_follower *of) {
  if (hm_statistics.pauses < HM_MOST_PAUSES)
    hm_statistics.pause[hm_statistics.pauses++] = (uint32_t)slot->pause_copy;
  hm_statistics.paused_ns += slot->pause_copy + slot->pause_end;
  of->paused += slot->pause_copy + slot->pause_end;
}

static void take(struct hm_lane *of, int over) {
  struct hm_snapshot *slot = next_of(of);
  if (over)
    hm_wait_for_end(of, slot);
  else
    hm_emulate_stretch(of, slot);
  of->stretches++;
  note_pauses(slot, of->of);
  atomic_store(&slot->state, HM_SNAPSHOT_FREE);
  of->taken++;
}

/* Deals with what there is; returns when all windows are closed and their stretches are done.  At the
 * end of the recording windows are called off, and what is left of them is not emulated. */
static void work_off(uint32_t lanes, uint64_t deadline) {
  _Atomic uint32_t *bell = lane[0].channel->bell;
  for (;;) {
    uint32_t news = atomic_load(bell);
    int over = is_over(deadline), closed = 1;
    if (over) finish_all();
    struct hm_lane *next = earliest(lanes);
    if (next != NULL) {
      take(next, over);
      continue;
    }
    for (uint32_t i = 0; i < lanes; i++) closed &= is_closed(&lane[i]);
    if (closed) return;
    hm_wait_for_change(bell, news, PUBLISHED_WITHIN);
    if (hm_watchdog_is_gone()) return;
  }
}

static void order_window(struct hm_lane *on, struct hm_follower *of, uint32_t of_round) {
  struct hm_channel *channel = on->channel;
  channel->expected = of_round;
  channel->scouted = hm_loses_many(of->core)  ? HM_SCOUTED
                     : hm_loses_few(of->core) ? HM_NOT_SCOUTED
                                              : HM_SCOUTED_AT_FIRST;
  if (atomic_load(&channel->scout_ready) == 0) channel->scouted = HM_NOT_SCOUTED;
  hm_pace_end(of);
  on->of = of;
  on->stretches = 0;
  on->last = NULL;
  on->kept = on->kept_instructions = 0;
  hm_run_on(of->core);
  on->before = *hm_sim.counts;
  of->paused = 0;
  channel->process = of->process;
  channel->stretches = of->next_stretches;
  channel->at_once = of->computes > 0;
  if (of->computes > 0) of->computes--;
  if (of->next_stretches < options->stretches)
    of->next_stretches =
        of->next_stretches * 2 < options->stretches ? of->next_stretches * 2 : options->stretches;
  atomic_store(&channel->window, HM_WINDOW_ORDERED);
  hm_wake_waiter(&channel->window);
}

static void close_window(struct hm_lane *on) {
  struct hm_follower *of = on->of;
  hm_weigh_window(on);
  hm_statistics.windows++;
  switch (on->channel->end_kind) {
    case HM_WINDOW_REFUSED:
      hm_statistics.refused_windows++;
      hm_explain_refusal(of->process, on->channel->error_number, stderr);
      of->gone = 1;
      break;
    case HM_WINDOW_GONE: of->gone = 1; break;
    case HM_WINDOW_IDLE: hm_statistics.idle_windows++; break;
    case HM_WINDOW_KILLED: hm_statistics.killed++; break;
    default: break;
  }
}

/* Those who are ready now. If one that runs, too, still rests, the others wait for it: followed
 * together, they rest together, and will be ready together from then on. Returns 0 to wait.
 * Processes whose code lies at the same places come first: they have their translations in common. */
static uint32_t gather(struct hm_follower *first, struct hm_follower **into) {
  uint64_t cores = 1ull << first->core, until = 0, wakes;
  uint32_t count = 1;
  into[0] = first;
  for (int any = 0; any <= 1 && until == 0; any++) {
    uint64_t layout = any ? 0 : first->layout;
    while (count < options->lanes) {
      struct hm_follower *next = hm_family_next(cores, layout, &wakes);
      if (next == NULL) break;
      cores |= 1ull << next->core;
      into[count++] = next;
    }
    if (count < options->lanes) until = hm_family_partner(cores, layout);
  }
  for (uint32_t i = 0; i < count && until != 0; i++) into[i]->rests_until = until;
  return until == 0 ? count : 0;
}

static void follow_round(struct hm_follower *first, uint64_t deadline) {
  struct hm_follower *followed[HM_LANES];
  uint64_t paused = 0, began = hm_now();
  uint32_t lanes = gather(first, followed);
  if (lanes == 0) return;
  atomic_store(lane[0].channel->round, 0);
  for (uint32_t i = 0; i < lanes; i++) order_window(&lane[i], followed[i], lanes);
  work_off(lanes, deadline);
  for (uint32_t i = 0; i < lanes; i++) {
    close_window(&lane[i]);
    if (followed[i]->paused > paused) paused = followed[i]->paused;
  }
  hm_statistics.rounds++;
  hm_statistics.followed_ns += hm_now() - began;
  uint64_t until = hm_now() + (uint64_t)((double)paused * (100.0 / options->share - 1));
  for (uint32_t i = 0; i < lanes; i++) {
    followed[i]->rests_until = until;
    hm_pace_begin(followed[i]);
  }
}

/* --- The whole ---------------------------------------------------------------------------------- */

static void rest(uint64_t until, uint64_t deadline) {
  uint64_t now = hm_now(), most = now + 20000000; /* the recorder may request the end */
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
      hm_statistics.counted.events[event] += counts->events[event];
  }
  hm_statistics.fetched = hm_pages_fetched();
  hm_statistics.hot_pages = hm_pages_hot();
  hm_statistics.translations = hm_engine_translations();
  hm_statistics.native = hm_native_count();
  hm_statistics.real_time = (int)lane[0].channel->real_time;
  hm_store_pace(&hm_statistics);
}

static uint32_t announced;

/* The names and mappings of new processes, before their first samples. */
static void announce(void) {
  hm_use_mappings(0);
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

static void begin(struct hm_channel *channel) {
  struct sigaction action = {.sa_handler = end_asked};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  for (uint32_t i = 0; i < options->lanes; i++)
    lane[i] = (struct hm_lane){.number = i, .channel = &channel[i]};
  hm_memory_begin();
  hm_engine_begin();
  hm_family_begin(options->processes, options->process_count, options->descendants,
                  hm_sim.config.cores, options->lanes);
  announce();
  while (options->segment != NULL && atomic_load(&hm_sim.header->measuring) == 0 && !asked_to_end &&
         !recorder_has_ended())
    rest(UINT64_MAX, 0);
}

int hm_follow(const struct hm_options *with, struct hm_channel *channel) {
  options = with;
  hm_stretches_begin(with);
  begin(channel);
  uint64_t started = hm_now(), all = (uint64_t)(options->seconds * 1e9);
  uint64_t deadline = all > 0 ? started + all : 0;
  while (!is_over(deadline) && !hm_watchdog_is_gone()) {
    uint64_t wakes;
    /* A short measurement counts in its second half, whatever the run-in says. */
    if ((all > 0 && hm_now() - started >= all / 2) ||
        (options->enough > 0 && hm_statistics.verdicts[HM_SAME] >= options->enough / 2))
      hm_run_in_is_over();
    if (hm_family_look() > 0) announce();
    struct hm_follower *next = hm_family_next(0, 0, &wakes);
    if (next == NULL && hm_family_is_gone()) break;
    if (next != NULL)
      follow_round(next, deadline);
    else
      rest(wakes, deadline);
  }
  finish_all();
  collect();
  if (!options->quiet) hm_print_statistics(&hm_statistics, stderr);
  if (options->report != NULL && !hm_store_statistics(&hm_statistics, options->report))
    fprintf(stderr, "hardmeter-ghost: cannot write %s: %s\n", options->report, strerror(errno));
  int none_followed = hm_statistics.windows == hm_statistics.refused_windows;
  return none_followed && (announced == 0 || hm_statistics.windows > 0) ? 1 : 0;
}
