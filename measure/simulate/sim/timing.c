/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Exposed latency. timing.h has the model and the invariants.
 */
#include "timing.h"

#include "access.h"
#include "clock.h"
#include "host.h"
#include "pattern.h"
#include "prefetch.h"

#define WORDS 8u
#define LOADS 16u
#define PENDING 64u
#define FOLLOWERS 64u
/* A pointer to an object is followed to one of its fields: from 256 bytes before (container_of)
 * to 3,840 after it. */
#define BEFORE_POINTER 256u
#define POINTER_BITS 12u
#define LEAST_POINTER 65536u
#define LARGEST_SCALE 4096
#define CONFIRMED 3 /* two confirming pairs after the two that determine base and scale */
#define MOST_CONFIDENCE 7

/* A load miss and what its line holds. */
struct load {
  uint64_t address, arrival, ip;
  int waited;            /* its own address came from a load under way */
  uint64_t instructions; /* counter at the load: equal within a stretch of a block */
  uint32_t size;
  enum { UNREAD, READ, UNREADABLE } state;
  uint64_t pages; /* one bit for each page that a word of the line would point to */
  uint64_t word[WORDS];
};

/* address = base + scale x value. */
struct relation {
  uint64_t value, address; /* of the latest pair */
  uint64_t base;
  int64_t scale;
  uint32_t confidence; /* 0: base and scale are unknown */
  uint32_t has_pair;
};

/* A load instruction, with its relations to the latest load miss and to the one before. If its
 * addresses are at a constant distance, they depend on no value, and a value may match by
 * chance: an array whose elements are consecutive numbers, read in order. */
struct follower {
  uint64_t ip, last;
  int64_t distance;
  struct relation relation[2];
};

/* One for each core that the process has threads on. */
static struct timing {
  struct load load[LOADS]; /* the latest ones, in a ring */
  uint32_t loads;
  struct stall {
    uint64_t instruction; /* that applies it */
    uint64_t cycles;
  } stall[PENDING];
  uint32_t first, stalls; /* a ring */
  uint64_t pending;
  uint64_t fill[HM_MOST_FILL_BUFFERS]; /* when each is free again */
  uint64_t next_line;                  /* when the next one can arrive from beyond L2 */
  struct follower follower[FOLLOWERS];
} * timing, *of_core[HM_MAX_CORES];

void hm_timing_select(uint32_t cpu) {
  if (of_core[cpu] == NULL) of_core[cpu] = hm_host_allocate(sizeof *timing);
  timing = of_core[cpu];
  hm_prefetch_select(cpu);
}

void hm_timing_resume(void) {
  timing->loads = 0;
  timing->first = timing->stalls = 0;
  timing->pending = 0;
}

void hm_timing_begin(void) {
  hm_timing_resume();
  for (uint32_t i = 0; i < HM_MOST_FILL_BUFFERS; i++) timing->fill[i] = 0;
  for (uint32_t i = 0; i < FOLLOWERS; i++) timing->follower[i].ip = 0;
  timing->next_line = 0;
  hm_prefetch_begin();
}

/* The load that is `back` before the latest one. */
static struct load *load_before(uint32_t back) {
  return &timing->load[(timing->loads - 1 - back) % LOADS];
}

static uint32_t loads_known(void) { return timing->loads < LOADS ? timing->loads : LOADS; }

void hm_timing_pause(void) {
  if (timing->loads != 0 && load_before(0)->state == UNREAD) load_before(0)->state = UNREADABLE;
}

/* --- Stalls ------------------------------------------------------------------ */

/* Applies the stalls of the instructions begun so far. */
static void apply_stalls(uint64_t instructions) {
  while (timing->stalls != 0 && timing->stall[timing->first].instruction <= instructions) {
    timing->pending -= timing->stall[timing->first].cycles;
    timing->first = (timing->first + 1) % PENDING;
    timing->stalls--;
  }
}

static void defer_stall(uint64_t instruction, uint64_t cycles) {
  struct stall *last = &timing->stall[(timing->first + timing->stalls - 1) % PENDING];
  timing->pending += cycles;
  if (timing->stalls == PENDING || (timing->stalls != 0 && instruction <= last->instruction)) {
    last->cycles += cycles; /* in order */
    return;
  }
  timing->stall[(timing->first + timing->stalls++) % PENDING] = (struct stall){instruction, cycles};
}

/* --- Dependences --------------------------------------------------------------- */

static uint64_t bit_of_page(uint64_t page) { return 1ull << (page * 0x9e3779b97f4a7c15ull >> 58); }

static void read_latest(void) {
  if (timing->loads == 0) return;
  struct load *load = load_before(0);
  if (load->state != UNREAD) return;
  hm_host_read_line(load->address & ~(uint64_t)(HM_LINE_SIZE - 1), load->word);
  load->state = READ;
  load->pages = 0;
  for (uint32_t i = 0; i < WORDS; i++) load->pages |= bit_of_page(load->word[i] >> POINTER_BITS);
}

static int points_to(const struct load *load, uint64_t address) {
  uint64_t found = 0;
  for (uint32_t i = 0; i < WORDS; i++)
    found |= (address + BEFORE_POINTER - load->word[i]) >> POINTER_BITS == 0;
  return found != 0;
}

/* The value that the load read, if it can be an index. */
static int value_of(const struct load *load, uint64_t *value) {
  uint32_t offset = (uint32_t)(load->address & (HM_LINE_SIZE - 1));
  if (load->state != READ || offset % load->size != 0) return 0;
  uint64_t word = load->word[offset / 8];
  if (load->size == 8) {
    *value = word;
  } else if (load->size == 4) {
    *value = word >> offset % 8 * 8 & 0xffffffff;
  } else {
    return 0;
  }
  return 1;
}

/* Determines the relation from two pairs. */
static void learn(struct relation *relation, int64_t values, int64_t addresses) {
  if (values == 0 || values == -1) return; /* no information; and INT64_MIN / -1 has no quotient */
  int64_t scale = addresses / values;
  if (scale < 1 || scale > LARGEST_SCALE || scale * values != addresses) return;
  relation->scale = scale;
  relation->base = relation->address - (uint64_t)scale * relation->value;
  relation->confidence = 1;
}

/* Whether the relation holds again; learns from the pair. An instruction may follow its own
 * result and then restart elsewhere: a single failure does not end the relation. */
static int holds(struct relation *relation, uint64_t value, uint64_t address) {
  int64_t values = (int64_t)(value - relation->value);
  int64_t addresses = (int64_t)(address - relation->address);
  int known = relation->confidence != 0, has_pair = relation->has_pair != 0;
  int held = known && address == relation->base + (uint64_t)relation->scale * value;
  if (!known && has_pair) learn(relation, values, addresses);
  relation->value = value;
  relation->address = address;
  relation->has_pair = 1;
  if (held && relation->confidence < MOST_CONFIDENCE) relation->confidence++;
  if (known && !held) relation->confidence--;
  return held && relation->confidence >= CONFIRMED;
}

/* Whether the instruction's addresses are at a constant distance. */
static int is_predictable(struct follower *follower, uint64_t ip, uint64_t address) {
  if (follower->ip != ip) {
    *follower = (struct follower){.ip = ip, .last = address};
    return 0;
  }
  int64_t distance = (int64_t)(address - follower->last);
  int predictable = distance == follower->distance;
  follower->last = address;
  follower->distance = distance;
  return predictable;
}

/* The latest outstanding load whose line contains a pointer to just before the address. */
static const struct load *pointer_from(uint64_t address, uint64_t now) {
  if (address < LEAST_POINTER) return NULL;
  /* Pointers to it lie in one of two pages: most lines have none. */
  uint64_t last_page = (address + BEFORE_POINTER) >> POINTER_BITS;
  uint64_t pages = bit_of_page(last_page) | bit_of_page(last_page - 1);
  for (uint32_t back = 0; back < loads_known(); back++) {
    const struct load *load = load_before(back);
    if (load->arrival > now && load->state == READ && (load->pages & pages) != 0 &&
        points_to(load, address))
      return load;
  }
  return NULL;
}

/* The two latest loads are checked, since an index is often used twice. */
static const struct load *index_from(uint64_t address, uint64_t ip, uint64_t now) {
  struct follower *follower = &timing->follower[(ip ^ ip >> 6) % FOLLOWERS];
  if (is_predictable(follower, ip, address)) return NULL;
  for (uint32_t back = 0; back < loads_known() && back < 2; back++) {
    const struct load *load = load_before(back);
    uint64_t value;
    if (load->arrival > now && value_of(load, &value) &&
        holds(&follower->relation[back], value, address))
      return load;
  }
  return NULL;
}

/* The block computed the address from what a load of this stretch read. */
static const struct load *computed_from(uint64_t stretch, uint64_t now) {
  const struct load *latest = NULL;
  for (uint32_t back = 0; back < loads_known(); back++) {
    const struct load *load = load_before(back);
    if (load->instructions != stretch || load->arrival <= now) continue;
    now = load->arrival;
    latest = load;
  }
  return latest;
}

/* The load under way that the address of a load came from; NULL: it is known already. */
static const struct load *address_from(const struct hm_access *access, uint64_t instructions,
                                       uint64_t now) {
  read_latest();
  const struct load *from = NULL;
  if (HM_SITE_IS_DEPENDENT(access->site))
    from = computed_from(instructions - HM_SITE_DISTANCE(access->site), now);
  if (from == NULL) from = pointer_from(access->address, now);
  if (from == NULL) from = index_from(access->address, HM_SITE_IP(access->site), now);
  return from;
}

static enum hm_dependence dependence_on(const struct load *from, const struct hm_access *access) {
  if (from == NULL) return HM_INDEPENDENT;
  return from->waited || from->ip == HM_SITE_IP(access->site) ? HM_AFTER_CHAIN : HM_AFTER_LOAD;
}

static void note_load(const struct hm_access *access, uint64_t instructions, uint64_t arrival,
                      int waited) {
  timing->loads++;
  if (timing->loads >= 2 * LOADS) timing->loads -= LOADS; /* the ring stays as it is */
  struct load *load = load_before(0);
  load->address = access->address;
  load->arrival = arrival;
  load->ip = HM_SITE_IP(access->site);
  load->waited = waited;
  load->instructions = instructions;
  load->size = HM_SITE_SIZE(access->site);
  load->state = UNREAD;
}

/* --- A miss ---------------------------------------------------------------------- */

static uint64_t max64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Number of instructions that the core can begin after a miss of this kind. */
static uint64_t window_of(enum hm_kind kind, uint64_t instructions) {
  const struct hm_core_config *core = &hm_sim.config.core;
  uint64_t stores = hm_stores_run();
  if (kind != HM_STORE) return core->reorder_window;
  /* Before a rate is known: one instruction in eight. */
  uint64_t apart = stores < 64 ? 8 : instructions / stores;
  return max64(core->reorder_window, core->store_buffer * apart);
}

/* The fill buffer for a line requested at a given time: of those free by then the one freed
 * last, since a later independent miss may begin earlier; else the one that is free first. */
static uint64_t *fill_buffer(uint64_t wanted) {
  uint64_t *best = &timing->fill[0];
  for (uint32_t i = 1; i < hm_sim.config.core.fill_buffers; i++) {
    uint64_t *other = &timing->fill[i];
    int in_time = *other <= wanted, best_in_time = *best <= wanted;
    if (in_time != best_in_time ? in_time : in_time ? *other > *best : *other < *best) best = other;
  }
  return best;
}

static uint32_t cycles_of_translation(const struct hm_access *access) {
  switch (access->translation) {
    case HM_TLB_STLB: return hm_sim.stlb.latency;
    case HM_TLB_WALK: return hm_sim.config.walk_latency;
    default: return 0;
  }
}

/* Lines of the last level arrive at a core twice as fast as those of memory. */
static uint32_t cycles_of_line(const struct hm_access *access) {
  uint32_t cycles = hm_sim.config.core.line_cycles;
  return access->level == HM_LEVEL_MEMORY ? cycles : cycles / 2;
}

/* Arrival of the line of a first-level miss, requested at `issue` unless a prefetcher was
 * earlier. */
static uint64_t arrival_of(const struct hm_access *access, uint64_t now, uint64_t issue,
                           uint32_t beyond) {
  uint64_t since = 0, *fill = fill_buffer(issue);
  enum hm_prefetched prefetched = HM_NOT_PREFETCHED;
  /* A line that another core wrote meanwhile was not prefetched. */
  if (!access->contended) prefetched = hm_prefetch_take(access->physical_line, &since);
  issue = max64(issue, *fill);
  hm_prefetch_observe(access, issue);
  uint64_t arrival = issue + beyond;
  if (prefetched != HM_NOT_PREFETCHED && since < issue) {
    uint64_t least = issue + cycles_of_translation(access);
    if (prefetched == HM_INTO_L2 && hm_sim.l2.latency > hm_sim.l1d.latency)
      least += hm_sim.l2.latency - hm_sim.l1d.latency;
    arrival = max64(since + beyond, least);
    if (arrival > issue + beyond) arrival = issue + beyond;
    if (arrival == least)
      hm_sim.counts->prefetched++;
    else
      hm_sim.counts->prefetched_late++;
  }
  if (access->level > HM_LEVEL_L2) {
    timing->next_line = max64(timing->next_line, now) + cycles_of_line(access);
    arrival = max64(arrival, timing->next_line);
  }
  *fill = arrival;
  return arrival;
}

void hm_expose(struct hm_access *access, uint32_t beyond) {
  enum hm_kind kind = HM_SITE_KIND(access->site);
  int locked = HM_SITE_LOCKED(access->site) != 0;
  int reads = kind == HM_LOAD || kind == HM_MODIFY;
  uint64_t instructions = hm_instructions_run();
  uint64_t reached = hm_sim.core->clock + hm_running_cycles();
  apply_stalls(instructions);
  uint64_t now = reached - timing->pending, issue = locked ? reached : now;
  const struct load *from = reads && !locked ? address_from(access, instructions, now) : NULL;
  if (from != NULL) {
    hm_sim.counts->dependent++;
    issue = max64(issue, from->arrival);
  }
  if (kind != HM_FETCH) hm_pattern_observe(access, dependence_on(from, access));
  int missed = access->level > HM_LEVEL_L1;
  uint64_t arrival = missed ? arrival_of(access, now, issue, beyond) : issue + beyond;
  if (reads && missed) note_load(access, instructions, arrival, from != NULL);
  uint64_t window = locked || kind == HM_FETCH ? 0 : window_of(kind, instructions);
  reached += window * hm_sim.config.milli_cpi / 1000;
  if (locked) { /* no later instruction begins before it has its line */
    timing->stalls = 0;
    timing->pending = 0;
  }
  access->exposed = arrival > reached ? (uint32_t)(arrival - reached) : 0;
  if (access->exposed == 0) return;
  hm_sim.stall_cycles += access->exposed;
  hm_sim.counts->exposed_cycles += access->exposed;
  if (window != 0) defer_stall(instructions + window, access->exposed);
}
