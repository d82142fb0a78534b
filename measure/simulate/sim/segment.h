/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The shared segment: the one piece of memory that the recorder and every
 * simulated process have in common.  This header is the contract between
 * softpmu (C) and measure/record/src/softpmu/segment.rs (Rust); the two are kept
 * equal by the size and version fields, which the tool checks at attach.
 *
 *   +---------------------+ 0
 *   | struct hm_header    |  configuration (written once by the recorder),
 *   |                     |  control words, counters
 *   +---------------------+ HM_RING_OFFSET
 *   | ring                |  perf_event records, byte for byte, produced by
 *   |                     |  the simulated processes, consumed by the recorder
 *   +---------------------+ HM_RING_OFFSET + ring_size
 *   | heap                |  cores, L3, page frames, translation log: laid
 *   |                     |  out by the first process that attaches
 *   +---------------------+ segment_size (sparse: only touched pages exist)
 */
#ifndef HM_SEGMENT_H
#define HM_SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HM_MAGIC "HMSOFTPM"
#define HM_VERSION 5u
#define HM_RING_OFFSET 65536u
#define HM_MAX_CORES 64
#define HM_LINE_SIZE 64u
#define HM_LINE_BITS 6u
#define HM_PAGE_BITS 12u

/* Numbered as samples::model::MemoryEvent. */
enum hm_event {
  HM_L1D_MISS,
  HM_L1I_MISS,
  HM_L2_MISS,
  HM_L3_MISS,
  HM_DTLB_MISS,
  HM_ITLB_MISS,
  HM_STLB_MISS,
  HM_LOADS,
  HM_STORES,
  HM_INSTRUCTIONS,
  HM_BRANCH_MISS,
  HM_COHERENCE_MISS, /* the core had the line and lost it to another core's write */
  HM_INVALIDATION,   /* a store that invalidated the line in other cores */
  HM_EVENTS
};

/* A cache of a core, or the shared last level.  size 0: no such level. */
struct hm_cache_config {
  uint32_t size;    /* bytes */
  uint32_t ways;    /* associativity, 1 to 32 */
  uint32_t latency; /* cycles from issue to data when this level hits */
  uint32_t reserved;
};

/* A TLB.  entries 0: no such level. */
struct hm_tlb_config {
  uint32_t entries;
  uint32_t ways;    /* ways == entries: fully associative */
  uint32_t latency; /* cycles added when this level (and not the first) hits */
  uint32_t reserved;
};

enum hm_flags {
  HM_FLAG_CAUSES = 1 << 0,           /* classify misses: cold, capacity, conflict */
  HM_FLAG_TLB_FLUSH_SWITCH = 1 << 1, /* no address-space ids: a switch empties TLBs */
  HM_FLAG_EXACT_LRU = 1 << 2,        /* the filters hold one line per set: see hierarchy.c */
  HM_FLAG_REUSE = 1 << 3,            /* measure reuse distances: struct hm_reuse_counts */
  HM_FLAG_HUGE_PAGES = 1 << 4,       /* count the page walks that huge pages would leave */
  HM_FLAG_INTERLEAVE = 1 << 5        /* threads advance together in simulated time: turns.h */
};

/* How the core hides miss latency: timing.h. reorder_window 0: it does not. */
struct hm_core_config {
  uint32_t reorder_window;  /* maximum instructions in flight after the oldest one */
  uint32_t fill_buffers;    /* maximum outstanding lines of L1D, 1 to HM_MOST_FILL_BUFFERS */
  uint32_t store_buffer;    /* maximum stores waiting for their lines */
  uint32_t prefetchers;     /* enum hm_prefetchers */
  uint32_t stream_distance; /* maximum distance of the stream prefetcher in lines */
  uint32_t line_cycles;     /* minimum cycles between two lines from memory */
  uint32_t reserved[2];
};
#define HM_MOST_FILL_BUFFERS 64

/* As hardmeter_samples::machine::Prefetcher. */
enum hm_prefetchers {
  HM_PREFETCH_NEXT_LINE = 1 << 0, /* into L1: the line after an ascending pair */
  HM_PREFETCH_STRIDE = 1 << 1,    /* into L1: per instruction */
  HM_PREFETCH_STREAM = 1 << 2,    /* into L2: per page */
  HM_PREFETCH_ADJACENT = 1 << 3   /* into L2: the other line of an aligned pair of 128 bytes */
};

struct hm_config {
  uint32_t cores;          /* number of simulated cores, 1 to HM_MAX_CORES */
  uint32_t clock_mhz;      /* converts cycles into a sample's nanoseconds */
  uint32_t milli_cpi;      /* base cycles per 1000 instructions if all accesses hit */
  uint32_t memory_latency; /* cycles to DRAM */
  uint32_t walk_latency;   /* cycles of a page walk */
  uint32_t flags;
  uint32_t set_sampling;    /* simulate one line in this number; 1: all */
  uint32_t callchain_depth; /* 0: none */
  struct hm_cache_config l1i, l1d, l2, l3;
  struct hm_tlb_config itlb, dtlb, stlb;
  uint64_t period[HM_EVENTS]; /* 0: the event is counted, not sampled */
  uint32_t branch_predictor;  /* 1: simulate it */
  uint32_t
      transfer_latency; /* cycles to get a line that another core modified; 0: those of L3 and L2 */
  struct hm_core_config core;
};

/* State of the heap's layout: HM_INIT_BY_PID + pid while that process works on it. */
enum hm_init { HM_INIT_RAW, HM_INIT_READY, HM_INIT_IMPOSSIBLE, HM_INIT_BY_PID };

struct hm_core_counts {
  uint64_t events[HM_EVENTS];
  uint64_t cycles;
  uint64_t switches;          /* how often a different process got the core */
  uint64_t walks_all_huge;    /* page walks if all memory were in pages of 2 MiB */
  uint64_t walks_shared_huge; /* page walks if only shared memory were */
  uint64_t exposed_cycles;    /* cycles of all misses that the core could not hide */
  uint64_t prefetched;        /* misses whose line had been prefetched in time */
  uint64_t prefetched_late;   /* or had under way */
  uint64_t dependent;         /* load misses whose address depended on an outstanding load */
  uint64_t reserved[3];
};

/* Reuse distances of a core's accesses to its second level, on one line in
 * HM_REUSE_ONE_LINE_IN (by a hash of its number).  Bucket b counts distances
 * whose hm_reuse_bucket() is b, already scaled to all lines. */
#define HM_REUSE_ONE_LINE_IN 64u
#define HM_REUSE_STEPS 4u /* buckets per power of two */
#define HM_REUSE_BUCKETS (HM_REUSE_STEPS * 28u)
struct hm_reuse_counts {
  uint64_t cold;
  uint64_t bucket[HM_REUSE_BUCKETS];
};

/* Buckets 0 to 3 are the distances 0 to 3.  From there on, with the highest set bit
 * e of the distance (e >= 2), the two bits below it choose one of four:
 *
 *   bucket(d) = 4 (e - 1) + (d >> (e - 2)) % 4        4 5 6 7 8 8 9 9 10 10 11 11 12 ...
 *   least(b)  = (4 + b % 4) << (b / 4 - 1)            the smallest distance of bucket b >= 4
 *
 * so that bucket b ends before least(b + 1).  The last one takes all that is larger. */
static inline uint32_t hm_reuse_bucket(uint64_t distance) {
  if (distance < HM_REUSE_STEPS) return (uint32_t)distance;
  uint32_t highest = 63 - (uint32_t)__builtin_clzll(distance);
  uint32_t bucket =
      HM_REUSE_STEPS * (highest - 1) + (uint32_t)(distance >> (highest - 2)) % HM_REUSE_STEPS;
  return bucket < HM_REUSE_BUCKETS ? bucket : HM_REUSE_BUCKETS - 1;
}

static inline uint64_t hm_reuse_least(uint32_t bucket) {
  if (bucket < HM_REUSE_STEPS) return bucket;
  return (uint64_t)(HM_REUSE_STEPS + bucket % HM_REUSE_STEPS) << (bucket / HM_REUSE_STEPS - 1);
}

/* What to read of the profiled program at a sample: samples::model::StateRule,
 * which documents the kinds. */
enum hm_state_kind {
  HM_STATE_NONE,
  HM_STATE_STATEMENT,
  HM_STATE_WORD,
  HM_STATE_ENTRY,
  HM_STATE_THREAD_STATEMENT,
  HM_STATE_PAGE
};
struct hm_state_rule {
  uint32_t kind, id;
  uint64_t base;                /* the pointer, the word, the region's first byte; or the distance
                                 * of the pointer to the session from the thread pointer */
  uint64_t size, stride;        /* of the region */
  uint64_t table, table_stride; /* its entries; of a statement, the holder of the last one; of a
                                 * session, the connection's number; of a page, the offsets of up to eight
                                 * words, 16 bits each */
  uint64_t offset;              /* of the word or the last statement, if `indirect`; of the text
                                 * of a session */
  uint32_t indirect, length;
};
#define HM_STATE_RULES 8
#define HM_STATE_LONGEST 32u

/* Statements that samples refer to by StatementId: a hash set, filled as they occur. hash 0:
 * free. If the table is full, later statements have no text. */
#define HM_STATEMENTS 4096u
#define HM_STATEMENT_TEXT 1004u
struct hm_statement {
  _Atomic uint64_t hash;
  _Atomic uint32_t length; /* length of the text; 0 while it is written */
  _Atomic uint32_t reserved;
  char text[HM_STATEMENT_TEXT + 4];
};

struct hm_header {
  char magic[8];
  uint32_t version;
  uint32_t header_size;
  uint64_t segment_size;
  uint64_t ring_size; /* a power of two */
  struct hm_config config;

  /* Control. */
  _Alignas(64) _Atomic uint32_t measuring; /* 0: programs run without simulation */
  _Atomic uint32_t recorder_pid;           /* 0: the recorder has ended, the ring is not drained */
  _Atomic uint32_t init_state;             /* enum hm_init */
  _Atomic uint32_t attached;               /* number of processes that ever attached or forked */
  _Atomic uint32_t frames_exhausted;       /* simulated memory was exhausted: lines alias */
  _Atomic uint32_t next_object;            /* next id for an anonymous shared mapping */
  uint64_t heap_next;                      /* guarded by init_state */
  uint64_t root;                           /* offset of struct hm_shared in the heap */
  uint64_t reuse;      /* offset of a struct hm_reuse_counts per core; 0: none */
  uint64_t statements; /* offset of HM_STATEMENTS struct hm_statement; 0: none yet */

  /* The ring.  head and tail count bytes since the beginning. */
  _Alignas(64) _Atomic uint64_t ring_head;
  _Alignas(64) _Atomic uint64_t ring_tail;
  _Alignas(64) _Atomic uint32_t ring_lock; /* pid of the writer, 0: free */

  /* Results. */
  _Alignas(64) _Atomic uint64_t clock_max; /* cycles: the latest clock of all cores */
  struct hm_core_counts counts[HM_MAX_CORES];

  /* What to read at samples; the recorder writes the rules, then their number. */
  _Alignas(64) _Atomic uint32_t state_rules;
  struct hm_state_rule state_rule[HM_STATE_RULES];
};

_Static_assert(sizeof(struct hm_cache_config) == 16, "mirrored in segment.rs");
_Static_assert(sizeof(struct hm_tlb_config) == 16, "mirrored in segment.rs");
_Static_assert(sizeof(struct hm_core_config) == 32, "mirrored in segment.rs");
_Static_assert(sizeof(struct hm_config) == 288, "mirrored in segment.rs");
_Static_assert(sizeof(struct hm_core_counts) == 192, "mirrored in segment.rs");
_Static_assert(offsetof(struct hm_header, config) == 32, "mirrored in segment.rs");
_Static_assert(offsetof(struct hm_header, measuring) == 320, "mirrored in segment.rs");
_Static_assert(offsetof(struct hm_header, ring_head) == 384, "mirrored in segment.rs");
_Static_assert(offsetof(struct hm_header, ring_tail) == 448, "mirrored in segment.rs");
_Static_assert(offsetof(struct hm_header, clock_max) == 576, "mirrored in segment.rs");
_Static_assert(offsetof(struct hm_header, counts) == 584, "mirrored in segment.rs");
_Static_assert(sizeof(struct hm_reuse_counts) == 904, "mirrored in segment.rs");
_Static_assert(sizeof(struct hm_state_rule) == 64, "mirrored in segment.rs");
_Static_assert(sizeof(struct hm_statement) == 1024, "mirrored in segment.rs");
_Static_assert(offsetof(struct hm_header, state_rules) == 12928, "mirrored in segment.rs");
_Static_assert(offsetof(struct hm_header, state_rule) == 12936, "mirrored in segment.rs");
_Static_assert(sizeof(struct hm_header) <= HM_RING_OFFSET, "the ring comes after");

#endif
