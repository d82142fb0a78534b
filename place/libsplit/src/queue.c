/*
 * Class queues with soft stealing: split_queue.h has the rules.
 *
 *   queue_lines.h    waiting requests, in a line for each group of kinds
 *   queue_plan.h     groups, domains (processors), homes of workers, from the analyzer's decisions
 *   queue_costs.h    the cost of a theft, and so how long a worker waits before it steals
 *   queue_choice.c   which worker takes which request, and which one is woken for it
 *   here             the calls: the lock, waiting, workers' affinity
 *
 * Invariants:
 *   - Everything except affinities is guarded by the lock. The only system calls under it are
 *     waiting, and waking all after a new plan.
 *   - A sleeping worker is in `asleep`. A thread that puts a request claims a sleeper that could
 *     take it; a claimed sleeper checks the queue itself; an awoken worker checks it before it
 *     sleeps again. So no request is forgotten: either a sleeper checks, or all workers that could
 *     take it are awake, and check before they sleep.
 *   - A worker that sleeps while there is a request that it might steal has a time (`due`) at which
 *     it checks again.
 *   - While nothing is placed, all groups are home to all workers: one queue, by age.
 */
#include "queue_inside.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Interval at which a bound sleeping worker checks whether it should still be bound: within 2 s
 * of an analyzer's end, of which 1.5 s pass until it counts as ended. */
#define RECHECK_NS UINT64_C(400000000)
/* Interval at which the groups in use are checked. */
#define LAY_OUT_NS UINT64_C(1000000000)
/* Of requests that run on their own group's processor, one in this many has its CPU time
 * measured (two calls of 170 ns). */
enum { WARM_SAMPLING = 8 };

/* State of the calling thread, which works for one queue at a time. */
static _Thread_local struct {
  uint64_t queue;   /* its serial number; 0: none */
  uint32_t version; /* of the homes that it is bound to */
  bool bound;
  bool refused;
  uint32_t passed_over;
  /* The request in progress, if its CPU time is measured. */
  struct {
    bool on;
    uint8_t before, group;
    uint32_t code, version, clashes;
    uint64_t cpu_ns;
  } timed;
} here;

static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- opening and closing ---- */

static bool get_memory(split_queue *queue, uint32_t capacity, unsigned workers) {
  queue->asleep = calloc(workers, sizeof(*queue->asleep));
  queue->domain_of = calloc(workers, sizeof(*queue->domain_of));
  return split_queue_lines_open(&queue->lines, capacity) && queue->asleep != NULL &&
         queue->domain_of != NULL;
}

static void give_memory(split_queue *queue) {
  split_queue_lines_close(&queue->lines);
  free(queue->asleep);
  free(queue->domain_of);
  free(queue);
}

split_queue *split_queue_open(size_t capacity, unsigned workers) {
  if (capacity == 0 || capacity >= UINT32_MAX || workers == 0 || workers > UINT16_MAX) return NULL;
  static _Atomic uint64_t serials;
  const int error = errno;
  const size_t bytes = sizeof(split_queue) + workers * sizeof(struct queue_worker);
  split_queue *queue =
      aligned_alloc(SPLIT_LINE, (bytes + SPLIT_LINE - 1) / SPLIT_LINE * SPLIT_LINE);
  if (queue != NULL) {
    memset(queue, 0, sizeof(*queue));
    queue->serial = ++serials;
    queue->workers = workers;
    if (!get_memory(queue, (uint32_t)capacity, workers)) {
      give_memory(queue);
      queue = NULL;
    }
  }
  errno = error;
  if (queue == NULL) return NULL;
  pthread_mutex_init(&queue->lock, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  for (unsigned i = 0; i < workers; i++) {
    queue->worker[i] = (struct queue_worker){.before = QUEUE_NO_GROUP};
    pthread_cond_init(&queue->worker[i].wake, &monotonic);
  }
  pthread_condattr_destroy(&monotonic);
  return queue;
}

void split_queue_close(split_queue *queue) {
  if (queue == NULL) return;
  for (unsigned i = 0; i < queue->workers; i++) pthread_cond_destroy(&queue->worker[i].wake);
  pthread_mutex_destroy(&queue->lock);
  give_memory(queue);
}

/* ---- following the analyzer ---- */

static void wake_all(split_queue *queue) {
  for (unsigned i = 0; i < queue->sleepers; i++) {
    queue->asleep[i]->claimed = true;
    pthread_cond_broadcast(&queue->worker[queue->asleep[i]->worker].wake);
  }
}

/* Updates whether requests are placed, and the groups in use. */
static void refresh(split_queue *queue, uint64_t now) {
  const bool placing = split_placing(now);
  if (placing == queue->placing && !queue->plan_changed &&
      (!placing || now - queue->laid_out_ns < LAY_OUT_NS))
    return;
  const uint64_t used = placing ? split_queue_plan_used(&queue->plan, &queue->allowed, now) : 0;
  const bool same = used == queue->used && (used == 0 || !queue->plan_changed);
  queue->placing = placing;
  queue->plan_changed = false;
  queue->laid_out_ns = now;
  if (same) return;
  queue->used = used;
  split_queue_plan_lay_out(&queue->plan, used, &queue->allowed, queue->workers, queue->domain_of);
  queue->version++;
  for (unsigned at = 0; at < queue->plan.domains; at++)
    queue->scene[at] = (struct queue_scene){.before = QUEUE_NO_GROUP, .idle_since_ns = now};
  for (unsigned i = 0; split_queue_placed(queue) && i < queue->workers; i++)
    queue->scene[queue->domain_of[i]].running += queue->worker[i].running;
  wake_all(queue);
}

/* Registers a thread that is new to the queue, with the CPUs that it may use. */
static void arrive(split_queue *queue) {
  cpu_set_t cpus;
  const bool known = sched_getaffinity(0, sizeof(cpus), &cpus) == 0;
  memset(&here, 0, sizeof(here));
  here.queue = queue->serial;
  pthread_mutex_lock(&queue->lock);
  for (unsigned cpu = 0; known && cpu < SPLIT_CPUS_MAX; cpu++) {
    const uint64_t bit = UINT64_C(1) << cpu % 64;
    if (!CPU_ISSET(cpu, &cpus) || queue->allowed.bits[cpu / 64] & bit) continue;
    queue->allowed.bits[cpu / 64] |= bit;
    queue->plan_changed = true;
  }
  pthread_mutex_unlock(&queue->lock);
}

/* The kernel refused the processors of a domain: its groups have no home until there is another
 * decision. */
static void give_up(split_queue *queue, unsigned domain) {
  for (uint64_t left = queue->plan.domain[domain].groups; left != 0; left &= left - 1) {
    queue->plan.groups[__builtin_ctzll(left)].refused = true;
    queue->plan_changed = true;
  }
}

/* Sets this thread's affinity according to the worker's plan. Returns true if the lock was
 * released in between. */
static bool follow_plan(split_queue *queue, unsigned number) {
  if (!split_queue_placed(queue)) {
    if (!here.bound) return false;
    here.bound = false;
    pthread_mutex_unlock(&queue->lock);
    split_thread_widen();
    pthread_mutex_lock(&queue->lock);
    return true;
  }
  /* The library's service thread may have widened it, during a silence of the analyzer that was
   * not noticed here. */
  const bool current = here.version == queue->version;
  if (current && (here.refused || split_thread_is_narrowed())) return false;
  const struct queue_cpus cpus = queue->plan.domain[queue->domain_of[number]].cpus;
  here.version = queue->version;
  pthread_mutex_unlock(&queue->lock);
  here.bound = split_thread_narrow(cpus.bits);
  here.refused = !here.bound;
  pthread_mutex_lock(&queue->lock);
  if (here.refused && split_queue_placed(queue) && here.version == queue->version)
    give_up(queue, queue->domain_of[number]);
  return true;
}

/* ---- taking ---- */

/* Records whether the worker's processors continue with work of their home (`busy`) or not. */
static void note_busy(split_queue *queue, unsigned number, bool busy, uint64_t now) {
  if (!split_queue_placed(queue)) return;
  struct queue_scene *scene = &queue->scene[queue->domain_of[number]];
  if (busy) {
    if (scene->busy_since_ns == 0) scene->busy_since_ns = now;
  } else if (scene->running == 0 && scene->busy_since_ns != 0) {
    scene->busy_ns =
        split_queue_mean(scene->busy_ns, scene->busy_count++, (double)(now - scene->busy_since_ns));
    scene->busy_since_ns = 0;
  }
}

static void *begin(split_queue *queue, unsigned number, unsigned group) {
  struct queue_worker *worker = &queue->worker[number];
  const struct queue_request taken = split_queue_lines_take(&queue->lines, group);
  worker->running++;
  here.timed.on = false;
  if (split_queue_is_home(queue, number, group))
    queue->counts.taken_at_home++;
  else
    queue->counts.stolen++;
  if (split_queue_placed(queue)) {
    queue->counts.placed++;
    struct queue_scene *scene = &queue->scene[queue->domain_of[number]];
    const uint8_t before = split_queue_ran_before(queue, number);
    const struct queue_kind *kind = &queue->plan.kinds[taken.code % QUEUE_KINDS];
    if (taken.code != SPLIT_CODE_NONE && kind->code == taken.code && kind->group == group) {
      const bool changes = before != group && before != QUEUE_NO_GROUP;
      /* While a request of another group runs there, neither time is comparable. */
      const bool alone = scene->running == 0 || !changes;
      if (!alone) scene->clashes++;
      here.timed.clashes = scene->clashes;
      const bool wanted =
          changes || kind->warm_count < WARM_SAMPLING || here.passed_over >= WARM_SAMPLING;
      here.timed.on = wanted && alone;
      here.passed_over = here.timed.on ? 0 : here.passed_over + 1;
      here.timed.before = before;
      here.timed.group = (uint8_t)group;
      here.timed.code = taken.code;
      here.timed.version = queue->version;
    }
    scene->before = (uint8_t)group;
    scene->running++;
  }
  worker->before = (uint8_t)group;
  return taken.request;
}

/* The worker has finished the request that it took before. */
static void end(split_queue *queue, unsigned number, uint64_t now, uint64_t cpu_ns) {
  struct queue_worker *worker = &queue->worker[number];
  if (worker->running == 0) return;
  worker->running--;
  if (!split_queue_placed(queue)) return;
  const unsigned domain = queue->domain_of[number];
  struct queue_scene *scene = &queue->scene[domain];
  if (scene->running-- == split_queue_room(queue, domain)) scene->idle_since_ns = now;
  struct queue_kind *kind = &queue->plan.kinds[here.timed.code % QUEUE_KINDS];
  if (here.timed.on && here.timed.version == queue->version &&
      here.timed.clashes == scene->clashes && kind->code == here.timed.code &&
      kind->group == here.timed.group)
    split_queue_costs_learn(&queue->costs, kind, &queue->plan.groups[kind->group],
                            here.timed.before, cpu_ns - here.timed.cpu_ns);
}

static void sleep_until(split_queue *queue, struct queue_sleeper *sleeper, uint64_t until) {
  pthread_cond_t *wake = &queue->worker[sleeper->worker].wake;
  const bool listed = queue->sleepers < queue->workers;
  sleeper->claimed = false;
  if (listed) {
    queue->asleep[queue->sleepers++] = sleeper;
  } else { /* more threads than announced: these are not woken */
    const uint64_t soon = clock_ns(CLOCK_MONOTONIC) + 1000000;
    if (until > soon) until = soon;
  }
  if (until == QUEUE_NEVER) {
    pthread_cond_wait(wake, &queue->lock);
  } else {
    const struct timespec at = {.tv_sec = (time_t)(until / 1000000000u),
                                .tv_nsec = (long)(until % 1000000000u)};
    pthread_cond_timedwait(wake, &queue->lock, &at);
  }
  if (!listed) return;
  unsigned at = 0;
  while (queue->asleep[at] != sleeper) at++;
  queue->sleepers--;
  memmove(&queue->asleep[at], &queue->asleep[at + 1],
          (queue->sleepers - at) * sizeof(*queue->asleep));
}

/* The thread stops working for the queue. */
static void leave(void) {
  if (here.bound) split_thread_widen();
  here.bound = false;
  here.queue = 0;
}

void *split_queue_take(split_queue *queue, unsigned number) {
  const int error = errno;
  number %= queue->workers;
  if (here.queue != queue->serial) {
    leave();
    arrive(queue);
  }
  const uint64_t cpu_ns = here.timed.on ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
  uint64_t now = clock_ns(CLOCK_MONOTONIC);
  struct queue_sleeper sleeper = {.worker = number, .asked_ns = now};
  void *request = NULL;
  pthread_mutex_lock(&queue->lock);
  end(queue, number, now, cpu_ns);
  for (;;) {
    refresh(queue, now);
    if (follow_plan(queue, number)) {
      now = clock_ns(CLOCK_MONOTONIC);
      continue;
    }
    const unsigned group = split_queue_choose(queue, number, sleeper.asked_ns, now, &sleeper.due);
    note_busy(queue, number, group != QUEUE_NO_GROUP && split_queue_is_home(queue, number, group),
              now);
    if (group != QUEUE_NO_GROUP) {
      request = begin(queue, number, group);
      break;
    }
    if (queue->shut && queue->lines.waiting == 0) break;
    const uint64_t recheck = here.bound ? now + RECHECK_NS : QUEUE_NEVER;
    sleep_until(queue, &sleeper, sleeper.due < recheck ? sleeper.due : recheck);
    now = clock_ns(CLOCK_MONOTONIC);
  }
  pthread_mutex_unlock(&queue->lock);
  if (request == NULL)
    leave();
  else if (here.timed.on)
    here.timed.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  errno = error;
  return request;
}

/* ---- putting ---- */

/* Looks up the analyzer's present decision for the kind; returns its group. */
static unsigned group_of(split_queue *queue, split_code_id code, uint64_t now) {
  if (code == SPLIT_CODE_NONE) return QUEUE_ROAMING;
  struct queue_kind *kind = split_queue_plan_kind(&queue->plan, code);
  struct split_decided decided;
  if (split_decision_sequence(code) != kind->sequence && split_decided(code, &decided) &&
      split_queue_plan_learn(&queue->plan, kind, &decided))
    queue->plan_changed = true;
  queue->plan.groups[kind->group].last_put_ns = now;
  return kind->group;
}

bool split_queue_put(split_queue *queue, const void *key, size_t length, void *request) {
  const int error = errno;
  const split_code_id code = split_kind_of(key, length);
  const uint64_t now = clock_ns(CLOCK_MONOTONIC);
  pthread_mutex_lock(&queue->lock);
  const unsigned group = group_of(queue, code, now);
  refresh(queue, now);
  const bool done = request != NULL && !queue->shut &&
                    split_queue_lines_put(&queue->lines, group, code, request, now);
  pthread_cond_t *wake = NULL;
  if (done) {
    queue->counts.put++;
    const struct queue_sleeper *claimed = split_queue_claim(queue, group);
    if (claimed != NULL) wake = &queue->worker[claimed->worker].wake;
  } else {
    queue->counts.refused++;
  }
  pthread_mutex_unlock(&queue->lock);
  if (wake != NULL) pthread_cond_broadcast(wake);
  errno = error;
  return done;
}

void split_queue_shut(split_queue *queue) {
  pthread_mutex_lock(&queue->lock);
  queue->shut = true;
  wake_all(queue);
  pthread_mutex_unlock(&queue->lock);
}

void split_queue_counts(const split_queue *queue, struct split_queue_counts *counts) {
  /* The queue itself was allocated by split_queue_open and is not constant. */
  pthread_mutex_t *lock = (pthread_mutex_t *)&queue->lock;
  pthread_mutex_lock(lock);
  *counts = queue->counts;
  pthread_mutex_unlock(lock);
}
