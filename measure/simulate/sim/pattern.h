/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The pattern by which an instruction misses:
 *
 *   chase      its address came from a load under way that itself waited for one, or from its own
 *              latest result: a list, a tree
 *   indirect   its address came from a load under way that waited for none: a table of pointers
 *              or indices, the entry behind a hash bucket
 *   stride     it missed at one distance twice, which is known even where the address came from
 *              a load
 *   scattered  neither: a hash bucket, a random element
 *
 * Invariants:
 *  1. Misses of other instructions change nothing, except that one with the same place in the
 *     table makes the earlier one unknown.
 *  2. The first miss of an instruction has no pattern.
 */
#ifndef HM_PATTERN_H
#define HM_PATTERN_H

#include "simulator.h"

enum hm_pattern { HM_NO_PATTERN, HM_CHASE, HM_INDIRECT, HM_STRIDE, HM_SCATTERED };

/* How far back the loads go that an address came from. */
enum hm_dependence { HM_INDEPENDENT, HM_AFTER_LOAD, HM_AFTER_CHAIN };

/* Forgets all instructions. */
void hm_pattern_begin(void);

/* Processes a miss of a data access: sets its pattern and stride. */
void hm_pattern_observe(struct hm_access *access, enum hm_dependence dependence);

#endif
