/* Decides which worker takes which request, and which one is woken for it. No lock, no clock, no
 * thread here, so that tests can set up any situation. */
#include "queue_inside.h"

uint8_t split_queue_ran_before(const split_queue *queue, unsigned number) {
  const unsigned domain = queue->domain_of[number];
  return queue->plan.domain[domain].slots == 1 ? queue->scene[domain].before
                                               : queue->worker[number].before;
}

bool split_queue_is_home(const split_queue *queue, unsigned number, unsigned group) {
  if (!split_queue_placed(queue)) return true;
  const uint64_t own = queue->plan.domain[queue->domain_of[number]].groups;
  return ((own | ~queue->plan.routed) >> group & 1) != 0;
}

/* The time at which a worker may take the first request of a group that is not at home with it. */
static uint64_t theft_due(const split_queue *queue, unsigned number, unsigned group,
                          uint64_t asked_ns) {
  const uint64_t put = split_queue_lines_first(&queue->lines, group)->put_ns;
  const unsigned domain = queue->domain_of[number], owner = queue->plan.groups[group].domain;
  const struct queue_scene *scene = &queue->scene[domain];
  if (scene->running >= split_queue_room(queue, domain))
    return (put > asked_ns ? put : asked_ns) + QUEUE_BLOCKED_NS;
  const uint64_t cost =
      split_queue_costs_of_theft(&queue->costs, split_queue_ran_before(queue, number), group);
  uint64_t patience = split_queue_patience(cost, scene->busy_ns, queue->plan.groups[group].warm_ns);
  /* A worker at home is about to take it. */
  if (queue->scene[owner].running < split_queue_room(queue, owner) && patience < QUEUE_WAKE_NS)
    patience = QUEUE_WAKE_NS;
  return (put > scene->idle_since_ns ? put : scene->idle_since_ns) + patience;
}

/* A thief need not go home for work that is younger than the next request to steal: it changes
 * less often, and no request waits longer than in one queue. */
static unsigned goes_on(const split_queue *queue, unsigned number, unsigned at_home) {
  const uint8_t stolen = split_queue_ran_before(queue, number);
  if (stolen == at_home || stolen == QUEUE_NO_GROUP || !(queue->lines.filled >> stolen & 1))
    return at_home;
  if (split_queue_lines_first(&queue->lines, stolen)->age >
      split_queue_lines_first(&queue->lines, at_home)->age)
    return at_home;
  const uint64_t cost = split_queue_costs_of_theft(&queue->costs, stolen, at_home);
  return cost > QUEUE_SHORTEST_SLEEP_NS ? stolen : at_home;
}

/* True if the worker's processor runs a stolen request, and a request of `group` would displace
 * its data: both would share the processor's time, with no gain. */
static bool clashes(const split_queue *queue, unsigned number, unsigned group) {
  const unsigned domain = queue->domain_of[number];
  const uint8_t runs = split_queue_ran_before(queue, number);
  if (queue->plan.domain[domain].slots > 1 || queue->scene[domain].running == 0) return false;
  if (runs == group || runs == QUEUE_NO_GROUP || split_queue_is_home(queue, number, runs))
    return false;
  return split_queue_costs_of_theft(&queue->costs, runs, group) > QUEUE_SHORTEST_SLEEP_NS;
}

/* The earliest time at which a worker that wants work since `asked_ns` may take the first
 * request of a group. 0: at any time. */
static uint64_t may_take(const split_queue *queue, unsigned number, unsigned group,
                         uint64_t asked_ns) {
  if (queue->shut) return 0;
  if (!split_queue_is_home(queue, number, group)) return theft_due(queue, number, group, asked_ns);
  if (!clashes(queue, number, group)) return 0;
  const uint64_t put = split_queue_lines_first(&queue->lines, group)->put_ns;
  return (put > asked_ns ? put : asked_ns) + QUEUE_BLOCKED_NS;
}

unsigned split_queue_choose(const split_queue *queue, unsigned number, uint64_t asked_ns,
                            uint64_t now, uint64_t *due) {
  *due = QUEUE_NEVER;
  if (!split_queue_placed(queue)) return split_queue_lines_oldest(&queue->lines, UINT64_MAX);
  const uint64_t home = queue->plan.domain[queue->domain_of[number]].groups | ~queue->plan.routed;
  unsigned first = split_queue_lines_oldest(&queue->lines, home);
  if (first != QUEUE_NO_GROUP) {
    first = goes_on(queue, number, first);
    *due = may_take(queue, number, first, asked_ns);
  } else {
    for (uint64_t left = queue->lines.filled; left != 0; left &= left - 1) {
      const unsigned group = (unsigned)__builtin_ctzll(left);
      const uint64_t at = may_take(queue, number, group, asked_ns);
      if (at >= *due) continue;
      *due = at;
      first = group;
    }
  }
  return *due <= now + QUEUE_SHORTEST_SLEEP_NS ? first : QUEUE_NO_GROUP;
}

static struct queue_sleeper *last_unclaimed(split_queue *queue, unsigned domain) {
  for (unsigned i = queue->sleepers; i-- > 0;) {
    struct queue_sleeper *sleeper = queue->asleep[i];
    if (sleeper->claimed) continue;
    if (domain == QUEUE_DOMAINS || queue->domain_of[sleeper->worker] == domain) return sleeper;
  }
  return NULL;
}

/* The worker that may take it first. If that is later, it must set its alarm, unless another
 * worker checks by then anyway. */
static struct queue_sleeper *first_of_all(split_queue *queue, unsigned group) {
  struct queue_sleeper *first = NULL;
  uint64_t earliest = QUEUE_NEVER, looks = QUEUE_NEVER;
  for (unsigned i = queue->sleepers; i-- > 0 && earliest > 0;) {
    struct queue_sleeper *sleeper = queue->asleep[i];
    if (sleeper->claimed) continue;
    const uint64_t at = may_take(queue, sleeper->worker, group, sleeper->asked_ns);
    if (at < earliest) {
      earliest = at;
      first = sleeper;
    }
    if (sleeper->due < looks) looks = sleeper->due;
  }
  return earliest > 0 && looks <= earliest ? NULL : first;
}

struct queue_sleeper *split_queue_claim(split_queue *queue, unsigned group) {
  struct queue_sleeper *claimed = NULL;
  if (queue->sleepers == 0) return NULL;
  if (split_queue_placed(queue) && queue->plan.routed >> group & 1) {
    claimed = first_of_all(queue, group);
  } else {
    /* At home with all workers: best where a processor is idle. */
    for (unsigned at = 0; at < queue->plan.domains && claimed == NULL; at++)
      if (queue->scene[at].running < split_queue_room(queue, at))
        claimed = last_unclaimed(queue, at);
    if (claimed == NULL) claimed = last_unclaimed(queue, QUEUE_DOMAINS);
  }
  if (claimed != NULL) claimed->claimed = true;
  return claimed;
}
