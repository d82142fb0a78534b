/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the simulator asks of the program it is linked into.  The simulator
 * itself includes no Valgrind header and no libc: the same files can be driven
 * by a Valgrind tool, by a plain test program, or by another engine.
 */
#ifndef HM_HOST_H
#define HM_HOST_H

#include <stddef.h>
#include <stdint.h>

/* How a page is identified. */
enum hm_page_kind {
  HM_PAGE_PRIVATE,      /* anonymous memory of this process */
  HM_PAGE_FILE_PRIVATE, /* a file's page until it is written, then private */
  HM_PAGE_SHARED        /* the same page in every process that maps it */
};

struct hm_page_identity {
  enum hm_page_kind kind;
  uint64_t key; /* equal for equal pages; unused for HM_PAGE_PRIVATE */
};

/* Identifies the virtual page of the simulated program. */
struct hm_page_identity hm_host_identify_page(uint64_t virtual_page);

/* Copies a line of the program's memory at `address`, a multiple of 64, which the program has
 * read before. */
void hm_host_read_line(uint64_t address, void *line);

/* Zeroed private memory; never returns NULL. */
void *hm_host_allocate(size_t size);

/* Yields to another process; used while waiting for a lock. */
void hm_host_yield(void);

/* Whether process `pid` still exists: the owner of a lock may have been killed. */
int hm_host_process_exists(uint32_t pid);

/* The running thread hands over to another one as soon as it can: one is further behind in simulated
 * time (turns.h). */
void hm_host_end_turn(void);

/* Sleeps until *word differs from `expected`, or some milliseconds have passed. */
void hm_host_wait(_Atomic uint32_t *word, uint32_t expected);
void hm_host_wake(_Atomic uint32_t *word);

#endif
