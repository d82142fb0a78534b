/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the prefetchers of a core would have asked for, and when.
 *
 *   next line   into L1   a load misses the line behind the one missed last: the next one
 *   stride      into L1   an instruction misses at one distance, up to 2 KiB, three times:
 *                         one distance further
 *   stream      into L2   three misses of a page in one direction: two more lines of it at each
 *                         miss, until the stream is `stream_distance` lines ahead
 *   adjacent    into L2   a miss of L2: the other line of the aligned pair
 *
 * As published for Intel's cores (Optimization Reference Manual 248966, "Data Prefetching"); none
 * crosses a page.  Prefetches change no cache here, and so no count: a miss whose line a
 * prefetcher would have brought is still a miss, and timing.c hides what of its latency had passed.
 *
 * Invariants:
 *  1. A request is remembered once, with its earliest time, until its line is missed.
 *  2. One older than HM_REQUEST_LIFE misses counts as lost: its line would have been evicted.
 */
#ifndef HM_PREFETCH_H
#define HM_PREFETCH_H

#include "simulator.h"

#define HM_REQUEST_LIFE 4096u

enum hm_prefetched { HM_NOT_PREFETCHED, HM_INTO_L2, HM_INTO_L1 };

/* The prefetchers of this core are asked from now on. */
void hm_prefetch_select(uint32_t cpu);

/* Forgets all requests and patterns. */
void hm_prefetch_begin(void);

/* Whether the line was requested, and its time; removes the request. */
enum hm_prefetched hm_prefetch_take(uint32_t line, uint64_t *since);

/* Processes a miss of the first level at `time`: the prefetchers may request lines. */
void hm_prefetch_observe(const struct hm_access *access, uint64_t time);

#endif
