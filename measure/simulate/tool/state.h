/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What of the profiled program's own state goes with a sample: the rules of the
 * segment's header, carried out.  Knows no Valgrind.
 */
#ifndef HM_STATE_H
#define HM_STATE_H

#include <stdint.h>

#include "segment.h"

struct hm_state_value {
  uint32_t id, length;
  uint8_t bytes[HM_STATE_LONGEST];
};

struct hm_state {
  uint64_t statement;      /* its StatementId (ground/statement); 0: none */
  uint32_t statement_over; /* 1: it is the latest one, and has ended */
  uint32_t values;
  struct hm_state_value value[HM_STATE_RULES];
};

/* Carries the rules out for an access of the thread with this base of %fs to `address`, and
 * registers the statement's text.  Never fails: what cannot be read is left out. */
void hm_read_state(struct hm_header *header, uint64_t thread_pointer, uint64_t address,
                   struct hm_state *state);

/* Provided by the host: whether all these bytes of the program are readable. */
int hm_state_readable(uint64_t address, uint64_t length);

#endif
