/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The directory's entries: which cores have an up to date copy of a line.
 *
 *   nobody's ── hm_begin_lines ──> new ── hm_share_line ──> shared, or modified by one core
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

/* The directory's entry of a line.  Its own bit and rights a core may check at any time;
 * changes are made with the line's lock held. */
struct hm_line_state {
  _Atomic uint64_t sharers; /* cores with an up to date copy, as far as not thrown out */
  _Atomic uint32_t record;  /* of a contended line; 0: it is not */
  _Atomic uint32_t written; /* 0: not yet; else the latest writer's core + 1, perhaps modified */
};
#define HM_LINE_MODIFIED 0x80000000u /* nobody else got it since the latest write */
#define HM_LINE_NEW 0x40000000u      /* not yet, and watched since its page is there */

#define HM_LINES_A_PAGE (1u << (HM_PAGE_BITS - HM_LINE_BITS))

/* A watched process begins to use a frame, or no longer does: what was known of its lines
 * is about another page's. */
void hm_begin_lines(struct hm_line_state *directory, uint32_t frame);
void hm_forget_lines(struct hm_line_state *directory, uint32_t frame);

#endif
