/*
 * Private declarations of a split_queue, for queue.c (its calls) and queue_choice.c (its
 * decisions).
 */
#ifndef SPLIT_QUEUE_INSIDE_H
#define SPLIT_QUEUE_INSIDE_H

#include "queue_costs.h"
#include "split_queue.h"

#include <pthread.h>

#define QUEUE_NEVER UINT64_MAX
/* A sleep and its end cost about this much: no worker sleeps for less. */
#define QUEUE_SHORTEST_SLEEP_NS UINT64_C(20000)

struct queue_worker {
  _Alignas(SPLIT_LINE) pthread_cond_t wake;
  uint32_t running; /* requests: at most one, unless several threads call themselves this worker */
  uint8_t before;   /* the group that ran last on this processor */
};

/* A waiting thread, on its stack. */
struct queue_sleeper {
  uint32_t worker;
  bool claimed;      /* a thread woke it, or is about to */
  uint64_t asked_ns; /* the time since which it wants work */
  uint64_t due;      /* the time at which it checks for a theft */
};

/* State of a domain of the plan. */
struct queue_scene {
  uint32_t running;
  uint8_t before; /* the group that ran last, if the domain is one processor */
  uint64_t idle_since_ns;
  /* Time that it works at home between idle periods or thefts. */
  uint64_t busy_since_ns; /* 0: it is not working at home now */
  double busy_ns;
  uint32_t busy_count;
  uint32_t clashes; /* number of times that requests of different groups ran at once */
};

struct split_queue {
  pthread_mutex_t lock;
  uint64_t serial; /* unique among the queues of this process, even at the same address */
  bool shut;
  bool placing;
  bool plan_changed;
  uint32_t version; /* version of the homes: increases whenever a worker's binding may change */
  uint64_t laid_out_ns;
  uint64_t used;             /* groups, as laid out */
  struct queue_cpus allowed; /* the workers' CPUs when they first came */
  struct queue_lines lines;
  struct queue_plan plan;
  struct queue_costs costs;
  struct queue_scene scene[QUEUE_DOMAINS];
  struct split_queue_counts counts;
  unsigned workers;
  unsigned sleepers;
  struct queue_sleeper **asleep; /* the last to fall asleep is at the end: warmest cache */
  uint8_t *domain_of;            /* by worker, while there are domains */
  struct queue_worker worker[];
};

static inline bool split_queue_placed(const split_queue *queue) { return queue->plan.domains > 0; }

/* The number of requests that can be served at once in a domain. */
static inline uint32_t split_queue_room(const split_queue *queue, unsigned domain) {
  const struct queue_domain *of = &queue->plan.domain[domain];
  return of->slots < of->workers ? of->slots : of->workers;
}

/* True if a group is at home with worker `number`. */
bool split_queue_is_home(const split_queue *queue, unsigned number, unsigned group);

/* The group that ran last on worker `number`'s processor. */
uint8_t split_queue_ran_before(const split_queue *queue, unsigned number);

/*
 * The group from which a worker that wants work since `asked_ns` takes now. QUEUE_NO_GROUP: none
 * before `due`.
 */
unsigned split_queue_choose(const split_queue *queue, unsigned number, uint64_t asked_ns,
                            uint64_t now, uint64_t *due);

/*
 * Claims the sleeper that must check a request that was added to the line of `group`. NULL: none is
 * needed.
 */
struct queue_sleeper *split_queue_claim(split_queue *queue, unsigned group);

#endif
