/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What has to leave the TLBs of all cores when memory goes away. unmapped.h has the
 * invariants.
 */
#include "unmapped.h"

#include "simulator.h"

static void forget_pages(uint64_t first, uint64_t count) {
  if (count > HM_FORGET_MOST) {
    hm_sim.forget_count += HM_FORGET_MOST + 1;
    return;
  }
  for (uint64_t page = first; page < first + count; page++)
    hm_sim.forget[hm_sim.forget_count++ % HM_FORGET_MOST] = page;
}

void hm_forget_elsewhere(uint64_t page) {
  if (!hm_sim.many_cores) return;
  forget_pages(page, 1);
  hm_sim.forgotten[hm_sim.cpu]++;
}

void hm_unmapped(uint64_t address, uint64_t length) {
  uint64_t first = address >> HM_PAGE_BITS;
  uint64_t count = (length + (1u << HM_PAGE_BITS) - 1) >> HM_PAGE_BITS;
  hm_pages_unmap(&hm_sim.pages, first, count);
  forget_pages(first, count);
}

void hm_moved(uint64_t from, uint64_t to, uint64_t length) {
  uint64_t count = (length + (1u << HM_PAGE_BITS) - 1) >> HM_PAGE_BITS;
  hm_pages_move(&hm_sim.pages, from >> HM_PAGE_BITS, to >> HM_PAGE_BITS, count);
  forget_pages(from >> HM_PAGE_BITS, count);
}
