/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Which thread of the process runs next: Valgrind's lock, given to the thread that is furthest behind in
 * simulated time.
 *
 * Valgrind runs one thread at a time, with its lock held for 100,000 blocks of code, and the one that
 * the kernel wakes first takes it.  This file stands in the lock's place (the Makefile has the linker replace
 * Valgrind's four functions) and decides both, if threads interleave (sim/turns.h):
 *
 *   how long   Valgrind counts blocks down in the thread's state, and ends its turn below zero.  The
 *              counter is set to what a slice takes at the thread's latest rate, and to zero when the
 *              simulator asks for an early end, at an access to a contended line
 *   who next   of the threads that wait for the lock, the one whose core's clock is furthest behind; of
 *              several on one core the one that ran there last, until it had it for 3 ms
 *
 *     waits ── hands_over ──> runs ── start_turn ──> client code ── end_turn ──> runs
 *       ^                      │                                                  │
 *       │                      └── system call: the lock is free meanwhile ──>    │
 *       └────────── release, unless it goes on (goes_on) ────────────────────────┘
 *
 * Invariants:
 *  1. `owner` holds Valgrind's lock; 0: it is free, and none waits.
 *  2. The list of waiting threads is changed with `guard` held. It is held for some instructions,
 *     never while a thread sleeps.
 *  3. goes_on is set only where Valgrind takes the lock again right after it released it.
 */
#include "tool.h"

#include "pub_tool_libcassert.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"

#include "libvex_guest_amd64.h"

#include "clock.h"
#include "host.h"

/* Of the core, threadstate.h. */
extern Bool VG_(is_exiting)(ThreadId tid);

#define SLICE_NANOSECONDS 1000u
#define CORE_SLICE_MICROSECONDS 3000u /* of several threads on one core */
#define LEAST_BLOCKS 16u
#define FIRST_CYCLES_A_BLOCK 4u

/* --- Threads ------------------------------------------------------------------- */

/* By the number of the thread in the kernel. A collision makes the order of turns less good. */
#define HOMES 1024u
static struct home {
  UInt lwp, cpu;
  Bool woken; /* it returns from the kernel: its clock is set to the others' */
} home[HOMES];

static struct home *home_of(UInt lwp) { return &home[lwp % HOMES]; }

/* Who ran last on each core, and since when. */
static struct {
  UInt lwp;
  ULong since;
} core_of[HM_MAX_CORES];

static Bool interleaves(void) {
  return hm_sim.header != NULL &&
         atomic_load_explicit(&hm_sim.header->measuring, memory_order_relaxed) != 0 &&
         hm_sim.config.cores > 1 && (hm_sim.config.flags & HM_FLAG_INTERLEAVE) != 0;
}

static UInt threads = 1;
static ThreadId running;

void hm_turns_of_thread(UInt cpu) {
  UInt lwp = (UInt)VG_(gettid)();
  *home_of(lwp) = (struct home){lwp, cpu, True};
}

/* A block of code is run to its end: with its loop unrolled, that would be eight rounds of one that
 * counts. */
void hm_turns_thread_began(void) {
  threads++;
  if (interleaves()) hm_unroll_no_loops();
}

void hm_turns_thread_ended(void) { threads--; }

void hm_turns_waits(void) { home_of((UInt)VG_(gettid)())->woken = True; }

/* --- Who waits -------------------------------------------------------------------- */

enum { WAITS, SLEEPS, HAS_TURN };

struct waiting {
  struct waiting *next;
  UInt lwp, cpu;
  ULong clock;      /* at least; its core may have advanced since */
  UInt passed_over; /* how often another thread got the turn */
  _Atomic uint32_t state;
};

static struct waiting *waiting; /* in order of arrival */

/* A thread whose turn is over waits from then on, and not from when the kernel lets it run again. */
#define MOST_NUMBERED 512u
static struct waiting after_turn[MOST_NUMBERED];
static _Atomic uint32_t guard;
static UInt owner, cpu_of_owner;
static Bool goes_on;

static void take_guard(void) {
  uint32_t is_free = 0;
  for (UInt tries = 1; !atomic_compare_exchange_weak(&guard, &is_free, 1); tries++) {
    is_free = 0;
    if (tries % 4096 == 0) hm_host_yield();
  }
}

static void free_guard(void) { atomic_store_explicit(&guard, 0, memory_order_release); }

static ULong clock_of_core(UInt cpu) {
  if (hm_sim.on_core && cpu == hm_sim.cpu) return hm_cycles();
  struct hm_core *core = (struct hm_core *)((char *)hm_sim.header + hm_sim.shared->core[cpu]);
  return __atomic_load_n(&core->clock, __ATOMIC_RELAXED);
}

static ULong clock_of(const struct waiting *one) {
  ULong core = clock_of_core(one->cpu);
  return core > one->clock ? core : one->clock;
}

/* The latest clock known to a thread that does not run. */
static ULong clock_at_wake(void) {
  return atomic_load_explicit(&hm_sim.header->clock_max, memory_order_relaxed);
}

static ULong cycles_of_core_slice(void) {
  return (ULong)CORE_SLICE_MICROSECONDS * hm_sim.config.clock_mhz;
}

/* Whether its core is still its own. */
static Bool is_preferred(UInt lwp, UInt cpu) {
  return core_of[cpu].lwp == lwp &&
         clock_of_core(cpu) - core_of[cpu].since < cycles_of_core_slice();
}

/* Clocks of processes may be far apart, and with them those of threads that one has woken: none waits
 * longer than this. */
#define MOST_PASSES 2000u

/* The one furthest behind. */
static struct waiting *next_one(void) {
  if (!interleaves()) return waiting;
  struct waiting *best = waiting;
  ULong least = best != NULL ? clock_of(best) : 0;
  for (struct waiting *one = waiting; one != NULL; one = one->next) {
    ULong clock = clock_of(one);
    if (one->passed_over++ > MOST_PASSES) return one;
    if (clock > least || (clock == least && !is_preferred(one->lwp, one->cpu))) continue;
    best = one;
    least = clock;
  }
  return best;
}

static void append_to_list(struct waiting *one) {
  struct waiting **link = &waiting;
  while (*link != NULL) link = &(*link)->next;
  *link = one;
}

static void remove_from_list(struct waiting *gone) {
  struct waiting **link = &waiting;
  while (*link != gone) link = &(*link)->next;
  *link = gone->next;
}

/* With the guard held: the clock of the slowest thread that waits, on another core than the owner's. */
static void note_slowest(void) {
  ULong slowest = ~0ull;
  for (struct waiting *one = waiting; one != NULL; one = one->next) {
    if (one->cpu == cpu_of_owner) continue;
    ULong clock = clock_of(one);
    if (clock < slowest) slowest = clock;
  }
  atomic_store_explicit(&hm_sim.slowest_waiting, slowest, memory_order_relaxed);
}

/* --- The lock -------------------------------------------------------------------------- */

/* Between two turns lie some microseconds, if lines are contended: sleeping would take longer. But where
 * the machine has no processor left for the waiting thread, it had better sleep: it looks for as long as
 * that was of use lately. */
#define MOST_LOOKS 256u
#define LEAST_LOOKS 4u
#define TURNS_BETWEEN_TRIALS 32u
static UInt looks_of_use = LEAST_LOOKS, turns_awaited;

static Bool looks_for_turn(struct waiting *me) {
  UInt most = turns_awaited++ % TURNS_BETWEEN_TRIALS == 0 ? MOST_LOOKS : looks_of_use;
  for (UInt looks = 0; looks < most; looks++) {
    if (atomic_load_explicit(&me->state, memory_order_acquire) == HAS_TURN) {
      looks_of_use = looks_of_use < MOST_LOOKS / 2 ? 2 * looks_of_use : MOST_LOOKS;
      return True;
    }
    __builtin_ia32_pause();
  }
  looks_of_use = looks_of_use / 2 > LEAST_LOOKS ? looks_of_use / 2 : LEAST_LOOKS;
  return False;
}

static void await_turn(struct waiting *me) {
  if (looks_for_turn(me)) return;
  uint32_t waits = WAITS;
  if (!atomic_compare_exchange_strong(&me->state, &waits, SLEEPS)) return;
  while (atomic_load_explicit(&me->state, memory_order_acquire) != HAS_TURN)
    hm_host_wait(&me->state, SLEEPS);
}

static void give_turn(struct waiting *one) {
  /* Once it has the turn, `one` is gone. */
  _Atomic uint32_t *state = &one->state;
  if (atomic_exchange(state, HAS_TURN) == SLEEPS) hm_host_wake(state);
}

/* Another thread waits that is behind, or whose time has come on this core. */
static Bool others_go_first(UInt lwp) {
  ULong own = clock_of_core(hm_sim.cpu);
  for (struct waiting *one = waiting; one != NULL; one = one->next) {
    if (one->cpu == hm_sim.cpu ? !is_preferred(lwp, hm_sim.cpu) : clock_of(one) < own) return True;
    if (one->passed_over++ > MOST_PASSES) return True;
  }
  return False;
}

static void take_lock(void) {
  UInt lwp = (UInt)VG_(gettid)();
  if (owner == lwp && goes_on) { /* no other thread writes `owner` meanwhile */
    goes_on = False;
    return;
  }
  struct home *own = home_of(lwp);
  struct waiting me = {NULL, lwp, own->cpu, 0, 0, WAITS};
  take_guard();
  struct waiting *mine = waiting;
  while (mine != NULL && mine->lwp != lwp) mine = mine->next;
  if (mine != NULL || owner == lwp) { /* it waits since its turn was over, or has its turn again */
    free_guard();
    if (mine != NULL) await_turn(mine);
    return;
  }
  if (owner == 0) {
    owner = lwp;
    cpu_of_owner = own->cpu;
    free_guard();
    return;
  }
  if (hm_sim.header != NULL && own->woken) me.clock = clock_at_wake();
  append_to_list(&me);
  if (interleaves() && me.cpu != cpu_of_owner) {
    ULong clock = clock_of(&me);
    if (clock < hm_sim.slowest_waiting) hm_sim.slowest_waiting = clock;
  }
  free_guard();
  await_turn(&me);
}

static Bool turn_was_over;

static void free_lock(void) {
  UInt lwp = owner;
  Bool may_go_on =
      turn_was_over && interleaves() && running != VG_INVALID_THREADID && !VG_(is_exiting)(running);
  turn_was_over = False;
  if (interleaves()) hm_advance_clock_max(clock_of_core(hm_sim.cpu));
  take_guard();
  if (may_go_on && !others_go_first(lwp)) {
    goes_on = True;
    note_slowest();
    free_guard();
    return;
  }
  struct waiting *next = next_one();
  owner = next != NULL ? next->lwp : 0;
  if (next != NULL) {
    remove_from_list(next);
    if (may_go_on && running < MOST_NUMBERED) {
      after_turn[running] = (struct waiting){NULL, lwp, hm_sim.cpu, 0, 0, WAITS};
      append_to_list(&after_turn[running]);
    }
    cpu_of_owner = next->cpu;
    if (interleaves()) note_slowest();
    give_turn(next);
  }
  free_guard();
}

static Int owner_of_lock(void) { return (Int)owner; }

/* After fork, the child's only thread begins with a lock that is free. */
static void make_lock(void) {
  waiting = NULL;
  owner = 0;
  goes_on = turn_was_over = False;
  threads = 1;
  hm_sim.slowest_waiting = ~0ull;
  atomic_store(&guard, 0);
}

/* --- Turns -------------------------------------------------------------------------------- */

/* Valgrind's counter of blocks, in the state of the thread. */
static Int blocks_left(ThreadId tid) {
  Int left = 0;
  VG_(get_shadow_regs_area)
  (tid, (UChar *)&left, 0, offsetof(VexGuestAMD64State, host_EvC_COUNTER), sizeof left);
  return left;
}

static void let_blocks(ThreadId tid, Int blocks) {
  VG_(set_shadow_regs_area)
  (tid, 0, offsetof(VexGuestAMD64State, host_EvC_COUNTER), sizeof blocks, (const UChar *)&blocks);
}

static Int blocks_given; /* at most, from turn_began on; 0: threads do not take turns */
static ULong turn_began; /* clock */
static ULong milli_cycles_a_block = 1000 * FIRST_CYCLES_A_BLOCK;
static ULong not_run; /* blocks that Valgrind counted, but that were not run */
static Int valgrind_gave;

void hm_start_turn(ThreadId tid) {
  running = tid;
  blocks_given = 0;
  if (!interleaves() || threads < 2) return;
  UInt lwp = owner, cpu = hm_sim.cpu;
  home_of(lwp)->woken = False;
  if (cpu_of_owner != cpu) { /* a new thread, whose core was not known when it took the lock */
    take_guard();
    cpu_of_owner = cpu;
    note_slowest();
    free_guard();
  }
  turn_began = clock_of_core(cpu);
  if (core_of[cpu].lwp != lwp || turn_began - core_of[cpu].since >= cycles_of_core_slice()) {
    core_of[cpu].lwp = lwp;
    core_of[cpu].since = turn_began;
  }
  ULong until = turn_began, slowest = hm_sim.slowest_waiting;
  if (slowest != ~0ull && slowest > until) until = slowest;
  ULong cycles = until - turn_began + (ULong)SLICE_NANOSECONDS * hm_sim.config.clock_mhz / 1000;
  ULong blocks = cycles * 1000 / milli_cycles_a_block;
  valgrind_gave = blocks_left(tid);
  if (blocks < LEAST_BLOCKS) blocks = LEAST_BLOCKS;
  if (blocks > (ULong)valgrind_gave) blocks = (ULong)valgrind_gave;
  blocks_given = (Int)blocks;
  let_blocks(tid, blocks_given);
}

/* Averages over some turns. */
static void learn_rate(Int blocks, ULong cycles) {
  if (blocks < (Int)LEAST_BLOCKS) return;
  ULong rate = cycles * 1000 / (ULong)blocks;
  milli_cycles_a_block = (3 * milli_cycles_a_block + rate) / 4;
  if (milli_cycles_a_block < 250) milli_cycles_a_block = 250;
}

static Bool ended_early;

void hm_end_turn(ThreadId tid) {
  turn_was_over = blocks_left(tid) == -1;
  if (blocks_given != 0) {
    Int left = blocks_left(tid);
    Int ran = blocks_given - (left < 0 ? 0 : left);
    if (!ended_early) learn_rate(ran, clock_of_core(hm_sim.cpu) - turn_began);
    not_run += (ULong)(valgrind_gave - blocks_given);
  }
  ended_early = False;
  blocks_given = 0;
}

ULong hm_blocks_run(ULong counted) { return counted - not_run; }

void hm_host_end_turn(void) {
  if (blocks_given == 0 || ended_early) return;
  ended_early = True;
  not_run += (ULong)blocks_left(running);
  let_blocks(running, 0);
}

/* --- In the place of the core's functions ------------------------------------------------ */

/* The linker has the core call these (Makefile). */
struct sched_lock;
struct sched_lock *__wrap_vgModuleLocal_create_sched_lock(void);
void __wrap_vgModuleLocal_destroy_sched_lock(struct sched_lock *);
Int __wrap_vgModuleLocal_get_sched_lock_owner(struct sched_lock *);
void __wrap_vgModuleLocal_acquire_sched_lock(struct sched_lock *);
void __wrap_vgModuleLocal_release_sched_lock(struct sched_lock *);

struct sched_lock *__wrap_vgModuleLocal_create_sched_lock(void) {
  static char the_only_one;
  make_lock();
  return (struct sched_lock *)&the_only_one;
}

void __wrap_vgModuleLocal_destroy_sched_lock(struct sched_lock *lock) { (void)lock; }

Int __wrap_vgModuleLocal_get_sched_lock_owner(struct sched_lock *lock) {
  (void)lock;
  return owner_of_lock();
}

void __wrap_vgModuleLocal_acquire_sched_lock(struct sched_lock *lock) {
  (void)lock;
  take_lock();
}

void __wrap_vgModuleLocal_release_sched_lock(struct sched_lock *lock) {
  (void)lock;
  free_lock();
}
