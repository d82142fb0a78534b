/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "groups.h"

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "cycles.h"
#include "decided.h"

#define GROUPS 128 /* the server's maximum */
#define QUEUES 64
#define ROAMING QUEUES /* work of kinds without a queue */
#define CODES SPLIT_KINDS_MAX
#define ROUND_NS UINT64_C(1000000000)

#define GROUPS_DOMINANT 0.7
/* Binding leaves cores idle if one queue's cores are full and another's are not: then all groups
 * run anywhere. */
#define FULL 0.9
#define IDLE 0.6

struct group {
  _Alignas(64) _Atomic uint64_t cycles[QUEUES + 1]; /* of this round, by queue */
  _Atomic int bound;                                /* the queue whose cores it has; -1: none */
};
static struct group groups[GROUPS];
static _Atomic bool switched_on;
static _Atomic unsigned bound_groups;

/* The latest decision for each kind: sequence << 32 | queue. */
static _Atomic uint64_t queue_of[CODES];
/* A kind of each queue, whose decision has the queue's cores. 0: none known. */
static _Atomic split_code_id kind_of_queue[QUEUES];

static _Atomic uint64_t round_ends_ns;
static uint64_t round_began; /* in cycles; written by the thread that sets round_ends_ns */

/* Thread-local: the queue it is bound to, -1: none; and the start of its statement. */
static _Thread_local int bound_for = -1;
static _Thread_local uint64_t began;

_Atomic bool groups_matter;

void groups_switch(bool on) {
  for (unsigned group = 0; group < GROUPS; group++) atomic_store(&groups[group].bound, -1);
  atomic_store(&bound_groups, 0);
  atomic_store(&switched_on, on);
  atomic_store(&groups_matter, groups_are_pool());
}

unsigned groups_bound(void) { return atomic_load(&bound_groups); }

bool groups_are_pool(void) {
  return &thread_handling != NULL && &threadpool_size != NULL &&
         thread_handling == SERVER_THREAD_POOL && threadpool_size > 0;
}

static struct group *group_of(MYSQL_THD thd) {
  return &groups[thd_get_thread_id(thd) % threadpool_size % GROUPS];
}

/* The class queue of a kind, read from the segment only after a new decision. */
static unsigned queue_of_code(split_code_id code) {
  uint32_t sequence = split_decision_sequence(code);
  if (sequence == 0 || code >= CODES) return ROAMING;
  uint64_t known = atomic_load_explicit(&queue_of[code], memory_order_relaxed);
  if (known >> 32 == sequence) return (unsigned)(known & 0xff);
  struct split_decided decided;
  if (!split_decided(code, &decided)) return known == 0 ? ROAMING : (unsigned)(known & 0xff);
  uint64_t any = 0;
  for (size_t i = 0; i < sizeof decided.cpu_mask / sizeof *decided.cpu_mask; i++)
    any |= decided.cpu_mask[i];
  bool routed = decided.actuation == SPLIT_ACT_SOFT && decided.queue < QUEUES && any != 0;
  unsigned queue = routed ? decided.queue : ROAMING;
  if (routed) atomic_store_explicit(&kind_of_queue[queue], code, memory_order_relaxed);
  atomic_store_explicit(&queue_of[code], (uint64_t)decided.sequence << 32 | queue,
                        memory_order_relaxed);
  return queue;
}

/* The cores of a queue; false if it has none any more. */
static bool cores_of(unsigned queue, struct split_decided *decided) {
  split_code_id code = atomic_load_explicit(&kind_of_queue[queue], memory_order_relaxed);
  return code != 0 && split_decided(code, decided) && decided->actuation == SPLIT_ACT_SOFT &&
         decided->queue == queue;
}

static unsigned count_cores(const struct split_decided *decided) {
  unsigned cores = 0;
  for (size_t i = 0; i < sizeof decided->cpu_mask / sizeof *decided->cpu_mask; i++)
    cores += (unsigned)__builtin_popcountll(decided->cpu_mask[i]);
  return cores;
}

/* The queue with most of the group's work in this round, or -1; `busy` has the work by queue. */
static int dominant_queue(struct group *group, uint64_t busy[QUEUES + 1]) {
  uint64_t total = 0, most = 0;
  int best = -1;
  for (unsigned queue = 0; queue <= QUEUES; queue++) {
    uint64_t cycles = atomic_exchange_explicit(&group->cycles[queue], 0, memory_order_relaxed);
    busy[queue] += cycles;
    total += cycles;
    if (queue < QUEUES && cycles > most) {
      most = cycles;
      best = (int)queue;
    }
  }
  if (total == 0) return atomic_load_explicit(&group->bound, memory_order_relaxed);
  return (double)most >= GROUPS_DOMINANT * (double)total ? best : -1;
}

/* Whether the cores of one queue are full while another's are idle. */
static bool is_unbalanced(const uint64_t busy[QUEUES + 1], uint64_t cycles) {
  double fullest = 0, idlest = 1;
  for (unsigned queue = 0; queue < QUEUES; queue++) {
    struct split_decided decided;
    if (!cores_of(queue, &decided)) continue;
    unsigned cores = count_cores(&decided);
    if (cores == 0) continue;
    double use = (double)busy[queue] / ((double)cores * (double)cycles);
    if (use > fullest) fullest = use;
    if (use < idlest) idlest = use;
  }
  return fullest > FULL && idlest < IDLE;
}

static void end_round(void) {
  uint64_t now = split_cycles(), cycles = now - round_began;
  uint64_t busy[QUEUES + 1] = {0};
  int wanted[GROUPS];
  unsigned bound = 0;

  round_began = now;
  for (unsigned group = 0; group < GROUPS; group++)
    wanted[group] = dominant_queue(&groups[group], busy);
  bool anywhere = cycles == 0 || is_unbalanced(busy, cycles) || !split_placing(0);
  for (unsigned group = 0; group < GROUPS; group++) {
    if (anywhere) wanted[group] = -1;
    if (wanted[group] >= 0) bound++;
    atomic_store_explicit(&groups[group].bound, wanted[group], memory_order_relaxed);
  }
  atomic_store(&bound_groups, bound);
}

/* Applies a changed binding of the group to this thread, when it begins a statement; waiting
 * threads need no change. */
void groups_follow(MYSQL_THD thd) {
  if (!groups_are_pool() || !atomic_load_explicit(&switched_on, memory_order_relaxed)) {
    if (bound_for >= 0) split_thread_widen();
    bound_for = -1;
    return;
  }
  began = split_cycles();
  int wanted = atomic_load_explicit(&group_of(thd)->bound, memory_order_relaxed);
  if (wanted < 0) {
    if (bound_for >= 0) split_thread_widen();
    bound_for = -1;
    return;
  }
  if (bound_for == wanted && split_thread_is_narrowed()) return;
  struct split_decided decided;
  bound_for =
      cores_of((unsigned)wanted, &decided) && split_thread_narrow(decided.cpu_mask) ? wanted : -1;
}

void groups_count(MYSQL_THD thd, split_code_id code) {
  if (!groups_are_pool() || !atomic_load_explicit(&switched_on, memory_order_relaxed)) return;
  struct group *group = group_of(thd);
  atomic_fetch_add_explicit(&group->cycles[queue_of_code(code)], split_cycles() - began,
                            memory_order_relaxed);
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  uint64_t now = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
  uint64_t ends = atomic_load_explicit(&round_ends_ns, memory_order_relaxed);
  if (now < ends) return;
  /* One thread a round. */
  if (atomic_compare_exchange_strong(&round_ends_ns, &ends, now + ROUND_NS)) end_round();
}
