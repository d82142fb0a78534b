/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The segment's ring of records.  Knows no Valgrind.
 */
#ifndef HM_RING_H
#define HM_RING_H

#include <stdint.h>

#include "segment.h"

/* Appends a whole record; waits while the ring is full, as long as there is a recorder. */
void hm_append_to_ring(struct hm_header *header, uint32_t pid, const uint64_t *words,
                       uint64_t bytes);

/* Asked of the host: where a finished record goes. */
void hm_deliver_record(const uint64_t *words, uint64_t bytes);

#endif
