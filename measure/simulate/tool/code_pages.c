/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Huge pages for translated code.
 *
 * The code translated for a PostgreSQL backend, and Valgrind's tables of it, take 30 MB:
 * more than a processor's TLBs reach over in small pages.  In pages of 2 MiB transactions
 * cost 8 % less (with --set-sampling 16, where code weighs most; n = 46).
 *
 * A mapping with huge pages from the start would not last: a forked child that writes into its
 * parent's code, for example to link blocks, gets small pages again. So a process that has run for
 * a while requests the kernel to collapse its pages (MADV_COLLAPSE, Linux 6.1), and again after
 * four times as long, for newer code. Short-lived processes have no cost.
 *
 * The cost is memory: pages shared with the parent become private. So it is done only while much
 * memory is available. A refusal leaves the pages unchanged.
 */
#include "tool.h"

#include "pub_tool_aspacemgr.h"

#define HUGE_PAGE (2ul << 20)
#define MOST_MAPPINGS 512

/* About 0.3 s of computing; collapsing 30 MB takes 10 to 40 ms. */
#define BLOCKS_BEFORE (8ull << 20)
#define LATER_TIMES 4
#define SPARE_PART 4 /* this part of all memory must be available */

static ULong next_time = BLOCKS_BEFORE;
static ULong began; /* the count of blocks at which this process began */
static Bool is_new = True;

void hm_code_pages_forked(void) { is_new = True; }

static Bool is_code(const NSegment *mapping) {
  return mapping != NULL && mapping->kind == SkAnonV && mapping->hasR && mapping->hasW &&
         mapping->hasX;
}

static void collapse(const NSegment *mapping) {
  Addr start = (mapping->start + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
  /* One page at a time: an empty one would end the call. */
  for (Addr page = start; page + HUGE_PAGE - 1 <= mapping->end; page += HUGE_PAGE)
    hm_collapse(page, HUGE_PAGE);
}

void hm_collapse_code(ULong blocks_done) {
  if (is_new) {
    is_new = False;
    began = blocks_done;
    next_time = BLOCKS_BEFORE;
  }
  if (blocks_done - began < next_time) return;
  next_time *= LATER_TIMES;
  if (!hm_memory_is_plenty(SPARE_PART)) return;
  static Addr starts[MOST_MAPPINGS];
  Int mappings = VG_(am_get_segment_starts)(SkAnonV, starts, MOST_MAPPINGS);
  for (Int i = 0; i < mappings; i++) { /* negative: there are more, and none was returned */
    const NSegment *mapping = VG_(am_find_nsegment)(starts[i]);
    if (is_code(mapping)) collapse(mapping);
  }
}
