/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What machine.c, which lays the machine out, offers cores.c, which runs on it.
 */
#ifndef HM_MACHINE_H
#define HM_MACHINE_H

#include <stdint.h>

/* Points this process's views at a core's state. */
void hm_bind_core(uint32_t cpu);

#endif
