/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * For tests of coherence: two processes on two cores, which have pages 0x100 to 0x10f in
 * common; `other_core` goes on as the other one.  Every event of sharing is a sample.
 */
#ifndef HM_PAIR_H
#define HM_PAIR_H

#include "coherence.h"
#include "test.h"

#define LINE(n) ((uint64_t)(n) << HM_LINE_BITS)
#define PAGE(n) ((uint64_t)(n) << HM_PAGE_BITS)
#define SHARED PAGE(0x100)

#define UNUSED __attribute__((unused))

static struct hm_simulator other;
static struct hm_header *header;

/* Every event of sharing and every miss becomes a sample. */
static struct hm_config sampled_machine(uint32_t cores) {
  struct hm_config config = small_machine();
  config.cores = cores;
  config.flags = HM_FLAG_CAUSES;
  config.period[HM_COHERENCE_MISS] = config.period[HM_INVALIDATION] = 1;
  config.period[HM_L1D_MISS] = config.period[HM_L2_MISS] = config.period[HM_L3_MISS] = 1;
  return config;
}

static void begin_with(const struct hm_config *config) {
  header = make_segment(config);
  host_sample_count = 0;
  host_forget_pages();
  host_describe_pages(0x100, 16, HM_PAGE_SHARED, 1000);
  start_process(header, 1001);
  struct hm_simulator first;
  put_aside(&first);
  start_process(header, 1002);
  put_aside(&other);
  take_up(&first);
}

UNUSED static int set_up(void **state) {
  (void)state;
  struct hm_config config = sampled_machine(2);
  begin_with(&config);
  return 0;
}

UNUSED static int tear_down(void **state) {
  (void)state;
  stop(header);
  return 0;
}

UNUSED static void other_core(void) {
  struct hm_simulator running;
  put_aside(&running);
  take_up(&other);
  other = running;
}

/* On both cores. */
UNUSED static uint64_t all(enum hm_event event) {
  return header->counts[0].events[event] + header->counts[1].events[event];
}

UNUSED static const struct hm_access *sample_of(enum hm_event event, uint32_t number) {
  for (uint32_t i = 0; i < host_sample_count; i++)
    if (host_samples[i].sample.event == event && number-- == 0) return &host_samples[i].access;
  fail();
  return NULL;
}

UNUSED static void assert_shared(uint64_t coherence_misses, uint64_t invalidations) {
  assert_int_equal(all(HM_COHERENCE_MISS), coherence_misses);
  assert_int_equal(all(HM_INVALIDATION), invalidations);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
