/*
 * Learns the cost of switching a processor from one group of kinds to another, and derives how long
 * a worker waits before it steals.
 *
 * A theft costs twice: the stolen request finds none of its data in the thief's cache, and the
 * thief's next request at home finds less of its own. Both are CPU time beyond what such a request
 * takes on a processor that ran its group before; E is their sum. Waiting costs processor time,
 * too. Let B be the time that a processor works at home between two idle periods, R their length, T
 * the work done by a theft. A worker that waits is useful for B of each B + R, one that steals at
 * once for B + T of each B + T + E. So stealing is better if R > E B / (B + T). R is not known in
 * advance; a worker that waits this long and then steals loses at most twice as much as one that
 * knew R (the ski rental problem; Zaharia et al. 2010 wait for locality in a similar way). So
 * workers do not wait if a theft costs nothing (short requests, prefetched data), or if there is
 * hardly any work at home.
 *
 * Plain data; not thread-safe.
 */
#ifndef SPLIT_QUEUE_COSTS_H
#define SPLIT_QUEUE_COSTS_H

#include "queue_plan.h"

/* The limit of waiting for work at home, because the learned cost may be wrong or outdated. */
#define QUEUE_LONGEST_PATIENCE_NS UINT64_C(2000000)
/* A worker whose processors are all busy for their home gains nothing by a theft, unless the
 * workers there are blocked: assumed after this time. */
#define QUEUE_BLOCKED_NS UINT64_C(2000000)
/* Assumed cost of a change until one was measured. Not zero: a worker that steals often at first
 * would measure only the cost of frequent stealing. */
#define QUEUE_UNSEEN_NS 100000
/* Time that a woken worker needs to get a request. */
#define QUEUE_WAKE_NS UINT64_C(200000)

struct queue_costs {
  struct queue_change {
    float extra_ns; /* of a request of the second group right after one of the first */
    uint32_t count;
  } change[QUEUE_GROUPS][QUEUE_GROUPS];
};

/* A request of `kind`, of `group`, took this much CPU time; its processor had run group `before`
 * (QUEUE_NO_GROUP: nothing yet). */
void split_queue_costs_learn(struct queue_costs *costs, struct queue_kind *kind,
                             struct queue_group *group, unsigned before, uint64_t took_ns);

/* E: the cost of a theft from `group` on a processor that ran `before` last. */
uint64_t split_queue_costs_of_theft(const struct queue_costs *costs, unsigned before,
                                    unsigned group);
/* Time to wait before a theft: from E, B, T. */
uint64_t split_queue_patience(uint64_t cost_ns, double busy_ns, double work_ns);
/* The mean of the latest values; there were `count` before this one. */
double split_queue_mean(double mean, uint32_t count, double value);

#endif
