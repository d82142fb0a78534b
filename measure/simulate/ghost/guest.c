/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Converts the followed process's registers to the guest's, and back.
 */
#include "guest.h"

#include <cpuid.h>
#include <stddef.h>
#include <string.h>

#include "libvex.h"

_Static_assert(offsetof(VexGuestAMD64State, guest_RIP) == 184, "dispatch.S has it");

extern const char hm_disp_counted[]; /* dispatch.S */

/* The state, its two shadows and the spill area are contiguous, as libvex.h requires. */
static struct {
  VexGuestAMD64State now;
  uint8_t shadows[2 * sizeof(VexGuestAMD64State)];
  uint8_t spill[LibVEX_N_SPILL_BYTES];
} guest __attribute__((aligned(64)));

VexGuestAMD64State *hm_guest_state(void) { return &guest.now; }

volatile int hm_guest_runs;
jmp_buf hm_guest_way_out;

void hm_guest_give_up(enum hm_ghost_end why) {
  if (hm_guest_runs) longjmp(hm_guest_way_out, (int)why + 1);
}

uint32_t hm_xstate_offset(uint32_t component) {
  uint32_t size, offset, c, d;
  if (__get_cpuid_max(0, NULL) < 0xd) return 0;
  __cpuid_count(0xd, component, size, offset, c, d);
  return size != 0 ? offset : 0;
}

/* Parts of the XSAVE area (Intel SDM 13.4): 128-bit registers at 160, upper halves where CPUID says. */
static void load_vectors(const uint8_t *xstate, uint32_t size) {
  uint64_t present = 0;
  uint32_t mxcsr = 0x1f80;
  if (size >= 576) memcpy(&present, xstate + 512, 8);
  if (size >= 512) memcpy(&mxcsr, xstate + 24, 4);
  uint32_t high_at = hm_xstate_offset(2);
  guest.now.guest_SSEROUND = mxcsr >> 13 & 3;
  for (int i = 0; i < 16; i++) {
    uint8_t *into = (uint8_t *)&guest.now.guest_YMM0 + 32 * i;
    memset(into, 0, 32);
    if ((present & 2) != 0) memcpy(into, xstate + 160 + 16 * i, 16);
    if ((present & 4) != 0 && high_at != 0 && high_at + 256 <= size)
      memcpy(into + 16, xstate + high_at + 16 * i, 16);
  }
}

void hm_guest_load(const struct user_regs_struct *from, const void *xstate, uint32_t size) {
  VexGuestAMD64State *to = &guest.now;
  LibVEX_GuestAMD64_initialise(to);
  to->host_EvC_FAILADDR = (ULong)hm_disp_counted;
  to->guest_RAX = from->rax;
  to->guest_RBX = from->rbx;
  to->guest_RCX = from->rcx;
  to->guest_RDX = from->rdx;
  to->guest_RSI = from->rsi;
  to->guest_RDI = from->rdi;
  to->guest_RBP = from->rbp;
  to->guest_RSP = from->rsp;
  to->guest_R8 = from->r8;
  to->guest_R9 = from->r9;
  to->guest_R10 = from->r10;
  to->guest_R11 = from->r11;
  to->guest_R12 = from->r12;
  to->guest_R13 = from->r13;
  to->guest_R14 = from->r14;
  to->guest_R15 = from->r15;
  to->guest_RIP = from->rip;
  to->guest_FS_CONST = from->fs_base;
  to->guest_GS_CONST = from->gs_base;
  LibVEX_GuestAMD64_put_rflags(from->eflags & 0x240cd5, to);
  load_vectors(xstate, size);
}

void hm_guest_registers(struct user_regs_struct *into) {
  const VexGuestAMD64State *from = &guest.now;
  memset(into, 0, sizeof *into);
  into->rax = into->orig_rax = from->guest_RAX;
  into->rbx = from->guest_RBX;
  into->rcx = from->guest_RCX;
  into->rdx = from->guest_RDX;
  into->rsi = from->guest_RSI;
  into->rdi = from->guest_RDI;
  into->rbp = from->guest_RBP;
  into->rsp = from->guest_RSP;
  into->r8 = from->guest_R8;
  into->r9 = from->guest_R9;
  into->r10 = from->guest_R10;
  into->r11 = from->guest_R11;
  into->r12 = from->guest_R12;
  into->r13 = from->guest_R13;
  into->r14 = from->guest_R14;
  into->r15 = from->guest_R15;
  into->rip = from->guest_RIP;
  into->eflags = LibVEX_GuestAMD64_get_rflags(from);
}
