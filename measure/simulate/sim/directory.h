/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The directory's entries: which cores have an up to date copy of a line.
 *
 *   unused ── hm_begin_lines ──> new ── hm_share_line ──> shared, or modified by one core
 *      ^                                                       │ (coherence.c; with its lock)
 *      └────────────────────── hm_forget_lines ────────────────┘
 *
 * Invariants:
 *  1. A core checks its own bit and rights at any time; changes are made with the line's lock.
 *  2. modified: one core is the only sharer since its latest write.
 */
#ifndef HM_DIRECTORY_H
#define HM_DIRECTORY_H

#include <stdint.h>

#include "segment.h"

/* The directory's entry of a line. A core may read its own bit and rights at any time; changes
 * require the line's lock. */
struct hm_line_state {
  _Atomic uint64_t sharers; /* cores with an up to date copy, unless evicted */
  _Atomic uint32_t record;  /* of a contended line; 0 for others */
  _Atomic uint32_t written; /* 0: never; else the latest writer's core + 1, possibly modified */
};
#define HM_LINE_MODIFIED 0x80000000u /* no other core got it since the latest write */
#define HM_LINE_NEW 0x40000000u      /* never written, and watched since its page exists */

#define HM_LINES_A_PAGE (1u << (HM_PAGE_BITS - HM_LINE_BITS))

/* A watched process begins or stops to use a frame: forgets the state of its lines, which
 * belonged to another page. */
void hm_begin_lines(struct hm_line_state *directory, uint32_t frame);
void hm_forget_lines(struct hm_line_state *directory, uint32_t frame);

#endif
