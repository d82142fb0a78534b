/*
 * Times of hits: times of single loads, and the limits derived from them.
 */
#include "probe_discover.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

uint64_t split_random_next(struct split_random *random) { /* xorshift64*, Vigna 2016 */
  uint64_t x = random->state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  random->state = x;
  return x * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

void split_random_shuffle(struct split_random *random, uint16_t *numbers, uint32_t count) {
  for (uint32_t i = count; i > 1; i--) {
    const uint32_t j = (uint32_t)(split_random_next(random) % i);
    const uint16_t kept = numbers[i - 1];
    numbers[i - 1] = numbers[j];
    numbers[j] = kept;
  }
}

uint64_t split_discover_now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t split_discover_switches(void) {
  struct rusage usage;
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return 0;
  return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

struct split_geometry split_discover_geometry(void) {
  struct split_geometry geometry = {.ways = 16, .kilobytes = 2048};
#if defined(__x86_64__)
  unsigned a, b, c, d;
  /* Intel's leaf 4; AMD's has the same form. */
  static const unsigned leaves[] = {4, 0x8000001d};
  for (unsigned i = 0; i < 2; i++)
    for (unsigned cache = 0; cache < 8; cache++) {
      if (__get_cpuid_count(leaves[i], cache, &a, &b, &c, &d) == 0 || (a & 31) == 0) break;
      if ((a >> 5 & 7) != 2) continue;
      const uint64_t ways = (b >> 22) + 1, partitions = (b >> 12 & 0x3ff) + 1,
                     line = (b & 0xfff) + 1, sets = (uint64_t)c + 1;
      const uint64_t kilobytes = ways * partitions * line * sets / 1024;
      if (line != SPLIT_LINE || ways < 2 || ways > SPLIT_PROBE_WAYS_MAX || kilobytes < 128 ||
          kilobytes > 16384)
        continue;
      return (struct split_geometry){.ways = (uint32_t)ways, .kilobytes = (uint32_t)kilobytes};
    }
#endif
  return geometry;
}

static int by_size(const void *left, const void *right) {
  const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return (a > b) - (a < b);
}

/* Times the line `pool->line` of `count` pages in the last of a few passes, sorted. In random
 * order: prefetchers follow even steps from page to page. */
static void time_pages(const struct split_pool *pool, const uint16_t *order, uint32_t count,
                       uint32_t *times) {
  const unsigned char *first = pool->pages + pool->line * SPLIT_LINE;
  for (uint32_t pass = 0; pass < 4; pass++)
    for (uint32_t i = 0; i < count; i++)
      times[i] = split_probe_timed_load(first + (uint64_t)order[i] * SPLIT_PROBE_PAGE);
  qsort(times, count, sizeof(times[0]), by_size);
}

/* Number of lines at the same place of pages: too many for a set of L1, and by far too few for
 * the L2 sets that they share. */
enum { HITS = 64 };

void split_discover_add_times(uint32_t *often, uint32_t *count, const uint32_t *times,
                              uint32_t more) {
  for (uint32_t i = 0; i < more; i++)
    often[times[i] < SPLIT_CYCLES_MOST ? times[i] : SPLIT_CYCLES_MOST - 1]++;
  *count += more;
}

/* False: too few miss, or hits and misses take about as long; nothing is added. */
static bool hit_and_miss(struct split_pool *pool, uint16_t *order, uint32_t *times,
                         struct split_spectrum *spectrum) {
  uint32_t few[HITS];
  split_random_shuffle(&pool->random, order, pool->count);
  time_pages(pool, order, HITS, few);
  const uint32_t hit = few[HITS / 2], slow_hit = few[HITS * 9 / 10];
  time_pages(pool, order, pool->count, times);
  uint32_t misses = 0;
  while (misses < pool->count && times[pool->count - 1 - misses] > hit + hit / 2) misses++;
  if (misses < pool->count / 2) return false;
  const uint32_t quick_miss = times[pool->count - misses + misses / 25];
  if (quick_miss <= slow_hit + slow_hit / 4) return false;
  split_discover_add_times(spectrum->few, &spectrum->few_count, few, HITS);
  split_discover_add_times(spectrum->many, &spectrum->many_count, times, pool->count);
  return true;
}

uint32_t split_discover_median(const uint32_t *often, uint32_t count) {
  uint32_t below = 0, cycles = 0;
  while (cycles < SPLIT_CYCLES_MOST - 1 && below + often[cycles] <= count / 2)
    below += often[cycles++];
  return cycles;
}

/* Cycles from one frequent time to the next: some counters advance by more than one. A range
 * narrower than a step is always empty. */
static uint32_t step_of(const struct split_spectrum *spectrum) {
  const uint32_t all = spectrum->few_count + spectrum->many_count;
  uint32_t step = SPLIT_CYCLES_MOST, before = 0;
  bool any = false;
  for (uint32_t cycles = 0; cycles < SPLIT_CYCLES_MOST - 1; cycles++) {
    if ((spectrum->few[cycles] + spectrum->many[cycles]) * UINT64_C(1000) < all) continue;
    if (any && cycles - before < step) step = cycles - before;
    before = cycles;
    any = true;
  }
  return step == SPLIT_CYCLES_MOST ? 1 : step;
}

static uint32_t greatest(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* The last of several ranges, since hits get slower by a third while the core's other thread
 * works (up to 114 on the measured processor), and the quickest misses (from 120) do not. */
uint32_t split_discover_valley(const struct split_spectrum *spectrum) {
  const uint32_t hit = split_discover_median(spectrum->few, spectrum->few_count),
                 miss = split_discover_median(spectrum->many, spectrum->many_count),
                 width = greatest(greatest(hit / 12, 4), step_of(spectrum));
  double fewest = 2;
  uint32_t valley = 0;
  for (uint32_t from = hit + 1; from + width <= miss; from++) {
    uint32_t few = 0, many = 0;
    for (uint32_t cycles = from; cycles < from + width; cycles++) {
      few += spectrum->few[cycles];
      many += spectrum->many[cycles];
    }
    const double share = (double)few / spectrum->few_count + (double)many / spectrum->many_count;
    if (share > fewest) continue;
    fewest = share;
    valley = from + width / 2;
  }
  return valley;
}

/* The share of these times that is at `first`, or a whole number of steps later, and the number
 * of such places with more than a few of them. */
static double at_steps(const uint32_t *times, uint32_t count, uint32_t first, double step,
                       uint32_t *places) {
  enum { PLACES = 8 };
  uint32_t often[PLACES] = {0}, at = 0;
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t place = 0; place < PLACES; place++) {
      const double off = times[i] - (first + place * step);
      if (off < -1.01 || off > 1.01) continue;
      often[place]++;
      at++;
      break;
    }
  *places = 0;
  for (uint32_t place = 0; place < PLACES; place++) *places += often[place] * 25 > count;
  return (double)at / count;
}

/* AMD's time stamp counter advances every 10 ns, by 20 to 45 cycles: hits then take two or three
 * different times, and none between. A counter that advances by ones has hits at all times of a
 * range, or at a single one. */
uint32_t split_discover_clock_step(const uint32_t *sorted, uint32_t count) {
  const uint32_t first = sorted[count / 50], middle = sorted[count / 2];
  double longest = 0, shortest = 0; /* of equally good steps: a cycle more or less also fits */
  for (double step = 64; step >= 8 && step * 8 > middle; step -= 0.25) {
    uint32_t places;
    const bool fits = at_steps(sorted, count, first, step, &places) > 0.97 && places >= 2;
    if (!fits && longest > 0) break;
    if (!fits) continue;
    if (longest == 0) longest = step;
    shortest = step;
  }
  return (uint32_t)((longest + shortest) / 2 + 0.5);
}

void split_discover_find_step(struct split_pool *pool) {
  enum { TRIES = 16 };
  uint32_t times[TRIES * HITS];
  uint16_t order[HITS];
  for (uint32_t try = 0; try < TRIES; try++) {
    for (uint32_t i = 0; i < HITS; i++)
      order[i] = (uint16_t)(split_random_next(&pool->random) % pool->count);
    pool->line = (uint32_t)(split_random_next(&pool->random) % SPLIT_PROBE_LINES);
    time_pages(pool, order, HITS, times + try * HITS);
  }
  qsort(times, TRIES * HITS, sizeof(times[0]), by_size);
  pool->step = split_discover_clock_step(times, TRIES * HITS);
}

struct split_probe_timing split_discover_timing(struct split_pool *pool) {
  enum { TRIES = 24 };
  uint32_t found = 0;
  uint32_t *times = malloc(pool->count * sizeof(*times));
  uint16_t *order = malloc(pool->count * sizeof(*order));
  struct split_spectrum *spectrum = calloc(1, sizeof(*spectrum));
  const bool room = times != NULL && order != NULL && spectrum != NULL;
  for (uint32_t i = 0; room && i < pool->count; i++) order[i] = (uint16_t)i;
  const bool chains = pool->step != 0;
  for (uint32_t try = 0; room && !chains && try < TRIES; try++) {
    pool->line = (uint32_t)(split_random_next(&pool->random) % SPLIT_PROBE_LINES);
    found += hit_and_miss(pool, order, times, spectrum);
  }
  struct split_probe_timing timing = {0};
  if (room && chains)
    timing = split_discover_blurred_timing(pool, spectrum);
  else if (found >= TRIES / 3)
    timing.limit = split_discover_valley(spectrum);
  free(times);
  free(order);
  free(spectrum);
  return timing;
}

bool split_discover_quiet(struct split_pool *pool) {
  const unsigned char *lines[HITS];
  uint32_t misses = 0;
  if (pool->step != 0) return split_discover_blurred_quiet(pool);
  for (uint32_t i = 0; i < HITS; i++)
    lines[i] = pool->pages + split_random_next(&pool->random) % pool->count * SPLIT_PROBE_PAGE +
               pool->line * SPLIT_LINE;
  for (uint32_t pass = 0; pass < 8; pass++)
    for (uint32_t i = 0; i < HITS; i++)
      misses += split_probe_timed_load(lines[i]) > pool->timing.limit && pass >= 2;
  return misses <= 6 * HITS / 100;
}

uint32_t split_discover_misses(const unsigned char *pages, const uint32_t *offsets, uint32_t count,
                               uint32_t line, uint32_t limit) {
  enum { TRIES = 5 };
  uint32_t misses[TRIES] = {0};
  for (uint32_t try = 0; try < TRIES; try++) {
    for (uint32_t pass = 0; pass < 3; pass++)
      for (uint32_t i = 0; i < count; i++)
        split_probe_load(split_probe_line(pages, offsets[i], line));
    for (uint32_t pass = 0; pass < SPLIT_MISS_PASSES; pass++)
      for (uint32_t i = 0; i < count; i++)
        misses[try] += split_probe_timed_load(split_probe_line(pages, offsets[i], line)) > limit;
  }
  qsort(misses, TRIES, sizeof(misses[0]), by_size);
  return misses[TRIES / 2];
}
