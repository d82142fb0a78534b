/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Statements without their constants: what tells `UPDATE t SET a = 5` from
 * `UPDATE t SET b = 5`, but not from `UPDATE t SET a = 6`.  Knows no Valgrind.
 */
#ifndef HM_STATEMENT_H
#define HM_STATEMENT_H

#include <stdint.h>

#include "segment.h"

/* Bytes of a statement that are looked at, at most. */
#define HM_STATEMENT_RAW 16384u

/* Writes the text without constants, comments and superfluous blanks into `out`,
 * which holds HM_STATEMENT_TEXT bytes and a NUL.  Returns its length. */
uint32_t hm_statement_normalise(const char *text, uint32_t length, char *out);

/* The 64-bit FNV-1a hash of some bytes; never 0, which marks a free slot. */
uint64_t hm_statement_hash(const char *text, uint32_t length);

/* Puts a text under its hash into the table, unless it is there or the table is
 * full.  Any number of processes may do so at a time. */
void hm_statement_register(struct hm_statement *table, uint64_t hash, const char *text,
                           uint32_t length);

#endif
