/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The watchdog makes sure that a stuck stopper leaves no process stopped.
 *
 * Only the tracer can release a traced process. But if the tracer dies, the kernel releases it,
 * because it was seized without PTRACE_O_EXITKILL. So the watchdog kills a stopper that hangs, was
 * stopped itself, or does not get a processor.
 *
 *     no window ── traced != 0 ──> watching ── stopped too long ──> kill, reap, fork a new stopper
 *         ^                           │ traced == 0                             │
 *         └───────────────────────────┴─────────────────────────────────────────┘
 *
 * Invariants:
 *  1. The watchdog is the stopper's parent: its death kills the stopper (PR_SET_PDEATHSIG), as the
 *     emulator's death kills the watchdog.
 *  2. A process that is traced and stopped is freed HM_STOP_LIMIT after the watchdog first sees it,
 *     whether or not the stopper knows that it has stopped.
 *  3. The stopper stops no process while `watched` is old, because a watchdog that was itself stopped
 *     cannot help.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "family.h"

#define HM_STOP_LIMIT \
  14000000ull /* nanoseconds; with a tick and the kernel's own work, under 20 ms */
#define TICK 3000000l
#define MOST_STOPPERS 16

int hm_raise_priority(int level) {
  struct sched_param parameter = {.sched_priority = level};
  if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &parameter) == 0) return 1;
  setpriority(PRIO_PROCESS, 0, -20); /* without the permission the priority stays unchanged */
  return 0;
}

static void start_stopper(struct hm_channel *channel) {
  pid_t parent = getpid(), stopper = fork();
  if (stopper < 0) _exit(HM_WATCHDOG_NO_FORK); /* nothing is stopped, and the emulator ends */
  if (stopper == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); /* it died before that */
    prctl(PR_SET_NAME, "ghost-stopper");
    hm_stopper(channel);
  }
  atomic_store(&channel->stopper, stopper);
  atomic_fetch_add(&channel->stoppers_started, 1);
}

/* True if the process is in a ptrace stop. */
static int is_stopped(int process) { return hm_process_state(process) == 't'; }

/* Replaces a stopper that is dead or must end. The kernel frees the processes that it traced. */
static void replace_stopper(struct hm_channel *channel, pid_t stopper) {
  kill(stopper, SIGKILL);
  while (waitpid(stopper, NULL, 0) < 0 && errno == EINTR) {
  }
  atomic_store(&channel->traced, 0);
  atomic_store(&channel->stopped_since, 0);
  atomic_fetch_add(&channel->freed, 1);
  /* The stopper's unfinished work is discarded. */
  for (uint32_t slot = 0; slot < HM_SNAPSHOTS; slot++) {
    if (atomic_load(&channel->snapshot[slot].state) != HM_SNAPSHOT_BEGUN) continue;
    channel->snapshot[slot].end_kind = HM_END_OF_PROCESS;
    atomic_store(&channel->snapshot[slot].state, HM_SNAPSHOT_ENDED);
  }
  uint32_t window = atomic_load(&channel->window);
  if (window == HM_WINDOW_ORDERED || window == HM_WINDOW_OPEN) {
    channel->end_kind = HM_WINDOW_KILLED;
    atomic_store(&channel->window, HM_WINDOW_CLOSED);
  }
  if (atomic_load(&channel->stoppers_started) >= MOST_STOPPERS) _exit(1);
  start_stopper(channel);
  atomic_fetch_add(channel->bell, 1);
  hm_wake_waiter(channel->bell);
}

_Noreturn static void watch(struct hm_channel *channel) {
  uint64_t stopped_at = 0, stops = 0;
  int whom = 0;
  start_stopper(channel);
  for (;;) {
    atomic_store(&channel->watched, hm_now());
    pid_t stopper = atomic_load(&channel->stopper);
    if (atomic_load(&channel->finish) != 0) {
      if (waitpid(stopper, NULL, WNOHANG) != 0) _exit(0);
    } else if (waitpid(stopper, NULL, WNOHANG | WUNTRACED) == stopper) {
      replace_stopper(channel, stopper); /* killed, or stopped itself */
      continue;
    }
    int traced = atomic_load(&channel->traced);
    uint64_t dealt = atomic_load(&channel->stops), now = hm_now();
    if (traced == 0 || traced != whom || dealt != stops) {
      whom = traced;
      stops = dealt;
      stopped_at = 0;
    }
    if (traced != 0) {
      uint64_t known = atomic_load(&channel->stopped_since);
      if (known == 0 && stopped_at == 0 && is_stopped(traced)) stopped_at = now;
      if (known == 0 && stopped_at != 0 && !is_stopped(traced)) stopped_at = 0;
      uint64_t since = known != 0 ? known : stopped_at;
      if (since != 0 && now - since > HM_STOP_LIMIT) {
        replace_stopper(channel, stopper);
        continue;
      }
    }
    struct timespec tick = {0, TICK};
    nanosleep(&tick, NULL);
  }
}

int hm_start_watchdog(struct hm_channel *channel) {
  pid_t parent = getpid(), watchdog = fork();
  if (watchdog != 0) return watchdog;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  prctl(PR_SET_NAME, "ghost-watchdog");
  setsid(); /* a job-control stop does not stop the guard */
  hm_raise_priority(3);
  watch(channel);
}
