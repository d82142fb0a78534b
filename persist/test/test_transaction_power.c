/*
 * Power fails before every write and every sync of a workload on objects, with any part of the
 * unsynced data on the disk: every subset of a few writes, samples of many, each write complete or
 * torn by sectors. Afterwards the graph is that of the last acknowledged transaction or of the
 * running one, complete, and the pages verify.
 */
#include "../tools/torture_model.h"
#include "store_fixture.h"
#include "survey.h"

enum { TRANSACTIONS = 100, ALL_SUBSETS_UP_TO = 4, SAMPLES = 16 };

typedef struct world {
  fixture f;
  model *acknowledged, *begun;
  uint64_t random;
  uint64_t moments, crashes, later; /* later: with the running transaction */
} world;

static uint64_t draw(world *world) { return world->random = model_mix(world->random + 1); }

/* ---- after the crash ---- */

static void fail_on_fault(void *state, const char *sentence) {
  (void)state;
  fail_msg("%s", sentence);
}

static void recover_and_check(world *world, const memory_device *file, const memory_device *log) {
  p3l_error error;
  char sentence[200];
  world->crashes++;
  /* Opens first as a reader, which must not write, then as a writer. */
  for (int read_only = 1; read_only >= 0; read_only--) {
    fixture f = {.file = memory_device_of(file->bytes, file->size),
                 .log = memory_device_of(log->bytes, log->size),
                 .options = {.read_only = read_only}};
    p3l_verification pages;
    p3l_object_verification objects;
    p3l_survey survey;
    p3l_listener listener = {.fault = fail_on_fault};
    fixture_open(&f);
    bool later = model_last_of(f.store) == world->begun->transaction;
    const model *expected = later ? world->begun : world->acknowledged;
    if (!model_equals(expected, f.store, sentence, sizeof(sentence))) fail_msg("%s", sentence);
    p3l_pager *pager = f.store->pager;
    assert_int_equal(p3l_pager_verify(pager, fail_on_fault, NULL, &pages, &error), P3L_OK);
    assert_int_equal(p3l_survey_begin(&survey, pager, &listener, &error), P3L_OK);
    assert_int_equal(p3l_objects_verify(&survey, &objects, &error), P3L_OK);
    p3l_survey_end(&survey);
    assert_int_equal(objects.dangling, 0);
    assert_int_equal(objects.objects + objects.large_objects, expected->alive + MODEL_OWN);
    if (read_only) assert_int_equal(f.file->calls + f.log->calls, 0);
    world->later += later;
    fixture_drop(&f);
  }
}

/* The writes that reached the disk: bit i of `writes` for the i-th write of this device. torn:
 * only some sectors of them. */
typedef struct choice {
  uint64_t writes;
  bool torn;
  uint64_t random;
} choice;

static bool choose(void *state, size_t write, size_t sector) {
  const choice *choice = state;
  bool reached = write < 64 ? choice->writes >> write & 1 : model_mix(choice->random + write) & 1;
  return reached &&
         (!choice->torn || (model_mix(choice->random ^ (write << 32 | sector)) & 3) != 0);
}

static memory_device *left_of(const memory_device *device, choice choice) {
  uint64_t size;
  uint8_t *bytes = memory_device_crash(device, choose, &choice, &size);
  memory_device *left = memory_device_of(bytes, size);
  free(bytes);
  return left;
}

static void crash_with(world *world, uint64_t file_writes, uint64_t log_writes, bool torn) {
  memory_device *file = left_of(world->f.file, (choice){file_writes, torn, draw(world)});
  memory_device *log = left_of(world->f.log, (choice){log_writes, torn, draw(world)});
  recover_and_check(world, file, log);
  memory_device_free(file);
  memory_device_free(log);
}

static void crash(void *state) {
  world *world = state;
  size_t in_file = world->f.file->write_count, in_log = world->f.log->write_count;
  world->moments++;
  if (in_file + in_log <= ALL_SUBSETS_UP_TO) {
    for (uint64_t subset = 0; subset < UINT64_C(1) << (in_file + in_log); subset++)
      crash_with(world, subset, subset >> in_file, false);
  } else {
    crash_with(world, 0, 0, false);
    crash_with(world, ~UINT64_C(0), ~UINT64_C(0), false);
    for (int sample = 0; sample < SAMPLES; sample++)
      crash_with(world, draw(world), draw(world), false);
  }
  if (in_file + in_log == 0) return;
  for (int sample = 0; sample < SAMPLES / 2; sample++)
    crash_with(world, sample == 0 ? ~UINT64_C(0) : draw(world),
               sample == 0 ? ~UINT64_C(0) : draw(world), true);
}

/* ---- the workload ---- */

static void nothing_acknowledged_is_lost(void **state) {
  (void)state;
  world world = {
      .f = fixture_new(), .acknowledged = model_new(3), .begun = model_new(3), .random = 1};
  world.f.options.checkpoint_bytes = 50000;
  fixture_reopen(&world.f);
  begin(&world.f);
  assert_true(model_begin(world.f.store));
  commit(&world.f);

  world.f.file->before = world.f.log->before = crash;
  world.f.file->before_state = world.f.log->before_state = &world;
  for (uint64_t t = 1; t <= TRANSACTIONS; t++) {
    begin(&world.f);
    assert_true(model_transaction(world.begun, world.f.store, t));
    commit(&world.f);
    *world.acknowledged = *world.begun;
  }
  fixture_close(&world.f);
  crash(&world);
  print_message("           %llu crashes at %llu moments\n", (unsigned long long)world.crashes,
                (unsigned long long)world.moments);
  /* Each transaction writes and syncs; an unsynced write is present or not. */
  assert_true(world.moments >= TRANSACTIONS * 2);
  assert_true(world.crashes >= world.moments * 3);
  assert_true(world.later > 0 && world.later < world.crashes * 2);
  fixture_drop(&world.f);
  free(world.acknowledged);
  free(world.begun);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_acknowledged_is_lost)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
