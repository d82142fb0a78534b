/* The processor's counters of a thread, by perf_event_open(2) and rdpmc. */
#include "pmu.h"

#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define PAGE 4096

struct split_pmu {
  struct split_pmu_event cycles, misses;
};

/* L2 misses of loads, by the vendor's event numbers (perf list: l2_rqsts.miss;
 * l2_cache_req_stat.ls_rd_blk_c; l2d_cache_refill). For other vendors: last-level misses, which
 * every kernel knows. */
static void misses_event(uint32_t *type, uint64_t *config) {
  *type = PERF_TYPE_HARDWARE;
  *config = PERF_COUNT_HW_CACHE_MISSES;
#if defined(__x86_64__)
  unsigned highest, b, c, d;
  if (!__get_cpuid(0, &highest, &b, &c, &d)) return;
  if (b == signature_INTEL_ebx) {
    *type = PERF_TYPE_RAW;
    *config = 0x3f24;
  } else if (b == signature_AMD_ebx) {
    *type = PERF_TYPE_RAW;
    *config = 0x0864;
  }
#elif defined(__aarch64__)
  *type = PERF_TYPE_RAW;
  *config = 0x17;
#endif
}

struct split_pmu_event split_pmu_event_open(uint32_t type, uint64_t config) {
  struct split_pmu_event event = {-1, NULL};
  struct perf_event_attr attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.size = sizeof attributes;
  attributes.type = type;
  attributes.config = config;
  attributes.exclude_kernel = type != PERF_TYPE_SOFTWARE; /* needs no rights */
  attributes.exclude_hv = 1;
  attributes.pinned = 1; /* always or never on a counter: no scaling by time shares */
  event.descriptor =
      (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (event.descriptor < 0) return event;
  void *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, event.descriptor, 0);
  if (page != MAP_FAILED) event.page = page;
  return event;
}

void split_pmu_event_close(struct split_pmu_event *event) {
  if (event->page) munmap(event->page, PAGE);
  if (event->descriptor >= 0) close(event->descriptor);
  event->page = NULL;
  event->descriptor = -1;
}

#if defined(__x86_64__)
static uint64_t read_counter(uint32_t counter) {
  uint32_t low, high;
  __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter));
  return (uint64_t)high << 32 | low;
}

/* The kernel's protocol (linux/perf_event.h): the page is a seqlock, and its index names the
 * present counter. */
static bool read_page(const volatile struct perf_event_mmap_page *page, uint64_t *count) {
  for (int i = 0; i < 8; i++) {
    uint32_t sequence = page->lock;
    atomic_signal_fence(memory_order_seq_cst);
    uint32_t index = page->index;
    int64_t offset = page->offset;
    uint32_t width = page->pmc_width;
    if (!page->cap_user_rdpmc || index == 0 || width == 0 || width > 64) return false;
    int64_t value = (int64_t)(read_counter(index - 1) << (64 - width)) >> (64 - width);
    atomic_signal_fence(memory_order_seq_cst);
    if (page->lock == sequence) {
      *count = (uint64_t)(offset + value);
      return true;
    }
  }
  return false;
}
#else
static bool read_page(const volatile struct perf_event_mmap_page *page, uint64_t *count) {
  (void)page;
  (void)count;
  return false;
}
#endif

bool split_pmu_event_read(const struct split_pmu_event *event, uint64_t *count) {
  if (event->page && read_page(event->page, count)) return true;
  /* Reading a pinned event without a counter returns end of file. */
  return read(event->descriptor, count, sizeof *count) == (ssize_t)sizeof *count;
}

struct split_pmu *split_pmu_open(void) {
  struct split_pmu *pmu = calloc(1, sizeof *pmu);
  if (!pmu) return NULL;
  uint32_t type;
  uint64_t config;
  misses_event(&type, &config);
  pmu->misses = split_pmu_event_open(type, config);
  /* Reference cycles advance like the time stamp counter; core cycles change with the frequency
   * and would be another unit. */
  pmu->cycles = split_pmu_event_open(PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES);
  uint64_t count;
  if (pmu->misses.descriptor >= 0 && split_pmu_event_read(&pmu->misses, &count)) return pmu;
  split_pmu_close(pmu);
  return NULL;
}

void split_pmu_close(struct split_pmu *pmu) {
  if (!pmu) return;
  split_pmu_event_close(&pmu->cycles);
  split_pmu_event_close(&pmu->misses);
  free(pmu);
}

void split_pmu_forget(struct split_pmu *pmu) {
  if (!pmu) return;
  pmu->cycles.page = pmu->misses.page = NULL;
  split_pmu_close(pmu);
}

bool split_pmu_is_cheap(const struct split_pmu *pmu) {
  const struct perf_event_mmap_page *page = pmu->misses.page;
  return page && page->cap_user_rdpmc;
}

bool split_pmu_read(struct split_pmu *pmu, struct split_pmu_counts *counts) {
  counts->has_cycles =
      pmu->cycles.descriptor >= 0 && split_pmu_event_read(&pmu->cycles, &counts->cycles);
  return split_pmu_event_read(&pmu->misses, &counts->misses);
}
