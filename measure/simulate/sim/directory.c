/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Entries of lines whose frame changes hands. directory.h has the invariants.
 */
#include "directory.h"

static void reset_lines(struct hm_line_state *directory, uint32_t frame, uint32_t written) {
  struct hm_line_state *state = directory + (uint64_t)frame * HM_LINES_A_PAGE;
  for (uint32_t i = 0; i < HM_LINES_A_PAGE; i++) {
    state[i].sharers = 0;
    state[i].record = 0;
    state[i].written = written;
  }
}

void hm_begin_lines(struct hm_line_state *directory, uint32_t frame) {
  reset_lines(directory, frame, HM_LINE_NEW);
}

void hm_forget_lines(struct hm_line_state *directory, uint32_t frame) {
  reset_lines(directory, frame, 0);
}
