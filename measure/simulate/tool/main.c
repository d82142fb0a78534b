/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * softpmu: a performance monitoring unit in software.
 *
 * A Valgrind tool that runs unmodified programs on a simulated memory hierarchy
 * and writes, for every n-th event, a record like a PEBS record.
 * This file is the tool's life: options, start, fork, scheduling, end.
 */
#include "tool.h"

#include "pub_tool_clientstate.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"

#include "timing.h"

static const HChar *segment_path;
Bool hm_measuring;
Bool hm_is_forked;

/* --- Options ---------------------------------------------------------------- */

static Bool process_option(const HChar *option) {
  return VG_STR_CLO(option, "--segment", segment_path);
}

static void print_usage(void) {
  VG_(printf)("    --segment=PATH   the segment made by `hardmeter record` (required)\n");
}

static void print_debug_usage(void) { VG_(printf)("    (none)\n"); }

/* --- Each thread has a core --------------------------------------------------- */

/* A kernel distributes threads over cores as it does processes. Valgrind runs one thread at a
 * time: the process moves between cores with its threads. */
#define MOST_THREADS 512
static uint32_t core_of_thread[MOST_THREADS];

static void place_thread(ThreadId tid, uint32_t cpu) {
  if (tid < MOST_THREADS) core_of_thread[tid] = cpu;
}

/* --- The core is held exactly while client code runs ------------------------- */

static void start_client_code(ThreadId tid, ULong blocks_done) {
  (void)blocks_done;
  hm_check_landmark(tid);
  hm_set_thread(tid);
  hm_run_on(tid < MOST_THREADS ? core_of_thread[tid] : hm_sim.first_cpu);
  if (!hm_sim.on_core) hm_enter_core();
  hm_start_turn(tid);
}

/* Discards translated code if it does not match the present setting of measuring. */
static void follow_the_switch(void) {
  Bool wanted = atomic_load_explicit(&hm_sim.header->measuring, memory_order_relaxed) != 0;
  if (wanted == hm_measuring) return;
  hm_measuring = wanted;
  hm_discard_translations();
}

static void stop_client_code(ThreadId tid, ULong blocks_done) {
  hm_timing_pause();
  hm_end_turn(tid);
  /* Stopping to translate a block is no reason to give the core away. */
  if (hm_slice_is_over()) hm_leave_core();
  follow_the_switch();
  hm_collapse_code(hm_blocks_run(blocks_done));
}

/* --- Fork, threads, system calls ---------------------------------------------- */

static uint32_t forking_pid, forking_tid;

static void before_fork(ThreadId tid) {
  (void)tid;
  forking_pid = (uint32_t)VG_(getpid)();
  forking_tid = (uint32_t)VG_(gettid)();
}

static void parent_after_fork(ThreadId tid) {
  (void)tid;
  hm_parent_forked();
}

static void child_after_fork(ThreadId tid) {
  uint32_t pid = (uint32_t)VG_(getpid)();
  hm_is_forked = True;
  hm_code_pages_forked();
  hm_child_forked(pid);
  place_thread(tid, hm_sim.first_cpu);
  hm_turns_of_thread(hm_sim.first_cpu);
  hm_set_thread(tid);
  hm_record_fork(forking_pid, forking_tid, pid, pid);
}

static void thread_begins(ThreadId tid) {
  uint32_t pid = (uint32_t)VG_(getpid)(), thread = (uint32_t)VG_(gettid)();
  UInt cpu = pid == thread ? hm_sim.first_cpu : hm_place_thread();
  place_thread(tid, cpu);
  hm_turns_of_thread(cpu);
  if (pid == thread) return;
  hm_turns_thread_began();
  hm_sim.waited = 1; /* it begins when it was made */
  hm_set_thread(tid);
  hm_record_fork(pid, pid, pid, thread);
}

static void thread_ends(ThreadId tid) {
  (void)tid;
  hm_turns_thread_ended();
}

/* It may block: let other processes run. */
static void before_syscall(ThreadId tid, UInt number, UWord *arguments, UInt count) {
  (void)tid;
  (void)number;
  (void)arguments;
  (void)count;
  hm_leave_core();
  hm_turns_waits();
}

static void after_syscall(ThreadId tid, UInt number, UWord *arguments, UInt count, SysRes result) {
  (void)count;
  hm_sim.waited = 1;
  hm_after_syscall(number, arguments, result);
  if (!hm_is_forked) hm_warm_up(tid);
}

/* --- Start and end --------------------------------------------------------------- */

static void fail(const HChar *why) {
  VG_(fmsg)("softpmu: cannot use the segment %s: %s\n", segment_path, why);
  VG_(fmsg)("softpmu: start programs with `hardmeter record --source simulated -- COMMAND`\n");
  VG_(exit)(1);
}

static void after_options(void) {
  if (segment_path == NULL) VG_(fmsg_bad_option)
  ("--segment", "softpmu is started by `hardmeter record --source simulated`, not by hand\n");
  struct hm_header *header = hm_map_segment(segment_path);
  if (header == NULL) fail("it cannot be opened or mapped (is the recorder still running?)");
  const char *problem = hm_attach(header, (uint32_t)VG_(getpid)());
  if (problem != NULL) fail(problem);
  hm_measuring = atomic_load(&header->measuring) != 0;
  hm_refuse_io_uring();
  hm_found_family();
  VG_(atfork)(before_fork, parent_after_fork, child_after_fork);
  hm_record_exec(VG_(args_the_exename));
}

static void finish(Int exit_code) {
  (void)exit_code;
  hm_leave_core();
  hm_unmapped(0, 1ull << 47); /* others may reuse its frames: a server starts many processes */
  hm_record_exit();
}

static void before_options(void) {
  VG_(details_name)("softpmu");
  VG_(details_version)(HM_TOOL_VERSION);
  VG_(details_description)("a performance monitoring unit in software");
  VG_(details_copyright_author)("Hardmeter developers; GPL-2.0-or-later.");
  VG_(details_bug_reports_to)("the Hardmeter project");
  VG_(details_avg_translation_sizeB)(500);
  VG_(basic_tool_funcs)(after_options, hm_instrument, finish);
  VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
  VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
  VG_(track_start_client_code)(start_client_code);
  VG_(track_stop_client_code)(stop_client_code);
  VG_(track_pre_thread_first_insn)(thread_begins);
  VG_(track_pre_thread_ll_exit)(thread_ends);
  if (hm_replace_malloc != NULL) hm_replace_malloc();
  hm_track_mappings();
  /* A sample's registers must be those of its instruction: keep all of them up to date at every
   * memory access (about 3 % slower). */
  VG_(clo_vex_control).iropt_register_updates_default = VG_(clo_px_file_backed) =
      VexRegUpdAllregsAtMemAccess;
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
