/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The simulated machine as one process sees it.
 *
 *        generated code                       this simulator
 *   +---------------------+                  +--------------------------------+
 *   | line known to hit?  | ------ no -----> | TLBs -> L1 -> L2 -> L3 -> DRAM |
 *   | (filters)           |                  | counters expire -> a sample    |
 *   +---------------------+                  +--------------------------------+
 *
 * A core is a lock: a process runs client code only while it holds the core it
 * is pinned to, so that L1, TLBs and L2 are shared by the processes of that core
 * exactly as time slicing shares them, and the hot path needs no other lock.
 *
 * Invariants:
 *  1. on_core: this process has the lock of `core`, and counts since then are in
 *     packed_counts, instructions, loads, stores and stall_cycles (clock.h); else they are 0.
 *  2. `core`, caches and TLBs are views of the core `cpu` (hm_bind_core).
 *  3. filters_stale: the filters hold lines that may not be skipped; they are emptied
 *     before client code runs (hm_enter_core).
 *
 *   away ── hm_enter_core ──> on_core ── hm_leave_core ──> away
 *    └ hm_run_on, hm_child_forked: another core or another process
 */
#ifndef HM_SIMULATOR_H
#define HM_SIMULATOR_H

#include <stdint.h>

#include "cache.h"
#include "pages.h"
#include "segment.h"
#include "shadow.h"
#include "tlb.h"

#define HM_L1_SETS 1024 /* the largest number of L1 sets */

/* A filter has 32 slots for each L1 set, indexed by the low bits of the line's
 * number: those of the set and five more.  A slot holds the address of a line
 * that is known to hit (hierarchy.c says why skipping it is right), or HM_NO_LINE.
 * With 8 slots two thirds of the calls that did something were of lines in use
 * that drove each other from their slot (a query of PostgreSQL).
 *
 * For data the slots of one set lie apart, which makes emptying them slower and
 * looking one up, a hundred times as frequent, two instructions shorter.  For code
 * slots are looked up by constants, and those of a set lie together. */
#define HM_FILTER_SLOTS 32
#define HM_NO_LINE 1ull

enum hm_kind { HM_LOAD, HM_STORE, HM_MODIFY, HM_FETCH, HM_BRANCH };
enum hm_level { HM_LEVEL_NONE, HM_LEVEL_L1, HM_LEVEL_L2, HM_LEVEL_L3, HM_LEVEL_MEMORY };
enum hm_translation { HM_TLB_NONE, HM_TLB_L1, HM_TLB_STLB, HM_TLB_WALK };
/* As samples::model::MissCause. */
enum hm_cause {
  HM_CAUSE_UNKNOWN,
  HM_CAUSE_COLD,
  HM_CAUSE_CAPACITY,
  HM_CAUSE_CONFLICT,
  HM_CAUSE_COHERENCE
};
/* As samples::model::SharingVerdict. */
enum hm_verdict { HM_VERDICT_UNKNOWN, HM_VERDICT_TRUE, HM_VERDICT_FALSE };

/* The other side of a coherence miss or of an invalidation: samples::model::Sharing. */
struct hm_sharing {
  uint8_t verdict; /* enum hm_verdict; unknown for an invalidation */
  uint8_t offset;  /* offset of the other core's access on the line */
  uint8_t size;    /* how many bytes */
  uint8_t stored;  /* 1: the other core stored, 0: it loaded */
  uint32_t pid;    /* 0: unknown */
  uint64_t ip;
};

/* An access site, packed into the one constant the generated code passes. */
#define HM_SITE_IP(site) ((site)&0x7fffffffffffull)
#define HM_SITE_SIZE(site) ((uint32_t)((site) >> 47 & 0x7f))
#define HM_SITE_CODE(site) ((site) >> 54 & 7)
#define HM_SITE_KIND(site) ((enum hm_kind)(HM_SITE_IS_UPDATE(site) ? HM_LOAD : HM_SITE_CODE(site)))
/* A load whose word the block then stores, as x = x + 1 does: its code in the place of HM_LOAD. */
#define HM_LOAD_OF_UPDATE 5
#define HM_SITE_IS_UPDATE(site) (HM_SITE_CODE(site) == HM_LOAD_OF_UPDATE)
#define HM_SITE_LOCKED(site) ((uint32_t)((site) >> 57 & 1))
#define HM_SITE(ip, size, kind, locked)                                                   \
  (((uint64_t)(ip)&0x7fffffffffffull) | (uint64_t)(size) << 47 | (uint64_t)(kind) << 54 | \
   (uint64_t)(locked) << 57)
/* A code line fetch: the line in which the instruction begins, or a later one. */
#define HM_FETCH_SITE(ip, line_address)     \
  (HM_SITE(ip, HM_LINE_SIZE, HM_FETCH, 0) | \
   (((uint64_t)(line_address) >> HM_LINE_BITS) - ((uint64_t)(ip) >> HM_LINE_BITS)) << 58)
#define HM_FETCHED_LINE(site) \
  (((HM_SITE_IP(site) >> HM_LINE_BITS) + ((site) >> 58 & 1)) << HM_LINE_BITS)
/* For a data access: a code line to fetch before it, as the distance from the instruction that
 * needs the line to that of the access. */
#define HM_SITE_MOST_BEHIND 31u
#define HM_SITE_LINE(ip, fetch_ip, line_address) \
  ((HM_FETCH_SITE(fetch_ip, line_address) & 1ull << 58) | ((uint64_t)(ip) - (fetch_ip)) << 59)
/* For a data access alone: its address was computed, within its block, from a load; the number
 * of instructions added to the counters between the two. */
#define HM_SITE_MOST_DISTANT 31u
#define HM_SITE_DEPENDS(instructions) (1ull << 58 | (uint64_t)(instructions) << 59)
#define HM_SITE_IS_DEPENDENT(site) ((site) >> 58 & 1)
#define HM_SITE_DISTANCE(site) ((site) >> 59)
#define HM_SITE_FETCH_IP(site) (HM_SITE_IP(site) - ((site) >> 59))

/* One access on its way down the hierarchy. */
struct hm_access {
  uint64_t address, site;
  uint32_t physical_line;
  uint32_t latency; /* from issue to data, without regard to overlap */
  uint32_t exposed; /* the part of it that the core could not hide (timing.h) */
  uint32_t events;  /* one bit per hm_event that happened */
  uint8_t level, translation;
  uint8_t cause[3]; /* causes of the misses in L1, L2, L3 */
  /* Another core's cache supplied it from a modified line (a processor's HITM). The level is
   * then L3, or memory on a machine without one: for perf, a remote cache. */
  uint8_t modified_elsewhere;
  uint8_t line_found; /* coherence.h: state of the line being looked up */
  uint8_t pattern;    /* enum hm_pattern (pattern.h) */
  uint8_t contended;  /* several cores use the line, and one wrote it (coherence.h) */
  int64_t stride;     /* distance to the instruction's previous miss, if constant; else 0 */
  uint32_t set[3];
  struct hm_sharing lost_to;    /* for a coherence miss: the write that took the line */
  struct hm_sharing taken_from; /* for an invalidation: the latest access by the losing core */
};

/* The cache level of an event: index into hm_access.cause and .set. */
static inline uint32_t hm_level_of(enum hm_event event) {
  return event == HM_L2_MISS ? 1 : event == HM_L3_MISS ? 2 : 0;
}

/* The cause that a sample of this event reports. */
static inline uint8_t hm_cause_of(const struct hm_access *access, enum hm_event event) {
  return event == HM_COHERENCE_MISS ? HM_CAUSE_COHERENCE : access->cause[hm_level_of(event)];
}

static inline const struct hm_sharing *hm_sharing_of(const struct hm_access *access,
                                                     enum hm_event event) {
  const struct hm_sharing *other =
      event == HM_INVALIDATION ? &access->taken_from : &access->lost_to;
  return other->pid != 0 ? other : 0;
}

/* A sample, passed to the host when a counter expires. */
struct hm_sample {
  enum hm_event event;
  uint64_t period;
  uint64_t cycles; /* simulated time */
  uint32_t cpu;
  const struct hm_access *access;
};
void hm_host_sample(const struct hm_sample *sample);

struct hm_coherence;
struct hm_line_state;
struct hm_reuse;

struct hm_branch_predictor {
  uint32_t history;
  uint8_t direction[1 << 14]; /* two-bit counters, indexed by address xor history */
  uint32_t target[1 << 9];    /* last target of an indirect branch, low bits */
};

/* A simulated core, in the shared segment; the arrays of its caches follow. */
struct hm_core {
  _Alignas(64) _Atomic uint32_t lock; /* pid of the process that runs on it */
  _Atomic uint32_t waiters;
  uint32_t last_runner; /* address space that ran last */
  uint32_t reserved;
  /* Lines that other cores took or share: one bit per line of a page. They must be removed from
   * the filters (coherence.h). */
  _Atomic uint64_t attention;
  uint64_t clock; /* cycles */
  uint64_t countdown[HM_EVENTS];
  struct hm_branch_predictor predictor;
};

/* Addresses of code that processes translated, in order: a parent translates them before it
 * forks again. Each block is logged once; `seen` is a hash set of them. */
#define HM_LOGGED_BLOCKS (1u << 17)
struct hm_translation_log {
  _Atomic uint32_t lock;
  _Atomic uint32_t length;
  uint64_t block[HM_LOGGED_BLOCKS];
  uint64_t seen[2 * HM_LOGGED_BLOCKS];
};
#define HM_TRANSLATION_LOG_SIZE sizeof(struct hm_translation_log)

/* The root of the heap: offsets into the segment. */
struct hm_shared {
  _Atomic uint32_t l3_lock;
  uint32_t reserved;
  uint64_t frames, l3_tags, l3_shadow, touched_all;
  uint64_t directory, coherence; /* 0: a single core */
  uint64_t translation_log;
  uint64_t core[HM_MAX_CORES];
};

/* Three counts in one word: instructions in the lowest bits, then loads, then stores. */
#define HM_PACKED_INSTRUCTION_BITS 23
#define HM_PACKED_LOAD_BITS 21
#define HM_PACKED_STORE_BITS 20
#define HM_PACKED_MOST(bits) ((1ull << (bits)) - 1)
#define HM_PACK(instructions, loads, stores)                                    \
  ((uint64_t)(instructions) | (uint64_t)(loads) << HM_PACKED_INSTRUCTION_BITS | \
   (uint64_t)(stores) << (HM_PACKED_INSTRUCTION_BITS + HM_PACKED_LOAD_BITS))

#define HM_FORGET_MOST 32
#define HM_FILTERS_NEW 2

/* The state of one process. A single instance, so that generated code can use constant
 * addresses. */
struct hm_simulator {
  struct hm_header *header;
  struct hm_shared *shared;
  struct hm_config config;
  uint32_t pid;
  uint32_t space; /* address space: unique per process of the run */

  /* The core that the running thread is pinned to. */
  uint32_t cpu;
  int on_core;
  int moved; /* the thread that ran last was on another core */
  struct hm_core *core;
  struct hm_core_counts *counts;
  struct hm_cache l1i, l1d, l2, l3;
  struct hm_tlb itlb, dtlb, stlb;
  struct hm_shadow l1i_shadow, l1d_shadow, l2_shadow, l3_shadow;
  uint64_t *touched_code, *touched_data, *touched_all; /* one bit per line, one word per frame */
  struct hm_pages pages;
  struct hm_tlb huge_all, huge_shared; /* huge_pages.h */
  struct hm_reuse *reuse;              /* NULL: distances are not measured */
  struct hm_reuse_counts *reuse_counts;

  /* Coherence; NULL with a single core. */
  struct hm_line_state *directory;
  struct hm_coherence *coherence;
  uint64_t l1d_offset, l2_offset; /* offsets of a core's tags from its struct hm_core */
  uint32_t first_cpu;             /* core of the process's first thread */
  uint32_t threads_placed;
  int many_cores; /* its threads are on several cores: all its memory is watched */

  /* Counts since the process got its core; the generated code adds to the first four. A count is
   * the sum of its field in the packed word and its own counter. */
  uint64_t packed_counts;
  uint64_t instructions, loads, stores;
  uint64_t stall_cycles;
  uint64_t release_clock; /* clock of the core when this process last left one */
  uint64_t slice_began;   /* by the same clock: when it got the core from another process */

  /* Turns (turns.h): the clock of the thread furthest behind that waits to run on another core; UINT64_MAX:
   * none does. And the clock at which each core's thread last returned from the kernel. */
  _Atomic uint64_t slowest_waiting;
  uint64_t woken[HM_MAX_CORES];

  int filters_stale; /* HM_FILTERS_NEW: never used on this machine */
  int waited;        /* it returned from the kernel since it last ran */

  /* Pages to remove from the TLBs of every core that the process runs on: the latest ones, and
   * their total number. */
  uint64_t forget[HM_FORGET_MOST];
  uint64_t forget_count;
  uint64_t forgotten[HM_MAX_CORES]; /* of them, by this core */
};

extern struct hm_simulator hm_sim;
extern uint64_t hm_filter_load[HM_L1_SETS * HM_FILTER_SLOTS];
extern uint64_t hm_filter_store[HM_L1_SETS * HM_FILTER_SLOTS];
extern uint64_t hm_filter_fetch[HM_L1_SETS * HM_FILTER_SLOTS];

/* The slot of a line of data.  The generated code computes the same. */
#define HM_FILTER_SHIFT (HM_LINE_BITS - 3)
#define HM_FILTER_MASK(l1) (((uint64_t)(l1).sets * HM_FILTER_SLOTS - 1) << 3)
static inline uint64_t *hm_data_slot(uint64_t *filter, uint64_t address) {
  return (uint64_t *)((char *)filter + (address >> HM_FILTER_SHIFT & HM_FILTER_MASK(hm_sim.l1d)));
}

/* The slot of a line of code: a constant in generated code, so it may depend on all bits. */
static inline uint32_t hm_code_slot_of_set(uint64_t address) {
  uint64_t above = address >> HM_LINE_BITS >> hm_sim.l1i.set_bits;
  return (uint32_t)(above ^ above >> 5 ^ above >> 10 ^ above >> 15) & (HM_FILTER_SLOTS - 1);
}

static inline uint64_t *hm_code_slot(uint64_t address) {
  uint64_t set = address >> HM_LINE_BITS & hm_sim.l1i.set_mask;
  return &hm_filter_fetch[set * HM_FILTER_SLOTS + hm_code_slot_of_set(address)];
}

/* Attaches to a mapped segment, laying it out if this process is the first. Returns NULL, or the
 * reason why it cannot be used. */
const char *hm_attach(struct hm_header *header, uint32_t pid);
/* In the child after fork; hm_parent_forked in the parent. */
void hm_child_forked(uint32_t pid);
void hm_parent_forked(void);
/* The core of another thread of the process: round robin, beginning with the process's own. */
uint32_t hm_place_thread(void);
/* A thread on this core is to run next. */
void hm_run_on(uint32_t cpu);
/* Client code is about to run / has stopped running. */
void hm_enter_core(void);
void hm_leave_core(void);
/* Whether the process has had the core for a full time slice. */
int hm_slice_is_over(void);
/* Memory of the process was unmapped or moved. */
void hm_unmapped(uint64_t address, uint64_t length);
void hm_moved(uint64_t from, uint64_t to, uint64_t length);
/* Simulated time of this process, in cycles. */
uint64_t hm_cycles(void);

/* Called by generated code. */
void hm_data(uint64_t address, uint64_t site);
void hm_data_sampled(uint64_t address, uint64_t site); /* if not all lines are simulated */
void hm_data_every(uint64_t address, uint64_t site);   /* if loads or stores are sampled */
void hm_fetch(uint64_t site);
void hm_fetch_and_data(uint64_t address, uint64_t site); /* HM_SITE_LINE */
void hm_instruction(uint64_t site);
void hm_branch(uint64_t taken, uint64_t site);
void hm_indirect_branch(uint64_t target, uint64_t site);

#endif
