/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Patterns of misses (sim/pattern.h), as the time model sees them on the machine of test.h.
 */
#include "pattern.h"
#include "test.h"

#define LINE(n) ((uint64_t)(n) << HM_LINE_BITS)
#define PAGE(n) ((uint64_t)(n) << HM_PAGE_BITS)
#define BASE PAGE(256)

static struct hm_header *start_timed(void) {
  struct hm_config config = small_machine();
  config.itlb = config.dtlb = config.stlb = (struct hm_tlb_config){0, 0, 0, 0};
  config.walk_latency = 0;
  config.core = (struct hm_core_config){.reorder_window = 20, .fill_buffers = 4, .store_buffer = 8};
  config.period[HM_L1D_MISS] = 1;
  host_forget_words();
  hm_pattern_begin();
  return start(&config);
}

/* The pattern and stride of a miss of an instruction. */
static struct hm_access miss(uint64_t ip, uint64_t address, enum hm_kind kind) {
  hm_sim.instructions++;
  host_sample_count = 0;
  hm_data(address, HM_SITE(ip, 8, kind, 0));
  assert_int_equal(host_sample_count, 1);
  return host_samples[0].access;
}

static void a_stride_is_known_at_the_third_miss(void **state) {
  (void)state;
  struct hm_header *header = start_timed();
  for (uint64_t i = 0; i < 6; i++) {
    struct hm_access load = miss(0x1000, BASE + i * 4096, HM_LOAD);
    struct hm_access store = miss(0x1004, BASE + PAGE(1000) - i * 128, HM_STORE);
    assert_int_equal(load.stride, i < 2 ? 0 : 4096);
    assert_int_equal(store.stride, i < 2 ? 0 : -128);
    assert_int_equal(load.pattern, i == 0 ? HM_NO_PATTERN : i == 1 ? HM_SCATTERED : HM_STRIDE);
    assert_int_equal(store.pattern, load.pattern);
  }
  /* The next row begins elsewhere. */
  assert_int_equal(miss(0x1000, BASE + PAGE(77), HM_LOAD).pattern, HM_SCATTERED);
  stop(header);
}

/* Nodes at unequal distances, each with the address of the next one. */
static void a_list_is_a_chase(void **state) {
  (void)state;
  struct hm_header *header = start_timed();
  for (uint64_t i = 0; i < 8; i++)
    host_put_word(BASE + PAGE(i * i), BASE + PAGE((i + 1) * (i + 1)));
  for (uint64_t i = 0; i < 8; i++) {
    struct hm_access load = miss(0x1000, BASE + PAGE(i * i), HM_LOAD);
    assert_int_equal(load.pattern, i == 0 ? HM_NO_PATTERN : HM_CHASE);
  }
  stop(header);
}

/* A list whose nodes happen to lie side by side is one all the same, and its stride is known. */
static void a_list_in_order_is_a_chase_with_a_stride(void **state) {
  (void)state;
  struct hm_header *header = start_timed();
  for (uint64_t i = 0; i < 6; i++) host_put_word(BASE + LINE(3 * i), BASE + LINE(3 * (i + 1)));
  for (uint64_t i = 0; i < 6; i++) {
    struct hm_access load = miss(0x1000, BASE + LINE(3 * i), HM_LOAD);
    assert_int_equal(load.pattern, i == 0 ? HM_NO_PATTERN : HM_CHASE);
    assert_int_equal(load.stride, i < 2 ? 0 : 192);
  }
  stop(header);
}

/* A bucket at no constant distance, its entry by a pointer, and the entry's next by another. */
static void a_hash_probe_is_scattered_then_indirect_then_a_chase(void **state) {
  (void)state;
  struct hm_header *header = start_timed();
  for (uint64_t i = 1; i < 8; i++) {
    uint64_t bucket = BASE + PAGE(i * i), entry = BASE + PAGE(1000 + 7 * i * i);
    uint64_t next = BASE + PAGE(5000 + 3 * i * i);
    host_put_word(bucket, entry);
    host_put_word(entry, next);
    uint8_t patterns[] = {miss(0x1000, bucket, HM_LOAD).pattern,
                          miss(0x1008, entry, HM_LOAD).pattern,
                          miss(0x1010, next, HM_LOAD).pattern};
    assert_int_equal(patterns[0], i == 1 ? HM_NO_PATTERN : HM_SCATTERED);
    assert_int_equal(patterns[1], HM_INDIRECT);
    assert_int_equal(patterns[2], HM_CHASE);
    hm_sim.instructions += 10000; /* nothing is under way at the next probe */
  }
  stop(header);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stride_is_known_at_the_third_miss),
      cmocka_unit_test(a_list_is_a_chase),
      cmocka_unit_test(a_list_in_order_is_a_chase_with_a_stride),
      cmocka_unit_test(a_hash_probe_is_scattered_then_indirect_then_a_chase),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
