/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The files of the Valgrind tool and what they offer each other.
 */
#ifndef HM_TOOL_H
#define HM_TOOL_H

#include <stdint.h>

#include "pub_tool_basics.h"
#include "pub_tool_vki.h"
#include "pub_tool_tooliface.h"

#include "simulator.h"

/* core_interface.c: functions of Valgrind's core beyond its tool headers, and the simulator's
 * hm_host_* functions. */
struct hm_header *hm_map_segment(const HChar *path);
void hm_translate_block(ThreadId tid, Addr block);
void hm_discard_translations(void);
void hm_unroll_no_loops(void);        /* from now on: a turn ends between blocks */
Addr hm_landmark(void);               /* an address in this tool that is also in a thread's state */
void hm_check_landmark(ThreadId tid); /* when it is about to run */
uint64_t hm_wall_nanoseconds(void);
/* The time of a record that is written at this simulated time. */
uint64_t hm_record_nanoseconds(uint64_t cycles);
/* The cause of the access's miss, as far as it is known. */
uint8_t hm_cause_to_record(const struct hm_access *access, enum hm_event event);
void hm_refuse_io_uring(void);
void hm_collapse(Addr start, SizeT length); /* into huge pages, if the kernel supports it */
Bool hm_memory_is_plenty(UInt part);        /* one part in `part` is available */

/* instrument.c */
IRSB *hm_instrument(VgCallbackClosure *closure, IRSB *block, const VexGuestLayout *layout,
                    const VexGuestExtents *extents, const VexArchInfo *host_arch, IRType guest_word,
                    IRType host_word);

/* foreign_probe.c: a replacement for a block that ends at another program's breakpoint, or NULL. */
IRSB *hm_without_foreign_probe(IRSB *block, Addr start);

/* records.c: writes perf_event records into the ring. */
void hm_record_exec(const HChar *name);
void hm_record_fork(uint32_t parent_pid, uint32_t parent_tid, uint32_t pid, uint32_t tid);
void hm_record_exit(void);
void hm_record_mapping(Addr address, SizeT length);
void hm_record_shared_memory(Addr address, SizeT length);
void hm_set_thread(ThreadId tid);

/* heap.c: only in the variant that replaces malloc; NULL elsewhere. */
struct hm_block {
  Addr start;
  SizeT size; /* as asked for */
  Addr site;  /* return address of the call; 0: unknown */
};
void hm_replace_malloc(void) __attribute__((weak));
Bool hm_find_block(Addr address, struct hm_block *found) __attribute__((weak));

/* mappings.c: identifies pages. */
void hm_track_mappings(void);
void hm_after_syscall(UInt number, const UWord *arguments, SysRes result);

/* translations.c: shares translations between forked processes. */
void hm_found_family(void);
void hm_log_translation(Addr address);
void hm_warm_up(ThreadId tid);
extern Bool hm_warming_up;
extern Bool hm_is_forked; /* this process was created by fork, not by exec */

/* turns.c: which thread runs next; in the place of Valgrind's lock. */
void hm_turns_of_thread(UInt cpu); /* the running one has this core */
void hm_turns_thread_began(void);
void hm_turns_thread_ended(void);
void hm_turns_waits(void); /* the running one enters the kernel */
void hm_start_turn(ThreadId tid);
void hm_end_turn(ThreadId tid);
ULong hm_blocks_run(ULong counted); /* Valgrind counts blocks of turns that ended early, too */

/* code_pages.c: huge pages for translated code. */
void hm_code_pages_forked(void);
void hm_collapse_code(ULong blocks_done);

extern Bool hm_measuring; /* as it was for the code now being translated */

#endif
