/*
 * The layout of shared memory between the threads and processes of an application and the analyzer.
 *
 * Three kinds of files in one folder (split_configure), all of fixed size, all mapped:
 *
 *   app-<id>.segment     one per application: its kinds, their statistics, the analyzer's decisions
 *   machine.segment      one: for each CPU, the section that ran on it last, of any application
 *   probe.segment        one, written by the analyzer: pages whose lines fill sets of the L2 cache (probe.h)
 *   analyzer.lock        locked (flock) by the one analyzer
 *
 *   app-<id>.segment
 *   +--------------------------------+ 0
 *   | split_header                   |   identity, sizes, settings (application) and commands (analyzer)
 *   +--------------------------------+ kinds_at
 *   | split_kind     [kinds]         |   key, label; written once, by the thread that sees the kind first
 *   +--------------------------------+ decisions_at
 *   | split_decision [kinds]         |   class, cores; written by the analyzer only
 *   +--------------------------------+ threads_at
 *   | split_thread   [threads]       |   threads whose affinity or slice is changed now, and the original
 *   +--------------------------------+ requests_at
 *   | split_request  [requests]      |   long requests that run or wait for their turn (admission.c)
 *   +--------------------------------+ cpus_at
 *   | split_cpu      [cpus]          |   budget of probes, place in the ring
 *   +--------------------------------+ records_at
 *   | split_record   [cpus][kinds]   |   statistics; a line is written by threads of one CPU only
 *   +--------------------------------+ traces_at
 *   | split_trace    [cpus][traces]  |   ring of the latest sections
 *   +--------------------------------+ size
 *
 * Invariants:
 *   - Readers trust nothing: every index and length is checked against the sizes that the reader
 *     computed itself.
 *   - An application holds a shared flock on its file as long as it runs; a process that gets it
 *     exclusively may replace the file. No process ever waits for another: locks are tried.
 *   - The folder's rights define who is trusted, since a user who can write a mapped file can
 *     truncate it, which kills the processes that map it. In a folder like /tmp (all may write,
 *     sticky), files are created with 0600, and only those of root and of the own user are used. In
 *     any other folder, users who may write to it may use the files (0770 gives 0660), no matter
 *     who created them.
 *   - Writers may die at any instruction. The owner of a record is its lock; once that thread is
 *     gone, the next thread that notices repairs it.
 *   - All times are CLOCK_MONOTONIC nanoseconds or cycles of the time stamp counter, as their names
 *     say.
 *   - Everything is little-endian; a file is used only on the machine and boot that made it.
 */
#ifndef SPLIT_SEGMENT_H
#define SPLIT_SEGMENT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#define SPLIT_SEGMENT_MAGIC UINT64_C(0x3174696c70736d68) /* "hmsplit1" */
#define SPLIT_MACHINE_MAGIC UINT64_C(0x316e6863616d6d68) /* "hmmachn1" */
#define SPLIT_SEGMENT_VERSION 6 /* 4: time slices; 5: kinds in the background; 6: admission */
#define SPLIT_MACHINE_VERSION 5 /* of machine.segment, which 6 did not change */
#define SPLIT_LINE 64
#define SPLIT_CPUS_MAX 1024
#define SPLIT_KINDS_MAX 65536
#define SPLIT_THREADS 1024
#define SPLIT_TRACES 1024
#define SPLIT_REQUESTS 1024
#define SPLIT_LABEL_LENGTH 128
#define SPLIT_NOTE_LENGTH 64

/* The effect of a kind on the caches, or of the caches on it: damage and sensitivity are two
 * separate properties. */
enum split_class {
  SPLIT_CLASS_UNKNOWN = 0,
  SPLIT_CLASS_SHORT = 1,     /* too short to be worth moving */
  SPLIT_CLASS_POLLUTER = 2,  /* replaces much of L2 */
  SPLIT_CLASS_SENSITIVE = 3, /* slower after polluters */
  SPLIT_CLASS_NEUTRAL = 4,
  SPLIT_CLASSES = 5
};

/* The action of a thread when it begins a section of a kind. */
enum split_actuation {
  SPLIT_ACT_NONE = 0,
  SPLIT_ACT_PAPER = 1, /* affinity at start, restored at end */
  SPLIT_ACT_LAZY =
      2, /* affinity at start unless the thread has it; restored by command, or at another kind */
  SPLIT_ACT_SOFT =
      3, /* only servers that route requests use it (split_queue.h); threads are not moved */
  SPLIT_ACT_TIME =
      4 /* threads are not moved; slice_us and background apply, which others may have, too */
};

/* The section that preceded a section on its CPU; index of split_record.after. The first
 * SPLIT_CLASSES are the classes of the preceding section. */
enum {
  SPLIT_AFTER_SAME = SPLIT_CLASSES, /* the same kind */
  SPLIT_AFTER_ANY,                  /* not known, or it ended on another CPU */
  SPLIT_AFTERS
};

/* The application writes everything up to `commands` before the file gets its name, and nothing
 * of it later. */
struct split_header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_size;
  uint64_t size;
  uint32_t app_id;
  uint32_t related_app_id;
  uint32_t key_type;
  uint32_t kinds;
  uint32_t cpus;
  uint32_t threads;
  uint32_t traces;
  uint32_t record_size;
  uint32_t requests;
  uint32_t reserved;
  uint64_t kinds_at, decisions_at, threads_at, requests_at, cpus_at, records_at, traces_at;
  uint64_t made_ns;
  uint64_t cycles_per_second; /* of the time stamp counter, measured when the file was made */
  char name[32];
  char boot_id[40];

  /* Written by the application, at any time. */
  alignas(SPLIT_LINE) _Atomic uint32_t collect;
  _Atomic uint32_t place;
  _Atomic uint32_t analysis_interval_ms;
  _Atomic uint32_t threshold;
  _Atomic uint64_t weight_bits; /* a double */
  _Atomic uint32_t probe_budget_ppm;
  _Atomic uint32_t backend;    /* enum split_backend: the one in use */
  _Atomic uint32_t kinds_used; /* in the table, including the two reserved ones */
  _Atomic uint32_t without;    /* enum split_without */
  /* Counters: in a separate line, so that counting does not remove the settings from other CPUs'
   * caches. */
  alignas(SPLIT_LINE) _Atomic uint64_t without_room; /* sections counted as SPLIT_CODE_OTHER */
  _Atomic uint64_t
      contended; /* sections not counted, since another thread of the CPU was writing the record */
  _Atomic uint64_t dropped;     /* sections that ended on another thread, or never */
  _Atomic uint64_t moves;       /* number of changes of affinity */
  _Atomic uint64_t bad_origins; /* origins that could not be parsed */
  _Atomic uint64_t refused;     /* placements without an allowed CPU, or refused by the kernel */
  _Atomic uint64_t slices;      /* number of changes of a thread's time slice */
  _Atomic uint64_t unlimited; /* requests of kinds with `admit` for which `requests` had no room */

  /* Admission (admission.c); written by the application, except for its places. */
  alignas(SPLIT_LINE) _Atomic uint64_t admission_lock; /* 0: free; otherwise since when, in ns */
  _Atomic uint64_t waits;                              /* requests that waited for a place */
  _Atomic uint64_t waited_ns;                          /* sum of these waits */
  _Atomic uint64_t longest_wait_ns;                    /* the longest of them */
  _Atomic uint64_t late;       /* admitted beyond the limit because they had waited too long, */
  _Atomic uint64_t for_others; /* because others waited for their locks, */
  _Atomic uint64_t exempt;     /* or because they may not be held back (locks, transactions) */
  _Atomic uint64_t checked_ns; /* when a thread last looked which owners of requests live */

  /* Written by the analyzer. Stale (heartbeat older than SPLIT_STALE_NS): no thread is placed. */
  alignas(SPLIT_LINE) _Atomic uint64_t heartbeat_ns;
  _Atomic uint32_t analyzer_pid;
  _Atomic uint32_t analyzer_version;
  _Atomic uint32_t placement_on; /* 0 in the off epochs of the guard */
  _Atomic uint32_t policy;
  _Atomic uint64_t epoch;
  _Atomic uint64_t probe_generation; /* of probe.segment; 0: there is none */
  _Atomic uint32_t trace_every;      /* one in this many sections gets a trace entry; 0: none */
  _Atomic uint32_t places; /* requests of kinds with `admit` that may run at once; 0: any number */
};
#define SPLIT_HEADER_SIZE 4096

/* Missing abilities of an application: bits of split_header.without. */
enum split_without {
  SPLIT_WITHOUT_RSEQ = 1,       /* preemption is detected in one section of 16 only */
  SPLIT_WITHOUT_PMU = 2,        /* no misses */
  SPLIT_WITHOUT_PROBE_SETS = 4, /* no displacement */
  SPLIT_WITHOUT_MACHINE = 8, /* no machine.segment: sections of other applications are not seen */
  SPLIT_WITHOUT_SLICES = 16, /* the kernel has no time slices of threads: older than 6.12 */
  SPLIT_WITHOUT_SLICE_RIGHTS = 32,      /* changes are refused, as by a filter of system calls */
  SPLIT_WITHOUT_BACKGROUND_RIGHTS = 64, /* a thread in the background could not return from there */
  SPLIT_WITHOUT_BACKGROUND_EFFECT = 128 /* each process is alone in its scheduling group */
};
#define SPLIT_STALE_NS UINT64_C(1500000000)
/* Five heartbeats. Slices end earlier than affinities: they are restored within a second of the
 * analyzer's death, on a busy machine, too. */
#define SPLIT_SLICE_STALE_NS UINT64_C(500000000)
/* The range that the kernel allows (sched_setattr(2)). A reader clamps a slice to it. */
#define SPLIT_SLICE_MIN_US 100
#define SPLIT_SLICE_MAX_US 100000

enum { SPLIT_KIND_FREE = 0, SPLIT_KIND_CLAIMED = 1, SPLIT_KIND_READY = 2 };

/* A kind. Open addressing: index 0 is "none", 1 is "other", the rest are found by hash. A kind
 * exists as soon as its hash is set (compare and swap); number and label may be read when its
 * state is ready, which never happens if its claimant died. */
struct split_kind {
  alignas(SPLIT_LINE) _Atomic uint32_t state;
  _Atomic uint32_t note_state; /* like `state`, for the note */
  _Atomic uint64_t key_hash;   /* 0: no kind */
  uint64_t key_number;         /* the key itself, if keys are numbers */
  uint32_t label_length;
  _Atomic uint32_t related_code; /* the latest section known to have caused one of these, ... */
  _Atomic uint32_t related_app;  /* ... and its application */
  uint32_t reserved;
  uint64_t first_seen_ns;
  char label[SPLIT_LABEL_LENGTH]; /* the key as text, cut; bytes below 0x20 are replaced by '?' */
  char note[SPLIT_NOTE_LENGTH];
  _Atomic uint64_t statement; /* for SQL: its StatementId (ground/statement); 0: not known */
};

/* The analyzer's decision. A seqlock: odd while it is written. */
struct split_decision {
  alignas(SPLIT_LINE) _Atomic uint32_t sequence;
  union {
    struct {
      _Atomic uint8_t class_;    /* enum split_class */
      _Atomic uint8_t actuation; /* enum split_actuation */
      _Atomic uint8_t
          wants_probes; /* 0: no probes; otherwise 2^(n-1) - 1 of 2^(n-1) sections are skipped */
      _Atomic uint8_t
          uses_cpu_clock; /* so long that it is often preempted: its cycles come from the CPU clock */
    };
    _Atomic uint32_t
        wishes; /* the four of them in one word, to check quickly for special treatment */
  };
  _Atomic uint64_t expected_cycles;
  _Atomic uint32_t queue;      /* index of a queue of split_queue.h */
  _Atomic uint32_t slice_us;   /* time slice of threads that work on it; 0: their own */
  _Atomic uint32_t background; /* nonzero: threads that work on it give way to all others */
  _Atomic uint32_t admit;      /* nonzero: its requests ask for one of split_header.places */
  _Atomic uint64_t cpu_mask[SPLIT_CPUS_MAX / 64];
};

#define SPLIT_WISHES_SPECIAL UINT32_C(0xffffff00) /* everything except the class */

/* A thread with narrowed affinity, or with a time slice of the library's. `tid` 0: free, taken
 * by compare and swap; original_mask is written before `narrowed`, original_slice_ns and
 * original_policy before `sliced`. A thread that restores one of them first changes that word to
 * 0 (compare and swap, from the value it read before it read the original). */
struct split_thread {
  alignas(SPLIT_LINE) _Atomic uint32_t tid;
  _Atomic uint32_t narrowed;      /* 0: not narrowed; otherwise another number each time */
  _Atomic uint64_t started_ticks; /* field 22 of /proc/PID/task/TID/stat: detects a reused tid */
  _Atomic uint64_t original_mask[SPLIT_CPUS_MAX / 64];
  _Atomic uint32_t sliced;            /* 0: its own slice; otherwise another number each time */
  _Atomic uint32_t code;              /* the latest kind with a slice that it worked on */
  _Atomic uint64_t original_slice_ns; /* 0: the kernel's default */
  _Atomic uint32_t original_policy;   /* the original scheduling class (SCHED_OTHER, ...) */
};

enum split_request_state { SPLIT_REQUEST_WAITS = 1, SPLIT_REQUEST_RUNS = 2 };

/* A request of a kind with `admit`. Taken by compare and swap of `owner` from 0, and freed by its
 * owner, or, once the owner is dead, by any other thread (compare and swap to 0). The other fields
 * are the owner's. */
struct split_request {
  alignas(SPLIT_LINE) _Atomic uint64_t owner; /* tid, and from bit 32 on its start time in ticks */
  _Atomic uint32_t state;                     /* enum split_request_state */
  _Atomic uint32_t code;
  _Atomic uint64_t asked_ns;
  _Atomic uint64_t deadline_ns; /* the earliest goes first */
  _Atomic uint64_t until_ns;    /* then it runs; for others: its owner looks at its own copy */
  _Atomic uint32_t waker;       /* by which the host finds its thread */
};

struct split_cpu {
  alignas(SPLIT_LINE) _Atomic uint64_t traced; /* entries ever written to this CPU's ring */
  _Atomic int64_t probe_tokens;    /* cycles that probing may still use; negative: a debt */
  _Atomic uint64_t probe_refilled; /* time stamp */
  _Atomic uint64_t sections;       /* sections that ended on this CPU */
  _Atomic uint64_t probes;
  _Atomic uint64_t probe_cycles; /* cost of its probes */
};

/* Sums of whole numbers: exact in any order, so that a span of time is a difference, from which
 * mean and variance can be computed. Welford's method (1962) would cost each section two
 * divisions. */
struct split_after {
  alignas(SPLIT_LINE / 2) uint64_t count;
  uint64_t cycles;
  uint64_t squares[2]; /* sum of the squares of the cycles; the low word first */
};

/* Bucket 0: below 2^10 cycles. Bucket b begins at 2^o * (1 + (b - 1) % 4 / 4) cycles, o = 10 +
 * (b - 1) / 4; the last has everything from 3 * 2^32 cycles, about five seconds. */
#define SPLIT_BUCKETS 96
#define SPLIT_BUCKETS_PER_OCTAVE 4
#define SPLIT_FIRST_OCTAVE 10

/* Statistics of a kind on a CPU. All values only grow, so that the analyzer can compute those of
 * a span of time as a difference. Writing: owner 0 -> tid and sequence to odd by one compare and
 * swap; the fields; sequence to even and owner to 0 by one store. */
struct split_record {
  union {
    struct {
      _Atomic uint32_t sequence; /* odd: being written */
      _Atomic uint32_t owner;    /* the thread that writes; 0: none */
    };
    _Atomic uint64_t lock; /* both, the owner in the upper half */
  };
  uint64_t count; /* sections that ended */
  uint64_t exact; /* those with cycles known to be their own (not preempted, or by the CPU clock) */
  uint64_t elapsed_cycles; /* sum over all, including waits and preemption */
  double adaptive;         /* equation (1) of the paper over the cycles of the exact ones */
  uint64_t nested_cycles;  /* part of the exact ones' cycles: spent in inner sections */
  uint64_t preempted;
  uint64_t migrated;
  uint64_t missed; /* sections with a count of L2 misses (PMU) */
  uint64_t misses;
  double adaptive_misses;
  uint64_t probed;       /* sections with a valid probe */
  double displaced_mean; /* share of the probe's lines that were gone, 0 to 1 */
  double displaced_m2;
  struct split_after after[SPLIT_AFTERS]; /* the exact ones, by what preceded them */
  uint32_t histogram[SPLIT_BUCKETS];      /* of the elapsed cycles of all sections */
} __attribute__((aligned(SPLIT_LINE)));

/* One section that ended. A reader reads ended_tsc before and after: if it changed, the entry
 * was overwritten in between. */
struct split_trace {
  _Atomic uint64_t ended_tsc;         /* 0: never written, or being written; written last */
  _Atomic uint32_t elapsed_cycles_16; /* in units of 16 cycles, saturated */
  _Atomic uint32_t cycles_16;         /* its own cycles, 0: not known */
  _Atomic uint32_t code;
  _Atomic uint32_t previous_code; /* preceding section on this CPU ... */
  _Atomic uint32_t previous_app;  /* ... and its application; 0: none */
  _Atomic uint16_t displaced;     /* in 1/1000, 0xffff: not probed */
  _Atomic uint16_t flags;         /* 1 preempted, 2 migrated, 4 placed, 8 nested */
};

/* machine.segment: a header line, then one line for each CPU. */
struct split_machine_header {
  uint64_t magic;
  uint32_t version;
  uint32_t cpus;
  char boot_id[40];
};
struct split_last {
  alignas(SPLIT_LINE) _Atomic uint64_t who; /* class << 56 | app << 32 | code; 0: nothing yet */
};

_Static_assert(sizeof(struct split_header) <= SPLIT_HEADER_SIZE, "the header has a page");
_Static_assert(sizeof(struct split_trace) == 32, "two trace entries share a line");
_Static_assert(sizeof(struct split_request) == SPLIT_LINE, "each request has a line of its own");
_Static_assert(sizeof(struct split_last) == SPLIT_LINE, "each CPU has a line of its own");

#endif
