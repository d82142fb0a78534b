/*
 * Finds sets if the clock is too coarse for single loads and the index of L2 is a hash (AMD;
 * measured on EPYC of family 25, model 17): lines at the same place of two pages share a set only
 * by chance. Their index is:
 *
 *   set of line l of page p  =  colour(p) : l ^ fold(p)          fold changes some bits of l; the others depend on the page only
 *
 * So pages still have colours, and the 64 lines of a page share their sets with the 64 lines of
 * another page of its colour, in another order. The search uses all lines of a page at once, since
 * sums need many loads. Which lines of two pages share a set is found afterwards, by trying all
 * folds.
 *
 * A test consists of repeated shots: lines of a target are loaded, then others, three times over,
 * then the target's lines are timed. Whole pages for a whole cache are 30,000 loads; finding 16
 * colours takes 2 to 5 seconds.
 */
#include "probe_discover.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
  TARGETS = SPLIT_PROBE_CHAIN, /* lines of a page that are timed: prefetchers bring half of 16 */
  REPEATS = 12,
  /* Passes over the others: after one pass over as many lines as there are ways, more than half
   * of the targets are still there. */
  PASSES = 3,
  ELSEWHERE = 128 /* pages: more than the first TLB has entries for */
};

/* All lines of a page come once as `i` goes through 64, neither in ascending order nor in even
 * steps, which prefetchers would learn. */
static inline uint32_t scrambled(uint32_t i, uint32_t salt) {
  uint32_t line = (i * 37 + salt) % SPLIT_PROBE_LINES;
  line ^= line >> 3;
  line = line * 27 % SPLIT_PROBE_LINES;
  return line ^ line >> 2;
}

/* The same form as the probe's offsets: see split_probe_line. */
static inline uint32_t offset_of(uint16_t page, uint32_t fold) {
  return (uint32_t)page * SPLIT_PROBE_PAGE + fold * SPLIT_LINE;
}

static void load_page(const struct split_pool *pool, uint16_t page) {
  for (uint32_t i = 0; i < SPLIT_PROBE_LINES; i++)
    split_probe_load(split_probe_line(pool->pages, offset_of(page, 0), scrambled(i, page)));
}

const unsigned char *split_discover_elsewhere(void) {
  const size_t size = (size_t)ELSEWHERE * SPLIT_PROBE_PAGE;
  unsigned char *pages =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return NULL;
  (void)madvise(pages, size, MADV_NOHUGEPAGE); /* a huge page needs one TLB entry */
  memset(pages, 0, size); /* gives each page memory: untouched ones share a page of zeros */
  return pages;
}

void split_discover_free_elsewhere(const unsigned char *elsewhere) {
  if (elsewhere != NULL)
    (void)munmap((void *)(uintptr_t)elsewhere, (size_t)ELSEWHERE * SPLIT_PROBE_PAGE);
}

/* Twice the cache's assumed size is enough: each colour then has twice as many pages as ways. */
uint32_t split_discover_pages_enough(const struct split_pool *pool) {
  enum { ENOUGH = 2048 };
  return pool->step == 0 || pool->count < ENOUGH ? pool->count : ENOUGH;
}

struct targets {
  const unsigned char *line[TARGETS];
};
/* For pages of a colour, with their folds: lines of the same sets, chosen by the same salt. */
static inline struct targets lines_at(const unsigned char *pages, uint32_t offset, uint32_t salt) {
  struct targets lines;
  for (uint32_t i = 0; i < TARGETS; i++)
    lines.line[i] = split_probe_line(pages, offset, scrambled(i, salt));
  return lines;
}
static void load_lines(const struct targets *lines) {
  for (uint32_t i = 0; i < TARGETS; i++) split_probe_load(lines->line[i]);
}
/* Fenced: loads in flight together arrive in any order, and a target that comes from memory
 * would be younger in its set than the first of the others. */
static void load_targets(const struct targets *targets) {
  load_lines(targets);
  split_probe_fence();
}
static void time_targets(const struct targets *targets, const unsigned char *elsewhere,
                         const struct split_probe_timing *timing,
                         struct split_probe_chains *chains) {
  /* A page missing in the first TLB makes a load longer by a quarter of a miss: all pages are
   * displaced from it. */
  for (uint32_t page = 0; page < ELSEWHERE; page++)
    split_probe_load(elsewhere + page * SPLIT_PROBE_PAGE + page % SPLIT_PROBE_LINES * SPLIT_LINE);
  split_probe_fence();
  (void)split_probe_timed_nothing(); /* code that has not run for a while is slow */
  split_probe_chains_time(chains, timing, targets->line);
}
static float share_of(const struct split_probe_chains *chains,
                      const struct split_probe_timing *timing) {
  return (float)split_probe_chains_gone(chains, timing) / (float)(chains->count * TARGETS);
}

bool split_discover_pages_evict(const struct split_pool *pool, const uint16_t *set, uint32_t count,
                                uint16_t target) {
  struct split_probe_chains chains = {0};
  /* With many pages, there are either far too few of the colour or far too many. */
  const uint32_t passes = count > 8 * pool->ways ? 1 : PASSES;
  for (uint32_t repeat = 0; repeat < REPEATS; repeat++) {
    const struct targets targets = lines_at(pool->pages, offset_of(target, 0), repeat * 11);
    load_targets(&targets);
    for (uint32_t pass = 0; pass < passes; pass++)
      for (uint32_t i = 0; i < count; i++) load_page(pool, set[i]);
    time_targets(&targets, pool->elsewhere, &pool->timing, &chains);
  }
  return share_of(&chains, &pool->timing) > 0.4F;
}

/* The share of the lines l of page `to` that are displaced when lines l ^ fold of page `from`
 * are loaded, in addition to all of `others`, which alone leave room for one more. No other
 * lines of `from` are loaded: prefetchers would load the rest. */
static float gone_by_fold(const struct split_pool *pool, const uint16_t *others, uint32_t count,
                          uint16_t from, uint16_t to, uint32_t fold, uint32_t repeats) {
  struct split_probe_chains chains = {0};
  for (uint32_t repeat = 0; repeat < repeats; repeat++) {
    const struct targets targets = lines_at(pool->pages, offset_of(to, 0), repeat * 11),
                         tried = lines_at(pool->pages, offset_of(from, fold), repeat * 11);
    load_targets(&targets);
    for (uint32_t pass = 0; pass < PASSES; pass++) {
      for (uint32_t i = 0; i < count; i++) load_page(pool, others[i]);
      load_lines(&tried);
    }
    time_targets(&targets, pool->elsewhere, &pool->timing, &chains);
  }
  return share_of(&chains, &pool->timing);
}

struct candidate {
  uint32_t fold;
  float gone;
};
static int most_first(const void *left, const void *right) {
  const float a = ((const struct candidate *)left)->gone,
              b = ((const struct candidate *)right)->gone;
  return (a < b) - (a > b);
}

/* Tries all folds, then the best of them again with more loads: other load can only add misses,
 * and not always for the same fold. False: disturbed, or another index than the one drawn above. */
static bool find_fold(const struct split_pool *pool, const uint16_t *others, uint32_t count,
                      uint16_t from, uint16_t to, uint8_t *fold) {
  static const struct {
    uint32_t candidates, repeats;
  } rounds[] = {{SPLIT_PROBE_LINES, 6}, {8, 24}, {3, 48}};
  struct candidate candidates[SPLIT_PROBE_LINES];
  for (uint32_t i = 0; i < SPLIT_PROBE_LINES; i++)
    candidates[i] = (struct candidate){.fold = i, .gone = 1};
  for (uint32_t round = 0; round < sizeof(rounds) / sizeof(rounds[0]); round++) {
    for (uint32_t i = 0; i < rounds[round].candidates; i++) {
      struct candidate *candidate = &candidates[i];
      const float gone =
          gone_by_fold(pool, others, count, from, to, candidate->fold, rounds[round].repeats);
      if (gone < candidate->gone) candidate->gone = gone;
    }
    qsort(candidates, rounds[round].candidates, sizeof(candidates[0]), most_first);
  }
  *fold = (uint8_t)candidates[0].fold;
  return candidates[0].gone > 0.25F && candidates[1].gone * 3 < candidates[0].gone * 2;
}

bool split_discover_pages_lines(const struct split_pool *pool, struct split_colour *colour) {
  colour->line[0] = 0;
  for (uint32_t way = 1; way <= colour->ways; way++) {
    uint16_t others[SPLIT_PROBE_WAYS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 1; i <= colour->ways; i++)
      if (i != way) others[count++] = colour->page[i];
    if (!find_fold(pool, others, count, colour->page[way], colour->page[0], &colour->line[way]))
      return false;
  }
  return true;
}

/* The share of the first page's lines that are displaced when those of `ways` other pages that
 * share their sets are loaded. */
static float gone_by_ways(const unsigned char *pages, const uint32_t *offsets, uint32_t ways,
                          uint32_t salt, const unsigned char *elsewhere,
                          const struct split_probe_timing *timing) {
  struct split_probe_chains chains = {0};
  for (uint32_t repeat = 0; repeat < REPEATS; repeat++) {
    const struct targets targets = lines_at(pages, offsets[0], salt + repeat * 11);
    load_targets(&targets);
    for (uint32_t pass = 0; pass < PASSES; pass++)
      for (uint32_t way = 1; way <= ways; way++) {
        const struct targets others = lines_at(pages, offsets[way], salt + repeat * 11);
        load_lines(&others);
      }
    time_targets(&targets, elsewhere, timing, &chains);
  }
  return share_of(&chains, timing);
}

bool split_discover_pages_full(const unsigned char *pages, const uint32_t *offsets, uint32_t ways,
                               uint32_t salt, const unsigned char *elsewhere,
                               const struct split_probe_timing *timing) {
  const float fit = gone_by_ways(pages, offsets, ways - 1, salt, elsewhere, timing),
              overflow = gone_by_ways(pages, offsets, ways, salt, elsewhere, timing);
  return overflow > 0.4F && overflow - fit > 0.3F;
}
