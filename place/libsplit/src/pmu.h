/*
 * The processor's counters of a thread, if the kernel allows them: read in user space (rdpmc) if
 * possible, otherwise by read(2).
 */
#ifndef SPLIT_PMU_H
#define SPLIT_PMU_H

#include <stdbool.h>
#include <stdint.h>

struct split_pmu_counts {
  uint64_t cycles, misses;
  bool has_cycles; /* in units of the time stamp counter, counted for the thread only */
};

struct split_pmu;

/* Opens the counters of the calling thread. NULL: there are none. */
struct split_pmu *split_pmu_open(void);
void split_pmu_close(struct split_pmu *pmu);
/* In a child: the kernel has removed the pages already. */
void split_pmu_forget(struct split_pmu *pmu);
/* True if it is cheap enough for every section; otherwise it is read for one in 16. */
bool split_pmu_is_cheap(const struct split_pmu *pmu);
bool split_pmu_read(struct split_pmu *pmu, struct split_pmu_counts *counts);

/*
 * One event of the calling thread, with the numbers of perf_event_open(2). For the functions above,
 * and for tests of an event that every kernel has.
 */
struct split_pmu_event {
  int descriptor; /* -1: none */
  void *page;     /* NULL: read(2) only */
};
struct split_pmu_event split_pmu_event_open(uint32_t type, uint64_t config);
void split_pmu_event_close(struct split_pmu_event *event);
bool split_pmu_event_read(const struct split_pmu_event *event, uint64_t *count);

#endif
