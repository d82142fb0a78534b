/*
 * From the analyzer's decisions for kinds to homes of workers.
 *
 *     kinds ──> groups ──> domains ──> workers
 *     decision.queue names a kind's group; a domain is all groups of the same processors; each domain has its share of the workers.
 *
 * A kind that may run anywhere (no decision, no processors, all processors, or not meant for
 * routing) is roaming: group 0, which has no domain. Processors without a group are a domain of
 * their own: its workers take roaming requests, and steal. Invariant: there are no domains, or at
 * least two of them, each with a worker.
 *
 * Plain data in, plain data out; not thread-safe.
 */
#ifndef SPLIT_QUEUE_PLAN_H
#define SPLIT_QUEUE_PLAN_H

#include "decided.h"
#include "queue_lines.h"

#define QUEUE_KINDS 1024           /* kinds that are remembered; others overwrite them */
#define QUEUE_DOMAINS QUEUE_GROUPS /* group 0 has none, but the remaining processors may be one */
#define QUEUE_UNUSED_NS \
  (UINT64_C(10) * 1000000000) /* a group without requests for this long loses its home */

struct queue_cpus {
  uint64_t bits[SPLIT_CPUS_MAX / 64];
};

/* A kind in the queue's table. */
struct queue_kind {
  uint32_t code; /* 0: none */
  uint32_t sequence;
  uint8_t group;
  uint32_t warm_count;
  double warm_ns; /* time of its requests on a processor that ran the same group before */
};

struct queue_group {
  struct queue_cpus cpus;
  uint64_t last_put_ns;
  uint32_t kinds; /* number of remembered kinds in it */
  uint32_t warm_count;
  double warm_ns; /* time of its requests on a processor that ran the same group before */
  bool refused;   /* the kernel refused: this process may not use these processors */
  uint8_t domain; /* if it is among `routed` */
};

struct queue_domain {
  struct queue_cpus cpus;
  uint64_t groups;
  uint32_t slots; /* processors: the number of requests served at once */
  uint32_t workers;
};

struct queue_plan {
  struct queue_kind kinds[QUEUE_KINDS];
  struct queue_group groups[QUEUE_GROUPS];
  uint64_t routed; /* set of the groups that have a domain */
  unsigned domains;
  struct queue_domain domain[QUEUE_DOMAINS];
};

/* The kind's place; another kind that had it is dropped. */
struct queue_kind *split_queue_plan_kind(struct queue_plan *plan, uint32_t code);

/* Stores a decision for a kind. true: homes may change by it. */
bool split_queue_plan_learn(struct queue_plan *plan, struct queue_kind *kind,
                            const struct split_decided *decided);

/* The groups that should have a home now. */
uint64_t split_queue_plan_used(const struct queue_plan *plan, const struct queue_cpus *allowed,
                               uint64_t now_ns);

/*
 * Makes domains of the groups in `used`, and gives each of `workers` a domain: domain_of[worker].
 */
void split_queue_plan_lay_out(struct queue_plan *plan, uint64_t used,
                              const struct queue_cpus *allowed, unsigned workers,
                              uint8_t *domain_of);

#endif
