/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Putting the simulated machine together: the layout of the segment's heap,
 * attaching a process, pinning it to a core, taking and leaving that core.
 */
#include "host.h"
#include "lock.h"
#include "simulator.h"

void hm_empty_filters(void);
static void forget_counts(void);

/* --- Layout --------------------------------------------------------------- */

/* Hands out the next `size` bytes of the heap, aligned to a cache line. */
static uint64_t reserve(struct hm_header *header, uint64_t size) {
  uint64_t at = (header->heap_next + 63) & ~63ull;
  header->heap_next = at + size;
  return header->heap_next <= header->segment_size ? at : 0;
}

static uint64_t tag_bytes(const struct hm_cache_config *cache) {
  return (uint64_t)hm_cache_sets(cache) * cache->ways * sizeof(uint32_t);
}

static uint32_t lines_of(const struct hm_cache_config *cache) {
  return hm_cache_sets(cache) * cache->ways;
}

/* What follows a struct hm_core, in order. */
struct core_layout {
  uint64_t l1i, l1d, l2, itlb, dtlb, stlb, l1i_shadow, l1d_shadow, l2_shadow, touched_code,
      touched_data, size;
};

static struct core_layout layout_of(const struct hm_config *config) {
  struct core_layout layout;
  uint64_t at = sizeof(struct hm_core);
#define PLACE(field, bytes) \
  at = (at + 63) & ~63ull;  \
  layout.field = at;        \
  at += (bytes)
  PLACE(l1i, tag_bytes(&config->l1i));
  PLACE(l1d, tag_bytes(&config->l1d));
  PLACE(l2, tag_bytes(&config->l2));
  PLACE(itlb, (uint64_t)config->itlb.entries * (sizeof(uint64_t) + sizeof(uint32_t)));
  PLACE(dtlb, (uint64_t)config->dtlb.entries * (sizeof(uint64_t) + sizeof(uint32_t)));
  PLACE(stlb, (uint64_t)config->stlb.entries * (sizeof(uint64_t) + sizeof(uint32_t)));
  int causes = (config->flags & HM_FLAG_CAUSES) != 0;
  PLACE(l1i_shadow, causes ? hm_shadow_size(lines_of(&config->l1i)) : 0);
  PLACE(l1d_shadow, causes ? hm_shadow_size(lines_of(&config->l1d)) : 0);
  PLACE(l2_shadow, causes ? hm_shadow_size(lines_of(&config->l2)) : 0);
  PLACE(touched_code, causes ? (uint64_t)HM_MAX_FRAMES * sizeof(uint64_t) : 0);
  PLACE(touched_data, causes ? (uint64_t)HM_MAX_FRAMES * sizeof(uint64_t) : 0);
#undef PLACE
  layout.size = at;
  return layout;
}

/* Pages of one way of the largest physically indexed level: lines of pages that
 * agree in these bits compete for the same sets. */
static uint32_t colours_of(const struct hm_config *config) {
  uint32_t span = HM_LINE_SIZE * hm_cache_sets(&config->l2);
  uint32_t l3_span = HM_LINE_SIZE * hm_cache_sets(&config->l3);
  if (l3_span > span) span = l3_span;
  uint32_t colours = 1;
  while ((uint64_t)colours << HM_PAGE_BITS < span && colours < HM_MAX_COLOURS) colours *= 2;
  return colours;
}

static int lay_out(struct hm_header *header) {
  char *base = (char *)header;
  header->heap_next = HM_RING_OFFSET + header->ring_size;
  header->root = reserve(header, sizeof(struct hm_shared));
  if (header->root == 0) return 0;
  struct hm_shared *shared = (struct hm_shared *)(base + header->root);
  const struct hm_config *config = &header->config;
  int causes = (config->flags & HM_FLAG_CAUSES) != 0;
  shared->frames = reserve(header, hm_pages_shared_size());
  shared->l3_tags = reserve(header, tag_bytes(&config->l3));
  shared->l3_shadow = reserve(header, causes ? hm_shadow_size(lines_of(&config->l3)) : 0);
  shared->touched_all = reserve(header, causes ? (uint64_t)HM_MAX_FRAMES * sizeof(uint64_t) : 0);
  shared->translation_log = reserve(header, HM_TRANSLATION_LOG_SIZE);
  struct core_layout layout = layout_of(config);
  for (uint32_t cpu = 0; cpu < config->cores; cpu++) {
    shared->core[cpu] = reserve(header, layout.size);
    if (shared->core[cpu] == 0) return 0;
    struct hm_core *core = (struct hm_core *)(base + shared->core[cpu]);
    for (int event = 0; event < HM_EVENTS; event++)
      core->countdown[event] = config->period[event] != 0 ? config->period[event] : UINT64_MAX;
  }
  hm_pages_initialise(base + shared->frames, colours_of(config));
  return 1;
}

/* --- Checking the configuration ------------------------------------------- */

static int power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

static const char *check_cache(const struct hm_cache_config *cache, int is_l1) {
  if (cache->size == 0) return is_l1 ? "the machine has no L1 cache" : NULL;
  if (cache->ways == 0 || cache->ways > HM_MAX_WAYS) return "a cache has 0 or more than 32 ways";
  if (cache->size % (HM_LINE_SIZE * cache->ways) != 0)
    return "a cache's size is no multiple of ways x 64 bytes";
  uint32_t sets = hm_cache_sets(cache);
  if (is_l1 && (!power_of_two(sets) || sets > HM_L1_SETS))
    return "an L1 cache's sets are no power of two up to 1024";
  return NULL;
}

static const char *check_tlb(const struct hm_tlb_config *tlb) {
  if (tlb->entries == 0) return NULL;
  if (tlb->ways == 0 || tlb->entries % tlb->ways != 0)
    return "a TLB's entries are no multiple of its ways";
  return NULL;
}

static const char *check(const struct hm_header *header) {
  for (int i = 0; i < 8; i++)
    if (header->magic[i] != HM_MAGIC[i]) return "it is no softpmu segment";
  if (header->version != HM_VERSION || header->header_size != sizeof(struct hm_header))
    return "it was made by another version of hardmeter";
  const struct hm_config *config = &header->config;
  if (config->cores == 0 || config->cores > HM_MAX_CORES) return "it has 0 or more than 64 cores";
  if (!power_of_two(header->ring_size)) return "its ring is no power of two";
  if (!power_of_two(config->set_sampling) || config->set_sampling > 64)
    return "set sampling is no power of two up to 64";
  const char *problem = check_cache(&config->l1i, 1);
  if (problem == NULL) problem = check_cache(&config->l1d, 1);
  if (problem == NULL) problem = check_cache(&config->l2, 0);
  if (problem == NULL) problem = check_cache(&config->l3, 0);
  if (problem == NULL) problem = check_tlb(&config->itlb);
  if (problem == NULL) problem = check_tlb(&config->dtlb);
  if (problem == NULL) problem = check_tlb(&config->stlb);
  return problem;
}

/* --- Attaching ------------------------------------------------------------ */

/* Pins the process to a core and points its views at that core's state. */
static void take_place(void) {
  char *base = (char *)hm_sim.header;
  const struct hm_config *config = &hm_sim.config;
  hm_sim.space = atomic_fetch_add(&hm_sim.header->attached, 1) + 1;
  hm_sim.cpu = (hm_sim.space - 1) % config->cores;
  hm_sim.counts = &hm_sim.header->counts[hm_sim.cpu];
  char *core = base + hm_sim.shared->core[hm_sim.cpu];
  struct core_layout at = layout_of(config);
  hm_sim.core = (struct hm_core *)core;
  hm_cache_view(&hm_sim.l1i, &config->l1i, (uint32_t *)(core + at.l1i));
  hm_cache_view(&hm_sim.l1d, &config->l1d, (uint32_t *)(core + at.l1d));
  hm_cache_view(&hm_sim.l2, &config->l2, (uint32_t *)(core + at.l2));
  hm_cache_view(&hm_sim.l3, &config->l3, (uint32_t *)(base + hm_sim.shared->l3_tags));
  uint64_t *keys = (uint64_t *)(core + at.itlb);
  hm_tlb_view(&hm_sim.itlb, &config->itlb, keys, (uint32_t *)(keys + config->itlb.entries));
  keys = (uint64_t *)(core + at.dtlb);
  hm_tlb_view(&hm_sim.dtlb, &config->dtlb, keys, (uint32_t *)(keys + config->dtlb.entries));
  keys = (uint64_t *)(core + at.stlb);
  hm_tlb_view(&hm_sim.stlb, &config->stlb, keys, (uint32_t *)(keys + config->stlb.entries));
  if ((config->flags & HM_FLAG_CAUSES) != 0) {
    hm_shadow_view(&hm_sim.l1i_shadow, lines_of(&config->l1i), core + at.l1i_shadow);
    hm_shadow_view(&hm_sim.l1d_shadow, lines_of(&config->l1d), core + at.l1d_shadow);
    hm_shadow_view(&hm_sim.l2_shadow, lines_of(&config->l2), core + at.l2_shadow);
    hm_shadow_view(&hm_sim.l3_shadow, lines_of(&config->l3), base + hm_sim.shared->l3_shadow);
    hm_sim.touched_code = (uint64_t *)(core + at.touched_code);
    hm_sim.touched_data = (uint64_t *)(core + at.touched_data);
    hm_sim.touched_all = (uint64_t *)(base + hm_sim.shared->touched_all);
  }
  hm_sim.filters_stale = 1;
  hm_sim.waited = 1;
}

/* The first process lays the machine out, the others wait for it; should it be
 * killed meanwhile, another one begins anew.  0: the machine does not fit. */
static int become_ready(struct hm_header *header, uint32_t pid) {
  for (;;) {
    uint32_t state = atomic_load(&header->init_state);
    if (state == HM_INIT_READY) return 1;
    if (state == HM_INIT_IMPOSSIBLE) return 0;
    uint32_t worker = state >= HM_INIT_BY_PID ? state - HM_INIT_BY_PID : 0;
    if ((state == HM_INIT_RAW || !hm_host_process_exists(worker)) &&
        atomic_compare_exchange_strong(&header->init_state, &state, HM_INIT_BY_PID + pid)) {
      int fits = lay_out(header);
      atomic_store(&header->init_state, fits ? HM_INIT_READY : HM_INIT_IMPOSSIBLE);
    } else {
      hm_host_yield();
    }
  }
}

const char *hm_attach(struct hm_header *header, uint32_t pid) {
  const char *problem = check(header);
  if (problem != NULL) return problem;
  if (!become_ready(header, pid)) return "the machine does not fit into it";
  hm_sim.header = header;
  hm_sim.shared = (struct hm_shared *)((char *)header + header->root);
  hm_sim.config = header->config;
  hm_sim.pid = pid;
  hm_pages_attach(&hm_sim.pages, (char *)header + hm_sim.shared->frames, &header->frames_exhausted,
                  pid);
  take_place();
  hm_sim.pages.colour_salt = hm_sim.space - 1;
  hm_sim.release_clock = atomic_load(&header->clock_max);
  return NULL;
}

void hm_child_forked(uint32_t pid) {
  hm_sim.pid = pid;
  hm_sim.on_core = 0;
  forget_counts();
  hm_sim.forget_count = 0;
  take_place();
  /* An odd multiple spreads identical layouts over the colours. */
  hm_pages_forked(&hm_sim.pages, pid, (hm_sim.space - 1) * 37);
}

void hm_parent_forked(void) {
  hm_pages_forked(&hm_sim.pages, hm_sim.pid, hm_sim.pages.colour_salt);
  hm_sim.filters_stale = 1;
}

/* --- Time ------------------------------------------------------------------ */

static uint64_t instructions_run(void) {
  return hm_sim.instructions + (hm_sim.packed_counts & HM_PACKED_MOST(HM_PACKED_INSTRUCTION_BITS));
}

static uint64_t loads_run(void) {
  return hm_sim.loads +
         (hm_sim.packed_counts >> HM_PACKED_INSTRUCTION_BITS & HM_PACKED_MOST(HM_PACKED_LOAD_BITS));
}

static uint64_t stores_run(void) {
  return hm_sim.stores +
         (hm_sim.packed_counts >> (HM_PACKED_INSTRUCTION_BITS + HM_PACKED_LOAD_BITS));
}

static void forget_counts(void) {
  hm_sim.packed_counts = 0;
  hm_sim.instructions = hm_sim.loads = hm_sim.stores = 0;
  hm_sim.stall_cycles = 0;
}

static uint64_t running_cycles(void) {
  return instructions_run() * hm_sim.config.milli_cpi / 1000 + hm_sim.stall_cycles;
}

uint64_t hm_cycles(void) {
  return hm_sim.on_core ? hm_sim.core->clock + running_cycles() : hm_sim.release_clock;
}

static void advance_clock_max(uint64_t clock) {
  uint64_t seen = atomic_load_explicit(&hm_sim.header->clock_max, memory_order_relaxed);
  while (seen < clock && !atomic_compare_exchange_weak(&hm_sim.header->clock_max, &seen, clock)) {
  }
}

/* --- Taking and leaving the core ------------------------------------------- */

/* A process that computes would take its core again before a waiter wakes up, for
 * ever.  So one that had its time slice lets a waiter go first, as a scheduler
 * would; it waits a bounded time, for the waiter may have been killed. */
#define SLICE_MICROSECONDS 3000u
#define YIELDS_TO_A_WAITER 2000

static uint64_t slice_cycles(void) {
  return (uint64_t)SLICE_MICROSECONDS * hm_sim.config.clock_mhz;
}

int hm_slice_is_over(void) {
  /* The fields of the packed word hold what one stay in client code can count. */
  uint64_t instructions = instructions_run(), loads = loads_run(), stores = stores_run();
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
  uint32_t many = sizeof hm_sim.forget / sizeof hm_sim.forget[0];
  uint64_t space = (uint64_t)hm_sim.space << HM_TLB_SPACE_SHIFT;
  /* Beyond some pages a kernel, too, flushes the whole space. */
  int whole = hm_sim.forget_count > many;
  for (uint32_t i = 0; i < (whole ? 1 : hm_sim.forget_count); i++) {
    hm_tlb_forget(&hm_sim.itlb, space | hm_sim.forget[i], whole);
    hm_tlb_forget(&hm_sim.dtlb, space | hm_sim.forget[i], whole);
    hm_tlb_forget(&hm_sim.stlb, space | hm_sim.forget[i], whole);
  }
  hm_sim.forget_count = 0;
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
    hm_sim.slice_began = core->clock;
    hm_sim.filters_stale = 1;
    if ((hm_sim.config.flags & HM_FLAG_TLB_FLUSH_SWITCH) != 0) {
      empty_tlb(&hm_sim.itlb);
      empty_tlb(&hm_sim.dtlb);
      empty_tlb(&hm_sim.stlb);
    }
  }
  if (hm_sim.forget_count != 0) {
    forget_unmapped();
    hm_sim.filters_stale = 1;
  }
  if (hm_sim.filters_stale) {
    hm_empty_filters();
    hm_sim.filters_stale = 0;
  }
  /* What a process waited for in the kernel happened before now (Lamport
   * 1978); cores that compute side by side keep clocks of their own. */
  if (hm_sim.waited) {
    uint64_t others = atomic_load_explicit(&hm_sim.header->clock_max, memory_order_relaxed);
    if (core->clock < others) core->clock = others;
    hm_sim.waited = 0;
  }
  hm_sim.on_core = 1;
  /* Alone on the core, a process begins a new slice whenever it comes back. */
  if (core->clock - hm_sim.slice_began >= slice_cycles()) hm_sim.slice_began = core->clock;
}

void hm_leave_core(void) {
  if (!hm_sim.on_core) return;
  struct hm_core *core = hm_sim.core;
  uint64_t cycles = running_cycles();
  core->clock += cycles;
  hm_sim.counts->cycles += cycles;
  hm_sim.counts->events[HM_INSTRUCTIONS] += instructions_run();
  hm_sim.counts->events[HM_LOADS] += loads_run();
  hm_sim.counts->events[HM_STORES] += stores_run();
  forget_counts();
  hm_sim.release_clock = core->clock;
  advance_clock_max(core->clock);
  hm_sim.on_core = 0;
  hm_lock_release(&core->lock);
  if (atomic_load(&core->waiters) != 0) hm_host_wake(&core->lock);
}

/* --- Memory that goes away -------------------------------------------------- */

static void forget_pages(uint64_t first, uint64_t count) {
  uint32_t many = sizeof hm_sim.forget / sizeof hm_sim.forget[0];
  for (uint64_t page = first; page < first + count && hm_sim.forget_count <= many; page++) {
    if (hm_sim.forget_count < many) hm_sim.forget[hm_sim.forget_count] = page;
    hm_sim.forget_count++;
  }
}

void hm_unmapped(uint64_t address, uint64_t length) {
  uint64_t first = address >> HM_PAGE_BITS;
  uint64_t count = (length + (1u << HM_PAGE_BITS) - 1) >> HM_PAGE_BITS;
  hm_pages_unmap(&hm_sim.pages, first, count);
  forget_pages(first, count);
}

void hm_moved(uint64_t from, uint64_t to, uint64_t length) {
  uint64_t count = (length + (1u << HM_PAGE_BITS) - 1) >> HM_PAGE_BITS;
  hm_pages_move(&hm_sim.pages, from >> HM_PAGE_BITS, to >> HM_PAGE_BITS, count);
  forget_pages(from >> HM_PAGE_BITS, count);
}
