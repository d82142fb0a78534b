/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * One set-associative cache with true LRU.  A set is an array of line numbers,
 * most recently used first, as cachegrind keeps it: a hit in the first way
 * changes nothing, and most accesses are such hits.
 *
 * Line numbers are those of simulated physical memory, 32 bits wide (256 GiB);
 * 0 marks an empty way, for page frames are numbered from 1.
 */
#ifndef HM_CACHE_H
#define HM_CACHE_H

#include <stdint.h>

#include "segment.h"

#define HM_MAX_WAYS 32

/* This process's view of a cache; the tags may be in the shared segment. */
struct hm_cache {
  uint32_t sets;     /* 0: the machine has no such level */
  uint32_t set_mask; /* sets - 1 when that is a power of two, else 0 */
  uint32_t set_bits; /* log2 of the sets, for a power of two */
  uint32_t ways;
  uint32_t latency;
  uint32_t *tags; /* sets x ways */
};

static inline uint32_t hm_cache_sets(const struct hm_cache_config *config) {
  return config->size == 0 ? 0 : config->size / (HM_LINE_SIZE * config->ways);
}

static inline void hm_cache_view(struct hm_cache *cache, const struct hm_cache_config *config,
                                 uint32_t *tags) {
  cache->sets = hm_cache_sets(config);
  cache->set_mask = (cache->sets & (cache->sets - 1)) == 0 ? cache->sets - 1 : 0;
  cache->set_bits = cache->sets == 0 ? 0 : 31 - (uint32_t)__builtin_clz(cache->sets);
  cache->ways = config->ways;
  cache->latency = config->latency;
  cache->tags = tags;
}

/* The set a line maps to.  Last levels of 20 or 36 MB have no power of two. */
static inline uint32_t hm_cache_set(const struct hm_cache *cache, uint64_t line) {
  return cache->set_mask != 0 || cache->sets == 1 ? (uint32_t)line & cache->set_mask
                                                  : (uint32_t)(line % cache->sets);
}

typedef uint32_t hm_four_tags __attribute__((vector_size(16), aligned(4), may_alias));
typedef float hm_four_floats __attribute__((vector_size(16)));

/* Position of `line` among the ways, 0 for the most recent one, or -1. */
static inline int hm_find_way(const uint32_t *way, uint32_t ways, uint32_t line) {
  const hm_four_tags wanted = {line, line, line, line};
  uint32_t i = 0;
  for (; i + 4 <= ways; i += 4) {
    hm_four_tags found = *(const hm_four_tags *)(way + i) == wanted;
    int lanes = __builtin_ia32_movmskps((hm_four_floats)found);
    if (lanes != 0) return (int)i + __builtin_ctz((unsigned)lanes);
  }
  for (; i < ways; i++)
    if (way[i] == line) return (int)i;
  return -1;
}

/* Puts `line` first; the tags before `place` move back by one, the tag at `place` is dropped. */
static inline void hm_put_in_front(uint32_t *way, uint32_t place, uint32_t line) {
  for (; place >= 4; place -= 4)
    *(hm_four_tags *)(way + place - 3) = *(const hm_four_tags *)(way + place - 4);
  for (; place > 0; place--) way[place] = way[place - 1];
  way[0] = line;
}

/*
 * Looks `line` up in `set` and makes it the most recently used. Returns its previous position,
 * or -1 on a miss, which evicts the least recent line. The set is a parameter because L1 is
 * indexed by the virtual address and tagged by the physical one, as in processors.
 */
static inline int hm_cache_access(const struct hm_cache *cache, uint32_t set, uint32_t line) {
  uint32_t *way = cache->tags + (uint64_t)set * cache->ways;
  int place = hm_find_way(way, cache->ways, line);
  hm_put_in_front(way, place < 0 ? cache->ways - 1 : (uint32_t)place, line);
  return place;
}

#endif
