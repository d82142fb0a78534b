/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The fully associative shadow of a cache: same capacity, LRU over all lines.
 * A miss of the real cache that hits here is a conflict miss, one that misses
 * here too is a capacity miss (Hill 1987); cold misses are identified before.
 *
 * Exact LRU by a doubly linked list and a chained hash table.  One compromise:
 * hits in the recent half of a real set are not reported here, so such a line
 * grows old while it is hot.  When it reaches the end of the list,
 * hm_shadow_access asks the real cache whether the line still is in the recent
 * half of its set and gives it a second chance (up to 8 per miss).
 */
#ifndef HM_SHADOW_H
#define HM_SHADOW_H

#include <stdint.h>

#include "cache.h"

struct hm_shadow_node {
  uint32_t line;
  uint32_t newer, older; /* node numbers; the list is circular through node 0 */
  uint32_t next_in_bucket;
};

/* In the shared segment; nodes and buckets follow. */
struct hm_shadow_state {
  uint32_t used; /* number of nodes in use */
};

struct hm_shadow {
  uint32_t capacity; /* number of lines; 0: none */
  uint32_t bucket_mask;
  struct hm_shadow_state *state;
  struct hm_shadow_node *nodes; /* capacity + 1; node 0 is the list's head */
  uint32_t *buckets;            /* bucket_mask + 1 */
};

/* Bytes of the segment a shadow of `lines` needs. */
uint64_t hm_shadow_size(uint32_t lines);
void hm_shadow_view(struct hm_shadow *shadow, uint32_t lines, void *memory);

static inline uint32_t *hm_shadow_bucket(const struct hm_shadow *shadow, uint32_t line) {
  return &shadow->buckets[(line * 2654435761u >> 7) & shadow->bucket_mask];
}

/* Records an access; returns 1 if the fully associative cache held the line. `real` is the
 * shadowed cache, which supplies its recently used lines. */
int hm_shadow_access(struct hm_shadow *shadow, const struct hm_cache *real, uint32_t line);

#endif
