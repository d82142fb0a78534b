/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Runs code of the followed process from its copy, with libVEX.  VEX's code accesses memory at the
 * guest's addresses, which are this process's own (memory.c); the software PMU's instrumentation
 * (tool/instrument.c) is added to each block as it is in Valgrind.
 *
 *   idle ── hm_engine_run ──> running ── a block is missing ──> translating ──> running
 *     ^                         │  a call, a limit, an instruction that cannot be run
 *     │                         │  a fault that cannot be handled (longjmp)
 *     └─────────────────────────┘
 *
 * Invariants:
 *  1. hm_guest_runs is 1 exactly while generated code, native code or VEX runs for a stretch. Only
 *     then hm_guest_give_up leaves the stretch.
 *  2. Every stretch ends: each block counts, and after BLOCKS_A_TURN blocks the limits of time and
 *     instructions are checked.
 *  3. Code of files is translated once for each layout of code that is followed; code in other
 *     memory is checked each time it runs (VEX's self-checks), because it may have been rewritten.
 *  4. `now` are the translations of the layout whose stretch runs; hm_lookup_table has no others.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "libvex_basictypes.h"
#include "libvex_ir.h"
#include "libvex.h"
#include "libvex_guest_amd64.h"
#include "libvex_trc_values.h"

#include "ghost.h"
#include "clock.h"
#include "guest.h"
#include "timing.h"
#include "simulator.h"
#include "valgrind_core.h"

#define CODE_SIZE (256u << 20)
#define MOST_BLOCK 65536
#define BLOCKS (1u << 20)    /* slots of the table */
#define LOOKUPS (1u << 15)   /* the same as in dispatch.S */
#define BLOCKS_A_TURN 10000u /* hm_sim.packed_counts has room for 100,000 blocks */

enum { TRC_CHAIN_SLOW = 1001, TRC_CHAIN_FAST, TRC_LOOK_UP, TRC_COUNTED };

extern void hm_disp_run(uint64_t result[2], void *state, const void *code);
extern const char hm_disp_chain_slow[], hm_disp_chain_fast[], hm_disp_indirect[],
    hm_disp_assisted[];

struct lookup {
  uint64_t guest, host;
};
struct lookup hm_lookup_table[LOOKUPS] __attribute__((aligned(64)));
/* The translations of one layout of code: processes whose code lies elsewhere have others. */
static struct translated {
  uint64_t layout;
  struct lookup *block; /* BLOCKS of them, open addressing */
  uint32_t block_count;
  uint8_t *code;
  size_t code_used;
  uint64_t used_at; /* when it was taken, in turns of layouts */
} translated[HM_LANES], *now = translated;
static uint64_t translations;

/* --- Translating --------------------------------------------------------------------- */

static uint32_t first_slot(uint64_t address) {
  return (uint32_t)(address * 0x9e3779b97f4a7c15ull >> 40) & (BLOCKS - 1);
}

static uint64_t *host_code_of(uint64_t address) {
  for (uint32_t slot = first_slot(address); now->block[slot].guest != 0;
       slot = (slot + 1) & (BLOCKS - 1))
    if (now->block[slot].guest == address) return &now->block[slot].host;
  return NULL;
}

static void *reserve(size_t size, int rights) {
  void *memory = mmap(NULL, size, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) return memory;
  fprintf(stderr,
          "hardmeter-ghost: no memory for translated code: %zu MB of address space\n"
          "  remedy: free memory, or sysctl vm.overcommit_memory=0\n",
          size >> 20);
  exit(1);
}

static void forget_code(void) {
  now->code_used = 0;
  if (now->block_count > 0) memset(now->block, 0, BLOCKS * sizeof now->block[0]);
  now->block_count = 0;
  memset(hm_lookup_table, 0, sizeof hm_lookup_table);
  hm_native_forget();
}

void hm_engine_use_layout(uint64_t layout) {
  static uint64_t turn;
  if (now->layout == layout && now->block != NULL) return;
  struct translated *oldest = translated;
  now = NULL;
  for (uint32_t i = 0; i < HM_LANES && now == NULL; i++) {
    if (translated[i].layout == layout && translated[i].block != NULL) now = &translated[i];
    if (translated[i].used_at < oldest->used_at) oldest = &translated[i];
  }
  if (now == NULL) {
    now = oldest;
    if (now->block == NULL) {
      now->block = reserve(BLOCKS * sizeof now->block[0], PROT_READ | PROT_WRITE);
      now->code = reserve(CODE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC);
    }
    now->layout = layout;
    now->code_used = 0;
    if (now->block_count > 0) memset(now->block, 0, BLOCKS * sizeof now->block[0]);
    now->block_count = 0;
  }
  now->used_at = ++turn;
  memset(hm_lookup_table, 0, sizeof hm_lookup_table);
  hm_native_forget();
}

static void enter(uint64_t address, uint64_t host) {
  uint32_t slot = first_slot(address);
  while (now->block[slot].guest != 0) slot = (slot + 1) & (BLOCKS - 1);
  now->block[slot] = (struct lookup){address, host};
  now->block_count++;
}

static int is_file_code(uint64_t address) {
  const struct hm_mapping *mapping = hm_find_mapping(address);
  return mapping != NULL && mapping->inode != 0 && !mapping->write;
}

/* VEX reads code through these addresses, so that the pages must be mapped here. */
static int code_is_there(uint64_t address) {
  const struct hm_mapping *mapping = hm_find_mapping(address);
  if (mapping == NULL || !mapping->execute || !hm_need_page(address)) return 0;
  uint64_t next = (address | (HM_PAGE - 1)) + 1;
  return next >= mapping->end || hm_need_page(next);
}

static Bool chase_into(void *opaque, Addr address) {
  (void)opaque;
  return is_file_code(address) && code_is_there(address);
}

static UInt needs_check(void *opaque, VexRegisterUpdates *updates, const VexGuestExtents *extents) {
  (void)opaque;
  (void)updates;
  UInt wanted = 0;
  for (UInt i = 0; i < extents->n_used; i++)
    if (!is_file_code(extents->base[i])) wanted |= 1u << i;
  return wanted;
}

static VexArchInfo processor(void) {
  VexArchInfo info;
  LibVEX_default_VexArchInfo(&info);
  info.endness = VexEndnessLE;
  info.hwcaps = VEX_HWCAPS_AMD64_SSE3 | VEX_HWCAPS_AMD64_CX16;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("ssse3")) info.hwcaps |= VEX_HWCAPS_AMD64_SSSE3;
  if (__builtin_cpu_supports("lzcnt")) info.hwcaps |= VEX_HWCAPS_AMD64_LZCNT;
  if (__builtin_cpu_supports("avx")) info.hwcaps |= VEX_HWCAPS_AMD64_AVX;
  if (__builtin_cpu_supports("bmi")) info.hwcaps |= VEX_HWCAPS_AMD64_BMI;
  if (__builtin_cpu_supports("avx2")) info.hwcaps |= VEX_HWCAPS_AMD64_AVX2;
  if (__builtin_cpu_supports("f16c")) info.hwcaps |= VEX_HWCAPS_AMD64_F16C;
  if (__builtin_cpu_supports("rdrnd")) info.hwcaps |= VEX_HWCAPS_AMD64_RDRAND;
  unsigned a, b, c, d;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d) && (d >> 27 & 1) != 0)
    info.hwcaps |= VEX_HWCAPS_AMD64_RDTSCP;
  if (__builtin_cpu_supports("rdseed")) info.hwcaps |= VEX_HWCAPS_AMD64_RDSEED;
  return info;
}

/* The host code of the block at `address`; 0 if there is no code. */
static uint64_t translate(uint64_t address) {
  if (!code_is_there(address)) return 0;
  if (now->code_used + MOST_BLOCK > CODE_SIZE || now->block_count > BLOCKS / 2) forget_code();
  VexGuestExtents extents;
  Int used = 0;
  VexTranslateArgs job;
  memset(&job, 0, sizeof job);
  job.arch_guest = job.arch_host = VexArchAMD64;
  job.archinfo_guest = job.archinfo_host = processor();
  LibVEX_default_VexAbiInfo(&job.abiinfo_both);
  job.abiinfo_both.guest_stack_redzone_size = 128;
  job.abiinfo_both.guest_amd64_assume_fs_is_const = True;
  job.abiinfo_both.guest_amd64_assume_gs_is_const = True;
  job.callback_opaque = hm_closure_of(address);
  job.guest_bytes = (const UChar *)address;
  job.guest_bytes_addr = address;
  job.chase_into_ok = chase_into;
  job.guest_extents = &extents;
  job.host_bytes = now->code + now->code_used;
  job.host_bytes_size = MOST_BLOCK;
  job.host_bytes_used = &used;
  job.instrument1 = hm_instrument_block;
  job.needs_self_check = needs_check;
  job.disp_cp_chain_me_to_slowEP = hm_disp_chain_slow;
  job.disp_cp_chain_me_to_fastEP = hm_disp_chain_fast;
  job.disp_cp_xindir = hm_disp_indirect;
  job.disp_cp_xassisted = hm_disp_assisted;
  VexTranslateResult result = LibVEX_Translate(&job);
  if (result.status != VexTransOK) return 0;
  uint64_t host = (uint64_t)(now->code + now->code_used);
  enter(address, host);
  now->code_used += ((size_t)used + 15) & ~(size_t)15;
  translations++;
  return host;
}

static uint64_t find_or_translate(uint64_t address) {
  uint64_t *known = host_code_of(address);
  uint64_t host = known != NULL ? *known : translate(address);
  if (host != 0)
    hm_lookup_table[(address ^ address >> 1) & (LOOKUPS - 1)] = (struct lookup){address, host};
  return host;
}

/* Serves a jump that asked to be linked directly to its target block. */
static void chain(uint64_t after_call, int fast, uint64_t host) {
  /* The call sequence `movabsq $..., %r11; call *%r11` is 13 bytes long. */
  void *place = (void *)(after_call - 13);
  uint64_t to = fast ? host + (uint64_t)LibVEX_evCheckSzB(VexArchAMD64) : host;
  LibVEX_Chain(VexArchAMD64, VexEndnessLE, place, fast ? hm_disp_chain_fast : hm_disp_chain_slow,
               (const void *)to);
}

/* --- Failing ---------------------------------------------------------------------------- */

__attribute__((noreturn)) static void vex_failed(void) {
  hm_guest_give_up(HM_GHOST_UNSUPPORTED);
  abort();
}

static void vex_says(const HChar *bytes, SizeT length) {
  if (getenv("HM_GHOST_VERBOSE") != NULL) fwrite(bytes, 1, length, stderr);
}

void hm_engine_begin(void) {
  VexControl control;
  LibVEX_default_VexControl(&control);
  control.iropt_verbosity = 0;
  /* As in Valgrind: at each access the guest's registers are those of its instruction. */
  control.iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
  LibVEX_Init(vex_failed, vex_says, 0, &control);
}
uint64_t hm_engine_translations(void) { return translations; }

/* --- Running ---------------------------------------------------------------------------------- */

/* Handles everything except a plain jump to the next block. Returns -1 to continue. */
static int serve(uint64_t reason) {
  switch (reason) {
    case VEX_TRC_JMP_SYS_SYSCALL: return HM_GHOST_AT_CALL;
    case VEX_TRC_JMP_NODECODE:
      return hm_native_run(hm_guest_state()->guest_RIP) ? -1 : HM_GHOST_UNSUPPORTED;
    case VEX_TRC_JMP_INVALICACHE: forget_code(); return -1;
    case VEX_TRC_JMP_FLUSHDCACHE:
    case VEX_TRC_JMP_NOREDIR:
    case VEX_TRC_JMP_EMWARN:
    case VEX_TRC_JMP_YIELD:
    case VEX_TRC_JMP_BORING: return -1;
    case VEX_TRC_JMP_SIGTRAP:
    case VEX_TRC_JMP_SIGSEGV:
    case VEX_TRC_JMP_SIGBUS:
    case VEX_TRC_JMP_SIGFPE:
    case VEX_TRC_JMP_SIGFPE_INTDIV:
    case VEX_TRC_JMP_SIGFPE_INTOVF:
    case VEX_TRC_JMP_SIGILL: return HM_GHOST_TRAPPED;
    default: return HM_GHOST_UNSUPPORTED;
  }
}

static int is_over(const struct hm_limits *limits, uint64_t began) {
  hm_slice_is_over(); /* the packed counts have room again */
  if (hm_instructions_run() >= limits->instructions) return HM_GHOST_LIMIT;
  if (hm_now() - began >= limits->nanoseconds) return HM_GHOST_SLOW;
  return -1;
}

enum hm_ghost_end hm_engine_run(const struct hm_limits *limits) {
  uint64_t began = hm_now();
  volatile uint32_t turns = 0;
  int left = setjmp(hm_guest_way_out);
  if (left != 0) {
    hm_guest_runs = 0;
    return (enum hm_ghost_end)(left - 1);
  }
  hm_guest_runs = 1;
  hm_guest_state()->host_EvC_COUNTER = BLOCKS_A_TURN;
  uint64_t host = find_or_translate(hm_guest_state()->guest_RIP);
  int end = host == 0 ? HM_GHOST_UNMAPPED : -1;
  while (end < 0) {
    uint64_t result[2];
    hm_disp_run(result, hm_guest_state(), (const void *)host);
    int look_up = result[0] != TRC_CHAIN_SLOW && result[0] != TRC_CHAIN_FAST;
    if (result[0] == TRC_COUNTED) {
      hm_guest_state()->host_EvC_COUNTER = BLOCKS_A_TURN;
      end = is_over(limits, began);
    } else if (result[0] < TRC_CHAIN_SLOW) {
      end = serve(result[0]);
    }
    /*
     * Native instructions do not pass through the block counter: check the limits for them here,
     * too.
     */
    if (end < 0 && ++turns % 20000 == 0) end = is_over(limits, began);
    if (end >= 0) break;
    uint64_t forgotten = now->code_used;
    host = find_or_translate(hm_guest_state()->guest_RIP);
    if (host == 0) end = HM_GHOST_UNMAPPED;
    if (host != 0 && !look_up && now->code_used >= forgotten)
      chain(result[1], result[0] == TRC_CHAIN_FAST, host);
  }
  hm_guest_runs = 0;
  hm_timing_pause();
  return (enum hm_ghost_end)end;
}
