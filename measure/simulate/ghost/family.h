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
  uint32_t model; /* the simulated core of its kind */
  uint64_t rests_until, paused;
  uint32_t next_stretches; /* small at first: the hot pages are not known yet */
  uint64_t ran;            /* its CPU time when it was last read, nanoseconds */
  uint64_t accounted;      /* its CPU time that counted stretches stand for already */
  uint64_t user_ticks, system_ticks;
  uint64_t layout;  /* of its code, as announced; 0: not yet */
  uint8_t computes; /* windows to come that begin where it is */
  uint8_t gone;
};

/* `models`: how many simulated cores there are.  With `descendants`, children are found, too. */
void hm_family_begin(const int *process, uint32_t count, int descendants, uint32_t models);
/* Looks for new processes, now and then; the number of those that were found. */
uint32_t hm_family_look(void);
/* Whether no process is left that could be followed, now or later. */
int hm_family_is_gone(void);
uint32_t hm_family_size(void);
struct hm_follower *hm_family_member(uint32_t index);
struct hm_follower *hm_family_find(int process);
/* The next that has run since its last check, and does not rest; NULL: none, until `wakes`. */
struct hm_follower *hm_family_next(uint64_t *wakes);
/* CPU time of a process, nanoseconds; 0: it has ended. */
uint64_t hm_cpu_time(int process);
/* The part of the CPU time of processes of this kind that is their own code's. */
double hm_user_part(struct hm_follower *of);
/* How many kinds were met, and the name of one. */
uint32_t hm_kinds(void);
const char *hm_kind_name(uint32_t model);

#endif
