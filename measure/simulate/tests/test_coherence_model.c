/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Coherence against a model, on random streams of three cores.
 */
#include <string.h>

#include "pair.h"

#define CORES 3
#define LINES 256

/* A simple model of the same caches: for each way of a set the line and its last use; for each
 * line whether the core's copy is up to date, and the words written since. */
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

/* Returns 1 if the tag was there; afterwards it is there and the youngest. */
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

/* Random accesses of three cores to up to 100 lines, with few or many writes: enough to evict
 * each other's lines from L1 and L2, up to date or not. */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(random_streams_agree_with_a_model),
  };
  return cmocka_run_group_tests_name("coherence model", tests, NULL, NULL);
}
