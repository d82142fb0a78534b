/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The interface between engine.c and valgrind_core.c. The files of the Valgrind tool that are used
 * here unchanged (instrument.c, accesses.c, records.c, state.c, statement.c) call Valgrind's core,
 * and valgrind_core.c takes its place.
 */
#ifndef HM_GHOST_VALGRIND_CORE_H
#define HM_GHOST_VALGRIND_CORE_H

#include "libvex_basictypes.h"
#include "libvex_ir.h"
#include "libvex.h"
#include <stdint.h>

/* For LibVEX_Translate: returns the block at an address, and instruments it. */
void *hm_closure_of(Addr address);
IRSB *hm_instrument_block(void *closure, IRSB *block, const VexGuestLayout *layout,
                          const VexGuestExtents *extents, const VexArchInfo *host,
                          IRType guest_word, IRType host_word);

/* Passes an access of the guest to the simulator. */
void hm_ghost_data(uint64_t address, uint64_t site);

#endif
