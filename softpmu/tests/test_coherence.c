/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Coherence between cores: who loses a line, when that is noticed, and whether the
 * sharing was true.  Two processes on two cores, which have pages 0x100 to 0x10f in
 * common; `other_core` goes on as the other one.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coherence.h"
#include "lock.h"
#include "test.h"

#define LINE(n) ((uint64_t)(n) << HM_LINE_BITS)
#define PAGE(n) ((uint64_t)(n) << HM_PAGE_BITS)
#define SHARED PAGE(0x100)

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

static int set_up(void **state) {
  (void)state;
  struct hm_config config = sampled_machine(2);
  begin_with(&config);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  stop(header);
  return 0;
}

static void other_core(void) {
  struct hm_simulator running;
  put_aside(&running);
  take_up(&other);
  other = running;
}

/* On both cores. */
static uint64_t all(enum hm_event event) {
  return header->counts[0].events[event] + header->counts[1].events[event];
}

static const struct hm_access *sample_of(enum hm_event event, uint32_t number) {
  for (uint32_t i = 0; i < host_sample_count; i++)
    if (host_samples[i].sample.event == event && number-- == 0) return &host_samples[i].access;
  fail();
  return NULL;
}

static void assert_shared(uint64_t coherence_misses, uint64_t invalidations) {
  assert_int_equal(all(HM_COHERENCE_MISS), coherence_misses);
  assert_int_equal(all(HM_INVALIDATION), invalidations);
}

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

/* The driver's instructions lie at the address that they access. */
#define OTHER_SIDE(verdict, address, stored, pid) \
  ((struct hm_sharing){verdict, (address)&63, 8, stored, pid, address})

/* Both add one to the same word in turn.  Each loses the line to the other's store. */
static void two_writers_of_one_word_share_truly(void **state) {
  (void)state;
  for (int turn = 0; turn < 10; turn++) {
    store(SHARED + 8);
    other_core();
  }
  /* The first store is alone, the second finds the line elsewhere but never had it; from
   * the third on each takes the line from the other and misses it. */
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
  /* Of the first invalidation the other side is not known: nobody watched the line yet. */
  assert_null(hm_sharing_of(sample_of(HM_INVALIDATION, 0), HM_INVALIDATION));
  for (uint32_t i = 1; i < 9; i++)
    assert_other_side(HM_INVALIDATION, i,
                      OTHER_SIDE(HM_VERDICT_UNKNOWN, SHARED + 8, 1, i % 2 == 0 ? 1001 : 1002));
}

/* The same, with a word each: as many misses, and none of them had to be. */
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

/* The words of 4 bytes decide: an access of 8 bytes that meets the other in one of them. */
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

/* Several stores since the line was lost: any of them may have been to the word. */
static void all_writes_since_the_loss_count(void **state) {
  (void)state;
  load(SHARED);
  other_core();
  store(SHARED);
  store(SHARED + 16);
  store(SHARED + 48);
  other_core();
  load(SHARED + 16); /* true, though the latest write was elsewhere */
  load(SHARED + 32); /* a hit: the line is back */
  assert_shared(1, 1);
  assert_other_side(HM_COHERENCE_MISS, 0, OTHER_SIDE(HM_VERDICT_TRUE, SHARED + 48, 1, 1002));
  other_core();
  store(SHARED + 32); /* words written before the miss count no more */
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

/* A datum that wanders: each reads it, then writes it.  The load misses, the store finds
 * the line there, and takes it from the one before. */
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

/* Lines that went before the other wrote: core 0 has line 0 neither in L1 (set 0, four
 * ways) nor in L2 (set 0, four ways) when core 1 stores. */
static void a_line_thrown_out_before_is_no_coherence_miss(void **state) {
  (void)state;
  load(SHARED);
  for (uint64_t i = 1; i <= 4; i++) load(SHARED + LINE(16 * i)); /* sets 0 of both */
  other_core();
  store(SHARED);
  other_core();
  load(SHARED);
  assert_shared(0, 0);
  assert_int_equal(all(HM_L1D_MISS), 7);
  const struct hm_access *last = sample_of(HM_L1D_MISS, 6);
  assert_int_equal(last->cause[0], HM_CAUSE_CONFLICT);
  assert_int_equal(last->modified_elsewhere, 1); /* core 1 has it all the same */
}

/* Thrown out of L1 only: L2 lost it. */
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

/* L3 40 + L2 14 from the other core's cache; 40 once it was written back. */
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
  /* Both have it now; a locked increment waits until the other's copy is gone. */
  before = hm_cycles();
  hm_data(SHARED, HM_SITE(SHARED, 8, HM_MODIFY, 1));
  assert_int_equal(hm_cycles() - before, 40 - 4);
  assert_int_equal(sample_of(HM_INVALIDATION, 1)->level, HM_LEVEL_L1);
  hm_data(SHARED, HM_SITE(SHARED, 8, HM_MODIFY, 1)); /* its own: no wait */
  assert_int_equal(hm_cycles() - before, 40 - 4);
  assert_shared(1, 2);
}

/* A written line that its writer has thrown out since comes from L3. */
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

/* Bytes 60 to 67 lie on two lines.  The other wrote the second one. */
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

/* --- Against a model ------------------------------------------------------------------ */

#define CORES 3
#define LINES 256

/* The same caches, in the obvious way: for each way of a set the line and when it was
 * used, for each line whether the core's copy is up to date, and what was written since. */
struct model {
  struct {
    uint64_t line[16][4], used[16][4]; /* set, way; line + 1 */
  } l1[CORES], l2[CORES];
  uint8_t current[CORES][LINES];
  uint16_t written_since[CORES][LINES];
  uint64_t now, true_sharing, false_sharing, invalidations;
};

static int way_of(uint64_t line[4], uint64_t wanted) {
  for (int way = 0; way < 4; way++)
    if (line[way] == wanted + 1) return way;
  return -1;
}

/* 1: the tag was there; it is there and the youngest afterwards. */
static int touch_way(uint64_t line[4], uint64_t used[4], uint64_t wanted, uint64_t now) {
  int way = way_of(line, wanted), there = way >= 0;
  if (!there) {
    way = 0;
    for (int other_way = 1; other_way < 4; other_way++)
      if (used[other_way] < used[way]) way = other_way;
  }
  line[way] = wanted + 1;
  used[way] = now;
  return there;
}

static void model_access(struct model *model, int core, uint64_t line, uint16_t words, int writes) {
  uint64_t s1 = line % 4, s2 = line % 16;
  int in_l1 = way_of(model->l1[core].line[s1], line) >= 0;
  int in_l2 = way_of(model->l2[core].line[s2], line) >= 0;
  int lost = !model->current[core][line] && (in_l1 || in_l2);
  if (lost) {
    int truly = (model->written_since[core][line] & words) != 0;
    if (truly)
      model->true_sharing++;
    else
      model->false_sharing++;
  }
  model->now++;
  touch_way(model->l1[core].line[s1], model->l1[core].used[s1], line, model->now);
  if (!in_l1 || !model->current[core][line])
    touch_way(model->l2[core].line[s2], model->l2[core].used[s2], line, model->now);
  model->current[core][line] = 1;
  model->written_since[core][line] = 0;
  if (!writes) return;
  int taken = 0;
  for (int c = 0; c < CORES; c++) {
    if (c == core) continue;
    taken |= model->current[c][line] &&
             (way_of(model->l1[c].line[s1], line) >= 0 || way_of(model->l2[c].line[s2], line) >= 0);
    model->current[c][line] = 0;
    model->written_since[c][line] |= words;
  }
  model->invalidations += (uint64_t)taken;
}

/* Random accesses of three cores to up to 100 lines, few of them written or many: enough to
 * throw each other out of L1 and L2, up to date or not. */
static void random_streams_agree_with_a_model(void **state) {
  (void)state;
  static const struct {
    uint32_t lines, stride, writes_per_cent;
  } cases[] = {{4, 1, 50}, {12, 4, 30}, {64, 1, 10}, {100, 1, 60}, {9, 16, 40}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    stop(header);
    struct hm_config config = sampled_machine(CORES);
    config.period[HM_L1D_MISS] = config.period[HM_L2_MISS] = config.period[HM_L3_MISS] = 0;
    begin_with(&config);
    struct hm_simulator core[CORES];
    put_aside(&core[0]);
    core[1] = other;
    start_process(header, 1003);
    put_aside(&core[2]);
    take_up(&core[0]);
    static struct model model;
    memset(&model, 0, sizeof model);
    uint64_t random = 99 + i, running = 0;
    for (int step = 0; step < 30000; step++) {
      uint64_t draw = next_random(&random);
      if (draw % 4 == 0) {
        put_aside(&core[running]);
        running = (draw >> 8) % CORES;
        take_up(&core[running]);
      }
      uint64_t line = (draw >> 16) % cases[i].lines * cases[i].stride % LINES;
      uint64_t word = (draw >> 32) % 16;
      int writes = (draw >> 40) % 100 < cases[i].writes_per_cent;
      uint64_t address = SHARED + LINE(line) + 4 * word;
      hm_data(address, HM_SITE(address, 4, writes ? HM_STORE : HM_LOAD, 0));
      model_access(&model, (int)running, line, (uint16_t)(1u << word), writes);
    }
    uint64_t found[3] = {0, 0, 0};
    for (uint32_t s = 0; s < host_sample_count; s++)
      if (host_samples[s].sample.event == HM_COHERENCE_MISS)
        found[host_samples[s].access.lost_to.verdict]++;
    uint64_t invalidations = 0;
    for (int c = 0; c < CORES; c++) invalidations += header->counts[c].events[HM_INVALIDATION];
    assert_in_range(model.true_sharing, 100, 30000);
    assert_in_range(model.false_sharing, 100, 30000);
    assert_int_equal(found[HM_VERDICT_UNKNOWN], 0);
    assert_int_equal(found[HM_VERDICT_TRUE], model.true_sharing);
    assert_int_equal(found[HM_VERDICT_FALSE], model.false_sharing);
    assert_int_equal(invalidations, model.invalidations);
  }
}

/* --- Both cores at once ------------------------------------------------------------ */

/* A child on core 1, with filters of its own, does `work` while the parent stays on core 0. */
static void meanwhile(void (*work)(void)) {
  pid_t child = fork();
  if (child == 0) {
    memset(&hm_sim, 0, sizeof hm_sim);
    header->attached = 1; /* the next one goes to core 1 */
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

/* As the generated code loads: what is in the filter is not reported. */
static void filtered_load(uint64_t address) {
  if (*hm_data_slot(hm_filter_load, address) != (address & ~63ull)) load(address);
}

/* The reader's filter hides the first loss until its core is called upon: at its next L1
 * miss.  From then on the line is in no filter, and every loss is seen at once. */
static void a_reader_notices_in_time_and_then_at_once(void **state) {
  (void)state;
  filtered_load(PAGE(0x700) + LINE(1));
  filtered_load(SHARED);
  meanwhile(store_to_line_0);
  assert_shared(0, 1);
  filtered_load(SHARED); /* in the filter */
  assert_shared(0, 1);
  filtered_load(PAGE(0x700) + LINE(2)); /* misses, and heeds the call */
  filtered_load(SHARED);
  assert_shared(1, 1);
  assert_int_equal(sample_of(HM_COHERENCE_MISS, 0)->lost_to.pid, 2002);
  for (uint64_t turn = 2; turn < 6; turn++) {
    meanwhile(store_to_line_0);
    filtered_load(SHARED);
    assert_shared(turn, turn);
  }
}

/* One that misses nothing notices when its time slice is asked about. */
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

/* A writer whose line is read by another has to ask again before it writes. */
static void a_writer_notices_that_it_is_read(void **state) {
  (void)state;
  store(SHARED);
  store(SHARED);
  meanwhile(load_line_0);
  hm_slice_is_over();
  store(SHARED);
  assert_shared(0, 1);
}

/* --- Threads ------------------------------------------------------------------------- */

static void run_on(uint32_t cpu) {
  hm_run_on(cpu);
  if (!hm_sim.on_core) hm_enter_core();
}

static void begin_with_threads(const struct hm_config *config) {
  begin_with(config);
  assert_int_equal(hm_sim.cpu, 0);
}

/* Two threads: private memory of their process is shared between cores. */
static void threads_share_all_memory(void **state) {
  (void)state;
  store(PAGE(0x500)); /* before there are threads */
  assert_int_equal(hm_place_thread(), 1);
  assert_false(hm_sim.on_core);
  run_on(1);
  assert_int_equal(hm_sim.counts - header->counts, 1);
  store(PAGE(0x500)); /* takes it from the first, which never asked */
  assert_shared(0, 1);
  for (int turn = 0; turn < 10; turn++) {
    run_on(turn % 2 == 0 ? 0 : 1);
    store(PAGE(0x500));
  }
  assert_shared(10, 11);
  assert_int_equal(sample_of(HM_COHERENCE_MISS, 9)->lost_to.verdict, HM_VERDICT_TRUE);
}

static void threads_take_turns_over_the_cores(void **state) {
  (void)state;
  stop(header);
  struct hm_config config = sampled_machine(3);
  begin_with_threads(&config);
  static const uint32_t expected[] = {1, 2, 0, 1};
  for (int i = 0; i < 4; i++) assert_int_equal(hm_place_thread(), expected[i]);
  struct hm_simulator first;
  put_aside(&first);
  take_up(&other); /* at home on core 1 */
  static const uint32_t expected_of_other[] = {2, 0, 1};
  for (int i = 0; i < 3; i++) assert_int_equal(hm_place_thread(), expected_of_other[i]);
  hm_enter_core();
}

static void with_one_core_threads_stay_on_it(void **state) {
  (void)state;
  stop(header);
  struct hm_config config = sampled_machine(1);
  begin_with_threads(&config);
  for (int i = 0; i < 3; i++) assert_int_equal(hm_place_thread(), 0);
  assert_true(hm_sim.on_core); /* nothing changed */
  assert_null(hm_sim.directory);
}

/* What is unmapped leaves the TLBs of every core on which the process has threads. */
static void unmapping_reaches_the_tlbs_of_all_cores(void **state) {
  (void)state;
  hm_place_thread();
  for (uint32_t cpu = 0; cpu < 2; cpu++) {
    run_on(cpu);
    load(PAGE(0x500));
    assert_int_equal(events(HM_DTLB_MISS), 1);
  }
  hm_leave_core();
  hm_unmapped(PAGE(0x500), 4096);
  for (uint32_t cpu = 0; cpu < 2; cpu++) {
    run_on(cpu);
    load(PAGE(0x500));
    assert_int_equal(events(HM_DTLB_MISS), 2);
    run_on(1 - cpu);
    run_on(cpu);
    load(PAGE(0x500)); /* forgotten once, not again */
    assert_int_equal(events(HM_DTLB_MISS), 2);
  }
}

/* A frame that is used again has no history. */
static void a_new_page_in_an_old_frame_is_not_shared(void **state) {
  (void)state;
  hm_place_thread();
  for (uint32_t turn = 0; turn < 4; turn++) {
    run_on(turn % 2);
    store(PAGE(0x500));
  }
  assert_shared(2, 3);
  hm_leave_core();
  hm_unmapped(PAGE(0x500), 4096);
  run_on(0);
  load(PAGE(0x500) + 32); /* the same frame: last in, first out */
  assert_shared(2, 3);
}

/* Of a frame that somebody else had, tags may be left in other cores' caches: they are not
 * those of a sharer. */
static void tags_of_a_former_owner_are_nobodys(void **state) {
  (void)state;
  store(PAGE(0x500)); /* core 0, single-threaded */
  hm_leave_core();
  hm_unmapped(PAGE(0x500), 4096);
  other_core();
  hm_place_thread(); /* the other process has threads now, on 1 and 0 */
  if (!hm_sim.on_core) hm_enter_core();
  store(PAGE(0x4ff)); /* gets the frame: the colour after its own */
  assert_int_equal(sample_of(HM_L1D_MISS, 0)->physical_line,
                   sample_of(HM_L1D_MISS, 1)->physical_line);
  assert_shared(0, 0);
}

static _Atomic uint32_t *locked;

static void die_with_the_line_locked(void) { hm_lock_acquire(locked, (uint32_t)getpid()); }

/* The lock of a line is taken over from a process that was killed. */
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

/* With a line in two simulated, and with exact LRU, sharing is seen as before. */
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

/* A file's page is copied when one thread writes it; the other's TLB still had the old
 * frame, and must not go on with it. */
static void a_copied_page_is_the_copy_on_all_cores(void **state) {
  (void)state;
  host_describe_pages(0x800, 1, HM_PAGE_FILE_PRIVATE, 5000);
  hm_place_thread();
  run_on(1);
  load(PAGE(0x800));
  run_on(0);
  store(PAGE(0x800));
  run_on(1);
  load(PAGE(0x800)); /* the copy, modified by core 0: not what core 1 had */
  assert_int_equal(events(HM_L1D_MISS), 2);
  assert_int_equal(sample_of(HM_L1D_MISS, 2)->modified_elsewhere, 1);
}

/* --- The pool of records ------------------------------------------------------------------ */

/* One more contended line than there are records: the first one's is given away. */
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
  load(SHARED); /* lost all the same, to whom is not known */
  assert_shared(1, 2);
  assert_null(hm_sharing_of(sample_of(HM_COHERENCE_MISS, 0), HM_COHERENCE_MISS));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

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
      TEST(random_streams_agree_with_a_model),
      TEST(a_reader_notices_in_time_and_then_at_once),
      TEST(a_spinning_reader_notices_at_the_end_of_its_slice),
      TEST(a_writer_notices_that_it_is_read),
      TEST(threads_share_all_memory),
      TEST(threads_take_turns_over_the_cores),
      TEST(with_one_core_threads_stay_on_it),
      TEST(unmapping_reaches_the_tlbs_of_all_cores),
      TEST(a_new_page_in_an_old_frame_is_not_shared),
      TEST(tags_of_a_former_owner_are_nobodys),
      TEST(a_killed_process_keeps_no_line),
      TEST(other_modes_see_the_same_sharing),
      TEST(a_copied_page_is_the_copy_on_all_cores),
      TEST(the_oldest_contended_line_is_forgotten),
  };
  return cmocka_run_group_tests_name("coherence", tests, NULL, NULL);
}
