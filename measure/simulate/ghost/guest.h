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

/* From the followed process's registers; back into that form. */
void hm_guest_load(const struct user_regs_struct *registers, const void *xstate, uint32_t size);
void hm_guest_registers(struct user_regs_struct *into);

/* Where a component of the XSAVE area begins; 0: the processor has none. */
uint32_t hm_xstate_offset(uint32_t component);

/* 1 exactly while a stretch runs: hm_guest_give_up then leads to the place set in `way_out`, with the
 * reason + 1. */
extern volatile int hm_guest_runs;
extern jmp_buf hm_guest_way_out;
/* Leaves the stretch. Returns if none runs. */
void hm_guest_give_up(enum hm_ghost_end why);

#endif
