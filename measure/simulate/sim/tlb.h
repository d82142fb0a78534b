/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * One TLB with true LRU.  An entry is keyed by address space and virtual page,
 * and holds the page-table entry: a hit here spares the simulator its own walk,
 * just as it does the processor's.
 */
#ifndef HM_TLB_H
#define HM_TLB_H

#include <stdint.h>

#include "segment.h"

struct hm_tlb {
  uint32_t sets; /* 0: the machine has no such level */
  uint32_t set_mask;
  uint32_t ways;
  uint32_t latency;
  uint64_t *keys;    /* sets x ways, most recently used first; 0: empty */
  uint32_t *entries; /* page-table entries, parallel to keys */
};

static inline void hm_tlb_view(struct hm_tlb *tlb, const struct hm_tlb_config *config,
                               uint64_t *keys, uint32_t *entries) {
  tlb->sets = config->entries == 0 ? 0 : config->entries / config->ways;
  tlb->set_mask = (tlb->sets & (tlb->sets - 1)) == 0 ? tlb->sets - 1 : 0;
  tlb->ways = config->ways;
  tlb->latency = config->latency;
  tlb->keys = keys;
  tlb->entries = entries;
}

static inline uint32_t hm_tlb_set(const struct hm_tlb *tlb, uint64_t virtual_page) {
  return tlb->set_mask != 0 || tlb->sets == 1 ? (uint32_t)virtual_page & tlb->set_mask
                                              : (uint32_t)(virtual_page % tlb->sets);
}

/* Looks `key` up; on a hit stores the entry to *entry and makes it the most recently used. A
 * miss changes nothing: see hm_tlb_fill. */
static inline int hm_tlb_lookup(const struct hm_tlb *tlb, uint32_t set, uint64_t key,
                                uint32_t *entry) {
  uint64_t *keys = tlb->keys + (uint64_t)set * tlb->ways;
  uint32_t *entries = tlb->entries + (uint64_t)set * tlb->ways;
  for (uint32_t i = 0; i < tlb->ways; i++) {
    if (keys[i] != key) continue;
    *entry = entries[i];
    for (; i > 0; i--) {
      keys[i] = keys[i - 1];
      entries[i] = entries[i - 1];
    }
    keys[0] = key;
    entries[0] = *entry;
    return 1;
  }
  return 0;
}

/* Inserts an entry at the front; evicts the least recently used one of its set. */
static inline void hm_tlb_fill(const struct hm_tlb *tlb, uint32_t set, uint64_t key,
                               uint32_t entry) {
  uint64_t *keys = tlb->keys + (uint64_t)set * tlb->ways;
  uint32_t *entries = tlb->entries + (uint64_t)set * tlb->ways;
  for (uint32_t i = tlb->ways - 1; i > 0; i--) {
    keys[i] = keys[i - 1];
    entries[i] = entries[i - 1];
  }
  keys[0] = key;
  entries[0] = entry;
}

/* Removes a page, or with `whole_space` all entries of the key's address space (keys have it
 * above bit HM_TLB_SPACE_SHIFT). */
#define HM_TLB_SPACE_SHIFT 40

static inline void hm_tlb_forget(const struct hm_tlb *tlb, uint64_t key, int whole_space) {
  uint64_t slots = (uint64_t)tlb->sets * tlb->ways;
  for (uint64_t i = 0; i < slots; i++) {
    if (tlb->keys[i] == key ||
        (whole_space && tlb->keys[i] >> HM_TLB_SPACE_SHIFT == key >> HM_TLB_SPACE_SHIFT))
      tlb->keys[i] = 0;
  }
}

#endif
