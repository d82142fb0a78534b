/*
 * State of a process and its threads: the mapping in use, and for each thread its open sections and
 * its affinity.
 *
 *   process   off ── split_init ──> mapping in use ── split_close ──> off
 *   thread    none ── first section: split_self_for ──> ready ── it ends ──> state at rest ── taken by another thread ──> ready
 *                                                        └ mapping is another one: made ready again
 *
 * Invariants:
 *   1. A state is accessed only by its thread, except for `living`, the serials of its open
 *      sections, and by the child of a fork.
 *   2. States and mappings are never freed while threads may use them: they are reused, or left.
 *   3. split_process is written under the lock of init.c, or atomically.
 */
#ifndef SPLIT_PROCESS_H
#define SPLIT_PROCESS_H

#include "cycles.h"
#include "kinds.h"
#include "mapping.h"
#include "preempt.h"
#include "probe.h"
#include "split.h"
#include "texts.h"

#include <pthread.h>

#define SPLIT_DEPTH 8 /* of split_start; deeper sections count into the outer one */
#define SPLIT_OPEN 16 /* open sections of a thread, including handles */
#define SPLIT_ABANDONED (UINT64_C(1) << 63) /* bit of a serial: another thread ended the section */
#define SPLIT_MASK_WORDS (SPLIT_CPUS_MAX / 64)

enum split_open_flags {
  SPLIT_OPEN_HANDLE = 1,    /* of split_begin */
  SPLIT_OPEN_PROBED = 2,    /* lines were primed before it */
  SPLIT_OPEN_CLOCK = 4,     /* its cycles come from the CPU clock */
  SPLIT_OPEN_USAGE = 8,     /* without rseq: context switches are counted */
  SPLIT_OPEN_PMU = 16,      /* PMU counters were read at its start */
  SPLIT_OPEN_PLACED = 32,   /* its thread was placed for it */
  SPLIT_OPEN_PAPER = 64,    /* its thread's affinity is restored at its end */
  SPLIT_OPEN_MOVED = 128,   /* it was placed at some time */
  SPLIT_OPEN_BLIND = 256,   /* without rseq, or on a CPU without records */
  SPLIT_OPEN_CAUSED = 512,  /* its origin was recorded: related_app is valid */
  SPLIT_OPEN_YIELDS = 1024, /* its kind runs in the background: its end restores the thread */
  SPLIT_OPEN_MEASURED = SPLIT_OPEN_PROBED | SPLIT_OPEN_CLOCK | SPLIT_OPEN_USAGE | SPLIT_OPEN_PMU,
  SPLIT_OPEN_SPECIAL =
      SPLIT_OPEN_MEASURED | SPLIT_OPEN_PLACED | SPLIT_OPEN_BLIND | SPLIT_OPEN_YIELDS
};

/* An open section. Only its thread accesses it, except for `serial`, by which another thread may
 * abandon it. The fields that every section needs are in the first line and a half. */
struct split_open {
  alignas(2 * SPLIT_LINE) uint64_t started; /* increased by the library's own time within */
  struct split_record *record;              /* of its kind on the CPU where it began; NULL: none */
  uint64_t nested;                          /* cycles of inner sections */
  uint64_t previous, who;         /* the last section on the CPU, and this one; as split_last.who */
  struct split_preempt_seen seen; /* the thread's counts when it began */
  uint32_t code, flags;
  struct split_open *outer; /* the enclosing section; for an unused entry: the next one */
  uint32_t cpu;
  uint32_t related_code, related_app;
  uint32_t turn;             /* turn of the probe */
  _Atomic uint64_t serial;   /* for a handle; 0: none */
  struct split_probe *probe; /* the probe that was primed */
  uint64_t clock_ns;         /* CPU clock at the start */
  uint64_t switches;         /* context switches at the start */
  uint64_t pmu_cycles, pmu_misses;
};

/* Changes of a thread's affinity by the library. */
struct split_affinity {
  _Atomic(struct split_thread *) entry; /* in the shared table; NULL: never narrowed */
  uint32_t serial;                      /* of the narrowing in force, as in entry->narrowed */
  uint32_t last_serial;
  uint32_t words; /* words of the masks in use */
  bool bound;     /* by split_thread_narrow, until it is widened */
  uint64_t mask[SPLIT_MASK_WORDS], bound_mask[SPLIT_MASK_WORDS];
  uint64_t wide[SPLIT_MASK_WORDS]; /* CPUs that the thread could use when last narrowed, ... */
  bool free;                       /* ... which are all of its cpuset: its host did not bind it */
  uint32_t code, sequence;         /* the decision in force */
  uint64_t refused_until;          /* time stamp: no placement is tried before */
};

/* Changes of a thread's time slice by the library; slice.c. */
struct split_slice {
  uint32_t us;     /* in force; 0: its own */
  bool background; /* in force */
  uint32_t serial; /* of the change in force, as in the entry's `sliced`; 0: none */
  uint32_t last_serial;
  uint32_t code;   /* as in the entry */
  bool learnt;     /* the following fields are valid */
  bool may_yield;  /* it may enter the background, and that has an effect */
  uint32_t policy; /* its own class, and ... */
  int32_t nice;    /* ... what else sched_setattr would change */
  uint64_t flags;
  uint64_t original_ns;
  uint64_t fresh_until;   /* time stamp until which the analyzer's heartbeat need not be checked */
  uint64_t refused_until; /* time stamp: no change is tried before */
};

struct split_pmu; /* pmu.h */

/* Data of a CPU that each section of a thread needs, looked up when the thread arrives there. */
struct split_here {
  uint32_t cpu;
  struct split_record *records;
  struct split_last *last;
  struct split_cpu *line;
};
#define SPLIT_NOWHERE (UINT32_MAX - 15) /* not a CPU, and none of the kernel's error values */

struct split_self {
  struct split_mapping *mapping; /* the mapping of the open sections */
  struct split_open *innermost;  /* open section; its `outer` is the next; NULL: none */
  struct split_open *unused;     /* unused entries; NULL: all are in use */
  uint32_t tid;
  /* Open sections of split_start; SPLIT_UNOPENED is added for each innermost call that opened
   * none. */
  uint32_t depth;
  struct split_here here;
  struct split_preempt preempt;
  bool special;     /* sections need more than their time: `lazy`, a slice, `pmu`, or no rseq */
  bool lazy;        /* affinity stays narrowed between sections */
  uint32_t placed;  /* open sections for which the thread is placed */
  uint32_t probed;  /* open sections with primed lines: one at most */
  uint32_t sampled; /* number of sections so far, without rseq */
  uint64_t last_serial;
  uint64_t random;
  uint64_t fresh_until; /* time stamp until which the analyzer's heartbeat need not be checked */
  struct split_pmu *pmu;
  struct split_open open[SPLIT_OPEN];
  struct split_text texts[SPLIT_TEXTS];
  struct split_affinity affinity;
  struct split_slice slice;
  struct split_self *next; /* in a list of the process */
  _Atomic bool living;
};

#define SPLIT_UNOPENED 256u

/* Updates the flags of what every section of the thread needs. */
static inline void split_self_specialise(struct split_self *self, bool lazy) {
  self->lazy = lazy;
  self->special = lazy || self->slice.serial || self->pmu || !self->preempt.area;
}

struct split_process {
  _Atomic(struct split_mapping *) mapping; /* NULL: the library is off */
  _Atomic bool rseq_works, pmu_works;
  _Atomic bool may_probe;   /* the host did not ask for another back-end */
  _Atomic bool own_service; /* the host calls split_release_stale itself */
  pid_t began;              /* the process that started the library; children share the mapping */
  _Atomic(struct split_mapping *) served; /* mapping with a service thread */
};
extern struct split_process split_process __attribute__((visibility("hidden")));

/* The calling thread's state; NULL before its first section. Modules are loaded late, but eight
 * bytes of thread-local memory are available. */
extern _Thread_local struct split_self *split_self_here
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline struct split_mapping *split_mapping_in_use(void) {
  return atomic_load_explicit(&split_process.mapping, memory_order_acquire);
}

/* split_last.who */
static inline uint64_t split_who(const struct split_mapping *mapping, uint32_t code,
                                 uint32_t class_) {
  return (uint64_t)class_ << 56 | mapping->who | code;
}

/* Sets the kind of an open section. */
static inline void split_open_of_kind(const struct split_mapping *mapping, struct split_open *open,
                                      uint32_t code) {
  open->code = code;
  open->who = split_who(
      mapping, code, atomic_load_explicit(&mapping->decisions[code].class_, memory_order_relaxed));
  open->record = open->cpu < mapping->cpu_count ? split_record_of(mapping, open->cpu, code) : NULL;
}

#endif
