/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Coherence: a store takes its line away from the private caches of other cores.
 *
 * A directory in the shared segment says for each line which cores have an up to
 * date copy.  No core removes lines from the caches of another:
 * a tag whose core is no longer among the sharers is out of date, and is found so
 * when the core comes to use it.
 *
 *      core 0                     directory                       core 1
 *   load  x  ------------->  sharers 0                         (nothing)
 *                            sharers 0 1   <-----------------   load  x
 *                            sharers 1     <-----------------   store x     HM_INVALIDATION
 *   load  x: tag there, but not a sharer                                    HM_COHERENCE_MISS
 *
 * Only lines of watched pages ask: shared memory, and all memory of a process whose
 * threads run on several cores.  Other memory costs nothing more than before.
 *
 * What the filters hide (hierarchy.c).  A line is put into the load filter only while
 * its core is a sharer, into the store filter only while it is the only one and has
 * written it.  When a line is taken from a core that held it, the line becomes
 * *contended*: from then on it is in no filter, and every access is seen.
 * Until that first time another core's filter may still hold it; that core is called
 * upon (hm_core.attention) and empties the slots concerned at its next L1 miss, and at
 * the end of Valgrind's time slice of 100,000 blocks at the latest.
 *
 * True or false sharing (Torrellas, Lam & Hennessy 1994): for each contended line and
 * core the words that others wrote since the core lost the line.  A miss on one of
 * them is due to true sharing, a miss on another word to false sharing.
 *
 * Compromises: a copy out of date leaves its set as the oldest line does, where a
 * processor fills an invalid way first; code is not watched; of 131,072 contended
 * lines the oldest is forgotten, and is then detected again.
 */
#ifndef HM_COHERENCE_H
#define HM_COHERENCE_H

#include <stdint.h>

#include "directory.h"
#include "simulator.h"

/* One access to a contended line. */
struct hm_touch {
  uint64_t ip;
  uint32_t pid;
  uint8_t core, offset, size, stored;
};

struct hm_contended_line {
  uint32_t line; /* 0: the record is free */
  uint32_t reserved;
  uint64_t unknown;          /* cores that lost the line before its writes were recorded */
  struct hm_touch write;     /* the latest */
  struct hm_touch last;      /* the latest access */
  struct hm_touch elsewhere; /* the latest access by a core other than `last`'s */
  /* Its latest transfer, in cycles: turns.h. */
  uint64_t requested, arrives;
  uint64_t used;   /* when its latest holder used it last */
  uint64_t losing; /* cores that use it until it leaves them */
  /* One bit per word of 4 bytes: written by others since the core lost the line. */
  uint16_t written_since[HM_MAX_CORES];
  uint32_t leaves[HM_MAX_CORES]; /* low bits of the cycle */
};

#define HM_CONTENDED_LINES (1u << 17)
#define HM_COHERENCE_LOCKS 1024

/* In the shared segment. */
struct hm_coherence {
  _Atomic uint32_t lock[HM_COHERENCE_LOCKS]; /* of lines, by the low bits of their number */
  _Atomic uint32_t records_used;
  struct hm_contended_line record[HM_CONTENDED_LINES + 1]; /* 0 is unused */
};

/* Where this core's copy of a line was found; also in the mask of copies that the directory
 * found out of date. */
#define HM_IN_L1 1u
#define HM_IN_L2 2u
#define HM_IN_OTHER_CORE 4u /* modified there, so that core supplies it */

uint64_t hm_directory_size(void);

/* Cycles from the request for a line that another core modified to its arrival. */
static inline uint32_t hm_transfer_latency(void) {
  const struct hm_config *config = &hm_sim.config;
  if (config->transfer_latency != 0) return config->transfer_latency;
  uint32_t shared_level = config->l3.size != 0 ? config->l3.latency : config->memory_latency;
  return shared_level + config->l2.latency;
}

static inline struct hm_line_state *hm_line_state(uint32_t line) { return &hm_sim.directory[line]; }

/* What this core may do with the line without asking the directory: nothing, read, or read and
 * write. */
enum hm_right { HM_RIGHT_NONE, HM_RIGHT_READ, HM_RIGHT_WRITE };

static inline int hm_line_right(const struct hm_line_state *state) {
  uint64_t me = 1ull << hm_sim.cpu;
  uint64_t sharers = atomic_load_explicit(&state->sharers, memory_order_relaxed);
  uint32_t record = atomic_load_explicit(&state->record, memory_order_relaxed);
  uint32_t written = atomic_load_explicit(&state->written, memory_order_relaxed);
  if (record != 0 || (sharers & me) == 0) return HM_RIGHT_NONE;
  return sharers == me && written == (HM_LINE_MODIFIED | (hm_sim.cpu + 1)) ? HM_RIGHT_WRITE
                                                                           : HM_RIGHT_READ;
}

/* Makes this core a sharer of the line, or its owner. `held` says where the core has a tag of
 * it. Sets the access's events and its other side, and in line_found which copies are out of
 * date. */
void hm_share_line(struct hm_access *access, uint32_t line, uint64_t address, uint32_t held,
                   int writes);

/* The same for a line of the process's own memory, which was not watched before it had
 * threads on several cores: who has it may have it from then. */
void hm_share_own_line(struct hm_access *access, uint32_t line, uint64_t address, uint32_t held,
                       int writes);

#endif
