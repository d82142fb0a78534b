#include "protocol.h"

#include <stdlib.h>
#include <string.h>

#include "die.h"
#include "random.h"

const char oo1_protocols[] = "texas, oo1, figure1, figure2, figure3, hot, hot-set";

static void add(oo1_plan *plan, int phase, uint32_t pattern, uint32_t repeats) {
  if (plan->count == plan->capacity) {
    plan->capacity = plan->capacity == 0 ? 64 : 2 * plan->capacity;
    plan->steps = realloc(plan->steps, plan->capacity * sizeof *plan->steps);
    if (plan->steps == NULL) oo1_die("no memory for %zu steps", plan->capacity);
  }
  bool fresh = pattern == plan->patterns;
  if (fresh) plan->patterns++;
  plan->steps[plan->count++] = (oo1_step){phase, pattern, repeats, fresh};
}

static uint32_t or_else(uint64_t said, uint32_t otherwise) {
  return said != 0 ? (uint32_t)said : otherwise;
}

/* 1 cold + 34 warm + 10 hot: Kakkad and Wilson, COOTS 1999. */
static void texas(const oo1_sizes *sizes, oo1_plan *plan) {
  plan->phases[0] = "cold", plan->phases[1] = "warm", plan->phases[2] = "hot";
  uint32_t warm = or_else(sizes->units, 34);
  add(plan, 0, 0, 1);
  for (uint32_t i = 1; i <= warm; i++) add(plan, 1, i, 1);
  for (int i = 0; i < 10; i++) add(plan, 2, warm, 1);
}

static void oo1(const oo1_sizes *sizes, oo1_plan *plan) {
  plan->phases[0] = "cold", plan->phases[1] = "warm";
  add(plan, 0, 0, 1);
  for (uint32_t i = 1; i <= or_else(sizes->units, 9); i++) add(plan, 1, i, 1);
}

static void figure1(const oo1_sizes *sizes, oo1_plan *plan) {
  plan->phases[0] = "first";
  for (uint32_t i = 0; i < or_else(sizes->units, 50); i++) add(plan, 0, i, 1);
}

static void figure2(const oo1_sizes *sizes, oo1_plan *plan) {
  plan->phases[0] = "first", plan->phases[1] = "repeat";
  for (uint32_t i = 0; i < or_else(sizes->units, 50); i++) {
    add(plan, 0, i, 1);
    add(plan, 1, i, 10);
  }
}

static void figure3(const oo1_sizes *sizes, oo1_plan *plan) {
  uint32_t units = or_else(sizes->units, 50);
  figure1(sizes, plan);
  plan->phases[1] = "repeat", plan->phases[2] = "repeat-first";
  for (uint32_t i = 0; i < units; i++) add(plan, 1, i, 10);
  for (uint32_t i = 0; i < units; i++) add(plan, 2, 0, 10);
}

static void hot(const oo1_sizes *sizes, oo1_plan *plan) {
  plan->phases[0] = "hot";
  uint32_t units = or_else(sizes->units, 40), rounds = or_else(sizes->rounds, 5);
  for (uint32_t i = 0; i < units; i++) add(plan, OO1_UNTIMED, i, 1);
  for (uint32_t round = 0; round < rounds; round++)
    for (uint32_t i = 0; i < units; i++) add(plan, 0, i, 1);
}

/* Nine of ten units are from a small set; the others occur only once. */
static void hot_set(const oo1_sizes *sizes, oo1_plan *plan) {
  plan->phases[0] = "mixed";
  uint32_t size = or_else(sizes->hot_set, 60);
  uint32_t *number = oo1_allocate(
      size * sizeof *number); /* the pattern number of a member of the set, once drawn */
  memset(number, 0xff, size * sizeof *number);
  oo1_random random = oo1_stream(sizes->seed, 2);
  for (uint32_t i = 0; i < or_else(sizes->units, 600); i++) {
    uint32_t pattern = plan->patterns;
    if (oo1_below(&random, 10) < 9) {
      uint32_t *member = &number[oo1_below(&random, size)];
      if (*member == UINT32_MAX) *member = pattern;
      pattern = *member;
    }
    add(plan, 0, pattern, 1);
  }
  free(number);
}

bool oo1_plan_make(const char *protocol, const oo1_sizes *sizes, oo1_plan *plan) {
  static const struct {
    const char *name;
    void (*make)(const oo1_sizes *, oo1_plan *);
  } known[] = {{"texas", texas},     {"oo1", oo1}, {"figure1", figure1}, {"figure2", figure2},
               {"figure3", figure3}, {"hot", hot}, {"hot-set", hot_set}};
  memset(plan, 0, sizeof *plan);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i].name, protocol) != 0) continue;
    known[i].make(sizes, plan);
    return true;
  }
  return false;
}

void oo1_plan_free(oo1_plan *plan) { free(plan->steps); }
