/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What skipping known hits costs: misses of L1 and of the TLB as shipped and in
 * exact mode, against a model that sees every access.
 */
#include <stdio.h>
#include <stdlib.h>

#include "test.h"

/* A stream of loads over `lines` lines: each load either follows a loop over `loop` of them, or
 * goes anywhere, with small numbers preferred. */
struct stream {
  uint32_t lines, loop, in_loop; /* percentage of accesses in the loop */
};

struct misses {
  uint64_t l1d, dtlb;
};

static uint64_t next_line(const struct stream *stream, uint64_t *random, uint64_t *position) {
  uint64_t draw = next_random(random), high = draw >> 20;
  if (draw % 100 < stream->in_loop) return 7 * ((*position)++ % stream->loop);
  return high % stream->lines * (high / stream->lines % stream->lines) / stream->lines;
}

#define ACCESSES 300000

/* True LRU by time stamps. */
struct lru {
  uint32_t sets, ways;
  uint64_t *key, *used;
};

static int lru_misses(struct lru *lru, uint64_t number, uint64_t now) {
  uint64_t *key = lru->key + number % lru->sets * lru->ways;
  uint64_t *used = lru->used + number % lru->sets * lru->ways;
  uint32_t oldest = 0;
  for (uint32_t i = 0; i < lru->ways; i++) {
    if (key[i] == number + 1) {
      used[i] = now;
      return 0;
    }
    if (used[i] < used[oldest]) oldest = i;
  }
  key[oldest] = number + 1;
  used[oldest] = now;
  return 1;
}

static struct lru new_lru(uint32_t sets, uint32_t ways) {
  size_t slots = (size_t)sets * ways;
  return (struct lru){sets, ways, calloc(slots, sizeof(uint64_t)), calloc(slots, sizeof(uint64_t))};
}

static struct misses model(const struct stream *stream) {
  struct lru l1d = new_lru(64, 8), dtlb = new_lru(16, 4);
  struct misses misses = {0, 0};
  uint64_t random = 11, position = 0;
  for (uint64_t now = 1; now <= ACCESSES; now++) {
    uint64_t line = next_line(stream, &random, &position);
    misses.l1d += (uint64_t)lru_misses(&l1d, line, now);
    misses.dtlb += (uint64_t)lru_misses(&dtlb, line >> (HM_PAGE_BITS - HM_LINE_BITS), now);
  }
  free(l1d.key);
  free(l1d.used);
  free(dtlb.key);
  free(dtlb.used);
  return misses;
}

static struct misses simulation(const struct stream *stream, uint32_t flags) {
  struct hm_config config = small_machine();
  config.l1d = (struct hm_cache_config){64 * 8 * HM_LINE_SIZE, 8, 4, 0};
  config.dtlb = (struct hm_tlb_config){64, 4, 0, 0};
  config.flags = flags;
  struct hm_header *header = start(&config);
  uint64_t random = 11, position = 0;
  for (int i = 0; i < ACCESSES; i++) load(next_line(stream, &random, &position) << HM_LINE_BITS);
  struct misses misses = {events(HM_L1D_MISS), events(HM_DTLB_MISS)};
  stop(header);
  return misses;
}

static double per_cent_off(uint64_t misses, uint64_t expected) {
  return ((double)misses / (double)expected - 1.0) * 100.0;
}

static void misses_are_near_those_of_true_lru(void **state) {
  (void)state;
  static const struct {
    struct stream stream;
    double l1d, dtlb; /* per cent that may be off */
  } cases[] = {
      {{8000, 1, 0}, 0.1, 1},   {{20000, 1, 0}, 0.1, 0.2}, {{20000, 300, 80}, 0.3, 0.2},
      {{20000, 480, 95}, 3, 7}, {{8000, 520, 90}, 0.1, 7},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const struct stream *stream = &cases[i].stream;
    struct misses expected = model(stream), shipped = simulation(stream, 0),
                  exact = simulation(stream, HM_FLAG_EXACT_LRU);
    assert_true(expected.l1d > 1000 && expected.dtlb > 1000);
    double l1d = per_cent_off(shipped.l1d, expected.l1d);
    double dtlb = per_cent_off(shipped.dtlb, expected.dtlb);
    printf(
        "             %5u lines, %2u %% in a loop of %3u: L1D %+.2f %%, DTLB %+.2f %% "
        "(exact mode: %+.2f %%, %+.2f %%)\n",
        stream->lines, stream->in_loop, stream->loop, l1d, dtlb,
        per_cent_off(exact.l1d, expected.l1d), per_cent_off(exact.dtlb, expected.dtlb));
    assert_true(l1d <= cases[i].l1d && l1d >= -cases[i].l1d);
    assert_true(dtlb <= cases[i].dtlb && dtlb >= -cases[i].dtlb);
    assert_int_equal(exact.l1d, expected.l1d); /* exact mode is, of caches */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(misses_are_near_those_of_true_lru),
  };
  return cmocka_run_group_tests_name("epochs", tests, NULL, NULL);
}
