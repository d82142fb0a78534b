/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The interfaces between the emulator's files. The emulator is one process with one thread. It holds
 * copies of the followed process's pages at the same addresses as in that process.
 */
#ifndef HM_GHOST_H
#define HM_GHOST_H

#include <stddef.h>
#include <stdint.h>

#include "channel.h"

/* --- layout.c: where in the address space this program is ----------------------------- */

/* Makes sure that the program's own memory lies where no ordinary process has any. Restarts the
 * program if necessary. Returns NULL, or the reason why this is impossible. */
const char *hm_arrange_layout(char **arguments);
/* True if the address belongs to this program's own memory. */
int hm_is_own(uint64_t address);
/* True if a range of the followed process would overlap this program's memory. */
int hm_overlaps_own(uint64_t start, uint64_t end);

/* Processes that are followed at the same time have a lane each (lane.h). */
#define HM_LANES 4u

/* --- target.c: the followed process from outside ---------------------------------------- */

struct hm_mapping {
  uint64_t start, end, offset, device, inode;
  uint8_t read, write, execute, shared;
  char name[200];
};

/* The functions below are of the process on this lane. */
void hm_use_mappings(uint32_t lane);
/* Reads the process's mappings. Returns NULL, or the reason why it cannot be followed. */
const char *hm_read_mappings(int process);
/* One of the reasons: the stacks of both, which lie at random, overlap. */
extern const char hm_overlap[];
const struct hm_mapping *hm_find_mapping(uint64_t address);
const struct hm_mapping *hm_all_mappings(uint32_t *count);
/* Equal for processes whose code lies at the same places. */
uint64_t hm_code_layout(void);
/* True if nothing changes there: code and constants of a file. */
int hm_is_constant(const struct hm_mapping *mapping);
/* Equal for processes that have the same such mappings. */
uint64_t hm_constants(void);
/* Copies memory of the process. Returns 1 if all of it was copied. */
int hm_read_process(int process, uint64_t address, void *into, size_t length);

/* --- memory.c: the copied pages ------------------------------------------------------------ */

void hm_memory_begin(void); /* once */
/* The next stretch is of this process. Drops all pages if it has mapped other files than the last. */
void hm_follow_memory_of(int process);
/* Begins a stretch: drops pages that may have changed, except those copied with the snapshot. */
void hm_begin_memory(const struct hm_snapshot *snapshot, uint32_t lane);
/* Makes the page available; returns 0 if the process does not have it. */
int hm_need_page(uint64_t address);
/* Whether it is available already; whether nothing changes there. */
int hm_page_is_present(uint64_t address);
int hm_page_is_constant(uint64_t address);
/* For the scout: pages are mapped so that the processor can execute them. */
void hm_pages_are_executable(void);
/* For the scout, before any stop: constant pages; between stops: drops pages that were not copied. */
void hm_fetch_code(void);
void hm_drop_late(void);
/* The same for a range of addresses. */
int hm_need_range(uint64_t address, uint64_t length);
/* Records that the stretch accesses this address; `stored`: it writes there. */
void hm_touch(uint64_t address, int stored);
/* Publishes the pages touched recently. */
void hm_publish_hot(struct hm_channel *channel);
/* Pages of this stretch that were fetched after it began: the process may have changed them. */
struct hm_late {
  uint32_t all, stored_shared, stored_private; /* the stretch itself writes to the last two */
  uint32_t stored_added; /* added by the scout, and the stretch writes there: not late for that */
};
struct hm_late hm_pages_late(void);
uint64_t hm_pages_fetched(void); /* after their stretch began */

/* --- history.c: which pages come back ------------------------------------------------------- */

/* A stretch of this lane begins. */
void hm_history_begin(uint32_t lane);
/* Records that a writable page is touched in this stretch. */
void hm_history_touch(uint64_t page, int shared, int stored);
/* Predicts from their history the pages that will soon be touched. */
/* `scouted`: an enum hm_scouted; where a scout adds what is missing, few are enough. */
void hm_history_hot(struct hm_hot_list *into, uint32_t scouted);
uint32_t hm_pages_hot(void); /* in the latest list */

/* --- engine.c: running code from the copy -------------------------------------------------- */

/* How the ghost's stretch ended. */
enum hm_ghost_end {
  HM_GHOST_AT_CALL,
  HM_GHOST_LIMIT,       /* the limit of instructions */
  HM_GHOST_SLOW,        /* the limit of time */
  HM_GHOST_UNSUPPORTED, /* an instruction that the emulator cannot run */
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
/* The next stretches are of processes whose code lies like this (hm_code_layout). */
void hm_engine_use_layout(uint64_t layout);
uint64_t hm_engine_translations(void);

/* --- native.c: instructions that VEX does not know, run by the processor ------------------- */

void hm_native_load(const void *xstate, uint32_t size);
/* Runs the one instruction at `address` on the guest's registers; returns 0 if it cannot. */
int hm_native_run(uint64_t address);
void hm_native_forget(void);
uint64_t hm_native_count(void);

/* --- host.c: what the simulator and the shared tool files ask for --------------------------- */

/* Sets the process whose stretch is being run, and the time at which the stretch began. */
void hm_host_stretch(int process, uint64_t began);
int hm_host_process(void);
/* The stretch begins at this simulated time. */
void hm_host_clock_begins(uint64_t cycles);
/* Records are kept back until the verdict on their stretch, then kept further or forgotten. */
void hm_pending_begin(uint32_t lane);
void hm_pending_keep(void);
void hm_pending_drop(void);
/* Writes those of the lane's window; each sample stands for `weight` times more events. */
void hm_pending_commit(uint32_t lane, double weight);
/* Names and mappings of a process, as records. */
void hm_announce_process(int process);

/* --- follow.c -------------------------------------------------------------------------------- */

struct hm_options {
  const char *segment; /* NULL: private segment, only counted */
  const char *report;  /* NULL: none */
  int processes[256];
  uint32_t process_count;
  int descendants; /* children are followed, too */
  double seconds;
  uint64_t enough;       /* stretches that were the same; 0: no limit */
  uint32_t stretches;    /* of a window */
  uint32_t lanes;        /* processes followed at once, at most */
  double share;          /* of a process's time that stops may take, percent */
  uint64_t instructions; /* limit of a stretch */
  int verbose, quiet;
};

/* `channel`: one for each of options->lanes. */
int hm_follow(const struct hm_options *options, struct hm_channel *channel);

/* --- segment.c ----------------------------------------------------------------------------- */

struct hm_header;
struct hm_header *hm_open_segment(const char *path, const char **problem);
struct hm_header *hm_own_segment(const char **problem);

#endif
