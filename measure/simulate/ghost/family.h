/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The followed processes: who they are, what kind, how much they run.  family.c has the invariants.
 */
#ifndef HM_GHOST_FAMILY_H
#define HM_GHOST_FAMILY_H

#include <stdint.h>

#define HM_MOST_FOLLOWED 1024u

struct hm_follower {
  int process;
  uint32_t core; /* the simulated core that it is on */
  uint64_t rests_until, paused;
  uint32_t next_stretches; /* small at first: the hot pages are not known yet */
  uint64_t ran;            /* its CPU time when it was last read, nanoseconds */
  uint64_t accounted;      /* its CPU time that counted stretches stand for already */
  uint64_t user_ticks, system_ticks;
  uint64_t layout;         /* of its code, as announced; 0: not yet */
  uint64_t odometer;       /* the word that counts its work (pace.c); 0: none */
  uint64_t odometer_began; /* its CPU time when that was read */
  uint32_t odometer_value;
  double counts_per_instruction;
  uint8_t computes; /* later windows that begin at its current instruction */
  uint8_t gone;
};

/* `lanes`: on how many of the simulated cores workers are followed. With `descendants`, children are
 * found, too. */
void hm_family_begin(const int *process, uint32_t count, int descendants, uint32_t cores,
                     uint32_t lanes);
/* Looks for new processes, now and then; the number of those that were found. */
uint32_t hm_family_look(void);
/* Whether no process is left that could be followed, now or later. */
int hm_family_is_gone(void);
uint32_t hm_family_size(void);
struct hm_follower *hm_family_member(uint32_t index);
/* The next that has run since its last check, does not rest, and is on none of these cores; with a
 * `layout` that is not 0, one whose code lies there. NULL: none, until `wakes`. */
struct hm_follower *hm_family_next(uint64_t cores_taken, uint64_t layout, uint64_t *wakes);
/* When the next process on another core than these, with a `layout` that is not 0 one whose code lies
 * there, will have rested; 0: none rests. */
uint64_t hm_family_partner(uint64_t cores_taken, uint64_t layout);
/* CPU time of a process, nanoseconds; 0: it has ended. */
uint64_t hm_cpu_time(int process);
/* The state letter of a process, as proc(5) has it; 0: it has ended. */
char hm_process_state(int process);
/* The part of the CPU time of processes on this core that is their own code's. */
double hm_user_part(struct hm_follower *of);

#endif
