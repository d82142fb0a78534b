/*
 * Calibration: the meaning of a displaced share on this machine in its present state. Synthetic
 * sections of known size, each on fresh data, run between prime and count. Thresholds follow from
 * these points only; later measurements do not change them.
 */
#include "probe_discover.h"

#include "kernels.h"

#include <stdlib.h>
#include <time.h>

static const uint32_t sizes[] = {16, 64, 128, 256, 512, 1024, 2048, 4096}; /* kilobytes */
enum {
  SIZES = sizeof(sizes) / sizeof(sizes[0]),
  SHOTS = 120,
  ENOUGH = SHOTS / 8, /* better than no point; the points include their number */
  TRIES = 20 * SHOTS  /* shots across a context switch are discarded */
};
_Static_assert((int)SIZES <= SPLIT_PROBE_POINTS, "points have room");
/*
 * The displaced share was tested with these shapes, with all kinds of prefetching. A pointer chase
 * misses the same lines, but takes long.
 */
static const enum section_shape shapes[] = {SECTION_STREAM, SECTION_STREAM_WRITE, SECTION_GATHER};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

struct shots {
  uint32_t count, calm_count;
  float displaced[SHOTS];
  float calm[SHOTS]; /* number of shots that were calm before and after */
  uint32_t cost[SHOTS];
};

static int by_share(const void *left, const void *right) {
  const float a = *(const float *)left, b = *(const float *)right;
  return (a > b) - (a < b);
}
static int by_cost(const void *left, const void *right) {
  const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return (a > b) - (a < b);
}

double split_discover_gone_meanwhile(const struct split_probe *probe, uint32_t turn,
                                     uint64_t nanoseconds, uint64_t *cycles) {
  uint32_t lines;
  const uint64_t switches = split_discover_switches();
  split_probe_prime(probe, turn);
  const uint64_t primed = split_probe_cycles(), start = split_discover_now_ns();
  while (split_discover_now_ns() - start < nanoseconds) continue;
  if (cycles != NULL) *cycles = split_probe_cycles() - primed;
  const uint32_t gone = split_probe_count(probe, turn, &lines);
  return split_discover_switches() == switches && lines > 0 ? (double)gone / lines : -1;
}

bool split_discover_calm(const struct split_probe *probe, uint32_t turn, uint64_t nanoseconds) {
  if (nanoseconds < 50000) nanoseconds = 50000;
  if (nanoseconds > 200000) nanoseconds = 200000;
  const double gone = split_discover_gone_meanwhile(probe, turn, nanoseconds, NULL);
  return gone >= 0 && gone <= SPLIT_CALM_SHARE;
}

static void await_calm(const struct split_probe *probe, uint32_t turn, bool *calm) {
  for (int try = 0; try < 4 && !*calm; try++) {
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    *calm = split_discover_calm(probe, turn + 2, 0);
  }
}

static void shoot(const struct split_probe *probe, struct section_arena *arena,
                  struct split_random *random, uint32_t kilobytes, struct shots *shots,
                  bool *calm) {
  const size_t bytes = (size_t)kilobytes * 1024;
  void *memory = section_arena_fresh(arena, bytes);
  if (memory == NULL || shots->calm_count == SHOTS) return;
  const uint32_t turn = (uint32_t)split_random_next(random);
  const enum section_shape shape = shapes[split_random_next(random) % SHAPES];
  const uint64_t seed = split_random_next(random);
  uint32_t lines;
  await_calm(probe, turn, calm);
  const uint64_t switches = split_discover_switches(), start = split_probe_cycles();
  split_probe_prime(probe, turn);
  const uint64_t primed = split_probe_cycles(), primed_ns = split_discover_now_ns();
  (void)section_pass(shape, memory, bytes, seed);
  const uint64_t took_ns = split_discover_now_ns() - primed_ns, done = split_probe_cycles();
  const uint32_t gone = split_probe_count(probe, turn, &lines);
  const uint64_t end = split_probe_cycles();
  const bool switched = split_discover_switches() != switches, before = *calm;
  *calm = split_discover_calm(probe, turn + 1, took_ns);
  if (switched) return;
  const float share = (float)gone / (float)lines;
  if (shots->count < SHOTS) {
    shots->displaced[shots->count] = share;
    shots->cost[shots->count] = (uint32_t)(end - done + (primed - start));
    shots->count++;
  }
  if (before && *calm) shots->calm[shots->calm_count++] = share;
}

/*
 * From the calm shots, if there are enough: displacement by other threads on this core must not be
 * attributed to the section.
 */
static struct split_probe_point point_of(struct shots *shots, uint32_t kilobytes) {
  const bool calm = shots->calm_count >= ENOUGH;
  const uint32_t n = calm ? shots->calm_count : shots->count;
  float *shares = calm ? shots->calm : shots->displaced;
  qsort(shares, n, sizeof(shares[0]), by_share);
  return (struct split_probe_point){.kilobytes = kilobytes,
                                    .shots = n,
                                    .displaced_median = shares[n / 2],
                                    .displaced_p10 = shares[n / 10],
                                    .displaced_p90 = shares[n * 9 / 10]};
}

bool split_discover_calibrate(const struct split_probe *probe, struct split_probe_header *header,
                              struct split_random *random, uint64_t patience_ns,
                              uint64_t deadline_ns, bool *undisturbed) {
  struct section_arena arena;
  struct shots *shots = calloc(SIZES, sizeof(*shots));
  if (shots == NULL) return false;
  if (!section_arena_open(&arena, (size_t)24 << 20)) {
    free(shots);
    return false;
  }
  bool calm = false;
  uint16_t order[SIZES];
  for (uint16_t i = 0; i < SIZES; i++) order[i] = i;
  *undisturbed = false; /* each size has a point of calm shots */
  for (uint32_t try = 0; try < TRIES; try++) {
    if (split_discover_now_ns() >= (*undisturbed ? patience_ns : deadline_ns)) break;
    split_random_shuffle(random, order, SIZES); /* no size always follows the same one */
    bool done = true;
    *undisturbed = true;
    for (uint32_t i = 0; i < SIZES; i++) {
      done &= shots[order[i]].calm_count == SHOTS;
      shoot(probe, &arena, random, sizes[order[i]], &shots[order[i]], &calm);
      *undisturbed &= shots[order[i]].calm_count >= ENOUGH;
    }
    if (done) break;
  }
  header->points = 0;
  for (uint32_t i = 0; i < SIZES; i++) {
    if (shots[i].count < ENOUGH) continue; /* too disturbed: no point is better than a wrong one */
    header->point[header->points++] = point_of(&shots[i], sizes[i]);
  }
  /* At the size where half of the lines are gone: the average cost of a probe. */
  struct shots *middle = &shots[SIZES / 2];
  if (middle->count > 0) {
    qsort(middle->cost, middle->count, sizeof(middle->cost[0]), by_cost);
    header->cost_cycles = middle->cost[middle->count / 2];
  }
  section_arena_close(&arena);
  free(shots);
  return true;
}
