/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The way of an access through the hierarchy: TLBs, L1, L2, L3, memory.
 *
 * The filters spare most of it.  A filter holds, per L1 set, the line that is
 * most recently used there; an access to that line changes no LRU order, so
 * leaving it out is exact.  For the TLBs it is not quite: a page whose lines
 * all stay first in their sets would grow old.  Therefore the filters are
 * emptied once in (TLB entries / 8) fills: a page in use is refreshed at least
 * that often, long before it could reach the end of its set.
 */
#include "host.h"
#include "lock.h"
#include "simulator.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define NOINLINE __attribute__((noinline))

struct hm_simulator hm_sim;
uint64_t hm_filter_load[HM_FILTER_SETS];
uint64_t hm_filter_store[HM_FILTER_SETS];
uint64_t hm_filter_fetch[HM_FILTER_SETS];

static inline uint32_t max32(uint32_t a, uint32_t b) { return a > b ? a : b; }

static void empty_data_filters(void) {
  for (uint32_t i = 0; i < hm_sim.l1d.sets; i++) hm_filter_load[i] = hm_filter_store[i] = 1;
  hm_sim.data_fills = 0;
}

static void empty_code_filter(void) {
  for (uint32_t i = 0; i < hm_sim.l1i.sets; i++) hm_filter_fetch[i] = 1;
  hm_sim.code_fills = 0;
}

void hm_empty_filters(void) {
  empty_data_filters();
  empty_code_filter();
  hm_sim.data_page = hm_sim.code_page = UINT64_MAX;
}

/* --- Events and samples ------------------------------------------------- */

static NOINLINE void expire(const struct hm_access *access, enum hm_event event) {
  uint64_t period = hm_sim.config.period[event];
  hm_sim.core->countdown[event] = period;
  struct hm_sample sample = {event, period, hm_cycles(), hm_sim.cpu, access};
  hm_host_sample(&sample);
}

static inline void count(const struct hm_access *access, enum hm_event event) {
  hm_sim.counts->events[event]++;
  if (unlikely(--hm_sim.core->countdown[event] == 0)) expire(access, event);
}

static NOINLINE void count_events(struct hm_access *access) {
  /* All of one access's events see the access complete. */
  for (uint32_t events = access->events; events != 0; events &= events - 1)
    count(access, (enum hm_event)__builtin_ctz(events));
}

/* --- Caches -------------------------------------------------------------- */

/* Cold if the bit was not set yet; sets it. */
static inline int first_touch(uint64_t *touched, uint32_t physical_line) {
  uint64_t bit = 1ull << (physical_line & 63);
  uint64_t *word = &touched[physical_line >> 6];
  if ((*word & bit) != 0) return 0;
  *word |= bit;
  return 1;
}

static inline uint8_t cause_of(int cold, int shadow_held_it) {
  return cold ? HM_CAUSE_COLD : shadow_held_it ? HM_CAUSE_CONFLICT : HM_CAUSE_CAPACITY;
}

/* The last level is common to all cores; with one core its lock is the core. */
static void access_l3(struct hm_access *access, uint32_t line, int causes) {
  int hit = 0, cold = 0, held = 0;
  uint32_t set = hm_cache_set(&hm_sim.l3, line);
  int shared = hm_sim.config.cores > 1;
  if (shared) hm_lock_acquire(&hm_sim.shared->l3_lock, hm_sim.pid);
  hit = hm_cache_access(&hm_sim.l3, set, line);
  if (causes) {
    held = hm_shadow_access(&hm_sim.l3_shadow, &hm_sim.l3, line);
    cold = first_touch(hm_sim.touched_all, line);
  }
  if (shared) hm_lock_release(&hm_sim.shared->l3_lock);
  if (hit) {
    access->level = (uint8_t)max32(access->level, HM_LEVEL_L3);
    access->latency = max32(access->latency, hm_sim.l3.latency);
    return;
  }
  access->events |= 1u << HM_L3_MISS;
  access->set[2] = set;
  if (causes) access->cause[2] = cause_of(cold, held);
  access->level = HM_LEVEL_MEMORY;
  access->latency = max32(access->latency, hm_sim.config.memory_latency);
}

/* Below L1: `cold` tells whether the core never saw the line. */
static NOINLINE void access_below_l1(struct hm_access *access, uint32_t line, int cold,
                                     int causes) {
  if (hm_sim.l2.sets != 0) {
    uint32_t set = hm_cache_set(&hm_sim.l2, line);
    int hit = hm_cache_access(&hm_sim.l2, set, line);
    int held = causes ? hm_shadow_access(&hm_sim.l2_shadow, &hm_sim.l2, line) : 0;
    if (hit) {
      access->level = (uint8_t)max32(access->level, HM_LEVEL_L2);
      access->latency = max32(access->latency, hm_sim.l2.latency);
      return;
    }
    access->events |= 1u << HM_L2_MISS;
    access->set[1] = set;
    if (causes) access->cause[1] = cause_of(cold, held);
  }
  if (hm_sim.l3.sets != 0) {
    access_l3(access, line, causes);
  } else {
    access->level = HM_LEVEL_MEMORY;
    access->latency = max32(access->latency, hm_sim.config.memory_latency);
  }
}

/* One line of one access in an L1; the line's virtual number gives the set. */
static inline void access_l1(struct hm_access *access, const struct hm_cache *l1,
                             struct hm_shadow *shadow, uint64_t *touched, uint64_t *other_touched,
                             uint64_t virtual_line, uint32_t line, enum hm_event miss) {
  uint32_t set = (uint32_t)virtual_line & l1->set_mask;
  int hit = hm_cache_access(l1, set, line);
  int causes = (hm_sim.config.flags & HM_FLAG_CAUSES) != 0;
  int held = causes ? hm_shadow_access(shadow, l1, line) : 0;
  if (likely(hit)) return;
  int cold = 0, cold_for_core = 0;
  if (causes) {
    cold = first_touch(touched, line);
    cold_for_core = cold && (other_touched[line >> 6] & 1ull << (line & 63)) == 0;
    access->cause[0] = cause_of(cold, held);
  }
  access->events |= 1u << miss;
  access->set[0] = set;
  access->physical_line = line;
  access_below_l1(access, line, cold_for_core, causes);
}

/* --- Translation --------------------------------------------------------- */

static NOINLINE hm_pte translate(struct hm_access *access, struct hm_tlb *first, uint64_t page,
                                 enum hm_event miss, int *filled) {
  uint64_t key = (uint64_t)hm_sim.space << HM_TLB_SPACE_SHIFT | page;
  hm_pte pte = 0;
  uint32_t first_set = 0;
  *filled = 0;
  if (first->sets != 0) {
    first_set = hm_tlb_set(first, page);
    if (likely(hm_tlb_lookup(first, first_set, key, &pte))) return pte;
    access->events |= 1u << miss;
  }
  uint32_t second_set = 0;
  if (hm_sim.stlb.sets != 0) {
    second_set = hm_tlb_set(&hm_sim.stlb, page);
    if (hm_tlb_lookup(&hm_sim.stlb, second_set, key, &pte)) {
      access->translation = (uint8_t)max32(access->translation, HM_TLB_STLB);
      if (first->sets != 0) hm_tlb_fill(first, first_set, key, pte);
      *filled = 1;
      return pte;
    }
  }
  access->translation = HM_TLB_WALK;
  pte = hm_pages_touch(&hm_sim.pages, page);
  if (hm_sim.stlb.sets != 0) {
    access->events |= 1u << HM_STLB_MISS;
    hm_tlb_fill(&hm_sim.stlb, second_set, key, pte);
  }
  if (first->sets != 0) hm_tlb_fill(first, first_set, key, pte);
  *filled = 1;
  return pte;
}

/* A write to a page that is not this process's own yet. */
static NOINLINE hm_pte break_copy_on_write(uint64_t page) {
  hm_pte pte = hm_pages_write(&hm_sim.pages, page);
  uint64_t key = (uint64_t)hm_sim.space << HM_TLB_SPACE_SHIFT | page;
  hm_pte old;
  if (hm_sim.dtlb.sets != 0 &&
      hm_tlb_lookup(&hm_sim.dtlb, hm_tlb_set(&hm_sim.dtlb, page), key, &old))
    hm_sim.dtlb.entries[(uint64_t)hm_tlb_set(&hm_sim.dtlb, page) * hm_sim.dtlb.ways] = pte;
  if (hm_sim.stlb.sets != 0 &&
      hm_tlb_lookup(&hm_sim.stlb, hm_tlb_set(&hm_sim.stlb, page), key, &old))
    hm_sim.stlb.entries[(uint64_t)hm_tlb_set(&hm_sim.stlb, page) * hm_sim.stlb.ways] = pte;
  /* Lines of the page in the filter are those of the frame left behind. */
  empty_data_filters();
  if (hm_sim.code_page == page) hm_sim.code_page = UINT64_MAX;
  hm_sim.data_page = page;
  hm_sim.data_pte = pte;
  return pte;
}

/* --- Data ---------------------------------------------------------------- */

static inline void data_line(struct hm_access *access, uint64_t virtual_line, int writes) {
  uint32_t index = (uint32_t)virtual_line & hm_sim.l1d.set_mask;
  uint64_t base = virtual_line << HM_LINE_BITS;
  if ((writes ? hm_filter_store : hm_filter_load)[index] == base) return;
  uint64_t page = virtual_line >> (HM_PAGE_BITS - HM_LINE_BITS);
  hm_pte pte;
  if (likely(page == hm_sim.data_page)) {
    pte = hm_sim.data_pte;
  } else {
    int filled;
    pte = translate(access, &hm_sim.dtlb, page, HM_DTLB_MISS, &filled);
    if (unlikely(filled) && ++hm_sim.data_fills >= hm_sim.config.dtlb.entries / 8)
      empty_data_filters();
    hm_sim.data_page = page;
    hm_sim.data_pte = pte;
  }
  int writable = hm_pte_writable(&hm_sim.pages, pte);
  if (unlikely(writes && !writable)) {
    pte = break_copy_on_write(page);
    writable = 1;
  }
  uint32_t line = HM_PTE_FRAME(pte) << (HM_PAGE_BITS - HM_LINE_BITS) |
                  ((uint32_t)virtual_line & ((1u << (HM_PAGE_BITS - HM_LINE_BITS)) - 1));
  access->physical_line = line;
  access_l1(access, &hm_sim.l1d, &hm_sim.l1d_shadow, hm_sim.touched_data, hm_sim.touched_code,
            virtual_line, line, HM_L1D_MISS);
  hm_filter_load[index] = base;
  hm_filter_store[index] = writable ? base : 1;
}

/* Adds the cost of translation and lets the clock see the stall. */
static inline void settle(struct hm_access *access, uint32_t l1_latency, int stalls) {
  if (access->translation == HM_TLB_STLB) access->latency += hm_sim.stlb.latency;
  if (access->translation == HM_TLB_WALK) access->latency += hm_sim.config.walk_latency;
  if (stalls) hm_sim.stall_cycles += access->latency - l1_latency;
}

static inline void begin(struct hm_access *access, uint64_t address, uint64_t site,
                         uint32_t latency) {
  access->address = address;
  access->site = site;
  access->latency = latency;
  access->physical_line = 0;
  access->events = 0;
  access->level = HM_LEVEL_L1;
  access->translation = HM_TLB_L1;
  access->cause[0] = access->cause[1] = access->cause[2] = HM_CAUSE_UNKNOWN;
  access->set[0] = access->set[1] = access->set[2] = 0;
}

/* Splits an access over its lines (two at most, but for 64-byte vectors) and
 * counts it as one access, as cachegrind does. */
static inline void data_access(struct hm_access *access, uint64_t address, uint64_t site) {
  int writes = HM_SITE_KIND(site) != HM_LOAD;
  uint64_t first = address >> HM_LINE_BITS;
  uint64_t last = (address + HM_SITE_SIZE(site) - 1) >> HM_LINE_BITS;
  uint64_t skip = hm_sim.config.set_sampling - 1; /* 0 when every line counts */
  begin(access, address, site, hm_sim.l1d.latency);
  for (uint64_t line = first; line <= last; line++)
    if ((line & skip) == 0) data_line(access, line, writes);
}

void hm_data(uint64_t address, uint64_t site) {
  struct hm_access access;
  data_access(&access, address, site);
  if (likely(access.events == 0)) return;
  settle(&access, hm_sim.l1d.latency, HM_SITE_KIND(site) != HM_STORE);
  count_events(&access);
}

void hm_data_every(uint64_t address, uint64_t site) {
  struct hm_access access;
  data_access(&access, address, site);
  if (access.physical_line == 0) { /* filtered: name the line for the sample */
    hm_pte pte = hm_pages_touch(&hm_sim.pages, address >> HM_PAGE_BITS);
    access.physical_line = HM_PTE_FRAME(pte) << (HM_PAGE_BITS - HM_LINE_BITS) |
                           (uint32_t)(address >> HM_LINE_BITS & 63);
  }
  settle(&access, hm_sim.l1d.latency, HM_SITE_KIND(site) != HM_STORE);
  if (access.events != 0) count_events(&access);
  /* Counted by the generated code; only the sampling happens here. */
  if (HM_SITE_KIND(site) != HM_STORE && --hm_sim.core->countdown[HM_LOADS] == 0)
    expire(&access, HM_LOADS);
  if (HM_SITE_KIND(site) != HM_LOAD && --hm_sim.core->countdown[HM_STORES] == 0)
    expire(&access, HM_STORES);
}

/* --- Code ---------------------------------------------------------------- */

void hm_fetch(uint64_t line_address, uint64_t site) {
  struct hm_access access;
  begin(&access, line_address, site, hm_sim.l1i.latency);
  uint64_t virtual_line = line_address >> HM_LINE_BITS;
  uint64_t page = line_address >> HM_PAGE_BITS;
  hm_pte pte;
  if (likely(page == hm_sim.code_page)) {
    pte = hm_sim.code_pte;
  } else {
    int filled;
    pte = translate(&access, &hm_sim.itlb, page, HM_ITLB_MISS, &filled);
    if (unlikely(filled) && ++hm_sim.code_fills >= hm_sim.config.itlb.entries / 8)
      empty_code_filter();
    hm_sim.code_page = page;
    hm_sim.code_pte = pte;
  }
  uint32_t line = HM_PTE_FRAME(pte) << (HM_PAGE_BITS - HM_LINE_BITS) |
                  ((uint32_t)virtual_line & ((1u << (HM_PAGE_BITS - HM_LINE_BITS)) - 1));
  access.physical_line = line;
  access_l1(&access, &hm_sim.l1i, &hm_sim.l1i_shadow, hm_sim.touched_code, hm_sim.touched_data,
            virtual_line, line, HM_L1I_MISS);
  hm_filter_fetch[(uint32_t)virtual_line & hm_sim.l1i.set_mask] = line_address;
  if (likely(access.events == 0)) return;
  settle(&access, hm_sim.l1i.latency, 1);
  count_events(&access);
}

void hm_instruction(uint64_t site) {
  if (likely(--hm_sim.core->countdown[HM_INSTRUCTIONS] != 0)) return;
  struct hm_access access;
  begin(&access, HM_SITE_IP(site), site, 0);
  access.level = HM_LEVEL_NONE;
  access.translation = HM_TLB_NONE;
  expire(&access, HM_INSTRUCTIONS);
}

/* --- Branches: gshare for directions, last target for indirect ones ------- */

static NOINLINE void mispredicted(uint64_t target, uint64_t site) {
  struct hm_access access;
  begin(&access, target, site, 0);
  access.level = HM_LEVEL_NONE;
  access.translation = HM_TLB_NONE;
  count(&access, HM_BRANCH_MISS);
}

void hm_branch(uint64_t taken, uint64_t site) {
  struct hm_branch_predictor *predictor = &hm_sim.core->predictor;
  uint32_t index = ((uint32_t)HM_SITE_IP(site) ^ predictor->history) & ((1u << 14) - 1);
  uint8_t counter = predictor->direction[index];
  predictor->history = predictor->history << 1 | (taken & 1);
  if ((taken & 1) != 0) {
    if (counter < 3) predictor->direction[index]++;
  } else if (counter > 0) {
    predictor->direction[index]--;
  }
  if ((counter >= 2) != (taken & 1)) mispredicted(HM_SITE_IP(site), site);
}

void hm_indirect_branch(uint64_t target, uint64_t site) {
  uint32_t *slot = &hm_sim.core->predictor.target[(HM_SITE_IP(site) >> 1) & ((1u << 9) - 1)];
  uint32_t low = (uint32_t)target;
  if (*slot == low) return;
  *slot = low;
  mispredicted(target, site);
}
