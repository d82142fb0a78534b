/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The table of statements in the segment.  Knows no Valgrind.
 */
#ifndef HM_TOOL_STATEMENT_H
#define HM_TOOL_STATEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "segment.h"

/* Inserts a normalised text under its id into the table, truncated to HM_STATEMENT_TEXT bytes,
 * unless it is there or the table is full. Safe for concurrent processes. */
void hm_statement_register(struct hm_statement *table, uint64_t id, const char *text,
                           size_t length);

#endif
