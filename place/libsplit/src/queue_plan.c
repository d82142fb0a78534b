/* Groups, domains and homes of workers. queue_plan.h has the rules. */
#include "queue_plan.h"

#include <string.h>

enum { WORDS = SPLIT_CPUS_MAX / 64 };

struct queue_kind *split_queue_plan_kind(struct queue_plan *plan, uint32_t code) {
  struct queue_kind *kind = &plan->kinds[code % QUEUE_KINDS];
  if (kind->code != code) {
    if (kind->code != 0) plan->groups[kind->group].kinds--;
    *kind = (struct queue_kind){.code = code, .group = QUEUE_ROAMING};
    plan->groups[QUEUE_ROAMING].kinds++;
  }
  return kind;
}

static bool nothing_in(const struct queue_cpus *cpus) {
  for (unsigned i = 0; i < WORDS; i++)
    if (cpus->bits[i] != 0) return false;
  return true;
}

static struct queue_cpus in_both(const struct queue_cpus *a, const struct queue_cpus *b) {
  struct queue_cpus both;
  for (unsigned i = 0; i < WORDS; i++) both.bits[i] = a->bits[i] & b->bits[i];
  return both;
}

static bool equal(const struct queue_cpus *a, const struct queue_cpus *b) {
  return memcmp(a, b, sizeof(*a)) == 0;
}

static uint32_t count(const struct queue_cpus *cpus) {
  uint32_t bits = 0;
  for (unsigned i = 0; i < WORDS; i++) bits += (uint32_t)__builtin_popcountll(cpus->bits[i]);
  return bits;
}

bool split_queue_plan_learn(struct queue_plan *plan, struct queue_kind *kind,
                            const struct split_decided *decided) {
  struct queue_cpus cpus;
  memcpy(&cpus, decided->cpu_mask, sizeof(cpus));
  /*
   * The numbers come from shared memory: one that is too large means "anywhere", like every
   * decision that is not for routing.
   */
  bool routed = decided->actuation == SPLIT_ACT_SOFT && decided->queue < QUEUE_GROUPS - 1 &&
                !nothing_in(&cpus);
  uint8_t group = routed ? (uint8_t)(decided->queue + 1) : QUEUE_ROAMING;
  kind->sequence = decided->sequence;
  bool changed = group != kind->group;
  if (changed) {
    plan->groups[kind->group].kinds--;
    plan->groups[group].kinds++;
    kind->group = group;
    kind->warm_count = 0;
  }
  if (routed && !equal(&cpus, &plan->groups[group].cpus)) {
    plan->groups[group].cpus = cpus;
    plan->groups[group].refused = false;
    changed = true;
  }
  return changed;
}

uint64_t split_queue_plan_used(const struct queue_plan *plan, const struct queue_cpus *allowed,
                               uint64_t now_ns) {
  uint64_t used = 0;
  for (unsigned group = 1; group < QUEUE_GROUPS; group++) {
    const struct queue_group *of = &plan->groups[group];
    if (of->kinds == 0 || of->refused) continue;
    if (now_ns > of->last_put_ns && now_ns - of->last_put_ns > QUEUE_UNUSED_NS) continue;
    struct queue_cpus ours = in_both(&of->cpus, allowed);
    if (!nothing_in(&ours) && !equal(&ours, allowed)) used |= UINT64_C(1) << group;
  }
  return used;
}

static void add_domain(struct queue_plan *plan, const struct queue_cpus *cpus, unsigned group) {
  unsigned at = 0;
  while (at < plan->domains && !equal(&plan->domain[at].cpus, cpus)) at++;
  if (at == plan->domains) {
    plan->domain[at] = (struct queue_domain){.cpus = *cpus};
    plan->domains++;
  }
  if (group != QUEUE_ROAMING) plan->domain[at].groups |= UINT64_C(1) << group;
}

/* With fewer workers than domains, a worker has several domains. */
static void merge_domains(struct queue_plan *plan, unsigned workers) {
  for (unsigned at = workers; at < plan->domains; at++) {
    struct queue_domain *into = &plan->domain[at % workers];
    into->groups |= plan->domain[at].groups;
    for (unsigned i = 0; i < WORDS; i++) into->cpus.bits[i] |= plan->domain[at].cpus.bits[i];
  }
  if (plan->domains > workers) plan->domains = workers;
}

/* One worker for each domain, then each further one to the domain with the fewest per processor. */
static void share_workers(struct queue_plan *plan, unsigned workers, uint8_t *domain_of) {
  for (unsigned worker = 0; worker < workers; worker++) {
    unsigned poorest = 0;
    for (unsigned at = 1; at < plan->domains; at++) {
      const struct queue_domain *one = &plan->domain[at], *other = &plan->domain[poorest];
      if (other->workers > 0 && (one->workers == 0 || (uint64_t)one->workers * other->slots <
                                                          (uint64_t)other->workers * one->slots))
        poorest = at;
    }
    plan->domain[poorest].workers++;
    domain_of[worker] = (uint8_t)poorest;
  }
}

void split_queue_plan_lay_out(struct queue_plan *plan, uint64_t used,
                              const struct queue_cpus *allowed, unsigned workers,
                              uint8_t *domain_of) {
  plan->domains = 0;
  plan->routed = 0;
  struct queue_cpus rest = *allowed;
  for (uint64_t left = used; left != 0; left &= left - 1) {
    unsigned group = (unsigned)__builtin_ctzll(left);
    struct queue_cpus ours = in_both(&plan->groups[group].cpus, allowed);
    add_domain(plan, &ours, group);
    for (unsigned i = 0; i < WORDS; i++) rest.bits[i] &= ~ours.bits[i];
  }
  if (plan->domains > 0 && !nothing_in(&rest)) add_domain(plan, &rest, QUEUE_ROAMING);
  merge_domains(plan, workers);
  if (plan->domains < 2) {
    plan->domains = 0;
    return;
  }
  for (unsigned at = 0; at < plan->domains; at++) {
    plan->domain[at].slots = count(&plan->domain[at].cpus);
    plan->routed |= plan->domain[at].groups;
    for (uint64_t left = plan->domain[at].groups; left != 0; left &= left - 1)
      plan->groups[__builtin_ctzll(left)].domain = (uint8_t)at;
  }
  share_workers(plan, workers, domain_of);
}
