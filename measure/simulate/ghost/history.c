/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Predicts which pages will be touched again. Pages copied at a stop cost the server time; other pages
 * are fetched later, when they may have changed. So the stopper copies pages likely to be touched soon:
 *
 *     unknown ── first touch ──> met once ── another stretch touches it ──> recurrent, gap g
 *        ^                          │  hot for KEPT_ONCE stretches             │  hot for 2 g, at
 *        └──── not touched for REMEMBERED stretches ───────────────────────────┘  least KEPT
 *
 * A block of a table that is touched once is rarely touched again soon. Stack, heap and locks are,
 * though some of them only every hundred stretches, such as entries of the lock table: a transaction
 * takes any entry that an earlier one left free. `gap` is the longest recent gap, halved at each
 * return. A page that is only read can be fetched late without harm, so it is not kept longer than
 * KEPT_READ.
 *
 * With a scout (scout.c), which adds what is missing while the process stands, only the pages of the last
 * KEPT_SCOUTED stretches are hot.
 *
 * A scan meets thousands of pages once.  Where more than CROWDED pages are hot, those that were read
 * once only are left out: they would crowd out stack and heap.
 *
 * Each lane has a history and counts its own stretches: two processes that are followed at once do
 * not halve each other's memory.
 *
 * Invariant: a page is in an `entry` of its lane once; entries are only dropped all at a time, when
 * the table is sifted.
 */
#include <stdlib.h>
#include <string.h>

#include "ghost.h"

#define ENTRIES (1u << 16)
#define MOST_ENTRIES (ENTRIES / 2)
#define KEPT_ONCE 40u /* longer than a transaction: what comes back in the next is known then */
#define CROWDED 640u  /* pages: more than transactions come back to; a scan meets thousands once */
#define KEPT 64u
#define KEPT_READ 128u
#define REMEMBERED 2048u
#define KEPT_SCOUTED 12u
#define MOST_SCOUTED 320u
#define MOST_AT_FIRST 512u

struct entry {
  uint64_t page; /* 0: free */
  uint32_t touched, gap;
  uint8_t shared, stored;
};

static struct history {
  struct entry entry[ENTRIES];
  uint32_t entries, stretch;
} history[HM_LANES], *now = history;
static uint32_t hot;

void hm_history_begin(uint32_t lane) {
  now = &history[lane];
  now->stretch++;
}

static struct entry *place_of(uint64_t page) {
  uint32_t slot = (uint32_t)((page >> 12) * 0x9e3779b97f4a7c15ull >> 40) & (ENTRIES - 1);
  while (now->entry[slot].page != 0 && now->entry[slot].page != page)
    slot = (slot + 1) & (ENTRIES - 1);
  return &now->entry[slot];
}

/* Keeps the pages touched within the last `within` stretches. */
static void sift(uint32_t within) {
  static struct entry kept[MOST_ENTRIES + 1];
  uint32_t count = 0;
  for (uint32_t i = 0; i < ENTRIES; i++)
    if (now->entry[i].page != 0 && now->stretch - now->entry[i].touched <= within)
      kept[count++] = now->entry[i];
  memset(now->entry, 0, sizeof now->entry);
  for (uint32_t i = 0; i < count; i++) *place_of(kept[i].page) = kept[i];
  now->entries = count;
}

void hm_history_touch(uint64_t page, int shared, int stored) {
  struct entry *of = place_of(page);
  if (of->page == 0) {
    if (now->entries == MOST_ENTRIES) {
      sift(REMEMBERED);
      if (now->entries > MOST_ENTRIES / 2) sift(KEPT);
      if (now->entries > MOST_ENTRIES / 2) sift(0);
      of = place_of(page);
    }
    *of = (struct entry){.page = page,
                         .touched = now->stretch,
                         .shared = (uint8_t)shared,
                         .stored = (uint8_t)stored};
    now->entries++;
    return;
  }
  if (stored) of->stored = 1;
  uint32_t gap = now->stretch - of->touched;
  if (gap == 0) return;
  of->gap = gap > of->gap / 2 ? gap : of->gap / 2;
  of->touched = now->stretch;
}

static uint32_t kept_for(const struct entry *of) {
  if (of->gap == 0 && of->shared) return KEPT_ONCE;
  uint32_t kept = of->gap * 2;
  uint32_t most = of->stored ? REMEMBERED : KEPT_READ;
  return kept < KEPT ? KEPT : kept > most ? most : kept;
}

/* Orders pages by how overdue they are, the least overdue first. */
static int by_promise(const void *a, const void *b) {
  const struct entry *first = *(struct entry *const *)a, *second = *(struct entry *const *)b;
  uint64_t x = (uint64_t)(now->stretch - first->touched + 1) * kept_for(second);
  uint64_t y = (uint64_t)(now->stretch - second->touched + 1) * kept_for(first);
  return x < y ? -1 : x > y;
}

static int by_address(const void *a, const void *b) {
  uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
  return first < second ? -1 : first > second;
}

/* A page in the list costs a stop a microsecond, one that the scout has to add six. */
static int is_hot(const struct entry *of, int scouted) {
  uint32_t since = now->stretch - of->touched;
  if (scouted) return since <= KEPT_SCOUTED && (of->gap != 0 || !of->shared);
  return since <= kept_for(of);
}

static struct entry *found[MOST_ENTRIES + 1];

static uint32_t find_hot(int scouted) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < ENTRIES; i++) {
    struct entry *of = &now->entry[i];
    if (of->page != 0 && is_hot(of, scouted)) found[count++] = of;
  }
  return count;
}

void hm_history_hot(struct hm_hot_list *into, uint32_t help) {
  int scouted = help == HM_SCOUTED;
  uint32_t count = find_hot(scouted);
  if (help == HM_SCOUTED_AT_FIRST && count > MOST_AT_FIRST) {
    scouted = 1;
    count = find_hot(scouted);
  }
  if (count > CROWDED) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
      if (found[i]->gap != 0 || !found[i]->shared || found[i]->stored) found[kept++] = found[i];
    count = kept;
  }
  uint32_t most = scouted ? MOST_SCOUTED : HM_MOST_HOT;
  if (count > most) {
    qsort(found, count, sizeof found[0], by_promise);
    count = most;
  }
  for (uint32_t i = 0; i < count; i++) into->page[i] = found[i]->page;
  qsort(into->page, count, sizeof into->page[0], by_address);
  into->count = hot = count;
}

uint32_t hm_pages_hot(void) { return hot; }
