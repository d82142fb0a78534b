/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Memory shared by the follower's processes: one anonymous mapping, made before the forks. There is a
 * channel, with a watchdog and a stopper, for each process that may be followed at the same time.
 *
 *     emulator (main)  ── forks ──>  watchdog  ── forks ──>  stopper  ══ ptrace ══>  followed process
 *           │  order: process, time, hot pages  ────────────────>│
 *           │<──────────  snapshots: registers, pages, end ──────│
 *           │                            │<── heartbeat, stop ───│
 *           │                       scout <── snapshot, more pages ─│
 *
 * A snapshot is one slot of a ring:
 *
 *     FREE ── stopper: copied at a call's exit ──> BEGUN ── stopper: next call's entry ──> ENDED
 *       ^                                                                                    │
 *       └───────────────────── emulator: compared, counted or dropped ───────────────────────┘
 *
 * Invariants:
 *  1. A slot is written by the stopper while FREE or BEGUN, read by the emulator while BEGUN or
 *     ENDED, and freed by the emulator alone.
 *  2. The stopper never waits for the emulator while it has the process stopped.
 *  3. `traced` names the process as long as the stopper is attached to it, `stopped_since` is not 0
 *     while the stopper knows that it is stopped; the watchdog acts on these two alone.
 */
#ifndef HM_GHOST_CHANNEL_H
#define HM_GHOST_CHANNEL_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/user.h>

#define HM_SNAPSHOTS 32
#define HM_MOST_HOT 1024   /* pages copied at one stop because they are hot */
#define HM_MOST_PAGES 1536 /* and those that the scout adds */
#define HM_MOST_XSTATE 16384
#define HM_PAGE 4096u

enum hm_snapshot_state { HM_SNAPSHOT_FREE, HM_SNAPSHOT_BEGUN, HM_SNAPSHOT_ENDED };

/* How the server's own run of the stretch ended. */
enum hm_stretch_end {
  HM_END_AT_CALL,    /* at a system call: `end` are the registers there */
  HM_END_BY_SIGNAL,  /* a signal came first */
  HM_END_BY_LIMIT,   /* no call within the time limit, or the window was called off */
  HM_END_OF_PROCESS, /* it has ended, or the stopper has */
};

struct hm_snapshot {
  _Atomic uint32_t state;
  uint32_t end_kind;
  uint32_t first;   /* 1: first of its window */
  uint32_t at_call; /* 1: begun at a call's exit, 0: at an interrupt */
  int32_t process;
  uint32_t xstate_size;
  uint32_t pages;          /* copied */
  uint32_t listed;         /* the first of them: hot, addresses ascending */
  _Atomic uint32_t sealed; /* 1: the scout adds nothing more */
  uint32_t reserved;
  uint64_t began; /* CLOCK_MONOTONIC, nanoseconds */
  uint64_t pause_copy, pause_end;
  uint64_t ran_before, ran_after; /* the process's CPU time at both ends; after 0: not known */
  struct user_regs_struct registers, end;
  uint8_t xstate[HM_MOST_XSTATE] __attribute__((aligned(64)));
  uint64_t page[HM_MOST_PAGES];
  uint8_t data[HM_MOST_PAGES][HM_PAGE] __attribute__((aligned(4096)));
};

/* Pages to copy at each stop. The emulator writes the lists in rotation. A copy finishes long
 * before its list is written again. */
#define HM_HOT_LISTS 8
struct hm_hot_list {
  uint32_t count;
  uint32_t reserved;
  uint64_t page[HM_MOST_HOT]; /* ascending */
};

enum hm_window_state { HM_WINDOW_NONE, HM_WINDOW_ORDERED, HM_WINDOW_OPEN, HM_WINDOW_CLOSED };

/* Whether the scout adds pages at each stop of the window. */
enum hm_scouted {
  HM_NOT_SCOUTED,
  HM_SCOUTED_AT_FIRST, /* as long as little is known of such processes; all hot pages are copied */
  HM_SCOUTED           /* for good; only the hottest are copied, since the others can be added */
};

/* Why a window ended. */
enum hm_window_end {
  HM_WINDOW_COMPLETE,
  HM_WINDOW_REFUSED,   /* error_number says why the process could not be seized */
  HM_WINDOW_IDLE,      /* the process waits in the kernel */
  HM_WINDOW_GONE,      /* the process has ended */
  HM_WINDOW_SUSPENDED, /* stopped by job control: left alone */
  HM_WINDOW_FULL,      /* no free slot: the emulator is behind */
  HM_WINDOW_KILLED     /* the watchdog ended the stopper */
};

struct hm_channel {
  /* Written by the emulator. */
  _Atomic uint32_t window; /* enum hm_window_state */
  int32_t process;
  uint32_t stretches;
  uint32_t at_once;  /* 1: it computes; begin where it is, not at its next call */
  uint32_t scouted;  /* enum hm_scouted */
  uint32_t expected; /* windows of this round: copying begins when all have met their process */
  uint32_t end_kind; /* enum hm_window_end */
  int32_t error_number;
  _Atomic uint32_t finish; /* 1: all processes end */
  _Atomic uint32_t hot_current;
  struct hm_hot_list hot[HM_HOT_LISTS];

  /* Written by the stopper. */
  _Atomic uint32_t begun; /* snapshots ever begun: the next goes to begun % HM_SNAPSHOTS */
  _Atomic uint32_t
      news; /* of the first channel, grows whenever a slot or a window of any changes */
  _Atomic uint32_t *bell;  /* that word: the emulator waits on it */
  _Atomic uint32_t met;    /* of the first channel: windows of the round that met their process */
  _Atomic uint32_t *round; /* that word */
  uint32_t real_time;      /* 1: it runs at real-time priority */
  uint32_t reserved;

  /* Between stopper and scout (scout.c). */
  _Atomic uint32_t scout_order, scout_done; /* equal: the scout is free */
  _Atomic uint32_t scout_ready;             /* 0: there is none */
  uint32_t scout_what; /* a snapshot's number; HM_SNAPSHOTS: read the process's mappings */

  /* Written by the watchdog. */
  _Atomic int32_t stopper;
  _Atomic int32_t traced;         /* 0: no process is traced */
  _Atomic uint64_t stopped_since; /* CLOCK_MONOTONIC; 0: the process runs */
  _Atomic uint64_t stops;         /* grows at each stop that was handled */
  _Atomic uint64_t watched;       /* time of the watchdog's last check */
  _Atomic uint32_t freed;         /* how often it had to kill the stopper */
  _Atomic uint32_t stoppers_started;

  struct hm_snapshot snapshot[HM_SNAPSHOTS];
};

/* stopper.c: the main function of the stopper process; never returns. */
_Noreturn void hm_stopper(struct hm_channel *channel);

/* scout.c, for the stopper: starts one for this channel. */
void hm_start_scout(struct hm_channel *channel);
/* It reads the mappings of the channel's process. */
void hm_scout_prepare(void);
/* Lets it add the pages that this stretch needs; returns at that time at the latest. */
void hm_scout(struct hm_snapshot *of, uint64_t until);

/* watchdog.c: forks the watchdog, which forks the stopper. Returns the watchdog's pid, or -1. */
int hm_start_watchdog(struct hm_channel *channel);
/* Its exit status if it cannot start a stopper. */
#define HM_WATCHDOG_NO_FORK 3

/* Sets real-time priority `level`, or the best priority allowed. Returns 1 if it is real-time. */
int hm_raise_priority(int level);

uint64_t hm_now(void); /* CLOCK_MONOTONIC, nanoseconds */
void hm_wait_for_change(_Atomic uint32_t *word, uint32_t expected, uint64_t nanoseconds);
void hm_wake_waiter(_Atomic uint32_t *word);

#endif
