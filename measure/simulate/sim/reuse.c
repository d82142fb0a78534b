/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "reuse.h"

static void mark(struct hm_reuse *reuse, uint32_t slot, uint32_t change) {
  for (uint32_t i = slot + 1; i <= HM_REUSE_SLOTS; i += i & -i) reuse->marks[i] += change;
  reuse->marked += change;
}

/* Marks in slots up to and including `slot`. */
static uint32_t marks_until(const struct hm_reuse *reuse, uint32_t slot) {
  uint32_t sum = 0;
  for (uint32_t i = slot + 1; i != 0; i &= i - 1) sum += reuse->marks[i];
  return sum;
}

/* The line's place in the table, or a free one. One exists, because the table has twice as many
 * places as there are slots. */
static uint32_t *place_of(struct hm_reuse *reuse, uint32_t line) {
  uint32_t at = (line * 2246822519u) >> 13 & (HM_REUSE_TABLE - 1);
  for (;; at = (at + 1) & (HM_REUSE_TABLE - 1)) {
    uint32_t *place = &reuse->slot[at];
    if (*place == 0 || reuse->line[*place - 1] == line) return place;
  }
}

static void forget_all(struct hm_reuse *reuse) {
  reuse->now = reuse->marked = 0;
  for (uint32_t i = 0; i < HM_REUSE_SLOTS; i++) reuse->line[i] = 0;
  for (uint32_t i = 0; i <= HM_REUSE_SLOTS; i++) reuse->marks[i] = 0;
  for (uint32_t i = 0; i < HM_REUSE_TABLE; i++) reuse->slot[i] = 0;
}

/* Moves the marked slots to the front; if there are too many, only the youngest. */
static void compact(struct hm_reuse *reuse) {
  uint32_t surplus = reuse->marked > HM_REUSE_SLOTS / 2 ? reuse->marked - HM_REUSE_SLOTS / 2 : 0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < HM_REUSE_TABLE; i++) reuse->slot[i] = 0;
  for (uint32_t i = 0; i <= HM_REUSE_SLOTS; i++) reuse->marks[i] = 0;
  for (uint32_t slot = 0; slot < HM_REUSE_SLOTS; slot++) {
    uint32_t line = reuse->line[slot];
    reuse->line[slot] = 0;
    if (line == 0) continue;
    if (surplus > 0) {
      surplus--;
      continue;
    }
    reuse->line[kept] = line;
    *place_of(reuse, line) = kept + 1;
    kept++;
  }
  reuse->marked = 0;
  for (uint32_t slot = 0; slot < kept; slot++) mark(reuse, slot, 1);
  reuse->now = kept;
}

uint32_t hm_reuse_distance(struct hm_reuse *reuse, uint32_t line) {
  uint32_t distance = HM_REUSE_COLD;
  if (reuse->busy) forget_all(reuse);
  reuse->busy = 1;
  if (reuse->now >= HM_REUSE_SLOTS) compact(reuse);
  uint32_t *place = place_of(reuse, line), now = reuse->now++;
  if (*place != 0) {
    uint32_t before = *place - 1;
    distance = reuse->marked - marks_until(reuse, before);
    reuse->line[before] = 0;
    mark(reuse, before, UINT32_MAX); /* one less */
  }
  reuse->line[now] = line;
  *place = now + 1;
  mark(reuse, now, 1);
  reuse->busy = 0;
  return distance;
}

void hm_reuse_count(struct hm_reuse *reuse, struct hm_reuse_counts *counts, uint32_t line,
                    uint32_t scale) {
  uint32_t distance = hm_reuse_distance(reuse, line);
  if (distance == HM_REUSE_COLD)
    counts->cold++;
  else
    counts->bucket[hm_reuse_bucket((uint64_t)distance * scale)]++;
}
