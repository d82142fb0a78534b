/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Simulated page frames: what makes one shared-buffers line one line, whichever
 * process touches it, and keeps equal addresses of different processes apart.
 *
 * Every process has a page table (private memory, so that fork copies it for
 * free); frames and the map from shared pages to frames are common:
 *
 *   page of anonymous memory      -> a frame of its own
 *   page of a file, unwritten     -> the frame of (device, inode, page), one for all processes
 *   page of shared memory         -> the frame of (object, page), one for all processes
 *   after fork                    -> both sides keep the frame until one writes (copy on write)
 *
 * Frames are coloured: the low bits of a frame number are those of the virtual
 * page it is first used for (plus an offset per process, so that forked
 * processes, whose layout is identical, do not fight for the same sets).  A
 * single process is thus indexed as if by virtual addresses, which lets misses
 * be computed by hand; a real kernel's choice is arbitrary.
 */
#ifndef HM_PAGES_H
#define HM_PAGES_H

#include <stdint.h>

#include "segment.h"

/* 2^22 frames are 16 GiB of touched memory. */
#define HM_MAX_FRAMES (1u << 22)
#define HM_MAX_COLOURS 4096
#define HM_SHARED_PAGES (1u << 21) /* slots of the map; at most half are used */

/* A page-table entry: 0 before the first access. bits 0..23 frame, 24..30 generation of the
 * owner, 31 shared mapping */
typedef uint32_t hm_pte;
#define HM_PTE_FRAME(pte) ((pte)&0xffffffu)
#define HM_PTE_GENERATION(pte) ((pte) >> 24 & 0x7fu)
#define HM_PTE_SHARED 0x80000000u

struct hm_shared_page {
  uint64_t key;
  uint32_t frame;
  uint32_t reserved;
};

/* In the shared segment. */
struct hm_frames {
  _Atomic uint32_t lock;
  uint32_t colours;                   /* a power of two */
  uint32_t used[HM_MAX_COLOURS];      /* number of frames ever allocated, by colour */
  uint32_t free_head[HM_MAX_COLOURS]; /* freed frames, last in first out as in a kernel */
  uint32_t shared_used;
};

struct hm_line_state;

/* This process's view. */
struct hm_pages {
  struct hm_frames *frames;
  uint32_t *next_free;           /* HM_MAX_FRAMES, a list through freed frames */
  struct hm_shared_page *shared; /* HM_SHARED_PAGES, open addressing */
  _Atomic uint32_t *exhausted;
  uint32_t me; /* pid, for locks */
  uint32_t colour_salt;
  uint32_t generation;           /* 1 to 127; pages of an older one are copied when written */
  struct hm_line_state *watched; /* the directory, if it includes this process's private pages */
  hm_pte **table;                /* by virtual page: 2^17 chunks of 2^18 entries */
};

uint64_t hm_pages_shared_size(void);
/* Lays out the shared part in zeroed memory. */
void hm_pages_initialise(void *memory, uint32_t colours);
void hm_pages_attach(struct hm_pages *pages, void *memory, _Atomic uint32_t *exhausted,
                     uint32_t me);

/* The entry of a page for reading; created at the first access. */
hm_pte hm_pages_touch(struct hm_pages *pages, uint64_t virtual_page);
/* The entry after a write: copies a private page if it is shared, as a kernel does. */
hm_pte hm_pages_write(struct hm_pages *pages, uint64_t virtual_page);
/* After fork, on both sides: private pages are shared until written. */
void hm_pages_forked(struct hm_pages *pages, uint32_t me, uint32_t colour_salt);
/* The range was unmapped or replaced. */
void hm_pages_unmap(struct hm_pages *pages, uint64_t first_page, uint64_t count);
/* mremap: moves the pages to another address. */
void hm_pages_move(struct hm_pages *pages, uint64_t from_page, uint64_t to_page, uint64_t count);

static inline int hm_pte_writable(const struct hm_pages *pages, hm_pte pte) {
  return (pte & HM_PTE_SHARED) != 0 || HM_PTE_GENERATION(pte) == pages->generation;
}

#endif
