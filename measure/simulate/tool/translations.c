/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Shares translations between forked processes.
 *
 * A forked child inherits its parent's translated code, but a server's parent runs little of what
 * its children run: every PostgreSQL backend would spend about a second translating the same
 * executor again. So children log the blocks they translate, and the parent, whenever it returns
 * from the kernel, translates those it lacks: the next child inherits them.
 *
 *     child 1 --- blocks ---> log (segment) --- parent translates ---> fork ---> child 2
 *
 * A block is logged with its family, the process that the others were forked
 * from: a child that execs something else founds a family of its own.
 */
#include "tool.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcproc.h"

#include "lock.h"

Bool hm_warming_up;
static uint32_t blocks_done; /* number of log entries this process has processed */
static uint64_t family;      /* address space of the founder; inherited by forks */

#define FAMILY_SHIFT 48
#define BLOCK_ADDRESS(entry) ((Addr)((entry) & ((1ull << FAMILY_SHIFT) - 1)))

static struct hm_translation_log *the_log(void) {
  return (struct hm_translation_log *)((char *)hm_sim.header + hm_sim.shared->translation_log);
}

void hm_found_family(void) {
  family = (uint64_t)hm_sim.space << FAMILY_SHIFT;
  blocks_done = atomic_load(&the_log()->length); /* older blocks belong to other families */
}

void hm_log_translation(Addr address) {
  struct hm_translation_log *log = the_log();
  uint64_t block = address | family;
  const uint32_t slots = 2 * HM_LOGGED_BLOCKS;
  uint32_t slot = (uint32_t)((block * 0x9e3779b97f4a7c15ull) >> 40) & (slots - 1);
  hm_lock_acquire(&log->lock, hm_sim.pid);
  while (log->seen[slot] != 0 && log->seen[slot] != block) slot = (slot + 1) & (slots - 1);
  uint32_t length = atomic_load_explicit(&log->length, memory_order_relaxed);
  if (log->seen[slot] == 0 && length < HM_LOGGED_BLOCKS) {
    log->seen[slot] = block;
    log->block[length] = block;
    atomic_store_explicit(&log->length, length + 1, memory_order_release);
  }
  hm_lock_release(&log->lock);
}

static Bool same_code_here(Addr block) {
  NSegment const *segment = VG_(am_find_nsegment)(block);
  return segment != NULL && segment->kind == SkFileC && segment->hasX;
}

void hm_warm_up(ThreadId tid) {
  struct hm_translation_log *log = the_log();
  uint32_t length = atomic_load_explicit(&log->length, memory_order_acquire);
  if (blocks_done == length) return;
  hm_warming_up = True;
  for (; blocks_done < length; blocks_done++) {
    uint64_t entry = log->block[blocks_done];
    if (entry - BLOCK_ADDRESS(entry) == family && same_code_here(BLOCK_ADDRESS(entry)))
      hm_translate_block(tid, BLOCK_ADDRESS(entry));
  }
  hm_warming_up = False;
}
