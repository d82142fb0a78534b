/*
 * Measurements that only some sections need: lines loaded before and counted after (the probe), the
 * processor's counters, the CPU clock, and, without rseq, the thread's context switches.
 *
 *   probe   none ── split_sample_probes: a generation was published ──> in use ── a newer one ──> an older view ── VIEWS later ──> closed
 *
 * Invariants:
 *   1. A generation is tried once for a mapping, by one thread (probes.lock); the others continue
 *      with the one in use.
 *   2. A view stays mapped while a section may use it: the last VIEWS are kept.
 *   3. At most one section of a thread at a time has primed lines (self->probed).
 */
#include "sample.h"

#include "pmu.h"
#include "process.h"
#include "record.h"

#include <stdlib.h>
#include <sys/resource.h>

/* Work that needs a system call is done for one section in this many. */
#define SYSCALL_EVERY 16
/*
 * Unused budget is kept for this long: a burst of new kinds is measured at once, and the mean stays
 * below the limit.
 */
#define BUDGET_SECONDS 0.25
/*
 * Tokens are whole numbers: sections within 50 ns of each other would bring half a token each, and
 * so none at all.
 */
#define REFILL_LEAST 64
/*
 * A probe that was interrupted seems to have cost milliseconds: at most this multiple of its usual
 * cost is charged.
 */
#define CHARGE_AT_MOST 4
/* Number of older views of the published lines that are kept, since a thread might be using one. */
#define VIEWS 8

static struct {
  pthread_mutex_t lock;
  _Atomic(struct split_probe *) in_use;
  _Atomic uint64_t generation;             /* generation that was last tried ... */
  _Atomic(struct split_mapping *) mapping; /* ... for this segment's folder */
  struct split_probe *view[VIEWS];
  unsigned next;
} probes = {.lock = PTHREAD_MUTEX_INITIALIZER};

void split_sample_hold(void) { pthread_mutex_lock(&probes.lock); }
void split_sample_let_go(void) { pthread_mutex_unlock(&probes.lock); }

static bool tried(const struct split_mapping *mapping, uint64_t published) {
  return published == atomic_load_explicit(&probes.generation, memory_order_relaxed) &&
         mapping == atomic_load_explicit(&probes.mapping, memory_order_relaxed);
}

void split_sample_probes(struct split_mapping *mapping) {
  uint64_t published =
      atomic_load_explicit(&mapping->header->probe_generation, memory_order_relaxed);
  if (tried(mapping, published) || pthread_mutex_trylock(&probes.lock) != 0) return;
  if (!tried(mapping, published)) {
    const char *reason = NULL;
    struct split_probe *probe = published ? split_probe_open(mapping->directory, &reason) : NULL;
    atomic_store(&probes.in_use, probe);
    if (probe) {
      unsigned at = probes.next++ % VIEWS;
      if (probes.view[at]) split_probe_close(probes.view[at]);
      probes.view[at] = probe;
    }
    struct split_header *header = mapping->header;
    if (probe)
      atomic_fetch_and(&header->without, ~(uint32_t)SPLIT_WITHOUT_PROBE_SETS);
    else
      atomic_fetch_or(&header->without, SPLIT_WITHOUT_PROBE_SETS);
    if (!split_process.pmu_works)
      atomic_store(&header->backend, probe ? SPLIT_BACKEND_PROBE : SPLIT_BACKEND_NONE);
    atomic_store(&probes.mapping, mapping);
    atomic_store(&probes.generation, published);
  }
  pthread_mutex_unlock(&probes.lock);
}

/*
 * True if a probe of this cost may be made on this CPU now. Tokens are cycles; they accrue with
 * time, and a CPU may be in debt.
 */
static bool afford(struct split_mapping *mapping, uint32_t cpu, uint64_t now, uint32_t cost) {
  struct split_cpu *line = &mapping->cpus[cpu];
  double share =
      (double)atomic_load_explicit(&mapping->header->probe_budget_ppm, memory_order_relaxed) / 1e6;
  if (share <= 0) return false;
  double most = share * BUDGET_SECONDS * 1e9 * mapping->cycles_per_ns;
  if (most < 2.0 * cost) most = 2.0 * cost;
  uint64_t since = atomic_load_explicit(&line->probe_refilled, memory_order_relaxed);
  double more = since == 0 ? most : now > since ? (double)(now - since) * share : 0;
  if (more >= REFILL_LEAST && atomic_compare_exchange_strong(&line->probe_refilled, &since, now)) {
    int64_t tokens = atomic_load_explicit(&line->probe_tokens, memory_order_relaxed);
    if (more > most) more = most;
    if ((double)tokens + more > most) more = most - (double)tokens;
    atomic_fetch_add_explicit(&line->probe_tokens, (int64_t)more, memory_order_relaxed);
  }
  return atomic_load_explicit(&line->probe_tokens, memory_order_relaxed) >= (int64_t)cost;
}

/*
 * Time that the library used for itself belongs to no section: it is added to all open ones for
 * subtraction.
 */
static void charge(struct split_self *self, uint32_t cpu, uint32_t usual, uint64_t cycles) {
  for (struct split_open *open = self->innermost; open; open = open->outer) open->started += cycles;
  if (cpu >= self->mapping->cpu_count) return;
  struct split_cpu *line = &self->mapping->cpus[cpu];
  uint64_t most = (uint64_t)usual * CHARGE_AT_MOST;
  if (cycles > most) cycles = most;
  atomic_fetch_sub_explicit(&line->probe_tokens, (int64_t)cycles, memory_order_relaxed);
  atomic_fetch_add_explicit(&line->probe_cycles, cycles, memory_order_relaxed);
}

/* xorshift: if kinds alternate, the same one must not always be probed. */
static uint64_t next_random(struct split_self *self) {
  uint64_t x = self->random | 1;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return self->random = x;
}

static void begin_probe(struct split_self *self, struct split_open *open, uint32_t wants) {
  if (wants > 32 || (next_random(self) >> 16 & ((UINT64_C(1) << (wants - 1)) - 1)) != 0) return;
  if (!split_process.may_probe) return;
  split_sample_probes(self->mapping);
  struct split_probe *probe = atomic_load(&probes.in_use);
  uint32_t cpu = split_preempt_cpu(&self->preempt);
  if (!probe || cpu >= self->mapping->cpu_count) return;
  uint64_t before = split_cycles();
  uint32_t cost = split_probe_cost_cycles(probe);
  if (!afford(self->mapping, cpu, before, cost)) return;
  open->probe = probe;
  open->turn = (uint32_t)next_random(self);
  open->flags |= SPLIT_OPEN_PROBED;
  self->probed++;
  atomic_fetch_add_explicit(&self->mapping->cpus[cpu].probes, 1, memory_order_relaxed);
  split_probe_prime(probe, open->turn);
  charge(self, cpu, cost, split_cycles() - before); /* its own time has not begun */
}

static uint64_t context_switches(void) {
  struct rusage usage;
  return getrusage(RUSAGE_THREAD, &usage) == 0
             ? (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw
             : 0;
}

void split_sample_begin(struct split_self *self, struct split_open *open) {
  const struct split_decision *decision = &self->mapping->decisions[open->code];
  bool turn = self->sampled++ % SYSCALL_EVERY == 0;
  if (atomic_load_explicit(&decision->uses_cpu_clock, memory_order_relaxed)) {
    open->flags |= SPLIT_OPEN_CLOCK;
    open->clock_ns = split_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  }
  if (!self->preempt.area && turn) {
    open->flags |= SPLIT_OPEN_USAGE;
    open->switches = context_switches();
  }
  if (self->pmu && (turn || split_pmu_is_cheap(self->pmu))) {
    struct split_pmu_counts counts;
    if (split_pmu_read(self->pmu, &counts)) {
      open->flags |= SPLIT_OPEN_PMU;
      open->pmu_misses = counts.misses;
      open->pmu_cycles = counts.has_cycles ? counts.cycles : UINT64_MAX;
    }
  }
  /*
   * Without rseq it is unknown whether the thread itself displaced the lines, except in sections
   * that count switches.
   */
  uint32_t wants = atomic_load_explicit(&decision->wants_probes, memory_order_relaxed);
  if (wants && self->probed == 0 && (self->preempt.area || open->flags & SPLIT_OPEN_USAGE))
    begin_probe(self, open, wants);
}

static void end_probe(struct split_self *self, struct split_open *open,
                      struct split_sample *sample) {
  /*
   * Lines that are no longer published, or that sections of other threads may have displaced, are
   * not counted.
   */
  if (sample->preempted || sample->migrated || open->probe != atomic_load(&probes.in_use)) return;
  if (self->preempt.area && self->preempt.seen.unknown != open->seen.unknown) return;
  uint64_t before = split_cycles();
  uint32_t lines = 0;
  split_preempt_look(&self->preempt);
  uint32_t interruptions = self->preempt.seen.interruptions;
  uint32_t gone = split_probe_count(open->probe, open->turn, &lines);
  split_preempt_look(&self->preempt);
  uint64_t took = split_cycles() - before;
  sample->probed = lines > 0 && gone <= lines && self->preempt.seen.interruptions == interruptions;
  if (sample->probed) sample->displaced = (double)gone / (double)lines;
  charge(self, open->cpu, split_probe_cost_cycles(open->probe), took);
}

void split_sample_end(struct split_self *self, struct split_open *open,
                      struct split_sample *sample) {
  if (open->flags & SPLIT_OPEN_PMU) {
    struct split_pmu_counts counts;
    if (split_pmu_read(self->pmu, &counts)) {
      sample->missed = true;
      sample->misses = counts.misses - open->pmu_misses;
      if (counts.has_cycles && open->pmu_cycles != UINT64_MAX) {
        sample->cycles = counts.cycles - open->pmu_cycles;
        sample->exact = true;
      }
    }
  }
  if (open->flags & SPLIT_OPEN_USAGE) {
    sample->preempted = context_switches() != open->switches;
    sample->exact = !sample->preempted && !sample->migrated;
  }
  if (open->flags & SPLIT_OPEN_CLOCK) {
    uint64_t ns = split_clock_ns(CLOCK_THREAD_CPUTIME_ID) - open->clock_ns;
    sample->cycles = (uint64_t)((double)ns * self->mapping->cycles_per_ns);
    sample->exact = true;
  }
  if (open->flags & SPLIT_OPEN_PROBED) end_probe(self, open, sample);
}
