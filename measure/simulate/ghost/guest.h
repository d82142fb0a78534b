/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The guest's registers as VEX keeps them, and the way out of a stretch.
 */
#ifndef HM_GHOST_GUEST_H
#define HM_GHOST_GUEST_H

#include <setjmp.h>
#include <stdint.h>
#include <sys/user.h>

#include "libvex_basictypes.h"
#include "libvex_guest_amd64.h"

#include "ghost.h"

VexGuestAMD64State *hm_guest_state(void);

/* Loads the followed process's registers; hm_guest_registers converts them back. */
void hm_guest_load(const struct user_regs_struct *registers, const void *xstate, uint32_t size);
void hm_guest_registers(struct user_regs_struct *into);

/* Offset of a component of the XSAVE area; 0: the processor does not have it. */
uint32_t hm_xstate_offset(uint32_t component);

/* 1 exactly while a stretch runs. Then hm_guest_give_up jumps to the place set in `way_out`,
 * with the reason + 1. */
extern volatile int hm_guest_runs;
extern jmp_buf hm_guest_way_out;
/* Leaves the stretch. Returns if no stretch runs. */
void hm_guest_give_up(enum hm_ghost_end why);

#endif
