/* Reads of many pages at a time: every engine delivers each page once, and reports a page that
 * cannot be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory_device.h"
#include "pager.h"
#include "read_many.h"

#define PAGES 700 /* data pages: numbers 1 .. 700 */

static const p3l_read_engine engines[] = {P3L_READ_BEST, P3L_READ_RING, P3L_READ_THREADS,
                                          P3L_READ_PLAIN};
#define ENGINES (sizeof(engines) / sizeof(engines[0]))

typedef struct fixture {
  char directory[64], path[80], log[88];
  p3l_pager *pager;
  p3l_error error;
} fixture;

static uint64_t value_of(uint64_t number) { return number * 1000003; }

static void write_values(p3l_pager *pager, uint64_t first, uint64_t step, uint64_t plus) {
  p3l_error error;
  p3l_pager_transaction *transaction;
  assert_int_equal(p3l_pager_begin(pager, &transaction, &error), P3L_OK);
  for (uint64_t n = first; n <= PAGES; n += step) {
    p3l_page *page;
    uint64_t value = value_of(n) + plus;
    assert_int_equal(p3l_page_for_writing(transaction, (p3l_page_number){n}, &page, &error),
                     P3L_OK);
    memcpy(page->payload, &value, sizeof(value));
    p3l_page_changed(transaction, page, offsetof(p3l_page, payload), sizeof(value));
  }
  assert_int_equal(p3l_pager_commit(transaction, &error), P3L_OK);
}

static void fill(p3l_pager *pager) {
  p3l_error error;
  p3l_pager_transaction *transaction;
  p3l_page_number number;
  p3l_page *page;
  assert_int_equal(p3l_pager_begin(pager, &transaction, &error), P3L_OK);
  for (uint64_t n = 1; n <= PAGES; n++) {
    assert_int_equal(p3l_page_allocate(transaction, &number, &page, &error), P3L_OK);
    assert_int_equal(number.n, n);
  }
  assert_int_equal(p3l_pager_commit(transaction, &error), P3L_OK);
  write_values(pager, 1, 1, 0);
  assert_int_equal(p3l_pager_checkpoint(pager, &error), P3L_OK);
}

static fixture fresh(void) {
  fixture f = {.directory = "/tmp/p3l_read_many_XXXXXX"};
  assert_non_null(mkdtemp(f.directory));
  snprintf(f.path, sizeof(f.path), "%s/store", f.directory);
  snprintf(f.log, sizeof(f.log), "%s-log", f.path);
  assert_int_equal(p3l_store_create(f.path, &f.error), P3L_OK);
  p3l_pager_options options = {0};
  assert_int_equal(p3l_pager_open(f.path, &options, &f.pager, NULL, &f.error), P3L_OK);
  fill(f.pager);
  return f;
}

static void drop(fixture *f) {
  p3l_pager_close(f->pager, NULL);
  unlink(f->path);
  unlink(f->log);
  rmdir(f->directory);
}

/* The pages that one call delivered. */
typedef struct seen {
  const p3l_page_number *numbers;
  uint64_t plus;      /* added to the values of even pages */
  size_t total;       /* number of visits */
  size_t wrong;       /* number of pages with a wrong value */
  uint8_t *times;     /* [index] */
  size_t fail_at;     /* number of the visit that fails; 0: none */
  p3l_read_engine by; /* engine, for messages */
} seen;

static p3l_code see(void *state, size_t index, const p3l_page *page, p3l_error *error) {
  seen *seen = state;
  seen->total++;
  if (seen->total == seen->fail_at) return p3l_fail(error, P3L_MISUSE, "enough");
  uint64_t number = seen->numbers[index].n, value;
  memcpy(&value, page->payload, sizeof(value));
  uint64_t expected = value_of(number) + (number % 2 == 0 ? seen->plus : 0);
  seen->wrong += page->number != number || value != expected;
  if (seen->times != NULL) seen->times[index]++;
  return P3L_OK;
}

static size_t count_of(const uint8_t *times, size_t count, uint8_t value) {
  size_t found = 0;
  for (size_t i = 0; i < count; i++) found += times[i] == value;
  return found;
}

static void each_page_is_seen_once(void **state) {
  (void)state;
  fixture f = fresh();
  enum { WANTED = 2000 };
  p3l_page_number *numbers = calloc(WANTED, sizeof(*numbers));
  uint32_t random = 7;
  for (size_t i = 0; i < WANTED; i++) { /* unordered, most of them several times */
    random = random * 1664525 + 1013904223;
    numbers[i].n = 1 + (random >> 8) % PAGES;
  }
  for (int newer = 0; newer < 2; newer++) {
    if (newer) write_values(f.pager, 2, 2, 5); /* even pages: in the log and in memory only */
    for (size_t e = 0; e < ENGINES; e++) {
      seen seen = {.numbers = numbers, .plus = newer ? 5 : 0, .times = calloc(WANTED, 1)};
      p3l_read_counts counts;
      assert_int_equal(
          p3l_read_many_by(engines[e], f.pager, numbers, WANTED, see, &seen, &counts, &f.error),
          P3L_OK);
      assert_int_equal(seen.total, WANTED);
      assert_int_equal(seen.wrong, 0);
      assert_int_equal(count_of(seen.times, WANTED, 1), WANTED);
      free(seen.times);
    }
  }
  free(numbers);
  drop(&f);
}

static void neighbours_share_a_request(void **state) {
  (void)state;
  fixture f = fresh();
  p3l_page_number side_by_side[64], apart[64], backwards[20];
  for (uint64_t i = 0; i < 64; i++) side_by_side[i].n = 100 + i;
  for (uint64_t i = 0; i < 64; i++) apart[i].n = 1 + 3 * i;
  for (uint64_t i = 0; i < 20; i++) backwards[i].n = 50 - i / 2; /* 50 50 49 49 .. 41 41 */
  for (size_t e = 0; e < ENGINES; e++) {
    p3l_read_counts counts;
    seen seen = {.numbers = side_by_side};
    p3l_read_many_by(engines[e], f.pager, side_by_side, 64, see, &seen, &counts, &f.error);
    assert_int_equal(counts.requests, 4); /* of 16 pages each */
    seen.numbers = apart;
    p3l_read_many_by(engines[e], f.pager, apart, 64, see, &seen, &counts, &f.error);
    assert_int_equal(counts.requests, 64);
    seen.numbers = backwards;
    p3l_read_many_by(engines[e], f.pager, backwards, 20, see, &seen, &counts, &f.error);
    assert_int_equal(counts.requests, 1); /* 10 pages */
    assert_int_equal(seen.total, 64 + 64 + 20);
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(p3l_read_many_by(engines[e], f.pager, NULL, 0, see, &seen, &counts, &f.error),
                     P3L_OK);
    assert_int_equal(counts.requests, 0);
  }
  drop(&f);
}

static void flip(const fixture *f, uint64_t number) {
  int file = open(f->path, O_RDWR);
  off_t at = (off_t)(number * P3L_PAGE_SIZE + 2000);
  uint8_t byte;
  assert_int_equal(pread(file, &byte, 1, at), 1);
  byte ^= 4;
  assert_int_equal(pwrite(file, &byte, 1, at), 1);
  close(file);
}

static void a_corrupt_page_ends_it(void **state) {
  (void)state;
  fixture f = fresh();
  p3l_page_number numbers[PAGES];
  for (size_t i = 0; i < PAGES; i++) numbers[i].n = 1 + i;
  flip(&f, 333);
  for (size_t e = 0; e < ENGINES; e++) {
    seen seen = {.numbers = numbers, .times = calloc(PAGES, 1)};
    p3l_code code =
        p3l_read_many_by(engines[e], f.pager, numbers, PAGES, see, &seen, NULL, &f.error);
    assert_int_equal(code, P3L_CORRUPT);
    assert_non_null(strstr(f.error.message, "page 333 does not have the checksum"));
    assert_non_null(strstr(f.error.message, f.path));
    assert_int_equal(seen.times[332], 0);
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(count_of(seen.times, PAGES, 0) + count_of(seen.times, PAGES, 1), PAGES);
    free(seen.times);
  }
  /* A page that is newer than the file is not read from it. */
  write_values(f.pager, 500, PAGES, 0);
  flip(&f, 500);
  seen seen = {.numbers = numbers + 333};
  assert_int_equal(p3l_pager_read_many(f.pager, numbers + 333, 300, see, &seen, &f.error), P3L_OK);
  assert_int_equal(seen.total, 300);
  assert_int_equal(seen.wrong, 0);
  drop(&f);
}

static void a_file_that_was_cut_is_told(void **state) {
  (void)state;
  fixture f = fresh();
  p3l_page_number numbers[PAGES];
  for (size_t i = 0; i < PAGES; i++) numbers[i].n = 1 + i;
  assert_int_equal(truncate(f.path, 501 * P3L_PAGE_SIZE + 100), 0);
  for (size_t e = 0; e < ENGINES; e++) {
    seen seen = {.numbers = numbers};
    p3l_code code = p3l_read_many_by(engines[e], f.pager, numbers, 500, see, &seen, NULL, &f.error);
    assert_int_equal(code, P3L_OK); /* existing pages are found */
    code = p3l_read_many_by(engines[e], f.pager, numbers, 505, see, &seen, NULL, &f.error);
    assert_int_equal(code, P3L_CORRUPT);
    assert_non_null(strstr(f.error.message, "page 50"));
    assert_non_null(strstr(f.error.message, "is missing, the file is too short"));
  }
  drop(&f);
}

static void a_page_that_does_not_exist_is_told(void **state) {
  (void)state;
  fixture f = fresh();
  p3l_page_number numbers[] = {{3}, {PAGES + 1}, {4}};
  for (size_t e = 0; e < ENGINES; e++) {
    seen seen = {.numbers = numbers};
    p3l_code code = p3l_read_many_by(engines[e], f.pager, numbers, 3, see, &seen, NULL, &f.error);
    assert_int_equal(code, P3L_MISUSE);
    assert_non_null(strstr(f.error.message, "has no page 701"));
  }
  drop(&f);
}

static void a_failing_visit_ends_it(void **state) {
  (void)state;
  fixture f = fresh();
  p3l_page_number numbers[PAGES];
  for (size_t i = 0; i < PAGES; i++) numbers[i].n = 1 + i;
  for (size_t e = 0; e < ENGINES; e++) {
    seen seen = {.numbers = numbers, .fail_at = 99};
    p3l_code code =
        p3l_read_many_by(engines[e], f.pager, numbers, PAGES, see, &seen, NULL, &f.error);
    assert_int_equal(code, P3L_MISUSE);
    assert_string_equal(f.error.message, "enough");
    assert_int_equal(seen.total, 99);
  }
  drop(&f);
}

/* ---- a device without a descriptor ---- */

static int (*read_well)(p3l_device *, void *, size_t, p3l_file_offset);
static uint64_t bad_page;

static int read_badly(p3l_device *device, void *bytes, size_t length, p3l_file_offset at) {
  uint64_t first = at.byte / P3L_PAGE_SIZE, end = (at.byte + length) / P3L_PAGE_SIZE;
  if (first <= bad_page && bad_page < end) return EIO;
  return read_well(device, bytes, length, at);
}

static void a_failing_read_ends_it_and_neighbours_are_had(void **state) {
  (void)state;
  p3l_error error;
  memory_device *file = memory_device_new(), *log = memory_device_new();
  p3l_pager *pager;
  assert_int_equal(p3l_store_format(&file->device, &log->device, &error), P3L_OK);
  p3l_pager_options options = {0};
  assert_int_equal(
      p3l_pager_open_devices(&file->device, &log->device, &options, &pager, NULL, &error), P3L_OK);
  fill(pager);
  read_well = file->device.read;
  file->device.read = read_badly;
  bad_page = 13;
  p3l_page_number numbers[32];
  for (size_t i = 0; i < 32; i++) numbers[i].n = 1 + i;
  for (size_t e = 0; e < ENGINES; e++) {
    seen seen = {.numbers = numbers, .times = calloc(32, 1)};
    p3l_read_counts counts;
    p3l_code code = p3l_read_many_by(engines[e], pager, numbers, 32, see, &seen, &counts, &error);
    assert_int_equal(code, P3L_IO);
    assert_non_null(strstr(error.message, "reading page 13"));
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(seen.times[12], 0);
    assert_int_equal(counts.used,
                     engines[e] == P3L_READ_THREADS ? P3L_READ_THREADS : P3L_READ_PLAIN);
    /* Pages 9..12 and 14..16 share a request with it, and are undamaged. */
    p3l_page_number around[] = {{9}, {10}, {11}, {12}, {14}, {15}, {16}};
    seen.numbers = around;
    seen.total = 0;
    code = p3l_read_many_by(engines[e], pager, around, 7, see, &seen, NULL, &error);
    assert_int_equal(code, P3L_OK);
    assert_int_equal(seen.total, 7);
    free(seen.times);
  }
  p3l_pager_close(pager, NULL);
  memory_device_free(file);
  memory_device_free(log);
}

/* ---- where the kernel refuses rings ---- */

static void refuse_rings(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(77);
}

static int read_all_in_child(const char *path) {
  p3l_error error;
  p3l_pager *pager;
  p3l_pager_options options = {.read_only = true};
  if (p3l_pager_open(path, &options, &pager, NULL, &error) != P3L_OK) return 2;
  p3l_page_number numbers[PAGES];
  for (size_t i = 0; i < PAGES; i++) numbers[i].n = 1 + (i * 13) % PAGES;
  seen seen = {.numbers = numbers};
  p3l_read_counts counts;
  for (int round = 0; round < 3; round++)
    if (p3l_read_many_by(P3L_READ_BEST, pager, numbers, PAGES, see, &seen, &counts, &error) !=
        P3L_OK)
      return 3;
  p3l_pager_close(pager, NULL);
  if (counts.used != P3L_READ_THREADS) return 4;
  return seen.total == 3 * PAGES && seen.wrong == 0 ? 0 : 5;
}

static void threads_read_where_rings_are_refused(void **state) {
  (void)state;
  fixture f = fresh();
  p3l_pager_close(f.pager, NULL);
  pid_t child = fork();
  if (child == 0) {
    refuse_rings();
    _exit(read_all_in_child(f.path));
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77)
    print_message("skipped: this kernel lets nobody filter system calls\n");
  else
    assert_int_equal(WEXITSTATUS(status), 0);
  p3l_pager_options options = {0};
  assert_int_equal(p3l_pager_open(f.path, &options, &f.pager, NULL, &f.error), P3L_OK);
  drop(&f);
}

/* ---- beside a writer ---- */

typedef struct beside {
  p3l_pager *pager;
  p3l_read_engine engine;
  atomic_bool stop;
  size_t rounds;
  char failure[700];
} beside;

/* Pages 2k and 2k + 1 have values of some commit: this tests only that each is consistent. */
static p3l_code see_number(void *state, size_t index, const p3l_page *page, p3l_error *error) {
  const p3l_page_number *numbers = state;
  if (page->number == numbers[index].n) return P3L_OK;
  return p3l_fail(error, P3L_CORRUPT, "page %llu in place of %llu",
                  (unsigned long long)page->number, (unsigned long long)numbers[index].n);
}

static void *read_often(void *state) {
  beside *beside = state;
  p3l_page_number numbers[PAGES];
  for (size_t i = 0; i < PAGES; i++) numbers[i].n = 1 + (i * 13) % PAGES;
  while (!beside->stop && beside->failure[0] == 0) {
    p3l_error error;
    if (p3l_read_many_by(beside->engine, beside->pager, numbers, PAGES, see_number, numbers, NULL,
                         &error) != P3L_OK)
      snprintf(beside->failure, sizeof(beside->failure), "%s", error.message);
    beside->rounds++;
  }
  return NULL;
}

static void readers_beside_commits_and_checkpoints(void **state) {
  (void)state;
  fixture f = fresh();
  enum { READERS = 3 };
  beside readers[READERS];
  pthread_t threads[READERS];
  for (int i = 0; i < READERS; i++) {
    readers[i] = (beside){.pager = f.pager, .engine = engines[1 + i % 3]};
    pthread_create(&threads[i], NULL, read_often, &readers[i]);
  }
  for (uint64_t round = 0; round < 20; round++) {
    write_values(f.pager, 1 + round % 5, 5, round);
    if (round % 3 == 0) assert_int_equal(p3l_pager_checkpoint(f.pager, &f.error), P3L_OK);
  }
  for (int i = 0; i < READERS; i++) {
    readers[i].stop = true;
    pthread_join(threads[i], NULL);
    if (readers[i].failure[0] != 0) fail_msg("%s", readers[i].failure);
    assert_true(readers[i].rounds > 0);
  }
  drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_page_is_seen_once),
      cmocka_unit_test(neighbours_share_a_request),
      cmocka_unit_test(a_corrupt_page_ends_it),
      cmocka_unit_test(a_file_that_was_cut_is_told),
      cmocka_unit_test(a_page_that_does_not_exist_is_told),
      cmocka_unit_test(a_failing_visit_ends_it),
      cmocka_unit_test(a_failing_read_ends_it_and_neighbours_are_had),
      cmocka_unit_test(threads_read_where_rings_are_refused),
      cmocka_unit_test(readers_beside_commits_and_checkpoints)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
