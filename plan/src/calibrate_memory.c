/*
 * The time of a memory access by the size of the structure: two dependent accesses as in the probe
 * of a hash table (bucket, then entry) with some arithmetic as an executor has between them; row by
 * row, and with the addresses of a group of rows prefetched first.
 */
#include "calibrate.h"

#include <sys/mman.h>
#include <unistd.h>

#include "miscadmin.h"
#include "thread_time.h"
#include "utils/memutils.h"

#define FIRST_SIZE_KB 128
#define SIZES 12
#define REPETITIONS 4
/* The number of rows in a buffer: their lines have to fit L1D. */
#define GROUP 128

typedef struct Line {
  uint32 entry; /* next entry of the chain */
  uint32 value;
  char rest[56];
} Line;
StaticAssertDecl(sizeof(Line) == 64, "a line of the table is a cache line");

static inline uint64 mixed(uint64 key) {
  key *= UINT64CONST(0x9E3779B97F4A7C15);
  return key ^ (key >> 29);
}

static inline uint64 work(uint64 value) {
  for (int i = 0; i < 40; i++) value = value * 5 + 1;
  return value;
}

static uint64 probe_plain(const Line *lines, uint32 mask, uint32 from, uint32 count) {
  uint64 sum = 0;
  for (uint32 i = from; i < from + count; i++) {
    const Line *bucket = &lines[mixed(i) & mask];
    sum = work(sum + lines[bucket->entry].value);
  }
  return sum;
}

static uint64 probe_prefetched(const Line *lines, uint32 mask, uint32 from, uint32 count) {
  const Line *line[GROUP];
  uint64 sum = 0;
  for (uint32 begin = from; begin < from + count; begin += GROUP) {
    for (int i = 0; i < GROUP; i++) {
      line[i] = &lines[mixed(begin + i) & mask];
      __builtin_prefetch(line[i]);
    }
    for (int i = 0; i < GROUP; i++) {
      line[i] = &lines[line[i]->entry];
      __builtin_prefetch(line[i]);
    }
    for (int i = 0; i < GROUP; i++) sum = work(sum + line[i]->value);
  }
  return sum;
}

/* Creates a table of n lines, a power of two. */
static void link_lines(Line *lines, uint32 n) {
  for (uint32 i = 0; i < n; i++) {
    lines[i].entry = (uint32)(mixed(mixed(i) + 1) & (n - 1));
    lines[i].value = i;
  }
}

/* Number of sizes that the machine can hold without memory pressure. */
static int sizes_to_measure(void) {
  double memory_kb = (double)sysconf(_SC_PHYS_PAGES) * (sysconf(_SC_PAGESIZE) / 1024.0);
  int sizes = SIZES;
  while (sizes > 1 && (double)FIRST_SIZE_KB * (1 << (sizes - 1)) > memory_kb / 8) sizes--;
  return sizes;
}

void calibrate_memory(CostConstants *constants) {
  int sizes = sizes_to_measure();
  Size bytes = (Size)FIRST_SIZE_KB * 1024 << (sizes - 1);
  Line *lines = MemoryContextAllocHuge(CurrentMemoryContext, bytes);
  char *first_page = (char *)TYPEALIGN(sysconf(_SC_PAGESIZE), lines);
  static volatile uint64 sink; /* keeps the compiler from removing the probes */

  /* The server's hash tables grow by chunks of 32 KB and are rarely on huge pages, so this
   * structure must not be either. A kernel without huge pages may refuse this. */
  (void)madvise(first_page, bytes - (first_page - (char *)lines), MADV_NOHUGEPAGE);
  for (int size = 0; size < sizes; size++) {
    uint32 n = (uint32)(((Size)FIRST_SIZE_KB * 1024 << size) / sizeof(Line));
    uint32 probes = size < 5 ? 256 * GROUP : 384 * GROUP;
    double plain = 0;
    double prefetched = 0;

    link_lines(lines, n);
    for (uint32 i = 0; i <= REPETITIONS; i++) {
      double begin, between, end;
      CHECK_FOR_INTERRUPTS();
      begin = thread_ns();
      sink += probe_plain(lines, n - 1, 2 * i * probes, probes);
      between = thread_ns();
      sink += probe_prefetched(lines, n - 1, (2 * i + 1) * probes, probes);
      end = thread_ns();
      /* The first only warms the caches. */
      if (i == 0) continue;
      if (i == 1 || between - begin < plain) plain = between - begin;
      if (i == 1 || end - between < prefetched) prefetched = end - between;
    }
    constants->probe_plain[size] = plain / probes;
    constants->probe_prefetched[size] = prefetched / probes;
  }
  for (int size = sizes; size < SIZES; size++) {
    constants->probe_plain[size] = constants->probe_plain[sizes - 1];
    constants->probe_prefetched[size] = constants->probe_prefetched[sizes - 1];
  }
  /* A larger structure is never faster: extra time in a smaller one was caused by other load. */
  for (int size = SIZES - 2; size >= 0; size--) {
    constants->probe_plain[size] =
        Min(constants->probe_plain[size], constants->probe_plain[size + 1]);
    constants->probe_prefetched[size] =
        Min(constants->probe_prefetched[size], constants->probe_prefetched[size + 1]);
  }
  pfree(lines);
}
