/*
 * The cost of a section: CPU time of split_start and split_end around nothing, in batches; with a
 * text key also under policy `time`, if the slice stays (slice_same) and if each section changes it
 * (slice_changed). For bench/place/section.py.
 *
 *   section_cost FOLDER BATCHES text|number     prints one line for each variant: its name, then the nanoseconds of each batch
 */
#include "decided.h"
#include "process.h"
#include "split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAIRS 20000

static double cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void pairs(const void *key) {
  for (int i = 0; i < PAIRS; i++) {
    split_start(0, key);
    split_end();
  }
}

static void handles(const void *key, size_t length) {
  split_section section;
  for (int i = 0; i < PAIRS; i++) {
    split_begin(&section, 0, key, length);
    split_finish(&section);
  }
}

/* Replaces the analyzer: sets a heartbeat, and slices for these kinds. */
static void decide_slices(void) {
  struct split_mapping *mapping = split_mapping_in_use();
  static const struct {
    const char *key;
    uint32_t us;
  } slices[] = {{"short", 100}, {"long", 100000}};
  for (int i = 0; i < 2; i++) {
    struct split_decision *decision =
        &mapping->decisions[split_kind_of(slices[i].key, strlen(slices[i].key))];
    atomic_store(&decision->actuation, (uint8_t)SPLIT_ACT_TIME);
    atomic_store(&decision->slice_us, slices[i].us);
  }
  atomic_store(&mapping->header->placement_on, 1);
}

static void beat(void) {
  atomic_store(&split_mapping_in_use()->header->heartbeat_ns, split_clock_ns(CLOCK_MONOTONIC));
}

/* Each section has the kind of the one before it, or the other kind. */
static void sliced_pairs(bool changing) {
  static const char *const keys[] = {"short", "long"};
  for (int i = 0; i < PAIRS; i++) {
    if (i % 1000 == 0) beat();
    split_start(0, keys[changing ? i % 2 : 0]);
    split_end();
  }
}

/* The lower bound: the cost of two readings of the clock. */
static uint64_t looks(void) {
  uint64_t sum = 0;
#if defined(__x86_64__)
  for (int i = 0; i < 2 * PAIRS; i++) sum += __builtin_ia32_rdtsc();
#endif
  return sum;
}

int main(int count, char **words) {
  static const char text[] = "/auction/SearchItemsByCategory?category="; /* 40 bytes */
  static const uint64_t number = UINT64_C(0x5eed5eed5eed);
  if (count != 4 || strlen(text) != 40) return 2;
  bool numbers = strcmp(words[3], "number") == 0;
  int batches = atoi(words[2]);
  split_configure(words[1]);
  if (split_init_named("section_cost", numbers ? 0x5ec1 : 0x5ec2, 0,
                       numbers ? SPLIT_KEY_NUMBER : SPLIT_KEY_TEXT) == 0) {
    fprintf(stderr, "section_cost: %s\n", split_problem());
    return 1;
  }
  const void *key = numbers ? (const void *)&number : text;
  size_t length = numbers ? sizeof number : strlen(text);
  volatile uint64_t keep = 0;
  double spent[5][1000];
  if (batches < 1 || batches > 1000) return 2;
  pairs(key);
  for (int i = 0; i < batches; i++) {
    double at[4];
    at[0] = cpu_ns();
    pairs(key);
    at[1] = cpu_ns();
    handles(key, length);
    at[2] = cpu_ns();
    keep += looks();
    at[3] = cpu_ns();
    for (int j = 0; j < 3; j++) spent[j][i] = (at[j + 1] - at[j]) / PAIRS;
  }
  if (!numbers) {
    /* After all others: the table of kinds changes from now on. */
    decide_slices();
    for (int i = 0; i < batches; i++) {
      double at[3];
      sliced_pairs(false);
      at[0] = cpu_ns();
      sliced_pairs(false);
      at[1] = cpu_ns();
      sliced_pairs(true);
      at[2] = cpu_ns();
      for (int j = 0; j < 2; j++) spent[3 + j][i] = (at[j + 1] - at[j]) / PAIRS;
    }
  }
  static const char *const names[] = {"start_end", "handle", "two_time_stamps", "slice_same",
                                      "slice_changed"};
  for (int j = 0; j < (numbers ? 3 : 5); j++) {
    printf("%s", names[j]);
    for (int i = 0; i < batches; i++) printf(" %.2f", spent[j][i]);
    printf("\n");
  }
  split_close();
  return 0;
}
