/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The results of the stretches, and the time for which the followed processes were stopped.
 */
#ifndef HM_GHOST_STATISTICS_H
#define HM_GHOST_STATISTICS_H

#include <stdint.h>
#include <stdio.h>

#include "segment.h"

/* The verdict on a stretch. */
enum hm_verdict_of_stretch {
  HM_SAME,            /* at the same call, with the same registers as the server */
  HM_UNCHECKED,       /* it reached its limit before any call */
  HM_OTHER_CALL,      /* at another call */
  HM_OTHER_REGISTERS, /* at the same call, with other registers */
  HM_DIED,            /* at an unmapped address, or by a trap */
  HM_UNSUPPORTED,     /* at an instruction that the emulator cannot run */
  HM_SIGNAL,          /* the server received a signal in the meantime */
  HM_UNFINISHED,      /* the server made no call while it was followed */
  HM_VERDICTS
};

extern const char *const hm_verdict_name[HM_VERDICTS];

#define HM_MOST_PAUSES (1u << 20)

struct hm_statistics {
  uint64_t rounds; /* of windows at the same time */
  uint64_t windows, idle_windows, refused_windows, killed;
  uint64_t verdicts[HM_VERDICTS];
  uint64_t kept;                 /* stretches that are counted */
  uint64_t instructions;         /* emulated, in all stretches */
  uint64_t checked_instructions; /* in stretches found the same */
  uint64_t unchecked_instructions;
  uint64_t emulated_ns;
  uint64_t run_in_stretches, run_in_instructions;
  uint64_t added; /* pages that scouts added to copies */
  uint64_t fetched, hot_pages, translations, native;
  uint32_t pauses;
  uint32_t pause[HM_MOST_PAUSES]; /* of one copy; nanoseconds */
  uint64_t paused_ns, followed_ns;
  int real_time;
  double kept_ns, stood_for_ns;  /* CPU time of the stretches kept, and what they stand for */
  double scaled[HM_EVENTS];      /* events of all that time */
  struct hm_core_counts counted; /* what the simulator counted of the stretches kept */
  double ns_followed, ns_alone;  /* of an instruction: in windows, and between them; 0: not known */
};
extern struct hm_statistics hm_statistics;

/* weight.c: fills in the times of an instruction. */
void hm_store_pace(struct hm_statistics *into);

/* The pause in nanoseconds that the fraction `part` of the pauses does not exceed. */
uint32_t hm_pause_quantile(struct hm_statistics *statistics, double part);
void hm_print_statistics(struct hm_statistics *statistics, FILE *out);
/* Writes one JSON object. Returns 0 if it could not be written. */
int hm_store_statistics(struct hm_statistics *statistics, const char *path);

#endif
