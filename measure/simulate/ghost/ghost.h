/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The emulator's files and what they offer each other.  It is one process with one thread, which
 * holds copies of the followed process's pages at the addresses they have there.
 */
#ifndef HM_GHOST_H
#define HM_GHOST_H

#include <stddef.h>
#include <stdint.h>

#include "channel.h"

/* --- layout.c: where in the address space this program is ----------------------------- */

/* Sees to it that the program's own memory lies where no ordinary process has any; runs the
 * program anew if it must.  NULL, or why it cannot be. */
const char *hm_arrange_layout(char **arguments);
/* Whether the address is of this program's own memory. */
int hm_is_own(uint64_t address);
/* Whether a range of the followed process's would lie on this program's memory. */
int hm_overlaps_own(uint64_t start, uint64_t end);

/* --- target.c: the followed process from outside ---------------------------------------- */

struct hm_mapping {
  uint64_t start, end, offset, device, inode;
  uint8_t read, write, execute, shared;
  char name[200];
};

/* Reads the process's mappings.  NULL, or why it cannot be followed. */
const char *hm_read_mappings(int process);
const struct hm_mapping *hm_find_mapping(uint64_t address);
const struct hm_mapping *hm_all_mappings(uint32_t *count);
/* Equal for processes whose code lies at the same places. */
uint64_t hm_code_layout(void);
/* Copies memory of the process; 1 if all of it. */
int hm_read_process(int process, uint64_t address, void *into, size_t length);

/* --- memory.c: the copied pages ------------------------------------------------------------ */

void hm_memory_begin(void); /* once */
/* Another process: nothing of the one before is kept. */
void hm_follow_memory_of(int process);
/* The same process, but other files are mapped. */
void hm_forget_memory(void);
/* A new stretch: what may have changed is forgotten, but for the pages copied with it. */
void hm_begin_memory(const struct hm_snapshot *snapshot);
/* Sees to it that the page is there; 0 if the process has none. */
int hm_need_page(uint64_t address);
/* The same for a range. */
int hm_need_range(uint64_t address, uint64_t length);
/* The stretch touches this address, and stores there. */
void hm_touch(uint64_t address, int stored);
/* Publishes what was touched lately. */
void hm_publish_hot(struct hm_channel *channel);
uint64_t hm_pages_fetched(void); /* after their stretch began */

/* --- history.c: which pages come back ------------------------------------------------------- */

/* A writable page is touched in this stretch. */
void hm_history_touch(uint64_t page, uint32_t stretch, int shared, int stored);
/* The pages that will soon be touched, by what they did. */
void hm_history_hot(struct hm_hot_list *into, uint32_t stretch);
uint32_t hm_pages_hot(void); /* of the list made last */

/* --- engine.c: running code from the copy -------------------------------------------------- */

/* How the ghost's stretch ended. */
enum hm_ghost_end {
  HM_GHOST_AT_CALL,
  HM_GHOST_LIMIT,       /* of instructions */
  HM_GHOST_SLOW,        /* of time */
  HM_GHOST_UNSUPPORTED, /* an instruction that cannot be run here */
  HM_GHOST_UNMAPPED,    /* an address that the process has not mapped */
  HM_GHOST_STRAYED,     /* an address of this program's own memory */
  HM_GHOST_TRAPPED,     /* a trap, an illegal instruction, a division by zero */
  HM_GHOST_ENDS
};

struct hm_limits {
  uint64_t instructions, nanoseconds;
};

void hm_engine_begin(void); /* once */
enum hm_ghost_end hm_engine_run(const struct hm_limits *limits);
/* Where it ended. */
uint64_t hm_engine_place(void);
void hm_engine_forget_code(void);
uint64_t hm_engine_translations(void);

/* --- native.c: instructions that VEX does not know, run by the processor ------------------- */

void hm_native_load(const void *xstate, uint32_t size);
/* Runs the one instruction at `address` on the guest's registers; 0 if it cannot. */
int hm_native_run(uint64_t address);
void hm_native_forget(void);
uint64_t hm_native_count(void);

/* --- host.c: what the simulator and the shared tool files ask for --------------------------- */

/* The process whose stretch is being run, and when that began. */
void hm_host_stretch(int process, uint64_t began);
int hm_host_process(void);
/* The stretch begins at this simulated time. */
void hm_host_clock_begins(uint64_t cycles);
/* Records are kept back until the verdict on their stretch, then kept further or forgotten. */
void hm_pending_begin(void);
void hm_pending_keep(void);
void hm_pending_drop(void);
/* Writes those of a window; each sample stands for so many times more events. */
void hm_pending_commit(double weight);
/* Names and mappings of a process, as records. */
void hm_announce_process(int process);

/* --- follow.c -------------------------------------------------------------------------------- */

struct hm_options {
  const char *segment; /* NULL: a machine of its own, counted only */
  const char *report;  /* NULL: none */
  int processes[256];
  uint32_t process_count;
  int descendants; /* children are followed, too */
  double seconds;
  uint64_t enough;       /* stretches that were the same; 0: no limit */
  uint32_t stretches;    /* of a window */
  double share;          /* of a process's time that stops may take, percent */
  uint64_t instructions; /* limit of a stretch */
  int verbose, quiet;
};

int hm_follow(const struct hm_options *options, struct hm_channel *channel);

/* --- segment.c ----------------------------------------------------------------------------- */

struct hm_header;
struct hm_header *hm_open_segment(const char *path, const char **problem);
struct hm_header *hm_own_segment(const char **problem);

#endif
