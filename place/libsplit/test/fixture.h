/*
 * Shared by libsplit's tests: a temporary folder, the library started in it, and functions that
 * replace the analyzer.
 */
#ifndef SPLIT_TEST_FIXTURE_H
#define SPLIT_TEST_FIXTURE_H

#include "decided.h"
#include "process.h"
#include "record.h"

#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define TEST_APP 0xa1

#ifdef __SANITIZE_THREAD__
/*
 * Children of these tests create threads, too, and must not inherit those that their parent has not
 * waited for.
 */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0:report_thread_leaks=0"; }
#endif

static char fixture_folder[64];

static inline int fixture_remove(const char *path, const struct stat *status, int type,
                                 struct FTW *at) {
  (void)status;
  (void)type;
  (void)at;
  return remove(path);
}

static inline int make_folder(void **state) {
  (void)state;
  snprintf(fixture_folder, sizeof fixture_folder, "/tmp/split-test-XXXXXX");
  if (!mkdtemp(fixture_folder)) return -1;
  split_configure(fixture_folder);
  return 0;
}

static inline int remove_folder(void **state) {
  (void)state;
  split_close();
  nftw(fixture_folder, fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
  return 0;
}

static inline int begin_with_text(void **state) {
  if (make_folder(state) != 0) return -1;
  return split_init_named("test", TEST_APP, 0xb2, SPLIT_KEY_TEXT) == TEST_APP ? 0 : -1;
}

static inline int begin_with_numbers(void **state) {
  if (make_folder(state) != 0) return -1;
  return split_init_named("test", TEST_APP, 0xb2, SPLIT_KEY_NUMBER) == TEST_APP ? 0 : -1;
}

/* Statistics of a kind over all CPUs, as far as they can be added. */
struct total {
  uint64_t count, exact, preempted, migrated, nested, cycles, elapsed, probed, missed;
};
static inline struct total total_of(uint32_t code) {
  struct split_mapping *mapping = split_mapping_in_use();
  struct total total = {0};
  for (uint32_t cpu = 0; cpu < mapping->cpu_count; cpu++) {
    const struct split_record *record = split_record_of(mapping, cpu, code);
    total.count += record->count;
    total.exact += record->exact;
    total.preempted += record->preempted;
    total.migrated += record->migrated;
    total.nested += record->nested_cycles;
    total.cycles += split_record_cycles(record);
    total.elapsed += record->elapsed_cycles;
    total.probed += record->probed;
    total.missed += record->missed;
  }
  return total;
}

static inline uint32_t open_sections(void) {
  uint32_t open = 0;
  for (const struct split_open *at = split_self_here->innermost; at; at = at->outer) open++;
  return open;
}

static inline struct split_header *header(void) { return split_mapping_in_use()->header; }

/* Sets what an active analyzer with placement sets. */
static inline void heartbeat(void) {
  atomic_store(&header()->placement_on, 1);
  atomic_store(&header()->heartbeat_ns, split_clock_ns(CLOCK_MONOTONIC));
}

static inline void decide(uint32_t code, enum split_actuation actuation, uint64_t cpus) {
  struct split_decision *decision = &split_mapping_in_use()->decisions[code];
  uint32_t sequence = atomic_load(&decision->sequence);
  atomic_store(&decision->sequence, sequence + 1);
  atomic_store(&decision->actuation, (uint8_t)actuation);
  atomic_store(&decision->cpu_mask[0], cpus);
  atomic_store(&decision->sequence, sequence + 2);
}

/* The first CPUs that a thread may use, as a mask. */
static inline uint64_t allowed_of(pid_t tid) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(tid, sizeof set, &set) != 0) return 0;
  uint64_t mask = 0;
  for (int cpu = 0; cpu < 64; cpu++)
    if (CPU_ISSET(cpu, &set)) mask |= UINT64_C(1) << cpu;
  return mask;
}
static inline uint64_t allowed(void) { return allowed_of(0); }

static inline void pause_ms(long ms) {
  struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&wait, NULL);
}

static inline uint32_t kind_of(const char *key) { return split_kind_of(key, strlen(key)); }

/*
 * Number of entries in the table of threads whose word at this offset (of `narrowed`, `sliced`) is
 * set.
 */
static inline uint32_t threads_changed(size_t offset) {
  const struct split_mapping *mapping = split_mapping_in_use();
  uint32_t changed = 0;
  for (uint32_t i = 0; i < mapping->thread_count; i++)
    changed += atomic_load((_Atomic uint32_t *)((char *)&mapping->threads[i] + offset)) != 0;
  return changed;
}
static inline uint32_t narrowed_threads(void) {
  return threads_changed(offsetof(struct split_thread, narrowed));
}
static inline uint32_t sliced_threads(void) {
  return threads_changed(offsetof(struct split_thread, sliced));
}

/*
 * Waits until the thread has this value: for a state, without a fixed time, as long as a busy
 * machine may need.
 */
static inline bool becomes(uint64_t (*value_of)(pid_t), pid_t tid, uint64_t value) {
  for (int i = 0; i < 2000; i++) {
    if (value_of(tid) == value) return true;
    pause_ms(5);
  }
  return false;
}

#endif
