/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Sets up the simulated machine: the layout of the segment's heap, attaching a process, pinning it
 * to a core.
 *
 *   init_state   raw ── become_ready ──> by a pid ── lay_out ──> ready, or impossible
 *                                          │ the pid is gone
 *                                          └──> by another pid, which starts empty
 *
 * Invariants:
 *  1. One process lays the machine out; the others wait, and check that it is alive.
 *  2. Offsets in hm_shared do not change once the machine is ready.
 */
#include "machine.h"

#include "clock.h"
#include "coherence.h"
#include "host.h"
#include "lock.h"
#include "reuse.h"
#include "timing.h"

/* --- Layout --------------------------------------------------------------- */

/* Allocates the next `size` bytes of the heap, aligned to a cache line. */
static uint64_t reserve(struct hm_header *header, uint64_t size) {
  uint64_t at = (header->heap_next + 63) & ~63ull;
  header->heap_next = at + size;
  return header->heap_next <= header->segment_size ? at : 0;
}

static uint64_t tag_bytes(const struct hm_cache_config *cache) {
  return (uint64_t)hm_cache_sets(cache) * cache->ways * sizeof(uint32_t);
}

/* Number of lines in a cache's fully associative shadow: the cache's capacity for simulated
 * lines. */
static uint32_t twin_lines(const struct hm_config *config, const struct hm_cache_config *cache) {
  uint32_t lines = hm_cache_sets(cache) * cache->ways / config->set_sampling;
  return lines > cache->ways ? lines : cache->ways;
}

/* The parts that follow a struct hm_core, in order. */
struct core_layout {
  uint64_t l1i, l1d, l2, itlb, dtlb, stlb, l1i_shadow, l1d_shadow, l2_shadow, touched_code,
      touched_data, huge_all, huge_shared, reuse, size;
};

static uint64_t tlb_bytes(const struct hm_tlb_config *tlb) {
  return (uint64_t)tlb->entries * (sizeof(uint64_t) + sizeof(uint32_t));
}

/* The TLB whose copies measure the effect of huge pages. */
static const struct hm_tlb_config *last_tlb(const struct hm_config *config) {
  return config->stlb.entries != 0 ? &config->stlb : &config->dtlb;
}

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
  PLACE(itlb, tlb_bytes(&config->itlb));
  PLACE(dtlb, tlb_bytes(&config->dtlb));
  PLACE(stlb, tlb_bytes(&config->stlb));
  int causes = (config->flags & HM_FLAG_CAUSES) != 0;
  PLACE(l1i_shadow, causes ? hm_shadow_size(twin_lines(config, &config->l1i)) : 0);
  PLACE(l1d_shadow, causes ? hm_shadow_size(twin_lines(config, &config->l1d)) : 0);
  PLACE(l2_shadow, causes ? hm_shadow_size(twin_lines(config, &config->l2)) : 0);
  PLACE(touched_code, causes ? (uint64_t)HM_MAX_FRAMES * sizeof(uint64_t) : 0);
  PLACE(touched_data, causes ? (uint64_t)HM_MAX_FRAMES * sizeof(uint64_t) : 0);
  int huge = (config->flags & HM_FLAG_HUGE_PAGES) != 0;
  PLACE(huge_all, huge ? tlb_bytes(last_tlb(config)) : 0);
  PLACE(huge_shared, huge ? tlb_bytes(last_tlb(config)) : 0);
  PLACE(reuse, (config->flags & HM_FLAG_REUSE) != 0 ? sizeof(struct hm_reuse) : 0);
#undef PLACE
  layout.size = at;
  return layout;
}

/* Pages in one way of the largest physically indexed level: lines of pages that agree in these
 * bits compete for the same sets. */
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
  shared->l3_shadow = reserve(header, causes ? hm_shadow_size(twin_lines(config, &config->l3)) : 0);
  shared->touched_all = reserve(header, causes ? (uint64_t)HM_MAX_FRAMES * sizeof(uint64_t) : 0);
  shared->translation_log = reserve(header, HM_TRANSLATION_LOG_SIZE);
  header->statements = reserve(header, (uint64_t)HM_STATEMENTS * sizeof(struct hm_statement));
  if ((config->flags & HM_FLAG_REUSE) != 0)
    header->reuse = reserve(header, (uint64_t)config->cores * sizeof(struct hm_reuse_counts));
  if (config->cores > 1) {
    shared->coherence = reserve(header, sizeof(struct hm_coherence));
    shared->directory = reserve(header, hm_directory_size());
  }
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
    return "a cache's size is not a multiple of ways x 64 bytes";
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

static const char *check_core(const struct hm_core_config *core) {
  if (core->reorder_window == 0) return NULL;
  if (core->fill_buffers == 0 || core->fill_buffers > HM_MOST_FILL_BUFFERS)
    return "a core has 0 or more than 64 fill buffers";
  return NULL;
}

static const char *check(const struct hm_header *header) {
  for (int i = 0; i < 8; i++)
    if (header->magic[i] != HM_MAGIC[i]) return "it is not a softpmu segment";
  if (header->version != HM_VERSION || header->header_size != sizeof(struct hm_header))
    return "it was made by another version of hardmeter";
  const struct hm_config *config = &header->config;
  if (config->cores == 0 || config->cores > HM_MAX_CORES) return "it has 0 or more than 64 cores";
  if (!power_of_two(header->ring_size)) return "its ring is not a power of two";
  if (!power_of_two(config->set_sampling) || config->set_sampling > 64)
    return "set sampling is not a power of two up to 64";
  const char *problem = check_cache(&config->l1i, 1);
  if (problem == NULL) problem = check_cache(&config->l1d, 1);
  if (problem == NULL) problem = check_cache(&config->l2, 0);
  if (problem == NULL) problem = check_cache(&config->l3, 0);
  if (problem == NULL) problem = check_tlb(&config->itlb);
  if (problem == NULL) problem = check_tlb(&config->dtlb);
  if (problem == NULL) problem = check_tlb(&config->stlb);
  if (problem == NULL) problem = check_core(&config->core);
  return problem;
}

/* --- Attaching ------------------------------------------------------------ */

static void view_tlb(struct hm_tlb *tlb, const struct hm_tlb_config *config, char *memory) {
  uint64_t *keys = (uint64_t *)memory;
  hm_tlb_view(tlb, config, keys, (uint32_t *)(keys + config->entries));
}

void hm_bind_core(uint32_t cpu) {
  char *base = (char *)hm_sim.header;
  const struct hm_config *config = &hm_sim.config;
  char *core = base + hm_sim.shared->core[cpu];
  struct core_layout at = layout_of(config);
  hm_sim.cpu = cpu;
  hm_sim.counts = &hm_sim.header->counts[cpu];
  hm_sim.core = (struct hm_core *)core;
  hm_sim.l1d_offset = at.l1d;
  hm_sim.l2_offset = at.l2;
  hm_cache_view(&hm_sim.l1i, &config->l1i, (uint32_t *)(core + at.l1i));
  hm_cache_view(&hm_sim.l1d, &config->l1d, (uint32_t *)(core + at.l1d));
  hm_cache_view(&hm_sim.l2, &config->l2, (uint32_t *)(core + at.l2));
  view_tlb(&hm_sim.itlb, &config->itlb, core + at.itlb);
  view_tlb(&hm_sim.dtlb, &config->dtlb, core + at.dtlb);
  view_tlb(&hm_sim.stlb, &config->stlb, core + at.stlb);
  if ((config->flags & HM_FLAG_CAUSES) != 0) {
    hm_shadow_view(&hm_sim.l1i_shadow, twin_lines(config, &config->l1i), core + at.l1i_shadow);
    hm_shadow_view(&hm_sim.l1d_shadow, twin_lines(config, &config->l1d), core + at.l1d_shadow);
    hm_shadow_view(&hm_sim.l2_shadow, twin_lines(config, &config->l2), core + at.l2_shadow);
    hm_sim.touched_code = (uint64_t *)(core + at.touched_code);
    hm_sim.touched_data = (uint64_t *)(core + at.touched_data);
  }
  if ((config->flags & HM_FLAG_HUGE_PAGES) != 0) {
    view_tlb(&hm_sim.huge_all, last_tlb(config), core + at.huge_all);
    view_tlb(&hm_sim.huge_shared, last_tlb(config), core + at.huge_shared);
  }
  if ((config->flags & HM_FLAG_REUSE) != 0) {
    hm_sim.reuse = (struct hm_reuse *)(core + at.reuse);
    hm_sim.reuse_counts = (struct hm_reuse_counts *)(base + hm_sim.header->reuse) + cpu;
  }
  hm_timing_select(cpu);
  hm_sim.filters_stale |= 1;
}

/* Sets up the view of the parts shared by all cores. */
static void view_machine(void) {
  char *base = (char *)hm_sim.header;
  const struct hm_config *config = &hm_sim.config;
  hm_cache_view(&hm_sim.l3, &config->l3, (uint32_t *)(base + hm_sim.shared->l3_tags));
  if ((config->flags & HM_FLAG_CAUSES) != 0) {
    hm_shadow_view(&hm_sim.l3_shadow, twin_lines(config, &config->l3),
                   base + hm_sim.shared->l3_shadow);
    hm_sim.touched_all = (uint64_t *)(base + hm_sim.shared->touched_all);
  }
  if (hm_sim.shared->directory != 0) {
    hm_sim.directory = (struct hm_line_state *)(base + hm_sim.shared->directory);
    hm_sim.coherence = (struct hm_coherence *)(base + hm_sim.shared->coherence);
  }
}

/* Pins a process that is new, with its one thread, to a core. */
static void take_place(void) {
  hm_sim.space = atomic_fetch_add(&hm_sim.header->attached, 1) + 1;
  hm_sim.first_cpu = (hm_sim.space - 1) % hm_sim.config.cores;
  hm_sim.threads_placed = 1;
  hm_sim.many_cores = 0;
  hm_sim.pages.watched = NULL;
  for (uint32_t cpu = 0; cpu < HM_MAX_CORES; cpu++) hm_sim.forgotten[cpu] = hm_sim.forget_count;
  hm_bind_core(hm_sim.first_cpu);
  hm_sim.waited = 1;
}

/* The first process lays out the machine, the others wait; if it is killed meanwhile, another
 * one restarts. Returns 0 if the machine does not fit. */
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
  view_machine();
  take_place();
  hm_sim.filters_stale = HM_FILTERS_NEW;
  hm_sim.pages.colour_salt = hm_sim.space - 1;
  hm_sim.release_clock = atomic_load(&header->clock_max);
  hm_sim.slowest_waiting = UINT64_MAX;
  hm_timing_begin();
  return NULL;
}

void hm_child_forked(uint32_t pid) {
  hm_sim.pid = pid;
  hm_sim.on_core = 0;
  hm_forget_counts();
  take_place();
  /* An odd multiple spreads identical layouts over the colours. */
  hm_pages_forked(&hm_sim.pages, pid, (hm_sim.space - 1) * 37);
}

void hm_parent_forked(void) {
  hm_pages_forked(&hm_sim.pages, hm_sim.pid, hm_sim.pages.colour_salt);
  hm_sim.filters_stale |= 1;
}
