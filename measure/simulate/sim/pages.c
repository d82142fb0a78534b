/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Page tables and frames. pages.h has the picture.
 *
 *   entry   none ── hm_pages_touch ──> own frame ── hm_pages_forked ──> of an older generation
 *             ^                           ^              │ hm_pages_write: a copy
 *             │ hm_pages_unmap            └──────────────┘
 *
 * Invariants:
 *  1. Frames, their free lists and the map of shared pages are changed with frames->lock.
 *  2. An entry of the present generation, or of shared memory, may be written in place.
 */
#include "pages.h"

#include "directory.h"
#include "host.h"
#include "lock.h"

#define CHUNK_BITS 18
#define CHUNK_ENTRIES (1u << CHUNK_BITS)
#define CHUNKS (1u << (47 - HM_PAGE_BITS - CHUNK_BITS))
#define GENERATIONS 127

static uint64_t align64(uint64_t size) { return (size + 63) & ~63ull; }

uint64_t hm_pages_shared_size(void) {
  return align64(sizeof(struct hm_frames)) + align64((uint64_t)HM_MAX_FRAMES * sizeof(uint32_t)) +
         (uint64_t)HM_SHARED_PAGES * sizeof(struct hm_shared_page);
}

void hm_pages_initialise(void *memory, uint32_t colours) {
  struct hm_frames *frames = memory;
  frames->colours = colours == 0 ? 1 : colours > HM_MAX_COLOURS ? HM_MAX_COLOURS : colours;
}

void hm_pages_attach(struct hm_pages *pages, void *memory, _Atomic uint32_t *exhausted,
                     uint32_t me) {
  pages->frames = memory;
  pages->next_free = (uint32_t *)((char *)memory + align64(sizeof(struct hm_frames)));
  pages->shared = (struct hm_shared_page *)((char *)pages->next_free +
                                            align64((uint64_t)HM_MAX_FRAMES * sizeof(uint32_t)));
  pages->exhausted = exhausted;
  pages->me = me;
  pages->generation = 1;
  pages->table = hm_host_allocate(CHUNKS * sizeof(hm_pte *));
}

/* The slot of a page in the table; NULL outside of user space. */
static hm_pte *slot_of(struct hm_pages *pages, uint64_t virtual_page, int create) {
  uint64_t chunk = virtual_page >> CHUNK_BITS;
  if (chunk >= CHUNKS) return NULL;
  if (pages->table[chunk] == NULL) {
    if (!create) return NULL;
    pages->table[chunk] = hm_host_allocate(CHUNK_ENTRIES * sizeof(hm_pte));
  }
  return &pages->table[chunk][virtual_page & (CHUNK_ENTRIES - 1)];
}

/* Call with the lock held. */
static uint32_t new_frame(struct hm_pages *pages, uint64_t virtual_page) {
  struct hm_frames *frames = pages->frames;
  uint32_t colour = (uint32_t)(virtual_page + pages->colour_salt) & (frames->colours - 1);
  uint32_t frame = frames->free_head[colour];
  if (frame != 0) {
    frames->free_head[colour] = pages->next_free[frame];
    return frame;
  }
  /* Without this, frames of the first round would start at number 0, which means "empty". */
  frame = ++frames->used[colour] * frames->colours + colour;
  if (frame < HM_MAX_FRAMES) return frame;
  /* Simulated memory is exhausted: reuse frames from the start, and record it. */
  frames->used[colour] = 1;
  atomic_store_explicit(pages->exhausted, 1, memory_order_relaxed);
  return frames->colours + colour;
}

static uint64_t scramble(uint64_t key) {
  key ^= key >> 31;
  key *= 0x9e3779b97f4a7c15ull;
  return key ^ key >> 29;
}

/* Call with the lock held. */
static uint32_t shared_frame(struct hm_pages *pages, uint64_t key, uint64_t virtual_page) {
  if (key == 0) key = 1; /* 0 marks a free slot */
  uint64_t slot = scramble(key) & (HM_SHARED_PAGES - 1);
  while (pages->shared[slot].key != 0) {
    if (pages->shared[slot].key == key) return pages->shared[slot].frame;
    slot = (slot + 1) & (HM_SHARED_PAGES - 1);
  }
  uint32_t frame = new_frame(pages, virtual_page);
  if (pages->frames->shared_used >= HM_SHARED_PAGES / 2) {
    atomic_store_explicit(pages->exhausted, 1, memory_order_relaxed);
    return frame; /* not stored: later sharing goes unnoticed */
  }
  pages->frames->shared_used++;
  pages->shared[slot].frame = frame;
  pages->shared[slot].key = key;
  return frame;
}

hm_pte hm_pages_touch(struct hm_pages *pages, uint64_t virtual_page) {
  hm_pte *slot = slot_of(pages, virtual_page, 1);
  if (slot == NULL) return HM_PTE_SHARED | 1; /* the vsyscall page and similar ones */
  if (*slot != 0) return *slot;
  struct hm_page_identity page = hm_host_identify_page(virtual_page);
  hm_lock_acquire(&pages->frames->lock, pages->me);
  uint32_t frame = page.kind == HM_PAGE_PRIVATE ? new_frame(pages, virtual_page)
                                                : shared_frame(pages, page.key, virtual_page);
  hm_lock_release(&pages->frames->lock);
  if (pages->watched != NULL && page.kind == HM_PAGE_PRIVATE) hm_begin_lines(pages->watched, frame);
  switch (page.kind) {
    case HM_PAGE_PRIVATE: *slot = frame | pages->generation << 24; break;
    case HM_PAGE_FILE_PRIVATE: *slot = frame; break; /* generation 0: not private */
    case HM_PAGE_SHARED: *slot = frame | HM_PTE_SHARED; break;
  }
  return *slot;
}

hm_pte hm_pages_write(struct hm_pages *pages, uint64_t virtual_page) {
  hm_pte pte = hm_pages_touch(pages, virtual_page);
  if (hm_pte_writable(pages, pte)) return pte;
  hm_lock_acquire(&pages->frames->lock, pages->me);
  uint32_t frame = new_frame(pages, virtual_page);
  hm_lock_release(&pages->frames->lock);
  if (pages->watched != NULL) hm_begin_lines(pages->watched, frame);
  hm_pte *slot = slot_of(pages, virtual_page, 1);
  *slot = frame | pages->generation << 24;
  return *slot;
}

void hm_pages_forked(struct hm_pages *pages, uint32_t me, uint32_t colour_salt) {
  pages->me = me;
  pages->colour_salt = colour_salt;
  /* Wraps after 127 forks of one process; a page unwritten for that long may then count as the
   * process's own, which omits one simulated copy. */
  pages->generation = pages->generation % GENERATIONS + 1;
}

void hm_pages_unmap(struct hm_pages *pages, uint64_t first_page, uint64_t count) {
  hm_lock_acquire(&pages->frames->lock, pages->me);
  for (uint64_t page = first_page; page < first_page + count; page++) {
    hm_pte *slot = slot_of(pages, page, 0);
    if (slot == NULL) { /* skip the rest of an unused chunk */
      page |= CHUNK_ENTRIES - 1;
      continue;
    }
    hm_pte pte = *slot;
    *slot = 0;
    if (pte == 0 || (pte & HM_PTE_SHARED) != 0 || HM_PTE_GENERATION(pte) != pages->generation)
      continue; /* other processes may still use the frame */
    uint32_t frame = HM_PTE_FRAME(pte);
    if (pages->watched != NULL) hm_forget_lines(pages->watched, frame);
    uint32_t colour = frame & (pages->frames->colours - 1);
    pages->next_free[frame] = pages->frames->free_head[colour];
    pages->frames->free_head[colour] = frame;
  }
  hm_lock_release(&pages->frames->lock);
}

void hm_pages_move(struct hm_pages *pages, uint64_t from_page, uint64_t to_page, uint64_t count) {
  if (from_page == to_page) return; /* grown in place */
  for (uint64_t i = 0; i < count; i++) {
    hm_pte *from = slot_of(pages, from_page + i, 0);
    if (from == NULL || *from == 0) continue;
    hm_pte *to = slot_of(pages, to_page + i, 1);
    if (to == NULL) continue;
    *to = *from;
    *from = 0;
  }
}
