/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Writing into the segment's ring.
 *
 * Invariant: head and tail count bytes since the beginning; a record is whole before `head` is
 * moved past it, and writers take turns by `ring_lock`.
 */
#include "ring.h"

#include "host.h"
#include "lock.h"

static void copy(char *to, const char *from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i++) to[i] = from[i];
}

void hm_append_to_ring(struct hm_header *header, uint32_t pid, const uint64_t *words,
                       uint64_t bytes) {
  char *ring = (char *)header + HM_RING_OFFSET;
  uint64_t size = header->ring_size;
  hm_lock_acquire(&header->ring_lock, pid);
  uint64_t head = atomic_load_explicit(&header->ring_head, memory_order_relaxed);
  for (uint32_t tries = 1;
       head + bytes - atomic_load_explicit(&header->ring_tail, memory_order_acquire) > size;
       tries++) {
    uint32_t recorder = atomic_load(&header->recorder_pid);
    if (recorder == 0 || (tries % 4096 == 0 && !hm_host_process_exists(recorder))) {
      hm_lock_release(&header->ring_lock); /* it will not be read any more */
      return;
    }
    hm_host_yield();
  }
  uint64_t at = head & (size - 1), first = bytes < size - at ? bytes : size - at;
  copy(ring + at, (const char *)words, first);
  copy(ring, (const char *)words + first, bytes - first);
  atomic_store_explicit(&header->ring_head, head + bytes, memory_order_release);
  hm_lock_release(&header->ring_lock);
}
