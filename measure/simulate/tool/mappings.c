/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Which page is whose: private memory, a file's page, or memory shared between
 * processes.  Valgrind's address-space manager does not remember MAP_SHARED, so
 * shared mappings are recorded as their system calls return; fork copies the records,
 * and with them the object's number, to the child.
 */
#include "tool.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_vkiscnums.h"

#include "host.h"

struct shared_region {
  Addr start, end;
  uint64_t object;
  uint64_t offset; /* offset of `start` within the object, in bytes */
};

#define MAX_REGIONS 512
static struct shared_region regions[MAX_REGIONS];
static UInt region_count;

static uint64_t mix(uint64_t value) {
  value *= 0x9e3779b97f4a7c15ull;
  return value ^ value >> 32;
}

static uint64_t file_object(NSegment const *segment) {
  return mix(mix(segment->dev) + segment->ino) | 1ull << 63;
}

/* Removes [start, end) from all regions; a region may split in two. */
static void forget_regions(Addr start, Addr end) {
  for (UInt i = 0; i < region_count; i++) {
    struct shared_region *region = &regions[i];
    if (region->end <= start || end <= region->start) continue;
    if (region->start < start && end < region->end && region_count < MAX_REGIONS) {
      struct shared_region tail = {end, region->end, region->object,
                                   region->offset + (end - region->start)};
      regions[region_count++] = tail;
      region->end = start;
    } else if (region->start < start) {
      region->end = start;
    } else if (end < region->end) {
      region->offset += end - region->start;
      region->start = end;
    } else {
      regions[i--] = regions[--region_count];
    }
  }
}

static void note_region(Addr start, SizeT length, uint64_t object, uint64_t offset) {
  Addr end = start + ((length + VKI_PAGE_SIZE - 1) & ~(SizeT)(VKI_PAGE_SIZE - 1));
  forget_regions(start, end);
  if (region_count == MAX_REGIONS) return; /* treated as private from here on */
  struct shared_region region = {start, end, object, offset};
  regions[region_count++] = region;
}

static uint64_t new_object(void) { return atomic_fetch_add(&hm_sim.header->next_object, 1) + 1; }

struct hm_page_identity hm_host_identify_page(uint64_t virtual_page) {
  Addr address = virtual_page << HM_PAGE_BITS;
  struct hm_page_identity identity = {HM_PAGE_PRIVATE, 0};
  for (UInt i = 0; i < region_count; i++) {
    if (address < regions[i].start || regions[i].end <= address) continue;
    uint64_t page = (regions[i].offset + (address - regions[i].start)) >> HM_PAGE_BITS;
    identity.kind = HM_PAGE_SHARED;
    identity.key = mix(regions[i].object) + page * 2;
    return identity;
  }
  NSegment const *segment = VG_(am_find_nsegment)(address);
  if (segment != NULL && segment->kind == SkFileC) {
    uint64_t page = ((uint64_t)segment->offset + (address - segment->start)) >> HM_PAGE_BITS;
    identity.kind = HM_PAGE_FILE_PRIVATE;
    identity.key = mix(file_object(segment)) + page * 2;
  }
  return identity;
}

void hm_after_syscall(UInt number, const UWord *arguments, SysRes result) {
  if (sr_isError(result)) return;
  Addr start = sr_Res(result);
  if (number == __NR_mmap) {
    UWord flags = arguments[3];
    if ((flags & VKI_MAP_SHARED) == 0) return;
    if ((flags & VKI_MAP_ANONYMOUS) != 0) {
      note_region(start, arguments[1], new_object(), 0);
      hm_record_shared_memory(start, arguments[1]);
    } else {
      NSegment const *segment = VG_(am_find_nsegment)(start);
      if (segment != NULL && segment->kind == SkFileC)
        note_region(start, arguments[1], file_object(segment), arguments[5]);
    }
  } else if (number == __NR_shmat) {
    NSegment const *segment = VG_(am_find_nsegment)(start);
    if (segment != NULL) note_region(start, segment->end + 1 - start, 1ull << 62 | arguments[0], 0);
  }
}

/* --- Valgrind's own notices of memory coming and going -------------------------- */

static void mapped(Addr address, SizeT length, Bool r, Bool w, Bool x, ULong debug_handle) {
  (void)r;
  (void)w;
  (void)x;
  (void)debug_handle;
  forget_regions(address, address + length);
  hm_unmapped(address, length); /* replaces earlier mappings with MAP_FIXED */
  hm_record_mapping(address, length);
}

static void protection_changed(Addr address, SizeT length, Bool r, Bool w, Bool x) {
  (void)r;
  (void)w;
  if (x) hm_record_mapping(address, length);
}

static void unmapped(Addr address, SizeT length) {
  forget_regions(address, address + length);
  hm_unmapped(address, length);
}

/* mremap: the records move with the memory. */
static void moved(Addr from, Addr to, SizeT length) {
  for (UInt i = 0; i < region_count && from != to; i++) {
    struct shared_region region = regions[i];
    if (from < region.start || region.end <= from) continue;
    forget_regions(from, from + length);
    note_region(to, length, region.object, region.offset + (from - region.start));
    break;
  }
  hm_moved(from, to, length);
}

void hm_track_mappings(void) {
  VG_(track_new_mem_startup)(mapped);
  VG_(track_new_mem_mmap)(mapped);
  VG_(track_change_mem_mprotect)(protection_changed);
  VG_(track_die_mem_munmap)(unmapped);
  VG_(track_die_mem_brk)(unmapped);
  VG_(track_copy_mem_remap)(moved);
}
