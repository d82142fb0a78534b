/*
 * What it costs that a processor goes over from one group of kinds to another, learned from what happens; and from it how long
 * a worker waits before it steals.
 *
 * A theft costs twice: the stolen request finds none of its data in the thief's cache, and the thief's next request at home finds
 * less of its own. Both are CPU time beyond what such a request takes on a processor that ran its group before; E is their sum.
 * Waiting costs the processor's time too. Let B be for how long it works at home between two times of idleness, R how long these last,
 * T the work that a theft gets done. Who waits is useful for B of each B + R, who steals at once for B + T of each B + T + E. So to steal
 * is better if R > E B / (B + T). When will work come home? Nobody knows; whoever waits as long as that, and then steals, loses at most
 * twice what he would lose who knew (the ski rental problem; Zaharia et al. 2010 wait for locality alike). So nobody waits where a theft
 * costs nothing (short requests, prefetched data), nor where there is hardly any work at home.
 *
 * Plain data; not for several threads.
 */
#ifndef SPLIT_QUEUE_COSTS_H
#define SPLIT_QUEUE_COSTS_H

#include "queue_plan.h"

/* The limit of waiting for work at home, because the learned cost may be wrong or old. */
#define QUEUE_LONGEST_PATIENCE_NS UINT64_C(2000000)
/* A worker whose processors are all at work for their home has nothing to win by a theft: unless those who work there block. */
#define QUEUE_BLOCKED_NS UINT64_C(2000000)
/* What a change is thought to cost until one was seen. Not nothing: who steals much at first learns only what it is like to be stolen
 * from all the time. */
#define QUEUE_UNSEEN_NS 100000
/* A worker that was woken for a request needs about so long to get it. */
#define QUEUE_WAKE_NS UINT64_C(200000)

struct queue_costs {
  struct queue_change {
    float extra_ns; /* of a request of the second group right after one of the first */
    uint32_t count;
  } change[QUEUE_GROUPS][QUEUE_GROUPS];
};

/* A request of `kind`, of `group`, took so much CPU time; its processor had run group `before` (QUEUE_NO_GROUP: nothing yet). */
void split_queue_costs_learn(struct queue_costs *costs, struct queue_kind *kind,
                             struct queue_group *group, unsigned before, uint64_t took_ns);

/* E: what a theft from `group` costs on a processor that ran `before` last. */
uint64_t split_queue_costs_of_theft(const struct queue_costs *costs, unsigned before,
                                    unsigned group);
/* How long to wait before a theft: E, B, T. */
uint64_t split_queue_patience(uint64_t cost_ns, double busy_ns, double work_ns);
/* The mean of the latest values, of which there were `count` before this one. */
double split_queue_mean(double mean, uint32_t count, double value);

#endif
