/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The stopper stops a process at system calls, copies its registers and hot pages, and immediately
 * lets it run on. It changes nothing in the process: no memory, no register.
 *
 *   detached ── seize, interrupt ──> stopped ── PTRACE_SYSCALL ──> running ── entry ──> stopped
 *      ^                                                           ^  │                   │
 *      │                                                           │  └─ exit ─> copy ────┤
 *      │                                                           └── PTRACE_SYSCALL ────┘
 *      └──────────── interrupt if it runs, detach: window over, or time limit
 *
 * Invariants:
 *  1. The process is seized without PTRACE_O_EXITKILL: if the stopper dies, it runs on.
 *  2. Between a stop and the next request to the kernel to let it run, the stopper waits for
 *     nothing but the scout, until SCOUT_LIMIT; copying is cut short after COPY_LIMIT.
 *  3. A signal that arrives is passed on with the next request.
 *  4. A window ends after its time limit, with or without the emulator.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "channel.h"
#include "family.h"

#define COPY_LIMIT 1500000ull  /* nanoseconds */
#define SCOUT_LIMIT 1500000ull /* copying included */
#define IDLE_LIMIT 60000000ull /* without any stop */
#define WINDOW_LIMIT 2000000000ull
#define MEETING_LIMIT 40000000ull
#define LONG_STRETCH 1500000ull /* of CPU time */
#define PATIENCE 15000          /* microseconds: waiting is looked up from that often */
#define MOST_VECTORS 512
#define WATCHDOG_LIMIT 60000000ull /* the watchdog checks every few milliseconds */

enum stop {
  STOP_ENTRY,
  STOP_EXIT,
  STOP_INTERRUPT,
  STOP_SIGNAL,
  STOP_SUSPENDED,
  STOP_GONE,
  STOP_LATE,  /* no stop within the limit */
  STOP_OTHER, /* an irrelevant stop: let the process run on */
};

static struct hm_channel *channel;
static int process, pending_signal, has_met;

static void ignore(int number) { (void)number; }

static void tell(void) {
  atomic_fetch_add(channel->bell, 1);
  hm_wake_waiter(channel->bell);
}

/* --- Stops ---------------------------------------------------------------------- */

static enum stop classify(int status) {
  if (WIFEXITED(status) || WIFSIGNALED(status)) return STOP_GONE;
  int event = status >> 16, number = WSTOPSIG(status);
  if (event == PTRACE_EVENT_STOP) return number == SIGTRAP ? STOP_INTERRUPT : STOP_SUSPENDED;
  if (event != 0) return STOP_OTHER;
  if (number == (SIGTRAP | 0x80)) {
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, process, sizeof info, &info) <= 0) return STOP_OTHER;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) return STOP_ENTRY;
    return info.op == PTRACE_SYSCALL_INFO_EXIT ? STOP_EXIT : STOP_OTHER;
  }
  pending_signal = number;
  return STOP_SIGNAL;
}

/* Waits for a stop until `limit`. The timer interrupts the wait, sometimes without a need. */
static enum stop wait_for_stop(uint64_t limit) {
  for (;;) {
    int status;
    pid_t who = waitpid(process, &status, __WALL);
    if (who == process) {
      atomic_store(&channel->stopped_since, hm_now());
      return classify(status);
    }
    if (errno != EINTR) return STOP_GONE;
    if (hm_now() > limit) return STOP_LATE;
  }
}

static void went_on(void) {
  atomic_store(&channel->stopped_since, 0);
  atomic_fetch_add(&channel->stops, 1);
}

static int run_on(void) {
  int number = pending_signal;
  pending_signal = 0;
  long result = ptrace(PTRACE_SYSCALL, process, 0, (long)number);
  went_on();
  return result == 0;
}

/* Detaches from a stopped process. */
static void detach(void) {
  int number = pending_signal;
  pending_signal = 0;
  ptrace(PTRACE_DETACH, process, 0, (long)number);
  went_on();
  atomic_store(&channel->traced, 0);
}

/* Detaches from a process that runs, or that waits in the kernel. */
static void detach_running(void) {
  ptrace(PTRACE_INTERRUPT, process, 0, 0);
  for (;;) {
    enum stop stop = wait_for_stop(UINT64_MAX);
    if (stop == STOP_GONE) {
      went_on();
      atomic_store(&channel->traced, 0);
      return;
    }
    /* Any stop will do; the pending interrupt disappears with the attachment. */
    detach();
    return;
  }
}

/* --- Copying -------------------------------------------------------------------- */

/* Reads the hot pages, adjacent ones in one vector; leaves out pages that no longer exist. */
static void copy_pages(struct hm_snapshot *slot, uint64_t since) {
  const struct hm_hot_list *hot = &channel->hot[atomic_load(&channel->hot_current) % HM_HOT_LISTS];
  static struct iovec remote[MOST_VECTORS];
  uint32_t count = hot->count < HM_MOST_HOT ? hot->count : HM_MOST_HOT, next = 0;
  slot->pages = 0;
  while (next < count && hm_now() - since < COPY_LIMIT) {
    uint32_t vectors = 0, first = next, batch = 0;
    for (; next < count && batch < 128 && vectors < MOST_VECTORS; next++, batch++) {
      if (vectors > 0 && hot->page[next] == hot->page[next - 1] + HM_PAGE) {
        remote[vectors - 1].iov_len += HM_PAGE;
      } else {
        remote[vectors].iov_base = (void *)hot->page[next];
        remote[vectors++].iov_len = HM_PAGE;
      }
    }
    struct iovec local = {slot->data[slot->pages], (size_t)batch * HM_PAGE};
    ssize_t got = process_vm_readv(process, &local, 1, remote, vectors, 0);
    uint32_t whole = got > 0 ? (uint32_t)got / HM_PAGE : 0;
    memcpy(&slot->page[slot->pages], &hot->page[first], whole * sizeof slot->page[0]);
    slot->pages += whole;
    if (whole < batch) next = first + whole + 1; /* that page cannot be read */
  }
}

static int take_snapshot(struct hm_snapshot *slot, int at_call, int first) {
  uint64_t since = atomic_load(&channel->stopped_since);
  struct iovec state = {slot->xstate, sizeof slot->xstate};
  if (ptrace(PTRACE_GETREGS, process, 0, &slot->registers) != 0) return 0;
  if (ptrace(PTRACE_GETREGSET, process, (void *)NT_X86_XSTATE, &state) != 0) return 0;
  slot->xstate_size = (uint32_t)state.iov_len;
  copy_pages(slot, since);
  slot->listed = slot->pages;
  atomic_store(&slot->sealed, 1);
  if (channel->scouted != HM_NOT_SCOUTED && at_call) hm_scout(slot, since + SCOUT_LIMIT);
  slot->process = process;
  slot->at_call = (uint32_t)at_call;
  slot->first = (uint32_t)first;
  slot->began = since;
  slot->pause_end = 0;
  slot->ran_after = 0;
  slot->ran_before = hm_cpu_time(process);
  return 1;
}

static void publish(struct hm_snapshot *slot, enum hm_snapshot_state state) {
  atomic_store(&slot->state, state);
  tell();
}

static void end_stretch(struct hm_snapshot **slot, enum hm_stretch_end how) {
  if (*slot == NULL) return;
  (*slot)->end_kind = how;
  publish(*slot, HM_SNAPSHOT_ENDED);
  *slot = NULL;
}

/* --- A window -------------------------------------------------------------------- */

/* A process that waits in the kernel would have its wait interrupted (some calls then return EINTR):
 * it is stopped while it runs, if it runs at all. */
static enum hm_window_end is_running_soon(void) {
  uint64_t limit = hm_now() + IDLE_LIMIT;
  for (;;) {
    char state = hm_process_state(process);
    if (state == 'R') return HM_WINDOW_COMPLETE;
    if (state == 0 || state == 'Z' || state == 'X') return HM_WINDOW_GONE;
    if (hm_now() > limit || atomic_load(&channel->finish) != 0) return HM_WINDOW_IDLE;
    struct timespec moment = {0, 50000};
    nanosleep(&moment, NULL);
  }
}

/* True if the process executes its own code, not a system call. */
static int in_user_code(void) {
  struct user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, process, 0, &registers) != 0) return 0;
  return (long long)registers.orig_rax < 0;
}

static struct hm_snapshot *free_slot(void) {
  uint32_t next = atomic_load(&channel->begun);
  struct hm_snapshot *slot = &channel->snapshot[next % HM_SNAPSHOTS];
  return atomic_load(&slot->state) == HM_SNAPSHOT_FREE ? slot : NULL;
}

/* Begins a stretch at this stop and lets the process run on. Returns NULL if that is impossible. */
static struct hm_snapshot *begin_stretch(int at_call, int first) {
  struct hm_snapshot *slot = free_slot();
  uint64_t since = atomic_load(&channel->stopped_since);
  if (slot == NULL || !take_snapshot(slot, at_call, first)) return NULL;
  int goes_on = run_on();
  slot->pause_copy = hm_now() - since;
  atomic_fetch_add(&channel->begun, 1);
  publish(slot, HM_SNAPSHOT_BEGUN);
  /* It was killed while it stood: no stop will end this stretch. */
  if (!goes_on) end_stretch(&slot, HM_END_OF_PROCESS);
  return slot;
}

/* Windows of a round are to overlap: until the last of them has met its process, or for a moment, the
 * others let theirs run on without a copy. */
static void meet(void) {
  if (!has_met) atomic_fetch_add(channel->round, 1);
  has_met = 1;
}

static int others_are_late(uint64_t began) {
  return atomic_load(channel->round) < channel->expected && hm_now() - began < MEETING_LIMIT;
}

/* Follows until the window is over; leaves the process detached. */
static enum hm_window_end follow(uint32_t stretches) {
  struct hm_snapshot *slot = NULL;
  uint64_t began = hm_now(), last = began;
  uint32_t taken = 0;
  int interrupted = 0;
  uint64_t lingered = 0;
  for (;;) {
    enum stop stop = wait_for_stop(last + IDLE_LIMIT);
    uint64_t now = hm_now();
    int over =
        taken >= stretches || now - began > WINDOW_LIMIT || atomic_load(&channel->finish) != 0;
    switch (stop) {
      case STOP_GONE:
        went_on();
        atomic_store(&channel->traced, 0);
        end_stretch(&slot, HM_END_OF_PROCESS);
        return HM_WINDOW_GONE;
      case STOP_SUSPENDED:
        detach();
        end_stretch(&slot, HM_END_BY_LIMIT);
        return HM_WINDOW_SUSPENDED;
      case STOP_LATE:
        /* A process that computes is interrupted; one that waits is left alone. */
        if (slot == NULL && !interrupted && taken == 0 && hm_process_state(process) == 'R') {
          interrupted = 1;
          last = now;
          ptrace(PTRACE_INTERRUPT, process, 0, 0);
          continue;
        }
        detach_running();
        end_stretch(&slot, HM_END_BY_LIMIT);
        return over ? HM_WINDOW_COMPLETE : HM_WINDOW_IDLE;
      case STOP_SIGNAL:
        run_on();
        end_stretch(&slot, HM_END_BY_SIGNAL);
        break;
      case STOP_ENTRY:
        if (slot != NULL) {
          ptrace(PTRACE_GETREGS, process, 0, &slot->end);
          slot->ran_after = hm_cpu_time(process);
          /* What follows a long one would always be met from its beginning. */
          if (slot->ran_after - slot->ran_before > LONG_STRETCH) over = 1;
          uint64_t since = atomic_load(&channel->stopped_since);
          if (over)
            detach();
          else
            run_on();
          slot->pause_end += hm_now() - since;
          end_stretch(&slot, HM_END_AT_CALL);
          if (over) return HM_WINDOW_COMPLETE;
        } else {
          run_on();
        }
        break;
      case STOP_EXIT:
      case STOP_INTERRUPT:
        if (stop == STOP_INTERRUPT &&
            (slot != NULL || taken > 0 || !(interrupted || channel->at_once) || !in_user_code())) {
          run_on();
          break;
        }
        end_stretch(&slot, HM_END_BY_LIMIT); /* an exit without an entry: fork, exec or similar */
        if (over) {
          detach();
          return HM_WINDOW_COMPLETE;
        }
        meet();
        if (stop == STOP_EXIT && taken == 0 && others_are_late(began)) {
          run_on();
          lingered += 2 * (hm_now() - now); /* and the entry that comes next */
          break;
        }
        if (free_slot() == NULL) {
          detach();
          return HM_WINDOW_FULL;
        }
        slot = begin_stretch(stop == STOP_EXIT, taken == 0);
        if (slot != NULL && taken == 0) slot->pause_end = lingered;
        if (slot == NULL && atomic_load(&channel->stopped_since) != 0) run_on();
        taken++;
        break;
      default: run_on(); break;
    }
    last = now;
  }
}

/* Touches the memory copied into, so that it exists before any process is stopped. */
static void prefault(uint32_t slots) {
  uint32_t pages = channel->hot[atomic_load(&channel->hot_current) % HM_HOT_LISTS].count;
  if (pages > HM_MOST_HOT) pages = HM_MOST_HOT;
  for (uint32_t i = 0; i < slots && i < HM_SNAPSHOTS; i++) {
    struct hm_snapshot *slot =
        &channel->snapshot[(atomic_load(&channel->begun) + i) % HM_SNAPSHOTS];
    if (atomic_load(&slot->state) != HM_SNAPSHOT_FREE) return;
    for (uint32_t page = 0; page < pages + 64; page++) *(volatile uint8_t *)slot->data[page] = 0;
  }
}

static void open_window(void) {
  process = channel->process;
  pending_signal = 0;
  channel->error_number = 0;
  atomic_store(&channel->window, HM_WINDOW_OPEN);
  if (channel->scouted != HM_NOT_SCOUTED) hm_scout_prepare();
  prefault(channel->stretches);
  channel->end_kind = hm_now() - atomic_load(&channel->watched) > WATCHDOG_LIMIT
                          ? HM_WINDOW_IDLE
                          : is_running_soon();
  if (channel->end_kind != HM_WINDOW_COMPLETE) return;
  atomic_store(&channel->traced, process);
  if (ptrace(PTRACE_SEIZE, process, 0, PTRACE_O_TRACESYSGOOD) != 0) {
    channel->error_number = errno;
    channel->end_kind = errno == ESRCH ? HM_WINDOW_GONE : HM_WINDOW_REFUSED;
    atomic_store(&channel->traced, 0);
    return;
  }
  ptrace(PTRACE_INTERRUPT, process, 0, 0);
  struct itimerval often = {{0, PATIENCE}, {0, PATIENCE}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  channel->end_kind = (uint32_t)follow(channel->stretches);
  setitimer(ITIMER_REAL, &never, NULL);
}

_Noreturn void hm_stopper(struct hm_channel *shared) {
  channel = shared;
  struct sigaction wake = {.sa_handler = ignore}; /* no SA_RESTART: waitpid has to return */
  sigaction(SIGALRM, &wake, NULL);
  channel->real_time = (uint32_t)hm_raise_priority(2);
  hm_start_scout(channel);
  for (;;) {
    uint32_t window = atomic_load(&channel->window);
    if (atomic_load(&channel->finish) != 0) _exit(0);
    if (window != HM_WINDOW_ORDERED) {
      hm_wait_for_change(&channel->window, window, 50000000);
      continue;
    }
    has_met = 0;
    open_window();
    meet(); /* it may have met none: the others are not to wait for it */
    atomic_store(&channel->window, HM_WINDOW_CLOSED);
    tell();
  }
}
