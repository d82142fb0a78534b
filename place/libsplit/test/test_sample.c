/*
 * Sampling: how often, at what cost, and its results. The test defines the probe, so that its
 * answers are known.
 */
#include "fixture.h"
#include "sample.h"
#include "probe.h"
#include "record.h"

static struct {
  unsigned opened, closed, primed, counted;
  uint64_t cost;
  uint32_t gone;
  bool missing;
} fake;
struct split_probe {
  int any;
};
static struct split_probe the_probe;

static void burn(uint64_t cycles) {
  uint64_t begun = split_cycles();
  while (split_cycles() - begun < cycles) continue;
}

struct split_probe *split_probe_open(const char *directory, const char **reason) {
  assert_string_equal(directory, fixture_folder);
  fake.opened++;
  if (reason) *reason = "the test has none";
  return fake.missing ? NULL : &the_probe;
}
void split_probe_close(struct split_probe *probe) {
  (void)probe;
  fake.closed++;
}
uint64_t split_probe_generation(const struct split_probe *probe) {
  (void)probe;
  return 2;
}
uint32_t split_probe_cost_cycles(const struct split_probe *probe) {
  (void)probe;
  return (uint32_t)(2 * fake.cost);
}
void split_probe_prime(const struct split_probe *probe, uint32_t turn) {
  (void)probe;
  (void)turn;
  fake.primed++;
  burn(fake.cost);
}
uint32_t split_probe_count(const struct split_probe *probe, uint32_t turn, uint32_t *lines) {
  (void)probe;
  (void)turn;
  fake.counted++;
  burn(fake.cost);
  *lines = 64;
  return fake.gone;
}

static int begin_with_probe(void **state) {
  memset(&fake, 0, sizeof fake);
  fake.cost = 1000;
  fake.gone = 16;
  if (begin_with_text(state) != 0) return -1;
  static uint64_t generation = 2;
  atomic_store(&header()->probe_generation, generation += 2);
  return 0;
}

static uint32_t kind(const char *key, uint8_t wants) {
  struct split_mapping *mapping = split_mapping_in_use();
  uint32_t code = split_kind_of_key(mapping, key, strlen(key));
  atomic_store(&mapping->decisions[code].wants_probes, wants);
  return code;
}

static void sections(const char *key, int n) {
  for (int i = 0; i < n; i++) {
    split_start(0, key);
    split_end();
  }
}

static void set_budget(int64_t ppm) { assert_int_equal(split_set(SPLIT_PROBE_BUDGET, &ppm), 0); }

static void a_share_of_lines(void **state) {
  (void)state;
  set_budget(1000000);
  uint32_t code = kind("k", 1);
  sections("k", 100);
  uint64_t probed = 0, short_ones = 0;
  struct split_mapping *mapping = split_mapping_in_use();
  for (uint32_t cpu = 0; cpu < mapping->cpu_count; cpu++) {
    const struct split_record *record = split_record_of(mapping, cpu, code);
    probed += record->probed;
    if (record->probed == 0) continue;
    assert_true(record->displaced_mean == 0.25); /* 16 of 64 */
    assert_true(record->displaced_m2 == 0);
    short_ones += record->histogram[0];
  }
  /* The probe's 2000 cycles do not count as the section's time. */
  assert_in_range(short_ones, 50, 100);
  assert_in_range(probed, 50, 100); /* a few are interrupted */
  assert_int_equal(fake.primed, 100);
  assert_int_equal(atomic_load(&header()->backend),
                   split_process.pmu_works ? SPLIT_BACKEND_PMU : SPLIT_BACKEND_PROBE);
  assert_int_equal(atomic_load(&header()->without) & SPLIT_WITHOUT_PROBE_SETS, 0);
}

static void the_budget_is_kept(void **state) {
  (void)state;
  set_budget(5000); /* the default: half a percent */
  kind("k", 1);
  struct split_mapping *mapping = split_mapping_in_use();
  uint64_t begun = split_cycles();
  do sections("k", 1000);
  while (split_cycles() - begun < (uint64_t)(2e9 * mapping->cycles_per_ns));
  double spent = 0, took = (double)(split_cycles() - begun);
  uint64_t probes = 0;
  for (uint32_t cpu = 0; cpu < mapping->cpu_count; cpu++) {
    double here = (double)atomic_load(&mapping->cpus[cpu].probe_cycles);
    /* The budget saved during a quarter of a second, and one probe begun with the last token. */
    assert_true(here <= 0.005 * (took + 0.25e9 * mapping->cycles_per_ns) + 10000);
    spent += here;
    probes += atomic_load(&mapping->cpus[cpu].probes);
  }
  assert_int_equal(probes, fake.primed);
  assert_true(spent > 0.001 * took); /* and it is used */
}

static void without_a_budget_there_are_none(void **state) {
  (void)state;
  set_budget(0);
  kind("k", 1);
  sections("k", 1000);
  assert_int_equal(fake.primed, 0);
}

static void one_of_64_wants(void **state) {
  (void)state;
  set_budget(1000000);
  fake.cost = 10;
  kind("a", 7);
  for (int i = 0; i < 3200; i++) { /* alternating kinds: each gets its share */
    sections("a", 1);
    sections("b", 1);
  }
  /* 50 expected, and a standard deviation of 7. */
  assert_in_range(fake.primed, 15, 92);
}

static void one_at_a_time(void **state) {
  (void)state;
  set_budget(1000000);
  uint32_t outer = kind("outer", 1), inner = kind("inner", 1);
  for (int i = 0; i < 10; i++) {
    split_start(0, "outer");
    split_start(0, "inner");
    split_end();
    split_end();
  }
  assert_int_equal(total_of(inner).probed, 0);
  assert_int_equal(fake.primed, 10);
  assert_true(total_of(outer).probed > 0);
}

static void what_probes_within_cost_is_not_the_outers(void **state) {
  (void)state;
  set_budget(1000000);
  fake.cost = 1000000;
  uint32_t outer = kind("outer", 0);
  kind("inner", 1);
  for (int i = 0; i < 20; i++) {
    split_start(0, "outer");
    split_start(0, "inner");
    split_end();
    split_end();
  }
  /* Each took 2,000,000 cycles more. Some are preempted in that time, but not all. */
  uint32_t shorter = 0;
  for (uint32_t cpu = 0; cpu < split_mapping_in_use()->cpu_count; cpu++) {
    const struct split_record *record = split_record_of(split_mapping_in_use(), cpu, outer);
    for (uint32_t i = 0; i < split_bucket(1 << 20); i++) shorter += record->histogram[i];
  }
  assert_true(shorter > 0);
}

static void no_sets_no_probes(void **state) {
  (void)state;
  fake.missing = true;
  set_budget(1000000);
  kind("k", 1);
  sections("k", 100);
  assert_int_equal(fake.opened, 1); /* not tried again until others are published */
  assert_int_equal(fake.primed, 0);
  fake.missing = false;
  atomic_fetch_add(&header()->probe_generation, 2);
  sections("k", 10);
  assert_int_equal(fake.opened, 2);
  assert_int_equal(fake.primed, 10);
}

/* Lines of another generation are not counted. */
static void sets_that_change_within_a_section(void **state) {
  (void)state;
  set_budget(1000000);
  uint32_t code = kind("k", 1);
  split_start(0, "k");
  fake.missing = true;
  atomic_fetch_add(&header()->probe_generation, 2);
  split_sample_probes(split_mapping_in_use());
  split_end();
  assert_int_equal(fake.primed, 1);
  assert_int_equal(fake.counted, 0);
  assert_int_equal(total_of(code).probed, 0);
  assert_int_equal(total_of(code).count, 1);
}

#define IN(test) cmocka_unit_test_setup_teardown(test, begin_with_probe, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN(a_share_of_lines),
      IN(the_budget_is_kept),
      IN(without_a_budget_there_are_none),
      IN(one_of_64_wants),
      IN(one_at_a_time),
      IN(what_probes_within_cost_is_not_the_outers),
      IN(no_sets_no_probes),
      IN(sets_that_change_within_a_section),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
