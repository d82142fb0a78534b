/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What came of the stretches, and how long the followed processes stood still for them.
 */
#ifndef HM_GHOST_STATISTICS_H
#define HM_GHOST_STATISTICS_H

#include <stdint.h>
#include <stdio.h>

#include "segment.h"

/* The verdict on a stretch. */
enum hm_verdict_of_stretch {
  HM_SAME,            /* it ended at the call, with the registers, of the server */
  HM_UNCHECKED,       /* it reached the limit before any call */
  HM_OTHER_CALL,      /* it ended at another call */
  HM_OTHER_REGISTERS, /* at the same, with other registers */
  HM_DIED,            /* at an address that is not mapped, or by a trap */
  HM_UNSUPPORTED,     /* at an instruction that the emulator cannot run */
  HM_SIGNAL,          /* the server got a signal meanwhile */
  HM_UNFINISHED,      /* the server reached no call while it was followed */
  HM_VERDICTS
};

extern const char *const hm_verdict_name[HM_VERDICTS];

#define HM_MOST_PAUSES (1u << 20)

struct hm_statistics {
  uint64_t windows, idle_windows, refused_windows, killed;
  uint64_t verdicts[HM_VERDICTS];
  uint64_t instructions;         /* emulated, of all stretches */
  uint64_t checked_instructions; /* of those found the same */
  uint64_t unchecked_instructions;
  uint64_t emulated_ns;
  uint64_t run_in_stretches, run_in_instructions;
  uint64_t fetched, hot_pages, translations, native;
  uint32_t pauses;
  uint32_t pause[HM_MOST_PAUSES]; /* of a copy; nanoseconds */
  uint64_t paused_ns, followed_ns;
  int real_time;
  double kept_ns, stood_for_ns;  /* CPU time of the stretches kept, and what they stand for */
  double scaled[HM_EVENTS];      /* events of all that time */
  struct hm_core_counts counted; /* what the simulator counted of the stretches kept */
};

/* The value that `part` of the pauses do not exceed, in nanoseconds. */
uint32_t hm_pause_quantile(struct hm_statistics *statistics, double part);
void hm_print_statistics(struct hm_statistics *statistics, FILE *out);
/* One JSON object; 0 if it could not be written. */
int hm_store_statistics(struct hm_statistics *statistics, const char *path);

#endif
