/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Coherence between cores: who loses a line, when that is noticed, and whether the
 * sharing was true.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock.h"
#include "pair.h"

static void assert_other_side(enum hm_event event, uint32_t number, struct hm_sharing expected) {
  const struct hm_sharing *found = hm_sharing_of(sample_of(event, number), event);
  assert_non_null(found);
  assert_int_equal(found->verdict, expected.verdict);
  assert_int_equal(found->offset, expected.offset);
  assert_int_equal(found->size, expected.size);
  assert_int_equal(found->stored, expected.stored);
  assert_int_equal(found->pid, expected.pid);
  assert_int_equal(found->ip, expected.ip);
}

/* The driver's instructions have the address that they access. */
#define OTHER_SIDE(verdict, address, stored, pid) \
  ((struct hm_sharing){verdict, (address)&63, 8, stored, pid, address})

/* Both alternately add one to the same word. Each loses the line to the other's store. */
static void two_writers_of_one_word_share_truly(void **state) {
  (void)state;
  for (int turn = 0; turn < 10; turn++) {
    store(SHARED + 8);
    other_core();
  }
  /* The first store is alone, the second finds the line elsewhere but never had it; from the
   * third on each takes the line from the other and misses it. */
  assert_shared(8, 9);
  assert_int_equal(all(HM_L1D_MISS), 10);
  for (uint32_t i = 0; i < 8; i++) {
    assert_other_side(HM_COHERENCE_MISS, i,
                      OTHER_SIDE(HM_VERDICT_TRUE, SHARED + 8, 1, i % 2 == 0 ? 1002 : 1001));
    assert_int_equal(sample_of(HM_COHERENCE_MISS, i)->cause[0], HM_CAUSE_COHERENCE);
    assert_int_equal(sample_of(HM_COHERENCE_MISS, i)->cause[1], HM_CAUSE_COHERENCE);
    assert_int_equal(sample_of(HM_COHERENCE_MISS, i)->modified_elsewhere, 1);
    assert_int_equal(sample_of(HM_COHERENCE_MISS, i)->level, HM_LEVEL_L3);
  }
  /* The other side of the first invalidation is unknown: the line was not watched yet. */
  assert_null(hm_sharing_of(sample_of(HM_INVALIDATION, 0), HM_INVALIDATION));
  for (uint32_t i = 1; i < 9; i++)
    assert_other_side(HM_INVALIDATION, i,
                      OTHER_SIDE(HM_VERDICT_UNKNOWN, SHARED + 8, 1, i % 2 == 0 ? 1001 : 1002));
}

/* The same with a word each: as many misses, all of them avoidable. */
static void two_writers_of_different_words_share_falsely(void **state) {
  (void)state;
  for (int turn = 0; turn < 10; turn++) {
    store(SHARED + (turn % 2 == 0 ? 0 : 32));
    other_core();
  }
  assert_shared(8, 9);
  for (uint32_t i = 0; i < 8; i++)
    assert_other_side(
        HM_COHERENCE_MISS, i,
        OTHER_SIDE(HM_VERDICT_FALSE, SHARED + (i % 2 == 0 ? 32 : 0), 1, i % 2 == 0 ? 1002 : 1001));
}

/* Words of 4 bytes decide: an access of 8 bytes overlaps the other in one of them. */
static void overlapping_accesses_share_truly(void **state) {
  (void)state;
  load_sized(SHARED, 4);
  other_core();
  store(SHARED + 4); /* bytes 4 to 11 */
  other_core();
  load_sized(SHARED, 4); /* false: bytes 0 to 3 */
  other_core();
  store(SHARED + 4);
  other_core();
  load_sized(SHARED + 8, 4); /* true */
  other_core();
  store(SHARED + 4);
  other_core();
  load_sized(SHARED, 8); /* true: bytes 4 to 7 */
  assert_shared(3, 3);
  assert_int_equal(sample_of(HM_COHERENCE_MISS, 0)->lost_to.verdict, HM_VERDICT_FALSE);
  assert_int_equal(sample_of(HM_COHERENCE_MISS, 1)->lost_to.verdict, HM_VERDICT_TRUE);
  assert_int_equal(sample_of(HM_COHERENCE_MISS, 2)->lost_to.verdict, HM_VERDICT_TRUE);
}

/* Several stores since the line was lost: each of them may have written the word. */
static void all_writes_since_the_loss_count(void **state) {
  (void)state;
  load(SHARED);
  other_core();
  store(SHARED);
  store(SHARED + 16);
  store(SHARED + 48);
  other_core();
  load(SHARED + 16); /* true, although the latest write was to another word */
  load(SHARED + 32); /* a hit: the line has been fetched again */
  assert_shared(1, 1);
  assert_other_side(HM_COHERENCE_MISS, 0, OTHER_SIDE(HM_VERDICT_TRUE, SHARED + 48, 1, 1002));
  other_core();
  store(SHARED + 32); /* words written before the miss no longer count */
  other_core();
  load(SHARED + 16);
  assert_shared(2, 2);
  assert_int_equal(sample_of(HM_COHERENCE_MISS, 1)->lost_to.verdict, HM_VERDICT_FALSE);
}

static void readers_never_disturb_each_other(void **state) {
  (void)state;
  for (int turn = 0; turn < 20; turn++) {
    for (uint64_t i = 0; i < 8; i++) load(SHARED + LINE(i));
    other_core();
  }
  assert_shared(0, 0);
  assert_int_equal(all(HM_L1D_MISS), 16);
  assert_int_equal(all(HM_L3_MISS), 8);
}

/* Private pages at the same addresses are different lines. */
static void private_memory_is_not_shared(void **state) {
  (void)state;
  for (int turn = 0; turn < 20; turn++) {
    for (uint64_t i = 0; i < 8; i++) store(PAGE(0x500) + LINE(i));
    other_core();
  }
  assert_shared(0, 0);
  assert_int_equal(all(HM_L1D_MISS), 16);
}

/* A migratory line: each core reads, then writes it. The load misses; the store hits, and takes
 * the line from the previous core. */
static void a_migratory_line_misses_at_the_load_and_is_taken_at_the_store(void **state) {
  (void)state;
  for (int turn = 0; turn < 10; turn++) {
    load(SHARED);
    store(SHARED);
    other_core();
  }
  assert_int_equal(all(HM_L1D_MISS), 10);
  assert_shared(8, 9);
  for (uint32_t i = 0; i < 8; i++)
    assert_int_equal(HM_SITE_KIND(sample_of(HM_COHERENCE_MISS, i)->site), HM_LOAD);
  for (uint32_t i = 0; i < 9; i++)
    assert_int_equal(HM_SITE_KIND(sample_of(HM_INVALIDATION, i)->site), HM_STORE);
}

/* Lines evicted before the other core wrote: core 0 has line 0 neither in L1 (set 0, four ways)
 * nor in L2 (set 0, four ways) when core 1 stores. */
static void a_line_thrown_out_before_is_no_coherence_miss(void **state) {
  (void)state;
  load(SHARED);
  for (uint64_t i = 1; i <= 4; i++) load(SHARED + LINE(16 * i)); /* all in set 0 of both levels */
  other_core();
  store(SHARED);
  other_core();
  load(SHARED);
  assert_shared(0, 0);
  assert_int_equal(all(HM_L1D_MISS), 7);
  const struct hm_access *last = sample_of(HM_L1D_MISS, 6);
  assert_int_equal(last->cause[0], HM_CAUSE_CONFLICT);
  assert_int_equal(last->modified_elsewhere, 1); /* core 1 supplies it nevertheless */
}

/* Evicted from L1 only: L2 lost it. */
static void a_line_that_l2_still_had_is_lost_there(void **state) {
  (void)state;
  load(SHARED);
  for (uint64_t i = 1; i <= 4; i++)
    load(SHARED + LINE(4 * i)); /* set 0 of L1; of L2: 4, 8, 12, 0 */
  other_core();
  store(SHARED);
  other_core();
  load(SHARED);
  assert_shared(1, 1);
  const struct hm_access *last = sample_of(HM_COHERENCE_MISS, 0);
  assert_int_equal(last->cause[0], HM_CAUSE_CONFLICT);
  assert_int_equal(last->cause[1], HM_CAUSE_COHERENCE);
  assert_int_equal(hm_cause_of(last, HM_COHERENCE_MISS), HM_CAUSE_COHERENCE);
}

/* L3 40 + L2 14 from the other core's cache; 40 after it was written back. */
static void a_modified_line_comes_from_the_other_core(void **state) {
  (void)state;
  load(SHARED);
  other_core();
  store(SHARED);
  other_core();
  uint64_t before = hm_cycles();
  load(SHARED);
  assert_int_equal(hm_cycles() - before, 40 + 14 - 4);
  assert_int_equal(sample_of(HM_COHERENCE_MISS, 0)->latency, 54);
  /* Now both have it; a locked increment waits until the other's copy is invalidated. */
  before = hm_cycles();
  hm_data(SHARED, HM_SITE(SHARED, 8, HM_MODIFY, 1));
  assert_int_equal(hm_cycles() - before, 40 - 4);
  assert_int_equal(sample_of(HM_INVALIDATION, 1)->level, HM_LEVEL_L1);
  hm_data(SHARED, HM_SITE(SHARED, 8, HM_MODIFY, 1)); /* its own: no wait */
  assert_int_equal(hm_cycles() - before, 40 - 4);
  assert_shared(1, 2);
}

/* A modified line that its writer has evicted comes from L3. */
static void a_line_written_back_comes_from_l3(void **state) {
  (void)state;
  store(SHARED);
  for (uint64_t i = 1; i <= 4; i++) load(SHARED + LINE(16 * i));
  other_core();
  load(SHARED);
  assert_int_equal(sample_of(HM_L1D_MISS, 5)->modified_elsewhere, 0);
  assert_int_equal(sample_of(HM_L1D_MISS, 5)->level, HM_LEVEL_L3);
  assert_shared(0, 0);
}

/* Bytes 60 to 67 span two lines. The other core wrote the second one. */
static void a_split_access_misses_the_line_that_was_taken(void **state) {
  (void)state;
  load(SHARED + 60);
  other_core();
  store(SHARED + LINE(1));
  other_core();
  load(SHARED + 60);
  assert_shared(1, 1);
  assert_other_side(HM_COHERENCE_MISS, 0, OTHER_SIDE(HM_VERDICT_TRUE, SHARED + LINE(1), 1, 1002));
  other_core();
  store(SHARED + LINE(1) + 32);
  other_core();
  load(SHARED + 60);
  assert_int_equal(sample_of(HM_COHERENCE_MISS, 1)->lost_to.verdict, HM_VERDICT_FALSE);
}

/* --- Both cores at once ------------------------------------------------------------ */

/* A child on core 1, with its own filters, runs `work` while the parent stays on core 0. */
static void meanwhile(void (*work)(void)) {
  pid_t child = fork();
  if (child == 0) {
    memset(&hm_sim, 0, sizeof hm_sim);
    header->attached = 1; /* the next process gets core 1 */
    start_process(header, 2002);
    work();
    hm_leave_core();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
}

static void store_to_line_0(void) { store(SHARED); }
static void load_line_0(void) { load(SHARED); }

/* As the generated code loads: a line in the filter is not reported. */
static void filtered_load(uint64_t address) {
  if (*hm_data_slot(hm_filter_load, address) != (address & ~63ull)) load(address);
}

/* The reader's filter hides the first loss until its core processes the request, at its next L1
 * miss. From then on the line is in no filter, and every loss is seen at once. */
static void a_reader_notices_in_time_and_then_at_once(void **state) {
  (void)state;
  filtered_load(PAGE(0x700) + LINE(1));
  filtered_load(SHARED);
  meanwhile(store_to_line_0);
  assert_shared(0, 1);
  filtered_load(SHARED); /* in the filter */
  assert_shared(0, 1);
  filtered_load(PAGE(0x700) + LINE(2)); /* misses, and processes the request */
  filtered_load(SHARED);
  assert_shared(1, 1);
  assert_int_equal(sample_of(HM_COHERENCE_MISS, 0)->lost_to.pid, 2002);
  for (uint64_t turn = 2; turn < 6; turn++) {
    meanwhile(store_to_line_0);
    filtered_load(SHARED);
    assert_shared(turn, turn);
  }
}

/* A reader without misses processes it at the end of its time slice. */
static void a_spinning_reader_notices_at_the_end_of_its_slice(void **state) {
  (void)state;
  filtered_load(SHARED);
  meanwhile(store_to_line_0);
  for (int i = 0; i < 100; i++) filtered_load(SHARED);
  assert_shared(0, 1);
  hm_slice_is_over();
  filtered_load(SHARED);
  assert_shared(1, 1);
}

/* A writer whose line another core reads must ask the directory before the next write. */
static void a_writer_notices_that_it_is_read(void **state) {
  (void)state;
  store(SHARED);
  store(SHARED);
  meanwhile(load_line_0);
  hm_slice_is_over();
  store(SHARED);
  assert_shared(0, 1);
}

static _Atomic uint32_t *locked;

static void die_with_the_line_locked(void) { hm_lock_acquire(locked, (uint32_t)getpid()); }

/* The lock of a line is taken over from a killed process. */
static void a_killed_process_keeps_no_line(void **state) {
  (void)state;
  load(SHARED);
  uint32_t line = sample_of(HM_L1D_MISS, 0)->physical_line;
  locked = &hm_sim.coherence->lock[line % HM_COHERENCE_LOCKS];
  meanwhile(die_with_the_line_locked);
  assert_int_not_equal(*locked, 0);
  store(SHARED);
  assert_int_equal(*locked, 0);
  assert_int_equal(hm_line_right(hm_line_state(line)), HM_RIGHT_WRITE);
}

/* With one line in two simulated, and with exact LRU, sharing is seen as before. */
static void other_modes_see_the_same_sharing(void **state) {
  (void)state;
  for (int mode = 0; mode < 2; mode++) {
    stop(header);
    struct hm_config config = sampled_machine(2);
    if (mode == 0) config.set_sampling = 2;
    if (mode == 1) config.flags |= HM_FLAG_EXACT_LRU;
    begin_with(&config);
    for (int turn = 0; turn < 10; turn++) {
      store(SHARED + LINE(2)); /* even: simulated in either mode */
      store(SHARED + LINE(3));
      other_core();
    }
    uint64_t lines = mode == 0 ? 1 : 2;
    assert_shared(8 * lines, 9 * lines);
  }
}

/* --- The pool of records ------------------------------------------------------------------ */

/* One contended line more than there are records: the first one's record is reused. */
static void the_oldest_contended_line_is_forgotten(void **state) {
  (void)state;
  load(SHARED);
  other_core();
  store(SHARED);
  other_core();
  uint32_t line = sample_of(HM_INVALIDATION, 0)->physical_line;
  assert_int_equal(hm_line_state(line)->record, 1);
  header->attached = 2;
  hm_sim.coherence->records_used = HM_CONTENDED_LINES; /* as if all had been used */
  load(SHARED + LINE(1));
  other_core();
  store(SHARED + LINE(1));
  other_core();
  assert_int_equal(hm_line_state(line)->record, 0);
  assert_int_equal(hm_line_state(line + 1)->record, 1);
  load(SHARED); /* still lost, but the taker is unknown */
  assert_shared(1, 2);
  assert_null(hm_sharing_of(sample_of(HM_COHERENCE_MISS, 0), HM_COHERENCE_MISS));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(two_writers_of_one_word_share_truly),
      TEST(two_writers_of_different_words_share_falsely),
      TEST(overlapping_accesses_share_truly),
      TEST(all_writes_since_the_loss_count),
      TEST(readers_never_disturb_each_other),
      TEST(private_memory_is_not_shared),
      TEST(a_migratory_line_misses_at_the_load_and_is_taken_at_the_store),
      TEST(a_line_thrown_out_before_is_no_coherence_miss),
      TEST(a_line_that_l2_still_had_is_lost_there),
      TEST(a_modified_line_comes_from_the_other_core),
      TEST(a_line_written_back_comes_from_l3),
      TEST(a_split_access_misses_the_line_that_was_taken),
      TEST(a_reader_notices_in_time_and_then_at_once),
      TEST(a_spinning_reader_notices_at_the_end_of_its_slice),
      TEST(a_writer_notices_that_it_is_read),
      TEST(a_killed_process_keeps_no_line),
      TEST(other_modes_see_the_same_sharing),
      TEST(the_oldest_contended_line_is_forgotten),
  };
  return cmocka_run_group_tests_name("coherence", tests, NULL, NULL);
}
