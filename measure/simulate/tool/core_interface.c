/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The border to Valgrind's core.  A tool is linked statically with the core, so
 * functions that the tool headers leave out can be called all the same; every
 * one used is declared here, as Valgrind 3.19 to 3.25 define it, and nowhere else.
 */
#include "tool.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_vkiscnums.h"

#include "libvex_guest_amd64.h"

#include "host.h"
#include "ring.h"
#include "state.h"

extern SysRes VG_(do_syscall)(UWord number, UWord, UWord, UWord, UWord, UWord, UWord, UWord, UWord);
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt protection, Int fd,
                                                      Off64T offset);
extern SysRes VG_(am_mmap_anon_float_valgrind)(SizeT length);
extern Bool VG_(translate)(ThreadId tid, Addr address, Bool debugging, Int verbosity,
                           ULong blocks_done, Bool allow_redirection);

/* The out parameters are UShort in 3.19 and may grow: reserve more space. */
extern Bool VG_(search_transtab)(Addr *host_code, void *sector, void *entry, Addr guest_address,
                                 Bool update_cache);

/* Target of translated code whose time slice is over. */
extern void VG_(disp_cp_evcheck_fail)(void);

extern Bool VG_(ok_to_discard_translations);
extern void VG_(discard_translations)(Addr start, ULong range, const HChar *who);

#define SYSCALL(number, a, b, c, d) \
  VG_(do_syscall)(number, (UWord)(a), (UWord)(b), (UWord)(c), (UWord)(d), 0, 0, 0, 0)

struct hm_header *hm_map_segment(const HChar *path) {
  SysRes file = VG_(open)(path, VKI_O_RDWR, 0);
  if (sr_isError(file)) return NULL;
  Int fd = (Int)sr_Res(file);
  struct vg_stat status;
  struct hm_header *header = NULL;
  if (VG_(fstat)(fd, &status) == 0 && status.size >= (Long)HM_RING_OFFSET) {
    SysRes mapped = VG_(am_shared_mmap_file_float_valgrind)((SizeT)status.size,
                                                            VKI_PROT_READ | VKI_PROT_WRITE, fd, 0);
    if (!sr_isError(mapped)) header = (struct hm_header *)sr_Res(mapped);
  }
  VG_(close)(fd);
  if (header != NULL && header->segment_size != (uint64_t)status.size) return NULL;
  return header;
}

/* The scheduler writes it into a thread's state each time before the thread runs. */
Addr hm_landmark(void) { return (Addr)VG_(fnptr_to_fnentry)(VG_(disp_cp_evcheck_fail)); }

void hm_check_landmark(ThreadId tid) {
  static Bool checked;
  Addr written = 0;
  if (checked) return;
  VG_(get_shadow_regs_area)
  (tid, (UChar *)&written, 0, offsetof(VexGuestAMD64State, host_EvC_FAILADDR), sizeof written);
  tl_assert(written == hm_landmark());
  checked = True;
}

/* Of libVEX, which copies its settings at the start. */
extern VexControl vex_control;

void hm_unroll_no_loops(void) { vex_control.iropt_unroll_thresh = 0; }

void hm_translate_block(ThreadId tid, Addr block) {
  Addr host_code;
  uint64_t sector = 0, entry = 0;
  if (VG_(search_transtab)(&host_code, &sector, &entry, block, False)) return;
  VG_(translate)(tid, block, False, 0, 0, True);
}

/* Call only while no client code runs. The scheduler may be about to chain the block that ran
 * last to its successor: it handles the block's removal, since self-modifying code needs the
 * same. */
void hm_discard_translations(void) {
  Bool allowed = VG_(ok_to_discard_translations);
  VG_(ok_to_discard_translations) = True;
  VG_(discard_translations)((Addr)0x1000, ~(ULong)0xfff, "softpmu");
  VG_(ok_to_discard_translations) = allowed;
}

/* Valgrind before 3.24 treats io_uring_enter as a non-blocking call and keeps its global lock: a
 * thread that waits for completions (MariaDB has one) would stop all others permanently. So
 * io_uring is refused, as by a kernel without it, and programs use their fallback. The filter
 * persists over fork and exec; Valgrind itself does not use io_uring. */
void hm_refuse_io_uring(void) {
  enum { SETUP = 425, SET_SECCOMP = 22, FILTER_MODE = 2, SET_NO_NEW_PRIVS = 38 };
  enum { LOAD_WORD = 0x20, JUMP_IF_EQUAL = 0x15, RETURN = 0x06 }; /* <linux/bpf_common.h> */
  enum { ERRNO_ENOSYS = 0x00050000 | VKI_ENOSYS, ALLOW = 0x7fff0000 };
  static const struct instruction {
    UShort code;
    UChar if_true, if_false;
    UInt operand;
  } filter[] = {
      {LOAD_WORD, 0, 0, 0}, /* seccomp_data.nr */
      {JUMP_IF_EQUAL, 0, 1, SETUP},
      {RETURN, 0, 0, ERRNO_ENOSYS},
      {RETURN, 0, 0, ALLOW},
  };
  const struct {
    UShort length;
    const struct instruction *instructions;
  } program = {sizeof filter / sizeof filter[0], filter};
  /* Root does not need it. It has no other effect: Valgrind refuses set-uid programs. A kernel
   * without seccomp refuses; io_uring then stays available. */
  SYSCALL(__NR_prctl, SET_NO_NEW_PRIVS, 1, 0, 0);
  SYSCALL(__NR_prctl, SET_SECCOMP, FILTER_MODE, &program, 0);
}

uint64_t hm_wall_nanoseconds(void) {
  struct vki_timespec now = {0, 0};
  SYSCALL(__NR_clock_gettime, VKI_CLOCK_MONOTONIC, &now, 0, 0);
  return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

uint64_t hm_record_nanoseconds(uint64_t cycles) {
  return (uint64_t)((unsigned __int128)cycles * 1000u / hm_sim.config.clock_mhz);
}

uint8_t hm_cause_to_record(const struct hm_access *access, enum hm_event event) {
  return hm_cause_of(access, event);
}

void hm_collapse(Addr start, SizeT length) {
  enum { COLLAPSE = 25 }; /* MADV_COLLAPSE of newer headers */
  SYSCALL(__NR_madvise, start, length, COLLAPSE, 0);
}

static ULong of_meminfo(const HChar *text, const HChar *name) {
  const HChar *line = VG_(strstr)(text, name);
  return line == NULL ? 0 : (ULong)VG_(strtoll10)(line + VG_(strlen)(name), NULL);
}

Bool hm_memory_is_plenty(UInt part) {
  HChar text[512];
  SysRes file = VG_(open)("/proc/meminfo", VKI_O_RDONLY, 0);
  if (sr_isError(file)) return False;
  Int length = VG_(read)((Int)sr_Res(file), text, sizeof text - 1);
  VG_(close)((Int)sr_Res(file));
  if (length <= 0) return False;
  text[length] = 0;
  return of_meminfo(text, "MemAvailable:") > of_meminfo(text, "MemTotal:") / part;
}

int hm_state_readable(uint64_t address, uint64_t length) {
  return VG_(am_is_valid_for_client)(address, length, VKI_PROT_READ);
}

/* Simulated time stands still while the ring is full: nothing is lost. */
void hm_deliver_record(const uint64_t *words, uint64_t bytes) {
  hm_append_to_ring(hm_sim.header, hm_sim.pid, words, bytes);
}

/* --- What the simulator asks of its host (sim/host.h) ------------------------- */

void *hm_host_allocate(size_t size) {
  SysRes memory = VG_(am_mmap_anon_float_valgrind)(size);
  if (sr_isError(memory)) {
    VG_(fmsg)("softpmu: out of memory for %lu bytes of page tables\n", (unsigned long)size);
    VG_(exit)(1);
  }
  return (void *)sr_Res(memory);
}

void hm_host_read_line(uint64_t address, void *line) {
  VG_(memcpy)(line, (const void *)(Addr)address, HM_LINE_SIZE);
}

void hm_host_yield(void) { SYSCALL(__NR_sched_yield, 0, 0, 0, 0); }

/* A killed process counts as dead even if its parent has not reaped it yet: the parent may be
 * the one that asks, because the dead one holds its core. */
static Bool is_zombie(uint32_t pid) {
  HChar path[32], text[512];
  VG_(sprintf)(path, "/proc/%u/stat", pid);
  SysRes file = VG_(open)(path, VKI_O_RDONLY, 0);
  if (sr_isError(file)) return False;
  Int length = VG_(read)((Int)sr_Res(file), text, sizeof text - 1);
  VG_(close)((Int)sr_Res(file));
  if (length <= 0) return False;
  text[length] = 0;
  const HChar *name_ends = VG_(strrchr)(text, ')'); /* followed by a space and the state */
  return name_ends != NULL && name_ends[1] == ' ' && (name_ends[2] == 'Z' || name_ends[2] == 'X');
}

int hm_host_process_exists(uint32_t pid) {
  SysRes result = SYSCALL(__NR_kill, pid, 0, 0, 0);
  if (sr_isError(result) && sr_Err(result) == VKI_ESRCH) return 0;
  return !is_zombie(pid);
}

void hm_host_wait(_Atomic uint32_t *word, uint32_t expected) {
  /* The time-out lets a waiter detect that the owner was killed. */
  struct vki_timespec patience = {0, 50 * 1000 * 1000};
  SYSCALL(__NR_futex, word, VKI_FUTEX_WAIT, expected, &patience);
}

void hm_host_wake(_Atomic uint32_t *word) { SYSCALL(__NR_futex, word, VKI_FUTEX_WAKE, 1, 0); }
