/* Costs of switching between groups, learned from requests. queue_costs.h has the model. */
#include "queue_costs.h"

/*
 * The first values have equal weight, later ones 1/16: the estimate follows a change within some
 * tens of requests.
 */
enum { WINDOW = 16 };

double split_queue_mean(double mean, uint32_t count, double value) {
  return mean + (value - mean) / (count < WINDOW ? count + 1 : WINDOW);
}

void split_queue_costs_learn(struct queue_costs *costs, struct queue_kind *kind,
                             struct queue_group *group, unsigned before, uint64_t took_ns) {
  double took = (double)took_ns;
  if (before == kind->group || before == QUEUE_NO_GROUP) {
    kind->warm_ns = split_queue_mean(kind->warm_ns, kind->warm_count, took);
    if (kind->warm_count < WINDOW) kind->warm_count++;
    group->warm_ns = split_queue_mean(group->warm_ns, group->warm_count, took);
    if (group->warm_count < WINDOW) group->warm_count++;
    return;
  }
  if (kind->warm_count < 4) return; /* no base for comparison yet */
  struct queue_change *change = &costs->change[before][kind->group];
  /*
   * Negative values are kept, so that noise does not add up; a single outlier (an interrupt, a page
   * fault) must not decide.
   */
  double limit = (double)QUEUE_LONGEST_PATIENCE_NS, extra = took - kind->warm_ns;
  extra = extra > limit ? limit : extra < -limit ? -limit : extra;
  change->extra_ns = (float)split_queue_mean((double)change->extra_ns, change->count, extra);
  if (change->count < WINDOW) change->count++;
}

static float extra(const struct queue_change *change) {
  return change->count > 0 ? change->extra_ns : QUEUE_UNSEEN_NS;
}

uint64_t split_queue_costs_of_theft(const struct queue_costs *costs, unsigned before,
                                    unsigned group) {
  if (before == group || before == QUEUE_NO_GROUP) return 0;
  const float cost = extra(&costs->change[before][group]) + extra(&costs->change[group][before]);
  if (cost <= 0) return 0;
  uint64_t ns = (uint64_t)cost;
  return ns < QUEUE_LONGEST_PATIENCE_NS ? ns : QUEUE_LONGEST_PATIENCE_NS;
}

uint64_t split_queue_patience(uint64_t cost_ns, double busy_ns, double work_ns) {
  if (busy_ns <= 0) return cost_ns; /* not known yet */
  return (uint64_t)((double)cost_ns * busy_ns / (busy_ns + work_ns));
}
