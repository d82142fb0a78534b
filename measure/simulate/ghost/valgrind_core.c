/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Replaces Valgrind's core: the functions that the tool's files call, for a process that is followed
 * rather than run. They have Valgrind's types (pub_tool_*.h) and the names that its macro VG_()
 * produces.
 */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_threadstate.h"

#include "ghost.h"
#include "guest.h"
#include "valgrind_core.h"

Bool hm_measuring = True, hm_is_forked, hm_warming_up;
void hm_log_translation(Addr address) { (void)address; }

/* A breakpoint inserted into the code by another tool ends the stretch. */
IRSB *hm_without_foreign_probe(IRSB *block, Addr start) {
  (void)block;
  (void)start;
  return NULL;
}

extern const char hm_disp_counted[]; /* dispatch.S: hm_guest_begin puts it into the guest's state */
Addr hm_landmark(void) { return (Addr)hm_disp_counted; }

/* --- Blocks ---------------------------------------------------------------------------- */

void *hm_closure_of(Addr address) {
  static VgCallbackClosure closure;
  closure.tid = 1;
  closure.nraddr = closure.readdr = address;
  return &closure;
}

IRSB *hm_instrument_block(void *closure, IRSB *block, const VexGuestLayout *layout,
                          const VexGuestExtents *extents, const VexArchInfo *host,
                          IRType guest_word, IRType host_word) {
  return hm_instrument(closure, block, layout, extents, host, guest_word, host_word);
}

/* --- Accesses on their way to the simulator ------------------------------------------------ */

static void look_at(uint64_t address, uint64_t site) {
  /* Check before the access is made: a store would go into this program's memory. */
  if (hm_is_own(address)) hm_guest_give_up(HM_GHOST_STRAYED);
  hm_touch(address, HM_SITE_KIND(site) == HM_STORE || HM_SITE_KIND(site) == HM_MODIFY);
}

static void data(uint64_t address, uint64_t site) {
  look_at(address, site);
  hm_data(address, site);
}

static void data_sampled(uint64_t address, uint64_t site) {
  look_at(address, site);
  hm_data_sampled(address, site);
}

static void data_every(uint64_t address, uint64_t site) {
  look_at(address, site);
  hm_data_every(address, site);
}

static void fetch_and_data(uint64_t address, uint64_t site) {
  look_at(address, site);
  hm_fetch_and_data(address, site);
}

void hm_ghost_data(uint64_t address, uint64_t site) {
  if (hm_sim.config.set_sampling > 1)
    data_sampled(address, site);
  else
    data(address, site);
}

/* The generated code calls its address. */
void *vgPlain_fnptr_to_fnentry(void *function) {
  if (function == (void *)hm_data) return (void *)data;
  if (function == (void *)hm_data_sampled) return (void *)data_sampled;
  if (function == (void *)hm_data_every) return (void *)data_every;
  if (function == (void *)hm_fetch_and_data) return (void *)fetch_and_data;
  return function;
}

/* --- Memory, mappings, threads ---------------------------------------------------------------- */

void *vgPlain_malloc(const HChar *what, SizeT size) {
  (void)what;
  void *memory = malloc(size);
  if (memory == NULL) abort();
  return memory;
}
void vgPlain_free(void *memory) { free(memory); }

NSegment const *vgPlain_am_find_nsegment(Addr address) {
  static NSegment segment;
  const struct hm_mapping *mapping = hm_find_mapping(address);
  if (mapping == NULL) return NULL;
  memset(&segment, 0, sizeof segment);
  segment.kind = mapping->inode != 0 ? SkFileC : SkAnonC;
  segment.start = mapping->start;
  segment.end = mapping->end - 1;
  segment.dev = mapping->device;
  segment.ino = mapping->inode;
  segment.offset = (Off64T)mapping->offset;
  segment.hasR = mapping->read;
  segment.hasW = mapping->write;
  segment.hasX = mapping->execute;
  return &segment;
}

const HChar *vgPlain_am_get_filename(NSegment const *segment) {
  const struct hm_mapping *mapping = hm_find_mapping(segment->start);
  return mapping != NULL && mapping->name[0] == '/' ? mapping->name : NULL;
}

/* Call chains are not recorded. */
UInt vgPlain_get_StackTrace(ThreadId tid, Addr *ips, UInt most, Addr *sps, Addr *fps, Word delta) {
  (void)tid;
  (void)ips;
  (void)most;
  (void)sps;
  (void)fps;
  (void)delta;
  return 0;
}

ThreadId vgPlain_get_running_tid(void) { return 1; }
Int vgPlain_gettid(void) { return hm_host_process(); }

void vgPlain_get_shadow_regs_area(ThreadId tid, UChar *into, Int shadow, PtrdiffT offset,
                                  SizeT size) {
  (void)tid;
  (void)shadow;
  memcpy(into, (const UChar *)hm_guest_state() + offset, size);
}

/* --- Strings ------------------------------------------------------------------------------------ */

void *vgPlain_memcpy(void *to, const void *from, SizeT size) { return memcpy(to, from, size); }
void *vgPlain_memset(void *at, Int value, SizeT size) { return memset(at, value, size); }
SizeT vgPlain_strlen(const HChar *text) { return strlen(text); }
HChar *vgPlain_strrchr(const HChar *text, HChar wanted) { return strrchr(text, wanted); }
HChar *vgPlain_strncpy(HChar *to, const HChar *from, SizeT size) {
  SizeT i = 0;
  for (; i < size && from[i] != 0; i++) to[i] = from[i];
  for (; i < size; i++) to[i] = 0;
  return to;
}
