/*
 * Times of hits if the clock advances in steps. On AMD EPYC (family 25, model 17) the time stamp
 * counter advances every 10 ns, by 26. A load from L2 takes some 10 cycles, one from L3 37, in
 * addition to 60 of the measurement: 52 or 78 by chance, or 78 or 104. Only loads from memory stand
 * out, but these show what was displaced from L3, which depends on all guests of the machine.
 * Chains of four loads take 80 or 190 and begin anywhere within a step, so the mean of many is
 * right for any length of the steps.
 */
#include "probe_discover.h"

#include <stdlib.h>

/* Mean and variance of times, cut off at `most`. */
struct moments {
  double mean, variance;
};
static struct moments moments_of(const uint32_t *often, uint32_t count, uint32_t most) {
  double sum = 0, squares = 0;
  for (uint32_t cycles = 0; cycles < SPLIT_CYCLES_MOST; cycles++) {
    const double cut = cycles < most ? cycles : most;
    sum += often[cycles] * cut;
    squares += often[cycles] * cut * cut;
  }
  const double mean = sum / count;
  return (struct moments){.mean = mean, .variance = squares / count - mean * mean};
}

/* The time of most chains of misses that L3 serves: the step with most entries, up to three
 * times a chain of hits, where chains with a load from memory begin (16 steps more). */
static uint32_t usual_miss(const struct split_spectrum *spectrum) {
  const uint32_t step = spectrum->step,
                 hit = split_discover_median(spectrum->few, spectrum->few_count);
  uint32_t fullest = 0, cycles = hit;
  for (uint32_t from = hit + 1; from + step < SPLIT_CYCLES_MOST && from < 3 * hit; from++) {
    uint32_t within = 0;
    for (uint32_t i = 0; i < step; i++) within += spectrum->many[from + i];
    if (within <= fullest) continue;
    fullest = within;
    cycles = from + step / 2;
  }
  return cycles;
}

/* Cut off one step above that: a chain with a load from memory must not count more than one
 * served by L3. */
struct split_probe_timing split_discover_means(const struct split_spectrum *spectrum) {
  if (spectrum->few_count == 0 || spectrum->many_count == 0) return (struct split_probe_timing){0};
  const uint32_t most = usual_miss(spectrum) + spectrum->step;
  const struct moments few = moments_of(spectrum->few, spectrum->few_count, most),
                       many = moments_of(spectrum->many, spectrum->many_count, most);
  const double hit = few.mean - spectrum->few_itself, miss = many.mean - spectrum->many_itself,
               apart = miss - hit;
  /* Otherwise the pages nearly fit into the cache, or the measurement was disturbed. */
  if (hit < 0 || apart <= 0 || apart * apart < 4 * (few.variance + many.variance))
    return (struct split_probe_timing){0};
  return (struct split_probe_timing){
      .limit = most, .most = most, .hit = (float)hit, .miss = (float)miss};
}

/* Maps line numbers to lines across all pages. */
static void chain_of(const struct split_pool *pool, const uint32_t *numbers,
                     const unsigned char *line[SPLIT_PROBE_CHAIN]) {
  for (uint32_t i = 0; i < SPLIT_PROBE_CHAIN; i++)
    line[i] = pool->pages + (uint64_t)numbers[i] * SPLIT_LINE;
}

/* One half of a spectrum. */
struct half {
  uint32_t *often, *count;
  double *itself;
};
/* Adds times of chains of these lines, in random order, from the last of several passes. */
static void time_chains(struct split_pool *pool, uint32_t *order, uint32_t lines, uint32_t passes,
                        const struct half *half) {
  for (uint32_t i = lines; i > 1; i--) {
    const uint32_t j = (uint32_t)(split_random_next(&pool->random) % i), kept = order[i - 1];
    order[i - 1] = order[j];
    order[j] = kept;
  }
  double sum = *half->itself * *half->count;
  for (uint32_t pass = 0; pass < passes; pass++)
    for (uint32_t i = 0; i + SPLIT_PROBE_CHAIN <= lines; i += SPLIT_PROBE_CHAIN) {
      const unsigned char *line[SPLIT_PROBE_CHAIN];
      chain_of(pool, order + i, line);
      const uint32_t cycles = split_probe_timed_chain(line), itself = split_probe_timed_nothing();
      if (pass + 1 < passes) continue;
      split_discover_add_times(half->often, half->count, &cycles, 1);
      sum += itself < cycles ? itself : cycles; /* longer times include an interrupt */
    }
  *half->itself = sum / *half->count;
}

enum { HITS = 128 };

/* Chooses lines at the same place of pages: too many for a set of L1, and too many pages for the
 * first TLB, like the lines of a probe after a section. */
static void choose_hits(struct split_pool *pool, uint32_t order[HITS]) {
  pool->line = (uint32_t)(split_random_next(&pool->random) % SPLIT_PROBE_LINES);
  for (uint32_t i = 0; i < HITS; i++)
    order[i] =
        (uint32_t)(split_random_next(&pool->random) % pool->count) * SPLIT_PROBE_LINES + pool->line;
}

/* Few: lines that must hit. Many: all lines of the pages, if these are few enough that the
 * second TLB misses. */
struct split_probe_timing split_discover_blurred_timing(struct split_pool *pool,
                                                        struct split_spectrum *room) {
  enum { TRIES = 24, PASSES = 4 };
  const uint32_t lines = pool->count * SPLIT_PROBE_LINES;
  room->step = pool->step;
  uint32_t *order = malloc(lines * sizeof(*order));
  if (order == NULL || pool->count < HITS) {
    free(order);
    return (struct split_probe_timing){0};
  }
  const struct half few = {room->few, &room->few_count, &room->few_itself},
                    many = {room->many, &room->many_count, &room->many_itself};
  for (uint32_t try = 0; try < TRIES; try++) {
    choose_hits(pool, order);
    time_chains(pool, order, HITS, PASSES, &few);
  }
  for (uint32_t i = 0; i < lines; i++) order[i] = i;
  time_chains(pool, order, lines, 2, &many);
  free(order);
  return split_discover_means(room);
}

/* True if less than a tenth of the loads that must hit miss. Means of this number of loads
 * differ by a third of that by chance. */
bool split_discover_blurred_quiet(struct split_pool *pool) {
  uint32_t order[HITS];
  struct split_probe_chains chains = {0};
  choose_hits(pool, order);
  for (uint32_t pass = 0; pass < 8; pass++)
    for (uint32_t i = 0; i + SPLIT_PROBE_CHAIN <= HITS; i += SPLIT_PROBE_CHAIN) {
      const unsigned char *line[SPLIT_PROBE_CHAIN];
      chain_of(pool, order + i, line);
      if (pass == 2) chains = (struct split_probe_chains){0};
      split_probe_chains_time(&chains, &pool->timing, line);
    }
  return split_probe_chains_gone(&chains, &pool->timing) * 10 <= chains.count * SPLIT_PROBE_CHAIN;
}
