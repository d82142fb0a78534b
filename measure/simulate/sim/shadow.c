/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "shadow.h"

#define SECOND_CHANCES 8

static uint32_t bucket_count(uint32_t lines) {
  uint32_t count = 64;
  while (count < lines) count *= 2;
  return count;
}

uint64_t hm_shadow_size(uint32_t lines) {
  if (lines == 0) return 0;
  return 64 + (uint64_t)(lines + 1) * sizeof(struct hm_shadow_node) +
         (uint64_t)bucket_count(lines) * sizeof(uint32_t);
}

void hm_shadow_view(struct hm_shadow *shadow, uint32_t lines, void *memory) {
  shadow->capacity = lines;
  if (lines == 0) return;
  shadow->bucket_mask = bucket_count(lines) - 1;
  shadow->state = memory;
  shadow->nodes = (struct hm_shadow_node *)((char *)memory + 64);
  shadow->buckets = (uint32_t *)(shadow->nodes + lines + 1);
}

static inline void unlink_node(struct hm_shadow_node *nodes, uint32_t node) {
  nodes[nodes[node].newer].older = nodes[node].older;
  nodes[nodes[node].older].newer = nodes[node].newer;
}

static inline void push_front(struct hm_shadow_node *nodes, uint32_t node) {
  uint32_t first = nodes[0].older;
  nodes[node].newer = 0;
  nodes[node].older = first;
  nodes[first].newer = node;
  nodes[0].older = node;
}

static void remove_from_bucket(struct hm_shadow *shadow, uint32_t node) {
  uint32_t *link = hm_shadow_bucket(shadow, shadow->nodes[node].line);
  while (*link != node) link = &shadow->nodes[*link].next_in_bucket;
  *link = shadow->nodes[node].next_in_bucket;
}

static inline int is_recent_in_its_set(const struct hm_cache *real, uint32_t line) {
  /* Sets of an L1 of up to 4 KiB per way lie within a page, where virtual and physical index
   * agree; for larger ones this is a guess that affects only second chances. */
  const uint32_t *way = real->tags + (uint64_t)hm_cache_set(real, line) * real->ways;
  for (uint32_t i = 0; i < (real->ways + 1) / 2; i++)
    if (way[i] == line) return 1;
  return 0;
}

static uint32_t victim(struct hm_shadow *shadow, const struct hm_cache *real) {
  struct hm_shadow_node *nodes = shadow->nodes;
  for (int chance = 0; chance < SECOND_CHANCES; chance++) {
    uint32_t last = nodes[0].newer;
    if (!is_recent_in_its_set(real, nodes[last].line)) return last;
    unlink_node(nodes, last);
    push_front(nodes, last);
  }
  return nodes[0].newer;
}

/* The next victim is known in advance: prefetches its data, and the node after it, into the
 * host's caches. */
static inline void expect_victim(const struct hm_shadow *shadow, const struct hm_cache *real,
                                 uint32_t node) {
  const struct hm_shadow_node *next = &shadow->nodes[node];
  __builtin_prefetch(hm_shadow_bucket(shadow, next->line));
  __builtin_prefetch(real->tags + (uint64_t)hm_cache_set(real, next->line) * real->ways);
  __builtin_prefetch(&shadow->nodes[next->newer]);
}

int hm_shadow_access(struct hm_shadow *shadow, const struct hm_cache *real, uint32_t line) {
  struct hm_shadow_node *nodes = shadow->nodes;
  uint32_t *bucket = hm_shadow_bucket(shadow, line);
  for (uint32_t node = *bucket; node != 0; node = nodes[node].next_in_bucket) {
    if (nodes[node].line != line) continue;
    if (nodes[0].older != node) {
      unlink_node(nodes, node);
      push_front(nodes, node);
    }
    return 1;
  }
  uint32_t node;
  if (shadow->state->used < shadow->capacity) {
    node = ++shadow->state->used;
  } else {
    node = victim(shadow, real);
    unlink_node(nodes, node);
    remove_from_bucket(shadow, node);
    expect_victim(shadow, real, nodes[0].newer);
  }
  nodes[node].line = line;
  nodes[node].next_in_bucket = *bucket;
  *bucket = node;
  push_front(nodes, node);
  return 0;
}
