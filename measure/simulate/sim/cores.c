/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A process on its cores: taking and leaving a core, and which of them a thread runs on.
 * simulator.h has the invariants.
 */
#include "machine.h"

#include "clock.h"
#include "filters.h"
#include "host.h"
#include "huge_pages.h"
#include "lock.h"
#include "simulator.h"
#include "timing.h"

/* --- Taking and leaving the core ------------------------------------------- */

/* A computing process would retake its core before a waiter wakes up, indefinitely. So after its
 * time slice a process lets a waiter run first, as a scheduler does; it waits a bounded time,
 * because the waiter may have been killed. */
#define SLICE_MICROSECONDS 3000u
#define YIELDS_TO_A_WAITER 2000

static uint64_t slice_cycles(void) {
  return (uint64_t)SLICE_MICROSECONDS * hm_sim.config.clock_mhz;
}

int hm_slice_is_over(void) {
  if (hm_sim.on_core) hm_heed_other_cores();
  /* The fields of the packed word can hold the counts of one stay in client code. */
  uint64_t instructions = hm_instructions_run(), loads = hm_loads_run(), stores = hm_stores_run();
  hm_sim.packed_counts = 0;
  hm_sim.instructions = instructions;
  hm_sim.loads = loads;
  hm_sim.stores = stores;
  return hm_sim.on_core && hm_cycles() - hm_sim.slice_began >= slice_cycles();
}

static void let_a_waiter_go_first(void) {
  struct hm_core *core = hm_sim.core;
  if (core->last_runner != hm_sim.space ||
      hm_sim.release_clock - hm_sim.slice_began < slice_cycles())
    return;
  for (int i = 0;
       i < YIELDS_TO_A_WAITER && atomic_load(&core->waiters) != 0 && atomic_load(&core->lock) == 0;
       i++)
    hm_host_yield();
  hm_sim.slice_began = hm_sim.release_clock;
}

static void take_core_lock(void) {
  struct hm_core *core = hm_sim.core;
  if (atomic_load_explicit(&core->waiters, memory_order_relaxed) != 0) let_a_waiter_go_first();
  for (int spin = 0; spin < 200; spin++) {
    if (hm_lock_try(&core->lock, hm_sim.pid)) return;
    __builtin_ia32_pause();
  }
  atomic_fetch_add(&core->waiters, 1);
  for (;;) {
    uint32_t owner = atomic_load(&core->lock);
    if (owner == 0) {
      if (hm_lock_try(&core->lock, hm_sim.pid)) break;
    } else if (hm_lock_take_over(&core->lock, hm_sim.pid)) {
      break;
    } else {
      hm_host_wait(&core->lock, owner);
    }
  }
  atomic_fetch_sub(&core->waiters, 1);
}

static void forget_unmapped(void) {
  uint64_t first = hm_sim.forgotten[hm_sim.cpu], pages = hm_sim.forget_count - first;
  /* From some number of pages on, kernels flush the whole address space, too. */
  int whole = pages > HM_FORGET_MOST;
  for (uint64_t i = first; i < first + (whole ? 1 : pages); i++) {
    uint64_t page = hm_sim.forget[i % HM_FORGET_MOST], key = hm_tlb_key(page);
    hm_tlb_forget(&hm_sim.itlb, key, whole);
    hm_tlb_forget(&hm_sim.dtlb, key, whole);
    hm_tlb_forget(&hm_sim.stlb, key, whole);
    hm_tlb_forget(&hm_sim.huge_shared, key, whole);
    hm_tlb_forget(&hm_sim.huge_shared, hm_huge_key(page), 0);
    hm_tlb_forget(&hm_sim.huge_all, hm_huge_key(page), whole);
  }
  hm_sim.forgotten[hm_sim.cpu] = hm_sim.forget_count;
}

static void empty_tlb(struct hm_tlb *tlb) {
  uint64_t slots = (uint64_t)tlb->sets * tlb->ways;
  for (uint64_t i = 0; i < slots; i++) tlb->keys[i] = 0;
}

void hm_enter_core(void) {
  take_core_lock();
  struct hm_core *core = hm_sim.core;
  if (core->last_runner != hm_sim.space) {
    core->last_runner = hm_sim.space;
    hm_sim.counts->switches++;
    hm_timing_begin(); /* the state that the other process left in the core is unknown */
    hm_sim.slice_began = core->clock;
    hm_sim.filters_stale |= 1;
    if ((hm_sim.config.flags & HM_FLAG_TLB_FLUSH_SWITCH) != 0) {
      empty_tlb(&hm_sim.itlb);
      empty_tlb(&hm_sim.dtlb);
      empty_tlb(&hm_sim.stlb);
      empty_tlb(&hm_sim.huge_all);
      empty_tlb(&hm_sim.huge_shared);
    }
  } else if (hm_sim.moved) {
    if ((hm_sim.config.flags & HM_FLAG_INTERLEAVE) == 0) hm_timing_begin();
    hm_sim.slice_began = core->clock; /* it was another core's */
  }
  hm_sim.moved = 0;
  if (hm_sim.forgotten[hm_sim.cpu] != hm_sim.forget_count) {
    forget_unmapped();
    hm_sim.filters_stale |= 1;
  }
  if (hm_sim.filters_stale) {
    hm_empty_filters();
    hm_sim.filters_stale = 0;
  } else {
    hm_heed_other_cores();
  }
  /* The event that a process waited for in the kernel happened before now (Lamport 1978); cores
   * that compute concurrently have independent clocks. */
  if (hm_sim.waited) {
    uint64_t others = atomic_load_explicit(&hm_sim.header->clock_max, memory_order_relaxed);
    if (core->clock < others) core->clock = others;
    hm_sim.woken[hm_sim.cpu] = core->clock;
    hm_sim.waited = 0;
  }
  hm_timing_resume();
  hm_sim.on_core = 1;
  /* A process alone on the core begins a new slice whenever it returns. */
  if (core->clock - hm_sim.slice_began >= slice_cycles()) hm_sim.slice_began = core->clock;
}

void hm_leave_core(void) {
  if (!hm_sim.on_core) return;
  struct hm_core *core = hm_sim.core;
  uint64_t cycles = hm_running_cycles();
  core->clock += cycles;
  hm_sim.counts->cycles += cycles;
  hm_sim.counts->events[HM_INSTRUCTIONS] += hm_instructions_run();
  hm_sim.counts->events[HM_LOADS] += hm_loads_run();
  hm_sim.counts->events[HM_STORES] += hm_stores_run();
  hm_forget_counts();
  hm_sim.release_clock = core->clock;
  hm_advance_clock_max(core->clock);
  hm_sim.on_core = 0;
  hm_lock_release(&core->lock);
  if (atomic_load(&core->waiters) != 0) hm_host_wake(&core->lock);
}

/* --- Threads ------------------------------------------------------------------ */

/* From the first thread on another core on, all memory of the process is shared between cores:
 * the filters are emptied and follow the directory's rules. */
uint32_t hm_place_thread(void) {
  uint32_t cpu = (hm_sim.first_cpu + hm_sim.threads_placed++) % hm_sim.config.cores;
  if (cpu != hm_sim.first_cpu && !hm_sim.many_cores) {
    hm_leave_core();
    hm_sim.many_cores = 1;
    hm_sim.pages.watched = hm_sim.directory;
    hm_sim.filters_stale |= 1;
  }
  return cpu;
}

void hm_run_on(uint32_t cpu) {
  if (cpu == hm_sim.cpu) return;
  hm_leave_core();
  hm_bind_core(cpu);
  hm_sim.moved = 1;
}
