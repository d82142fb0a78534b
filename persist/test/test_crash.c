/*
 * Power is lost at every moment of a workload: between any two writes or syncs, with any part of
 * the unsynced data on the disk. Acknowledged transactions must be present, every transaction is
 * present completely or not at all, and the store verifies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory_device.h"
#include "pager.h"

/* Under a sanitizer the test takes three times as long. Then it tries every kind of crash, but
 * fewer of each. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TRANSACTIONS = 15, LOG_STEP = 5, FILE_STEP = 29 };
#else
enum { TRANSACTIONS = 60, LOG_STEP = 1, FILE_STEP = 7 };
#endif
enum { PAGES = 6, WORDS = 16, SPREAD = 240 };

/* Word w of a page is SPREAD bytes after word w-1: in other units of the log, and in several
 * sectors. */
static uint64_t *word(p3l_page *page, int w) { return (uint64_t *)(page->payload + w * SPREAD); }

typedef struct oracle {
  uint64_t words[TRANSACTIONS + 1][PAGES][WORDS];
  int acknowledged, begun; /* numbers of transactions */
  uint64_t extra_pages[TRANSACTIONS + 1];
} oracle;

typedef struct world {
  memory_device *file, *log;
  oracle *oracle;
  unsigned random;
  bool early; /* some pages are logged before their last change */
  uint64_t crashes;
} world;

static unsigned draw(unsigned *random, unsigned below) {
  *random = *random * 1664525u + 1013904223u;
  return (*random >> 8) % below;
}

/* ---- after the crash ---- */

static void fail_on_fault(void *state, const char *sentence) {
  (void)state;
  fail_msg("%s", sentence);
}

static bool state_is(p3l_pager *pager, const oracle *oracle, int transaction) {
  p3l_error error;
  for (int p = 0; p < PAGES; p++) {
    p3l_page page;
    if (p3l_pager_read(pager, (p3l_page_number){(uint64_t)p + 1}, &page, &error) != P3L_OK)
      fail_msg("%s", error.message);
    for (int w = 0; w < WORDS; w++)
      if (*word(&page, w) != oracle->words[transaction][p][w]) return false;
  }
  return true;
}

static void recover_and_check(world *world, const uint8_t *file, uint64_t file_size,
                              const uint8_t *log, uint64_t log_size) {
  memory_device *file_device = memory_device_of(file, file_size),
                *log_device = memory_device_of(log, log_size);
  p3l_pager *pager;
  p3l_error error;
  p3l_verification verification;
  p3l_recovery recovery;
  world->crashes++;
  /* Opens first as a reader, which must not write, then as a writer. */
  for (int read_only = 1; read_only >= 0; read_only--) {
    p3l_pager_options options = {.read_only = read_only};
    if (p3l_pager_open_devices(&file_device->device, &log_device->device, &options, &pager,
                               &recovery, &error) != P3L_OK)
      fail_msg("after %d acknowledged: %s", world->oracle->acknowledged, error.message);
    bool right = state_is(pager, world->oracle, world->oracle->acknowledged) ||
                 state_is(pager, world->oracle, world->oracle->begun);
    if (!right)
      fail_msg("neither transaction %d nor %d", world->oracle->acknowledged, world->oracle->begun);
    assert_int_equal(p3l_pager_verify(pager, fail_on_fault, NULL, &verification, &error), P3L_OK);
    if (read_only) assert_int_equal(file_device->calls + log_device->calls, 0);
    assert_int_equal(p3l_pager_close(pager, &error), P3L_OK);
  }
  memory_device_free(file_device);
  memory_device_free(log_device);
}

typedef struct choice {
  enum { NONE, ALL, WRITES, SECTORS, LAST_ONLY } way;
  unsigned random;
  size_t last_write;
} choice;

static bool choose(void *state, size_t write, size_t sector) {
  choice *choice = state;
  switch (choice->way) {
    case NONE: return false;
    case ALL: return true;
    case LAST_ONLY: return write + 1 == choice->last_write;
    case WRITES: return (choice->random * 2654435761u ^ (unsigned)write * 40503u) >> 7 & 1;
    case SECTORS:
      return (choice->random * 2654435761u ^ (unsigned)(write * 131 + sector) * 2246822519u) >> 9 &
             1;
  }
  return true;
}

static void crash(void *state) {
  world *world = state;
  for (int way = NONE; way <= LAST_ONLY; way++) {
    for (int repetition = 0; repetition < (way == WRITES || way == SECTORS ? 4 : 1); repetition++) {
      choice for_file = {way, draw(&world->random, 1u << 20), world->file->write_count};
      choice for_log = {way, draw(&world->random, 1u << 20), world->log->write_count};
      uint64_t file_size, log_size;
      uint8_t *file = memory_device_crash(world->file, choose, &for_file, &file_size);
      uint8_t *log = memory_device_crash(world->log, choose, &for_log, &log_size);
      recover_and_check(world, file, file_size, log, log_size);
      free(file);
      free(log);
    }
  }
}

/* ---- the workload ---- */

/* Changes a random word of a random page. */
static void change_word(world *world, p3l_pager_transaction *transaction, int t) {
  unsigned p = draw(&world->random, PAGES), w = draw(&world->random, WORDS);
  p3l_page *page;
  p3l_error error;
  assert_int_equal(p3l_page_for_writing(transaction, (p3l_page_number){p + 1}, &page, &error),
                   P3L_OK);
  *word(page, (int)w) = (uint64_t)t;
  p3l_page_changed(transaction, page, (uint32_t)((uint8_t *)word(page, (int)w) - (uint8_t *)page),
                   8);
  world->oracle->words[t][p][w] = (uint64_t)t;
}

static void run_transaction(world *world, p3l_pager *pager, int t, p3l_page_number *spare) {
  oracle *oracle = world->oracle;
  p3l_pager_transaction *transaction;
  p3l_error error;
  memcpy(oracle->words[t], oracle->words[t - 1], sizeof(oracle->words[t]));
  assert_int_equal(p3l_pager_begin(pager, &transaction, &error), P3L_OK);
  p3l_pager_mark(transaction);
  for (unsigned changes = 1 + draw(&world->random, 12); changes > 0; changes--)
    change_word(world, transaction, t);
  if (world->early && draw(&world->random, 2) == 0) {
    assert_int_equal(p3l_pager_append_early(transaction, 1, &error), P3L_OK);
    for (unsigned changes = draw(&world->random, 4); changes > 0; changes--)
      change_word(world, transaction, t);
  }
  if (draw(&world->random, 4) == 0) {
    p3l_page *page;
    if (spare->n == 0) {
      assert_int_equal(p3l_page_allocate(transaction, spare, &page, &error), P3L_OK);
    } else {
      assert_int_equal(p3l_page_release(transaction, *spare, &error), P3L_OK);
      *spare = (p3l_page_number){0};
    }
  }
  oracle->begun = t;
  assert_int_equal(p3l_pager_commit(transaction, &error), P3L_OK);
  oracle->acknowledged = t;
}

static void nothing_acknowledged_is_lost(void **state) {
  (void)state;
  world world = {
      .file = memory_device_new(), .log = memory_device_new(), .oracle = calloc(1, sizeof(oracle))};
  p3l_error error;
  p3l_pager *pager;
  p3l_pager_options options = {.checkpoint_bytes = 12000};
  world.early = true;
  assert_int_equal(p3l_store_format(&world.file->device, &world.log->device, &error), P3L_OK);
  assert_int_equal(p3l_pager_open_devices(&world.file->device, &world.log->device, &options, &pager,
                                          NULL, &error),
                   P3L_OK);
  p3l_pager_transaction *transaction;
  assert_int_equal(p3l_pager_begin(pager, &transaction, &error), P3L_OK);
  for (int p = 0; p < PAGES; p++) {
    p3l_page_number number;
    p3l_page *page;
    assert_int_equal(p3l_page_allocate(transaction, &number, &page, &error), P3L_OK);
    assert_int_equal(number.n, p + 1);
  }
  assert_int_equal(p3l_pager_commit(transaction, &error), P3L_OK);

  world.file->before = world.log->before = crash;
  world.file->before_state = world.log->before_state = &world;
  p3l_page_number spare = {0};
  for (int t = 1; t <= TRANSACTIONS; t++) run_transaction(&world, pager, t, &spare);
  assert_int_equal(p3l_pager_close(pager, &error), P3L_OK);
  crash(&world);
  print_message("           %llu crashes\n", (unsigned long long)world.crashes);
  /* Each transaction writes and syncs at least once, and each moment is tried in eleven ways. */
  assert_true(world.crashes >= TRANSACTIONS * 2 * 11);
  memory_device_free(world.file);
  memory_device_free(world.log);
  free(world.oracle);
}

/* A log with a known workload, which is truncated and damaged. */
typedef struct recorded {
  uint8_t *file, *log;
  uint64_t file_size, log_size;
  oracle *oracle;
} recorded;

static bool everything(void *state, size_t write, size_t sector) {
  (void)state;
  (void)write;
  (void)sector;
  return true;
}

static recorded record(int transactions) {
  world world = {
      .file = memory_device_new(), .log = memory_device_new(), .oracle = calloc(1, sizeof(oracle))};
  recorded recorded = {.oracle = world.oracle};
  p3l_error error;
  p3l_pager *pager;
  p3l_pager_options options = {0};
  p3l_pager_transaction *transaction;
  p3l_page_number number, spare = {0};
  p3l_page *page;
  assert_int_equal(p3l_store_format(&world.file->device, &world.log->device, &error), P3L_OK);
  assert_int_equal(p3l_pager_open_devices(&world.file->device, &world.log->device, &options, &pager,
                                          NULL, &error),
                   P3L_OK);
  assert_int_equal(p3l_pager_begin(pager, &transaction, &error), P3L_OK);
  for (int p = 0; p < PAGES; p++)
    assert_int_equal(p3l_page_allocate(transaction, &number, &page, &error), P3L_OK);
  assert_int_equal(p3l_pager_commit(transaction, &error), P3L_OK);
  assert_int_equal(p3l_pager_checkpoint(pager, &error), P3L_OK);
  for (int t = 1; t <= transactions; t++) run_transaction(&world, pager, t, &spare);
  recorded.file = memory_device_crash(world.file, everything, NULL, &recorded.file_size);
  recorded.log = memory_device_crash(world.log, everything, NULL, &recorded.log_size);
  p3l_pager_close(pager, NULL);
  memory_device_free(world.file);
  memory_device_free(world.log);
  return recorded;
}

static void recorded_free(recorded *recorded) {
  free(recorded->file);
  free(recorded->log);
  free(recorded->oracle);
}

/* Opens the store. Returns the number of the transaction whose state it has, or -1 with the
 * error. */
static int open_and_date(const recorded *recorded, const uint8_t *file, uint64_t file_size,
                         const uint8_t *log, uint64_t log_size, p3l_recovery *recovery,
                         p3l_error *error) {
  memory_device *file_device = memory_device_of(file, file_size),
                *log_device = memory_device_of(log, log_size);
  p3l_pager *pager;
  p3l_pager_options options = {.read_only = true};
  int found = -1;
  if (p3l_pager_open_devices(&file_device->device, &log_device->device, &options, &pager, recovery,
                             error) == P3L_OK) {
    for (int t = recorded->oracle->acknowledged; t >= 0 && found < 0; t--)
      if (state_is(pager, recorded->oracle, t)) found = t;
    if (found < 0) fail_msg("a state that never was");
    p3l_pager_close(pager, NULL);
  }
  memory_device_free(file_device);
  memory_device_free(log_device);
  return found;
}

static void a_log_cut_at_any_byte_has_a_prefix(void **state) {
  (void)state;
  recorded recorded = record(8);
  p3l_error error;
  p3l_recovery recovery;
  int last = -1;
  for (uint64_t size = 4096; size <= recorded.log_size; size++) {
    int t = open_and_date(&recorded, recorded.file, recorded.file_size, recorded.log, size,
                          &recovery, &error);
    if (t < last) fail_msg("cut at %llu: %d after %d", (unsigned long long)size, t, last);
    last = t;
  }
  assert_int_equal(last, 8);
  recorded_free(&recorded);
}

static void a_flipped_bit_of_the_log_is_found_or_harmless(void **state) {
  (void)state;
  recorded recorded = record(5);
  uint64_t harmless = 0, told = 0, ends = 0;
  for (uint64_t bit = 0; bit < recorded.log_size * 8; bit += bit % 64 < 56 ? LOG_STEP : 9) {
    p3l_error error;
    p3l_recovery recovery;
    recorded.log[bit / 8] ^= (uint8_t)(1u << bit % 8);
    int t = open_and_date(&recorded, recorded.file, recorded.file_size, recorded.log,
                          recorded.log_size, &recovery, &error);
    recorded.log[bit / 8] ^= (uint8_t)(1u << bit % 8);
    if (t < 0) {
      told++;
    } else if (t == 5) {
      harmless++;
    } else {
      /* Damage after the last proof of durability cannot be distinguished from a torn write.
       * This much is reported. */
      ends++;
      if (!recovery.interrupted || t != 4)
        fail_msg("bit %llu: transaction %d, %s", (unsigned long long)bit, t,
                 recovery.interrupted ? "told" : "not told");
    }
  }
  print_message("           %llu told, %llu harmless, %llu taken for a torn end and told so\n",
                (unsigned long long)told, (unsigned long long)harmless, (unsigned long long)ends);
  assert_true(told > ends);
  recorded_free(&recorded);
}

static void a_flipped_bit_of_the_file_is_found_or_healed(void **state) {
  (void)state;
  recorded recorded = record(5);
  uint64_t told = 0, healed = 0;
  for (uint64_t bit = 0; bit < recorded.file_size * 8; bit += FILE_STEP) {
    p3l_error error;
    p3l_recovery recovery;
    memory_device *file, *log;
    p3l_pager *pager;
    p3l_pager_options options = {.read_only = true};
    recorded.file[bit / 8] ^= (uint8_t)(1u << bit % 8);
    file = memory_device_of(recorded.file, recorded.file_size);
    log = memory_device_of(recorded.log, recorded.log_size);
    recorded.file[bit / 8] ^= (uint8_t)(1u << bit % 8);
    if (p3l_pager_open_devices(&file->device, &log->device, &options, &pager, &recovery, &error) !=
        P3L_OK) {
      told++;
    } else {
      bool wrong = false;
      for (int p = 0; p < PAGES && !wrong; p++) {
        p3l_page page;
        p3l_code code = p3l_pager_read(pager, (p3l_page_number){(uint64_t)p + 1}, &page, &error);
        if (code != P3L_OK) {
          assert_int_equal(code, P3L_CORRUPT);
          wrong = true;
        }
      }
      if (wrong)
        told++;
      else {
        assert_true(state_is(pager, recorded.oracle, 5));
        healed++;
      }
      p3l_pager_close(pager, NULL);
    }
    memory_device_free(file);
    memory_device_free(log);
  }
  print_message("           %llu told, %llu healed by the log\n", (unsigned long long)told,
                (unsigned long long)healed);
  assert_true(healed > 0);
  recorded_free(&recorded);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_acknowledged_is_lost),
      cmocka_unit_test(a_log_cut_at_any_byte_has_a_prefix),
      cmocka_unit_test(a_flipped_bit_of_the_log_is_found_or_harmless),
      cmocka_unit_test(a_flipped_bit_of_the_file_is_found_or_healed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
