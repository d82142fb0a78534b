/*
 * Statistics of a kind on a CPU, and adding a section to them. In a header, because every section
 * passes here.
 */
#ifndef SPLIT_RECORD_H
#define SPLIT_RECORD_H

#include "segment.h"

#include <stdbool.h>
#include <string.h>

/* A section that ended. */
struct split_sample {
  uint64_t elapsed; /* cycles, including waits */
  uint64_t cycles;  /* its own; valid if `exact` */
  uint64_t nested;  /* those spent in inner sections */
  uint64_t misses;
  double displaced; /* 0 to 1 */
  uint32_t after;   /* index of split_record.after */
  bool exact, preempted, migrated, missed, probed;
};

/* Counts and cycles are far below 2^63, and signed integers are converted to doubles by one
 * instruction, unsigned ones by several. */

/* The two numbers of equation (1). */
struct split_average {
  double weight;      /* w */
  uint32_t threshold; /* theta */
};

/* Equation (1) of the paper, section 2.2.4: the mean of the first theta values, then an
 * exponential moving average: w times the past and 1 - w times the value. `n`: number of values
 * in `average` so far. */
static inline double split_average_next(double average, uint64_t n, double value,
                                        const struct split_average *how) {
  return n < how->threshold ? (average * (double)(int64_t)n + value) / (double)(int64_t)(n + 1)
                            : value + how->weight * (average - value);
}

/* Octave and quarter are the exponent and the first two fraction bits of the number as a double. */
static inline uint32_t split_bucket_of(double cycles) {
  const int64_t first = SPLIT_BUCKETS_PER_OCTAVE * (1023 + SPLIT_FIRST_OCTAVE) - 1;
  uint64_t bits;
  memcpy(&bits, &cycles, sizeof bits);
  int64_t bucket = (int64_t)(bits >> 50) - first;
  if (bucket < 0) bucket = 0;
  return bucket < SPLIT_BUCKETS ? (uint32_t)bucket : SPLIT_BUCKETS - 1;
}

/* More than 2^63 would be negative here: counted as very large. */
static inline uint32_t split_bucket(uint64_t cycles) {
  return split_bucket_of((double)(int64_t)cycles);
}

/* Welford 1962; `count` includes the new value. The remaining difference: before * (n - 1) / n. */
static inline void split_moments_add(uint64_t count, double *mean, double *m2, double value) {
  double before = value - *mean;
  double step = before / (double)(int64_t)count;
  *mean += step;
  *m2 += before * (before - step);
}

static inline void split_after_add(struct split_after *after, uint64_t cycles) {
  __extension__ typedef unsigned __int128 wide;
  const wide squares = ((wide)after->squares[1] << 64 | after->squares[0]) + (wide)cycles * cycles;
  after->count++;
  after->cycles += cycles;
  after->squares[0] = (uint64_t)squares;
  after->squares[1] = (uint64_t)(squares >> 64);
}

static inline void split_record_add(struct split_record *record, const struct split_sample *sample,
                                    const struct split_average *how) {
  record->count++;
  record->elapsed_cycles += sample->elapsed;
  record->histogram[split_bucket(sample->elapsed)]++;
  if (__builtin_expect(sample->exact, 1)) {
    const double cycles = (double)(int64_t)sample->cycles;
    record->adaptive = split_average_next(record->adaptive, record->exact, cycles, how);
    record->exact++;
    if (sample->nested) record->nested_cycles += sample->nested;
    split_after_add(&record->after[sample->after], sample->cycles);
  }
  if (__builtin_expect(sample->preempted || sample->migrated, 0)) {
    record->preempted += sample->preempted;
    record->migrated += sample->migrated;
  }
  if (__builtin_expect(sample->missed, 0)) {
    record->adaptive_misses =
        split_average_next(record->adaptive_misses, record->missed, (double)sample->misses, how);
    record->missed++;
    record->misses += sample->misses;
  }
  if (__builtin_expect(sample->probed, 0)) {
    split_moments_add(++record->probed, &record->displaced_mean, &record->displaced_m2,
                      sample->displaced);
  }
}

/* Threads of one CPU write a record, and one may have been preempted while writing: locking is
 * tried once, without waiting. */
static inline bool split_record_lock(struct split_record *record, uint32_t tid) {
  /* The present value, if there is no owner. Odd: its last owner died while writing, and it was
   * freed without repair; its content is used as it is. */
  uint64_t there = atomic_load_explicit(&record->sequence, memory_order_relaxed);
  while (!atomic_compare_exchange_strong_explicit(&record->lock, &there,
                                                  (uint64_t)tid << 32 | there | 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
    if (there >> 32 != 0) return false; /* otherwise another owner came and went in between */
  }
  atomic_thread_fence(memory_order_release); /* readers see the odd value before a change */
  return true;
}

static inline void split_record_unlock(struct split_record *record) {
  const uint32_t even = atomic_load_explicit(&record->sequence, memory_order_relaxed) + 1;
  atomic_store_explicit(&record->lock, even, memory_order_release);
}

/* The sum over the exact ones. */
static inline uint64_t split_record_cycles(const struct split_record *record) {
  uint64_t cycles = 0;
  for (int i = 0; i < SPLIT_AFTERS; i++) cycles += record->after[i].cycles;
  return cycles;
}

/* Frees a record whose owner died while writing. Returns true if there was one. */
bool split_record_mend(struct split_record *record);

#endif
