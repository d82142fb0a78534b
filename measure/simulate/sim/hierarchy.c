/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The way of an access through the hierarchy: TLBs, L1, L2, L3, memory.
 *
 * Why lines may be skipped
 * ------------------------
 * The order of the lines in a set matters only when one of them has to go.  So
 * between two fills of a set it is enough to see each line once: the filters
 * hold the lines seen since the last fill of their set, and the generated code
 * does not report them again.  When the next fill comes, the lines not seen
 * since the last one are the older ones, in true LRU order, and the victim is
 * among them.  Should all lines of a set have been seen, its slots are emptied and
 * a new epoch begins, so that hot lines come to the front again.  What remains
 * inexact is the order of lines seen within one epoch, and only if every older
 * line of the set goes before they are seen again.
 *
 * HM_FLAG_EXACT_LRU empties a set's slots at every access, which leaves only the
 * most recent line: skipping that changes no order at all.  It costs about a
 * third more time; tests compare the two.
 *
 * For the TLBs: a line is in a filter only while its page is in a small table of
 * known translations, and a page is known only while the first-level TLB holds it.
 * So a skipped access would have hit the TLB too.  The pages of a TLB set have to
 * be seen again after each of its fills; in wide sets only the page that would
 * have to go, which gets a second chance if it was known (CLOCK).
 *
 * For coherence: of memory that other cores may write, a line is in a filter only while
 * the directory lets this core go on without asking (coherence.h).
 */
#include "coherence.h"
#include "filters.h"
#include "huge_pages.h"
#include "lower_levels.h"
#include "timing.h"
#include "turns.h"
#include "unmapped.h"

static uint8_t data_seen[HM_L1_SETS], code_seen[HM_L1_SETS];

/* Known translations, and the places that may hold one, a bit each. */
static struct known_page known_data[HM_KNOWN_PAGES], known_code[HM_KNOWN_PAGES];

static uint64_t data_places[HM_KNOWN_PAGES / 64], code_places[HM_KNOWN_PAGES / 64];

/* --- The first level --------------------------------------------------------- */

/* A hit advances its set's epoch and updates the shadow. */
INLINE void observe_hit(const struct first_level *level, uint32_t set, uint32_t place,
                        uint32_t line) {
  uint32_t ways = level->cache->ways;
  if (unlikely((hm_sim.config.flags & HM_FLAG_EXACT_LRU) != 0)) {
    begin_epoch(level, set);
  } else if (place >= level->seen[set] && ++level->seen[set] >= ways) {
    begin_epoch(level, set);
  }
  if (unlikely(!is_recent(level->cache, (int)place)) && causes_wanted(level->miss))
    hm_shadow_access(level->shadow, level->cache, line);
}

/* One line in its L1, hit or miss. */
INLINE void access_l1(struct hm_access *access, const struct first_level *level, uint32_t set,
                      uint32_t line) {
  int place = hm_cache_access(level->cache, set, line);
  if (place >= 0) {
    observe_hit(level, set, (uint32_t)place, line);
    /* A copy out of date is filled again where it is. */
    if (unlikely((access->line_found & HM_IN_L1) != 0)) hm_miss_l1(access, level, set, line);
  } else {
    hm_expect_miss(line);
    begin_epoch(level, set);
    hm_miss_l1(access, level, set, line);
  }
}

static const struct first_level data_level = {
    &hm_sim.l1d,     &hm_sim.l1d_shadow, &hm_sim.touched_data, &hm_sim.touched_code, hm_filter_load,
    hm_filter_store, data_seen,          hm_data_filled,       &hm_sim.dtlb,         known_data,
    data_places,     HM_L1D_MISS,        HM_DTLB_MISS};

static const struct first_level code_level = {
    &hm_sim.l1i, &hm_sim.l1i_shadow, &hm_sim.touched_code, &hm_sim.touched_data, hm_filter_fetch,
    NULL,        code_seen,          hm_code_filled,       &hm_sim.itlb,         known_code,
    code_places, HM_L1I_MISS,        HM_ITLB_MISS};

/* The process is new to this machine. */
static void clear(const struct first_level *level) {
  for (uint32_t i = 0; i < HM_L1_SETS * HM_FILTER_SLOTS; i++) {
    level->filter[i] = HM_NO_LINE;
    if (level->second_filter != NULL) level->second_filter[i] = HM_NO_LINE;
  }
  for (uint32_t set = 0; set < HM_L1_SETS; set++) level->filled[set] = level->seen[set] = 0;
  for (uint32_t i = 0; i < HM_KNOWN_PAGES; i++)
    level->known[i] = (struct known_page){HM_NO_PAGE, 0, 0};
  for (uint32_t i = 0; i < HM_KNOWN_PAGES / 64; i++) level->places[i] = 0;
}

/* At a switch of processes: empties the occupied slots. */
static void empty(const struct first_level *level) {
  for (uint32_t set = 0; set < level->cache->sets; set++) {
    begin_epoch(level, set);
    level->seen[set] = 0;
  }
  for (uint32_t i = 0; i < HM_KNOWN_PAGES / 64; i++)
    for (; level->places[i] != 0; level->places[i] &= level->places[i] - 1)
      level->known[64 * i + (uint32_t)__builtin_ctzll(level->places[i])] =
          (struct known_page){HM_NO_PAGE, 0, 0};
}

void hm_empty_filters(void) {
  void (*how)(const struct first_level *) =
      (hm_sim.filters_stale & HM_FILTERS_NEW) != 0 ? clear : empty;
  how(&data_level);
  how(&code_level);
}

/* A line that its L1 does not hold, on a page known. */
INLINE void fill_l1(struct hm_access *access, const struct first_level *level, uint32_t set,
                    uint32_t line) {
  uint32_t ways = level->cache->ways;
  hm_expect_miss(line);
  hm_put_in_front(level->cache->tags + (uint64_t)set * ways, ways - 1, line);
  begin_epoch(level, set);
  hm_miss_l1(access, level, set, line);
}

/* --- Translation --------------------------------------------------------- */

/* Removes the page's lines from the filters, too. */
static void forget_known(const struct first_level *level, struct known_page *known) {
  for (uint64_t lines = known->lines; lines != 0; lines &= lines - 1) {
    uint64_t address = known->page << HM_PAGE_BITS | (uint64_t)__builtin_ctzll(lines)
                                                         << HM_LINE_BITS;
    if (level->second_filter == NULL) {
      take_out(hm_code_slot(address), address);
    } else {
      take_out(hm_data_slot(level->filter, address), address);
      take_out(hm_data_slot(level->second_filter, address), address);
    }
  }
  known->page = HM_NO_PAGE;
  known->lines = 0;
}

/* Before a fill: ensures that the page at the end of the TLB set is not in use. In narrow sets
 * every page must be seen again after a fill, as lines in theirs; in wide sets this would be
 * expensive, and CLOCK is a close approximation. */
#define NARROW_SET 8
static void second_chances(const struct first_level *level, const struct hm_tlb *tlb,
                           uint32_t set) {
  const uint64_t own_space = (uint64_t)hm_sim.space << HM_TLB_SPACE_SHIFT;
  if (tlb->ways <= NARROW_SET) {
    for (uint32_t way = 0; way < tlb->ways; way++) {
      uint64_t page = tlb->keys[(uint64_t)set * tlb->ways + way] ^ own_space;
      struct known_page *known = hm_find_known(level->known, page);
      if (is_known(known, page)) forget_known(level, known);
    }
    return;
  }
  for (uint32_t chance = 0; chance < tlb->ways; chance++) {
    uint64_t key = tlb->keys[(uint64_t)set * tlb->ways + tlb->ways - 1];
    uint64_t page = key ^ own_space;
    struct known_page *known = hm_find_known(level->known, page);
    if (!is_known(known, page)) return;
    forget_known(level, known);
    hm_pte pte;
    hm_tlb_lookup(tlb, set, key, &pte); /* to the front */
  }
}

static NOINLINE hm_pte translate(struct hm_access *access, const struct first_level *level,
                                 uint64_t page) {
  const struct hm_tlb *tlb = level->tlb;
  uint64_t key = hm_tlb_key(page);
  hm_pte pte = 0;
  uint32_t set = 0;
  if (tlb->sets != 0) {
    set = hm_tlb_set(tlb, page);
    if (likely(hm_tlb_lookup(tlb, set, key, &pte))) return pte;
    access->events |= 1u << level->tlb_miss;
    second_chances(level, tlb, set);
  }
  uint32_t stlb_set = 0;
  if (hm_sim.stlb.sets != 0) stlb_set = hm_tlb_set(&hm_sim.stlb, page);
  if (hm_sim.stlb.sets != 0 && hm_tlb_lookup(&hm_sim.stlb, stlb_set, key, &pte)) {
    access->translation = (uint8_t)max32(access->translation, HM_TLB_STLB);
  } else {
    access->translation = HM_TLB_WALK;
    pte = hm_pages_touch(&hm_sim.pages, page);
    if (hm_sim.stlb.sets != 0) {
      access->events |= 1u << HM_STLB_MISS;
      hm_tlb_fill(&hm_sim.stlb, stlb_set, key, pte);
    }
  }
  if (tlb->sets != 0) hm_tlb_fill(tlb, set, key, pte);
  hm_huge_translate(page, (pte & HM_PTE_SHARED) != 0);
  return pte;
}

/* HM_WATCHED if other cores may write the page's data (coherence.h), else 0. */
INLINE uint64_t watch(const struct first_level *level, hm_pte pte) {
  if (hm_sim.directory == NULL || level->second_filter == NULL) return 0;
  return (pte & HM_PTE_SHARED) != 0 || hm_sim.many_cores ? HM_WATCHED : 0;
}

/* The page's translation, known from now on. */
INLINE struct known_page *know_page(struct hm_access *access, const struct first_level *level,
                                    uint64_t page) {
  struct known_page *known = hm_find_known(level->known, page);
  if (likely(is_known(known, page))) return known;
  hm_pte pte = translate(access, level, page);
  struct known_page *places = hm_places_of(level->known, page);
  if (places[0].page != HM_NO_PAGE) {
    if (places[1].page != HM_NO_PAGE) forget_known(level, &places[1]);
    places[1] = places[0];
  }
  uint64_t number = (uint64_t)(places - level->known);
  level->places[number / 64] |= 3ull << number % 64;
  places[0] = (struct known_page){page | watch(level, pte), 0, pte};
  return places;
}

static void update_tlb(const struct hm_tlb *tlb, uint64_t page, hm_pte pte) {
  uint64_t key = hm_tlb_key(page);
  hm_pte old;
  if (tlb->sets == 0 || !hm_tlb_lookup(tlb, hm_tlb_set(tlb, page), key, &old)) return;
  tlb->entries[(uint64_t)hm_tlb_set(tlb, page) * tlb->ways] = pte; /* now in front */
}

/* A write to a page that this process still shares: it gets another frame, and the lines in the
 * filters belong to the old frame. */
static NOINLINE void break_copy_on_write(const struct first_level *level,
                                         struct known_page *known) {
  uint64_t page = known->page & ~HM_WATCHED;
  hm_pte pte = hm_pages_write(&hm_sim.pages, page);
  update_tlb(&hm_sim.dtlb, page, pte);
  update_tlb(&hm_sim.stlb, page, pte);
  hm_forget_elsewhere(page);
  forget_known(level, known);
  *known = (struct known_page){page | watch(level, pte), 0, pte};
}

/* --- Data ---------------------------------------------------------------- */

/* A line that other cores may have, or have taken. Contended lines stay out of the filters, so
 * that each access is seen. */
static NOINLINE void watched_line(struct hm_access *access, struct known_page *known,
                                  uint64_t address, int writes) {
  uint32_t line = physical_line(known->pte, address);
  uint32_t set = (uint32_t)(address >> HM_LINE_BITS) & hm_sim.l1d.set_mask;
  const struct hm_line_state *state = hm_line_state(line);
  if (hm_line_right(state) < (writes ? HM_RIGHT_WRITE : HM_RIGHT_READ)) {
    const struct hm_cache *l1 = &hm_sim.l1d, *l2 = &hm_sim.l2;
    uint32_t held = 0;
    if (hm_find_way(l1->tags + (uint64_t)set * l1->ways, l1->ways, line) >= 0) held |= HM_IN_L1;
    if (l2->sets != 0 &&
        hm_find_way(l2->tags + (uint64_t)hm_cache_set(l2, line) * l2->ways, l2->ways, line) >= 0)
      held |= HM_IN_L2;
    if ((known->pte & HM_PTE_SHARED) != 0)
      hm_share_line(access, line, address, held, writes);
    else
      hm_share_own_line(access, line, address, held, writes);
  }
  access_l1(access, &data_level, set, line);
  access->line_found = 0;
  int right = hm_line_right(state);
  if (right != HM_RIGHT_NONE)
    put_into_data_filters(known, address, right == HM_RIGHT_WRITE);
  else
    take_out_of_data_filters(address);
}

INLINE void data_line(struct hm_access *access, uint64_t address, int writes) {
  if (in_data_filter(address, writes)) return;
  struct known_page *known = know_page(access, &data_level, address >> HM_PAGE_BITS);
  if (unlikely(writes && !hm_pte_writable(&hm_sim.pages, known->pte)))
    break_copy_on_write(&data_level, known);
  uint32_t line = physical_line(known->pte, address);
  access->physical_line = line;
  if (unlikely((known->page & HM_WATCHED) != 0)) {
    watched_line(access, known, address, writes);
    return;
  }
  access_l1(access, &data_level, (uint32_t)(address >> HM_LINE_BITS) & hm_sim.l1d.set_mask, line);
  put_into_data_filters(known, address, hm_pte_writable(&hm_sim.pages, known->pte));
}

/* Adds the cost of translation and applies the stall to the clock. */
INLINE void settle(struct hm_access *access, uint32_t l1_latency, int stalls) {
  if (access->translation == HM_TLB_STLB) access->latency += hm_sim.stlb.latency;
  if (access->translation == HM_TLB_WALK) access->latency += hm_sim.config.walk_latency;
  if (hm_timing_is_on())
    hm_expose(access, access->latency - l1_latency);
  else if (stalls)
    hm_sim.stall_cycles += access->latency - l1_latency;
}

/* A sample has the start of its access, virtual and physical, even if the second line missed: so
 * do kernels, which translate the address that the processor reports. */
static NOINLINE void name_first_line(struct hm_access *access) {
  hm_pte pte = hm_pages_touch(&hm_sim.pages, access->address >> HM_PAGE_BITS);
  access->physical_line = physical_line(pte, access->address);
}

/* Address bits that are 0 on the lines that are simulated. */
INLINE uint64_t sampling_mask(void) {
  return (uint64_t)(hm_sim.config.set_sampling - 1) << HM_LINE_BITS;
}

/* Splits an access at line boundaries and counts it as one, as cachegrind does. */
INLINE void data_access(struct hm_access *access, uint64_t address, uint64_t site) {
  int writes = HM_SITE_KIND(site) != HM_LOAD;
  uint64_t last = address + HM_SITE_SIZE(site) - 1;
  begin(access, address, site, hm_sim.l1d.latency);
  if (unlikely(hm_sim.config.set_sampling > 1)) {
    uint64_t skipped = sampling_mask();
    for (uint64_t at = address & ~(uint64_t)(HM_LINE_SIZE - 1); at <= last; at += HM_LINE_SIZE)
      if ((at & skipped) == 0) data_line(access, at, writes);
    return;
  }
  data_line(access, address, writes);
  if (likely((address ^ last) < HM_LINE_SIZE)) return;
  for (uint64_t at = (address | (HM_LINE_SIZE - 1)) + 1; at <= last; at += HM_LINE_SIZE)
    data_line(access, at, writes);
}

static void finish_data(struct hm_access *access) {
  if (unlikely((access->address ^ (access->address + HM_SITE_SIZE(access->site) - 1)) >=
               HM_LINE_SIZE))
    name_first_line(access);
  settle(access, hm_sim.l1d.latency, HM_SITE_KIND(access->site) != HM_STORE);
  count_events(access);
}

/* Anything but one line on a page known. */
static NOINLINE void data_the_long_way(uint64_t address, uint64_t site) {
  struct hm_access access;
  data_access(&access, address, site);
  if (access.events != 0) finish_data(&access);
  if (unlikely(access.contended)) hm_end_contended_access(&access);
}

/* A hit, nearly always the case for accesses that pass the filters; returns 0 if it is not one. */
INLINE int hit_l1(const struct first_level *level, uint32_t set, uint32_t line) {
  uint32_t *way = level->cache->tags + (uint64_t)set * level->cache->ways;
  int place = hm_find_way(way, level->cache->ways, line);
  if (unlikely(place < 0)) return 0;
  hm_put_in_front(way, (uint32_t)place, line);
  observe_hit(level, set, (uint32_t)place, line);
  return 1;
}

static NOINLINE void data_missed(uint64_t address, uint64_t site, uint32_t set, uint32_t line) {
  struct hm_access access;
  hm_heed_other_cores();
  begin(&access, address, site, hm_sim.l1d.latency);
  fill_l1(&access, &data_level, set, line);
  finish_data(&access);
}

/* On a watched page; returns 0 unless it is a hit that needs no action of the directory. */
INLINE int hit_watched_line(struct known_page *known, uint64_t address, int writes) {
  uint32_t line = physical_line(known->pte, address);
  int right = hm_line_right(hm_line_state(line));
  if (right < (writes ? HM_RIGHT_WRITE : HM_RIGHT_READ)) return 0;
  if (!hit_l1(&data_level, (uint32_t)(address >> HM_LINE_BITS) & hm_sim.l1d.set_mask, line))
    return 0;
  put_into_data_filters(known, address, right == HM_RIGHT_WRITE);
  return 1;
}

static NOINLINE void data_otherwise(uint64_t address, uint64_t site) {
  uint64_t page = address >> HM_PAGE_BITS, last = address + HM_SITE_SIZE(site) - 1;
  struct known_page *known = hm_find_known(known_data, page);
  int writes = HM_SITE_KIND(site) != HM_LOAD;
  hm_heed_other_cores();
  if (known->page == (page | HM_WATCHED) && (address ^ last) < HM_LINE_SIZE &&
      writes <= hm_pte_writable(&hm_sim.pages, known->pte) &&
      (in_data_filter(address, writes) || hit_watched_line(known, address, writes)))
    return;
  data_the_long_way(address, site);
}

/* One line that the filters do not hold, or must not vouch for. */
static NOINLINE void data_unfiltered(uint64_t address, uint64_t site) {
  uint64_t page = address >> HM_PAGE_BITS, last = address + HM_SITE_SIZE(site) - 1;
  struct known_page *known = hm_find_known(known_data, page);
  int writes = HM_SITE_KIND(site) != HM_LOAD;
  int writable = hm_pte_writable(&hm_sim.pages, known->pte);
  if (unlikely(known->page != page || (address ^ last) >= HM_LINE_SIZE || writes > writable)) {
    data_otherwise(address, site);
    return;
  }
  if (in_data_filter(address, writes)) return;
  uint32_t set = (uint32_t)(address >> HM_LINE_BITS) & hm_sim.l1d.set_mask;
  uint32_t line = physical_line(known->pte, address);
  if (unlikely(!hit_l1(&data_level, set, line))) data_missed(address, site, set, line);
  put_into_data_filters(known, address, writable);
}

/* Most calls are for a group whose first member fetched the line (62 % in a query of
 * PostgreSQL), so this is checked first. A line is in a filter only while its page is known. For
 * pages that other cores write, data_otherwise updates the filters first. */
INLINE int is_settled(uint64_t address, uint64_t site) {
  return in_data_filter(address, HM_SITE_KIND(site) != HM_LOAD) &&
         (address & (HM_LINE_SIZE - 1)) + HM_SITE_SIZE(site) <= HM_LINE_SIZE &&
         atomic_load_explicit(&hm_sim.core->attention, memory_order_relaxed) == 0;
}

void hm_data(uint64_t address, uint64_t site) {
  if (is_settled(address, site)) return;
  data_unfiltered(address, site);
}

void hm_data_sampled(uint64_t address, uint64_t site) {
  if (is_settled(address, site)) return;
  uint64_t last = address + HM_SITE_SIZE(site) - 1;
  if (unlikely((address ^ last) >= HM_LINE_SIZE))
    data_otherwise(address, site);
  else if ((address & sampling_mask()) == 0) /* other members of the group may be */
    data_unfiltered(address, site);
}

void hm_data_every(uint64_t address, uint64_t site) {
  struct hm_access access;
  data_access(&access, address, site);
  /* Filtered, at least its first line. */
  if (access.physical_line == 0 || (address ^ (address + HM_SITE_SIZE(site) - 1)) >= HM_LINE_SIZE)
    name_first_line(&access);
  if (access.events != 0) finish_data(&access);
  if (unlikely(access.contended)) hm_end_contended_access(&access);
  if ((address & sampling_mask()) != 0) { /* a line that is not simulated */
    access.level = HM_LEVEL_NONE;
    access.translation = HM_TLB_NONE;
  }
  /* The generated code counts them; only sampling happens here. */
  if (HM_SITE_KIND(site) != HM_STORE && --hm_sim.core->countdown[HM_LOADS] == 0)
    hm_expire(&access, HM_LOADS);
  if (HM_SITE_KIND(site) != HM_LOAD && --hm_sim.core->countdown[HM_STORES] == 0)
    hm_expire(&access, HM_STORES);
}

/* --- Code ---------------------------------------------------------------- */

static NOINLINE void fetch_missed(struct known_page *known, uint64_t line_address, uint64_t site,
                                  uint32_t set, uint32_t line) {
  struct hm_access access;
  begin(&access, line_address, site, hm_sim.l1i.latency);
  fill_l1(&access, &code_level, set, line);
  put_into_code_filter(known, line_address);
  settle(&access, hm_sim.l1i.latency, 1);
  count_events(&access);
}

static NOINLINE void fetch_from_unknown_page(uint64_t line_address, uint64_t site) {
  struct hm_access access;
  begin(&access, line_address, site, hm_sim.l1i.latency);
  struct known_page *known = know_page(&access, &code_level, line_address >> HM_PAGE_BITS);
  uint32_t line = physical_line(known->pte, line_address);
  access.physical_line = line;
  access_l1(&access, &code_level, (uint32_t)(line_address >> HM_LINE_BITS) & hm_sim.l1i.set_mask,
            line);
  put_into_code_filter(known, line_address);
  if (likely(access.events == 0)) return;
  settle(&access, hm_sim.l1i.latency, 1);
  count_events(&access);
}

void hm_fetch(uint64_t site) {
  uint64_t line_address = HM_FETCHED_LINE(site), page = line_address >> HM_PAGE_BITS;
  struct known_page *known = hm_find_known(known_code, page);
  if (unlikely(known->page != page)) {
    fetch_from_unknown_page(line_address, site);
    return;
  }
  uint32_t set = (uint32_t)(line_address >> HM_LINE_BITS) & hm_sim.l1i.set_mask;
  uint32_t line = physical_line(known->pte, line_address);
  if (hit_l1(&code_level, set, line))
    put_into_code_filter(known, line_address);
  else
    fetch_missed(known, line_address, site, set, line);
}

void hm_fetch_and_data(uint64_t address, uint64_t site) {
  uint64_t ip = HM_SITE_FETCH_IP(site);
  uint64_t line_address = ((ip >> HM_LINE_BITS) + (site >> 58 & 1)) << HM_LINE_BITS;
  if (*hm_code_slot(line_address) != line_address) hm_fetch(HM_FETCH_SITE(ip, line_address));
  hm_data(address, site & ((1ull << 58) - 1));
}
