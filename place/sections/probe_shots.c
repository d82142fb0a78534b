/*
 * Single shots of the occupancy probe at synthetic sections: what bench/place/probe.py judges the probe by.
 *
 *   probe_shots publish FOLDER [SEED]                 finds and calibrates; says what was published
 *   probe_shots shoot FOLDER SHOTS SEED KB...         shots for each shape, freshness and size, in mixed order; one line each:
 *                                                     shot chase|gather|stream|write fresh|hot KB displaced prime count (cycles) calm|disturbed
 *
 * Thresholds are those of the publication: this program learns nothing. A shot across a context switch is made again. Disturbed: right
 * before the shot, or after it for as long as it took (200 us at most), lines vanished while this process did nothing; known without the shot's result.
 */
#include "kernels.h"
#include "probe_discover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  SIZES_MOST = 16,
  TRIES = 6,
  CHASE_MOST = 2048 /* KB: larger chases are always interrupted on a busy machine */
};

static double seconds_since(uint64_t start_ns) {
  return (double)(split_discover_now_ns() - start_ns) / 1e9;
}

static double cycles_per_second(void) {
  const uint64_t start_ns = split_discover_now_ns(), start = split_probe_cycles();
  while (split_discover_now_ns() - start_ns < UINT64_C(50000000)) continue;
  const uint64_t end_ns = split_discover_now_ns(), end = split_probe_cycles();
  return (double)(end - start) * 1e9 / (double)(end_ns - start_ns);
}

static void say_header(const struct split_probe *probe) {
  const struct split_probe_header *header = split_probe_published(probe);
  printf("cycles_per_second %.0f\n", cycles_per_second());
  const bool chains = header->timing.most != 0;
  printf("geometry ways %u colours %u lines %u %s %u cost_cycles %u random %u\n", header->ways,
         header->colours, header->sets * (chains ? SPLIT_PROBE_CHAIN : header->lines_per_set),
         chains ? "chain_cycles" : "hit_cycles", header->timing.limit, header->cost_cycles,
         header->random_lines);
  static const uint32_t pairs[][2] = {{256, 1024}, {512, 2048}}; /* of the bars */
  for (uint32_t i = 0; i < 2; i++)
    printf("threshold %u %u %.4f\n", pairs[i][0], pairs[i][1],
           split_probe_threshold(probe, pairs[i][0], pairs[i][1]));
  for (uint32_t i = 0; i < header->points; i++) {
    const struct split_probe_point *point = &header->point[i];
    printf("point %u %u %.4f %.4f %.4f\n", point->kilobytes, point->shots,
           (double)point->displaced_p10, (double)point->displaced_median,
           (double)point->displaced_p90);
  }
}

static struct split_probe *open_probe(const char *folder) {
  const char *reason = NULL;
  struct split_probe *probe = split_probe_open(folder, &reason);
  if (probe == NULL) fprintf(stderr, "probe_shots: %s\n", reason);
  return probe;
}

static int publish(const char *folder, uint64_t seed) {
  static const char *const outcomes[] = {"full_sets", "random_lines", "impossible"};
  const struct split_probe_options options = {.seed = seed};
  const char *reason = "";
  const uint64_t start = split_discover_now_ns();
  const enum split_probe_outcome outcome = split_probe_publish(folder, &options, &reason);
  printf("outcome %s seconds %.3f %s\n", outcomes[outcome], seconds_since(start), reason);
  if (outcome == SPLIT_PROBE_IMPOSSIBLE) return 1;
  struct split_probe *probe = open_probe(folder);
  if (probe == NULL) return 1;
  say_header(probe);
  printf("verified %.3f\n", split_probe_verify(probe));
  split_probe_close(probe);
  return 0;
}

struct shot {
  enum section_shape shape;
  bool fresh;
  uint32_t kilobytes;
};

static void shoot(const struct split_probe *probe, struct section_arena *arena, struct shot what,
                  struct split_random *random, bool *calm) {
  const size_t bytes = (size_t)what.kilobytes * 1024;
  if (what.shape == SECTION_CHASE && what.kilobytes > CHASE_MOST) return;
  for (uint32_t try = 0; try < TRIES; try++) {
    void *memory = what.fresh ? section_arena_fresh(arena, bytes) : arena->memory;
    if (memory == NULL) return;
    const uint64_t seed = split_random_next(random);
    const uint32_t turn = (uint32_t)split_random_next(random);
    if (!what.fresh)
      for (int pass = 0; pass < 2; pass++) (void)section_pass(what.shape, memory, bytes, seed);
    uint32_t lines = 0;
    const uint64_t switches = split_discover_switches(), start = split_probe_cycles();
    split_probe_prime(probe, turn);
    const uint64_t primed = split_probe_cycles(), primed_ns = split_discover_now_ns();
    (void)section_pass(what.shape, memory, bytes, seed);
    const uint64_t took_ns = split_discover_now_ns() - primed_ns, done = split_probe_cycles();
    const uint32_t gone = split_probe_count(probe, turn, &lines);
    const uint64_t end = split_probe_cycles();
    const bool switched = split_discover_switches() != switches, before = *calm;
    *calm = split_discover_calm(probe, turn + 1, took_ns);
    if (switched) continue;
    printf("shot %s %s %u %.4f %llu %llu %s\n", section_shape_name(what.shape),
           what.fresh ? "fresh" : "hot", what.kilobytes, (double)gone / lines,
           (unsigned long long)(primed - start), (unsigned long long)(end - done),
           before && *calm ? "calm" : "disturbed");
    return;
  }
  printf("switched %s %u\n", section_shape_name(what.shape), what.kilobytes);
}

static int shoot_all(const char *folder, uint32_t shots, uint64_t seed, const uint32_t *sizes,
                     uint32_t count) {
  struct split_probe *probe = open_probe(folder);
  struct section_arena arena;
  if (probe == NULL || !section_arena_open(&arena, (size_t)48 << 20)) return 1;
  say_header(probe);
  struct split_random random = {.state = seed * 2 + 1};
  bool calm = false;
  uint16_t order[SIZES_MOST * SECTION_SHAPES * 2];
  const uint32_t kinds = count * SECTION_SHAPES * 2;
  for (uint16_t i = 0; i < kinds; i++) order[i] = i;
  for (uint32_t round = 0; round < shots; round++) {
    split_random_shuffle(&random, order, kinds);
    for (uint32_t i = 0; i < kinds; i++) {
      const struct shot what = {.shape = (enum section_shape)(order[i] % SECTION_SHAPES),
                                .fresh = order[i] / SECTION_SHAPES % 2 == 0,
                                .kilobytes = sizes[order[i] / SECTION_SHAPES / 2]};
      shoot(probe, &arena, what, &random, &calm);
    }
  }
  section_arena_close(&arena);
  split_probe_close(probe);
  return 0;
}

static int usage(void) {
  fprintf(stderr, "usage: probe_shots publish FOLDER [SEED] | shoot FOLDER SHOTS SEED KB...\n");
  return 2;
}

int main(int count, char **words) {
  if (count >= 3 && count <= 4 && strcmp(words[1], "publish") == 0)
    return publish(words[2], count == 4 ? strtoull(words[3], NULL, 10) : 1);
  if (count < 6 || strcmp(words[1], "shoot") != 0 || count - 5 > SIZES_MOST) return usage();
  uint32_t sizes[SIZES_MOST];
  for (int i = 5; i < count; i++) {
    const unsigned long kilobytes = strtoul(words[i], NULL, 10);
    if (kilobytes < 1 || kilobytes > 16384) return usage();
    sizes[i - 5] = (uint32_t)kilobytes;
  }
  return shoot_all(words[2], (uint32_t)strtoul(words[3], NULL, 10), strtoull(words[4], NULL, 10),
                   sizes, (uint32_t)(count - 5));
}
