/*
 * Readers of other processes beside a writer: each sees one version, the one it opened or refreshed to,
 * whatever the writer commits, checkpoints or dies in. The oracle: page n of version v is filled with a
 * word that follows from the last version, up to v, in which page n was changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "images.h"
#include "pager.h"
#include "readers.h"

enum { WORDS = sizeof(((p3l_page *)0)->payload) / 8 };
enum { PAGES = 40, VERSIONS = 120, READERS = 6 };

static char folder[64], path[80];

static void make_folder(void) {
  strcpy(folder, "/tmp/p3l-readers-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s/s", folder);
}

/* Of files whose names go on from the store's with `what`. Removes them if asked. */
static int files(const char *what, bool remove_them) {
  int count = 0;
  DIR *opened = opendir(folder);
  struct dirent *entry;
  assert_non_null(opened);
  while ((entry = readdir(opened)) != NULL) {
    char name[400];
    if (entry->d_name[0] == '.' || strncmp(entry->d_name, what, strlen(what)) != 0) continue;
    count++;
    snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
    if (remove_them) unlink(name);
  }
  closedir(opened);
  return count;
}

static void remove_folder(void) {
  files("", true);
  assert_int_equal(rmdir(folder), 0);
}

static void must(p3l_code code, const p3l_error *error) {
  if (code != P3L_OK) fail_msg("%s", error->message);
}

/* ---- versions ---- */

static uint64_t random_state;
static unsigned draw(unsigned below) {
  random_state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t x = random_state;
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return (unsigned)((x ^ x >> 31) >> 33) % below;
}

/* changed[v][n]: the last version up to v that changed page n. */
static unsigned changed[VERSIONS + 1][PAGES + 1];

static p3l_pager *open_pager(bool read_only) {
  p3l_pager *pager;
  p3l_error error;
  p3l_pager_options options = {.read_only = read_only, .checkpoint_bytes = 64 << 10};
  must(p3l_pager_open(path, &options, &pager, NULL, &error), &error);
  return pager;
}

static void change_page(p3l_pager_transaction *transaction, unsigned number, unsigned version) {
  p3l_page *page;
  p3l_error error;
  must(p3l_page_for_writing(transaction, (p3l_page_number){number}, &page, &error), &error);
  uint64_t value = (uint64_t)version << 32 | number;
  for (unsigned i = 0; i < WORDS; i++) memcpy(page->payload + i * 8, &value, 8);
  p3l_page_changed(transaction, page, 32, WORDS * 8);
}

/* Version v: page 1 says so. Every page is the version's word from its beginning to its end. */
static void commit_version(p3l_pager *pager, unsigned version) {
  p3l_pager_transaction *transaction;
  p3l_error error;
  memcpy(changed[version], changed[version - 1], sizeof(changed[version]));
  must(p3l_pager_begin(pager, &transaction, &error), &error);
  if (version == 1) {
    p3l_page_number number;
    p3l_page *page;
    for (unsigned n = 1; n <= PAGES; n++)
      must(p3l_page_allocate(transaction, &number, &page, &error), &error);
  }
  for (unsigned n = 1; n <= PAGES; n++) {
    if (n > 1 && version > 1 && draw(8) != 0) continue;
    change_page(transaction, n, version);
    changed[version][n] = version;
  }
  must(p3l_pager_commit(transaction, &error), &error);
}

static unsigned version_of(p3l_pager *pager) {
  p3l_page page;
  p3l_error error;
  uint64_t value;
  must(p3l_pager_read(pager, (p3l_page_number){1}, &page, &error), &error);
  memcpy(&value, page.payload, 8);
  return (unsigned)(value >> 32);
}

static void check_page(const p3l_page *page, unsigned number, unsigned version) {
  uint64_t expected = (uint64_t)changed[version][number] << 32 | number;
  for (unsigned i = 0; i < WORDS; i++) {
    uint64_t value;
    memcpy(&value, page->payload + i * 8, 8);
    if (value != expected)
      fail_msg("page %u of version %u is of version %llu", number, version,
               (unsigned long long)(value >> 32));
  }
}

static p3l_code visit(void *state, size_t index, const p3l_page *page, p3l_error *error) {
  (void)error;
  check_page(page, (unsigned)index + 1, *(unsigned *)state);
  return P3L_OK;
}

/* All pages, by each way to read them. */
static void check_version(p3l_pager *pager, unsigned version) {
  static p3l_page pages[PAGES];
  p3l_page_number numbers[PAGES];
  p3l_error error;
  assert_int_equal(version_of(pager), version);
  for (unsigned n = 1; n <= PAGES; n++) {
    numbers[n - 1] = (p3l_page_number){n};
    must(p3l_pager_read(pager, numbers[n - 1], &pages[0], &error), &error);
    check_page(&pages[0], n, version);
  }
  must(p3l_pager_read_run(pager, (p3l_page_number){1}, PAGES, pages, &error), &error);
  for (unsigned n = 1; n <= PAGES; n++) check_page(&pages[n - 1], n, version);
  must(p3l_pager_read_many(pager, numbers, PAGES, visit, &version, &error), &error);
}

static void refresh_to(p3l_pager *reader, unsigned from, unsigned to) {
  p3l_news news;
  p3l_error error;
  must(p3l_pager_refresh(reader, &news, &error), &error);
  assert_int_equal(news.changed, from != to);
  /* Every page that changed is among them. */
  for (unsigned n = 1, at = 0; n <= PAGES && from != to; n++) {
    if (changed[from][n] == changed[to][n]) continue;
    while (!news.everywhere && at < news.count && news.pages[at] < n) at++;
    assert_true(news.everywhere ? p3l_pager_is_news(reader, &news, (p3l_page_number){n})
                                : at < news.count && news.pages[at] == n);
  }
  p3l_news_free(&news);
  check_version(reader, to);
}

/* ---- tests ---- */

static void a_reader_sees_one_version_until_it_refreshes(void **state) {
  (void)state;
  p3l_error error;
  random_state = 1;
  make_folder();
  must(p3l_store_create(path, &error), &error);
  p3l_pager *writer = open_pager(false);
  commit_version(writer, 1);
  p3l_pager *reader = open_pager(true);
  check_version(reader, 1);
  commit_version(writer, 2);
  check_version(reader, 1);
  refresh_to(reader, 1, 2);
  refresh_to(reader, 2, 2);
  commit_version(writer, 3);
  must(p3l_pager_checkpoint(writer, &error), &error);
  commit_version(writer, 4);
  check_version(reader, 2);
  must(p3l_pager_checkpoint(writer, &error), &error);
  check_version(reader, 2);
  must(p3l_pager_close(writer, &error), &error);
  check_version(reader, 2);
  refresh_to(reader, 2, 4);
  must(p3l_pager_close(reader, &error), &error);
  remove_folder();
}

static void old_pages_go_when_their_last_reader_goes(void **state) {
  (void)state;
  p3l_error error;
  random_state = 2;
  make_folder();
  must(p3l_store_create(path, &error), &error);
  p3l_pager *writer = open_pager(false);
  unsigned version = 1;
  commit_version(writer, version);
  must(p3l_pager_checkpoint(writer, &error), &error);
  assert_int_equal(files("s-old-", false), 0); /* no reader, no cost */
  p3l_pager *first = open_pager(true);
  for (; version < 4; version++) {
    commit_version(writer, version + 1);
    must(p3l_pager_checkpoint(writer, &error), &error);
  }
  assert_int_equal(files("s-old-", false), 3);
  p3l_pager *second = open_pager(true);
  check_version(first, 1);
  check_version(second, 4);
  must(p3l_pager_close(first, &error), &error);
  commit_version(writer, ++version);
  must(p3l_pager_checkpoint(writer, &error), &error);
  assert_int_equal(files("s-old-", false), 1);
  check_version(second, 4);
  must(p3l_pager_close(second, &error), &error);
  commit_version(writer, ++version);
  must(p3l_pager_checkpoint(writer, &error), &error);
  assert_int_equal(files("s-old-", false), 0);
  must(p3l_pager_close(writer, &error), &error);
  remove_folder();
}

/* A writer and readers in any order, each step checked against the oracle. */
static void any_order_of_steps(void **state) {
  (void)state;
  p3l_error error;
  for (uint64_t seed = 10; seed < 15; seed++) {
    random_state = seed;
    make_folder();
    must(p3l_store_create(path, &error), &error);
    p3l_pager *writer = open_pager(false), *readers[READERS] = {NULL};
    unsigned version = 0, seen[READERS] = {0};
    commit_version(writer, ++version);
    while (version < VERSIONS) {
      unsigned r = draw(READERS);
      switch (draw(8)) {
        case 0:
        case 1:
        case 2:
          if (writer == NULL) writer = open_pager(false);
          commit_version(writer, ++version);
          break;
        case 3:
          if (writer != NULL) must(p3l_pager_checkpoint(writer, &error), &error);
          break;
        case 4:
          if (draw(4) != 0 || writer == NULL) break;
          must(p3l_pager_close(writer, &error), &error);
          writer = NULL;
          break;
        case 5:
          if (readers[r] == NULL) break;
          if (draw(2) == 0) {
            refresh_to(readers[r], seen[r], version);
            seen[r] = version;
          } else {
            must(p3l_pager_close(readers[r], &error), &error);
            readers[r] = NULL;
          }
          break;
        case 6:
          if (readers[r] != NULL) break;
          readers[r] = open_pager(true);
          seen[r] = version;
          break;
        default:
          if (readers[r] != NULL) check_version(readers[r], seen[r]);
      }
    }
    for (unsigned r = 0; r < READERS; r++) {
      if (readers[r] == NULL) continue;
      check_version(readers[r], seen[r]);
      must(p3l_pager_close(readers[r], &error), &error);
    }
    if (writer == NULL) writer = open_pager(false);
    check_version(writer, version);
    must(p3l_pager_close(writer, &error), &error);
    assert_int_equal(files("s-old-", false), 0);
    remove_folder();
  }
}

/* ---- a writer that dies in the middle of a checkpoint ---- */

static int (*real_write)(p3l_device *, const void *, size_t, p3l_file_offset);
static int writes_left;
static int dying_write(p3l_device *device, const void *bytes, size_t length, p3l_file_offset at) {
  if (writes_left-- == 0) {
    /* Half of what it wrote last is there. */
    real_write(device, bytes, length / 2, at);
    _exit(9);
  }
  return real_write(device, bytes, length, at);
}

static bool dies_at(unsigned version, int write_number, bool of_log) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    p3l_pager *writer = open_pager(false);
    p3l_device *device = of_log ? writer->log.device : writer->file;
    commit_version(writer, version);
    real_write = device->write;
    writes_left = write_number;
    device->write = dying_write;
    p3l_pager_checkpoint(writer, NULL);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status) == 9;
}

static void a_writer_that_dies_at_each_write_of_a_checkpoint(void **state) {
  (void)state;
  p3l_error error;
  for (int of_log = 0; of_log < 2; of_log++) {
    bool died = true;
    for (int write_number = 0; died; write_number++) {
      uint64_t before;
      random_state = 100 + (uint64_t)write_number;
      make_folder();
      must(p3l_store_create(path, &error), &error);
      p3l_pager *writer = open_pager(false);
      commit_version(writer, 1);
      must(p3l_pager_close(writer, &error), &error);
      p3l_pager *old = open_pager(true);
      writer = open_pager(false);
      commit_version(writer, 2);
      p3l_pager *reader = open_pager(true);
      must(p3l_pager_close(writer, &error), &error);
      before = random_state;
      died = dies_at(3, write_number, of_log == 1);
      check_version(old, 1);
      check_version(reader, 2);
      /* The child changed its own copy of the oracle: the same choices here. */
      random_state = before;
      memcpy(changed[3], changed[2], sizeof(changed[3]));
      for (unsigned n = 1; n <= PAGES; n++)
        if (n == 1 || draw(8) == 0) changed[3][n] = 3;
      p3l_pager *late = open_pager(true);
      check_version(late, 3);
      refresh_to(old, 1, 3);
      writer = open_pager(false); /* recovers, with a checkpoint of its own */
      check_version(reader, 2);
      check_version(late, 3);
      check_version(old, 3);
      commit_version(writer, 4);
      must(p3l_pager_checkpoint(writer, &error), &error);
      check_version(reader, 2);
      check_version(late, 3);
      refresh_to(reader, 2, 4);
      must(p3l_pager_close(reader, &error), &error);
      must(p3l_pager_close(late, &error), &error);
      must(p3l_pager_close(old, &error), &error);
      must(p3l_pager_close(writer, &error), &error);
      assert_int_equal(files("s-old-", false), 0);
      remove_folder();
    }
  }
}

/* ---- the table of readers ---- */

static void readers_are_counted_by_the_kernel(void **state) {
  (void)state;
  p3l_error error;
  p3l_device *one, *two, *writer;
  p3l_lsn oldest, newest;
  make_folder();
  must(p3l_store_create(path, &error), &error);
  assert_int_equal(p3l_file_open(path, P3L_OPEN_READ, false, &one), 0);
  assert_int_equal(p3l_file_open(path, P3L_OPEN_READ, false, &two), 0);
  assert_int_equal(p3l_file_open(path, P3L_OPEN_WRITE, true, &writer), 0);
  int file = p3l_file_descriptor(writer);
  assert_true(p3l_writer_is_there(p3l_file_descriptor(one)));
  assert_false(p3l_writer_is_there(file));
  assert_false(p3l_readers_span(file, &oldest, &newest));
  assert_int_equal(p3l_reader_register(p3l_file_descriptor(one), (p3l_lsn){7000}), 0);
  assert_int_equal(p3l_reader_register(p3l_file_descriptor(two), (p3l_lsn){50}), 0);
  assert_int_equal(p3l_reader_register(p3l_file_descriptor(one), (p3l_lsn){300}), 0);
  assert_true(p3l_readers_span(file, &oldest, &newest));
  assert_int_equal(oldest.byte, 50);
  assert_int_equal(newest.byte, 7000);
  p3l_reader_leave(p3l_file_descriptor(one), (p3l_lsn){7000});
  two->close(two);
  assert_true(p3l_readers_span(file, &oldest, &newest));
  assert_int_equal(oldest.byte, 300);
  assert_int_equal(newest.byte, 300);
  one->close(one);
  assert_false(p3l_readers_span(file, &oldest, &newest));
  writer->close(writer);
  remove_folder();
}

/* A killed reader is one that is gone. */
static void a_killed_reader_keeps_nothing(void **state) {
  (void)state;
  p3l_error error;
  random_state = 3;
  int ready[2];
  char byte;
  make_folder();
  must(p3l_store_create(path, &error), &error);
  p3l_pager *writer = open_pager(false);
  commit_version(writer, 1);
  must(p3l_pager_close(writer, &error), &error);
  assert_int_equal(pipe(ready), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    open_pager(true);
    if (write(ready[1], "r", 1) == 1) pause();
    _exit(0);
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  writer = open_pager(false);
  commit_version(writer, 2);
  must(p3l_pager_checkpoint(writer, &error), &error);
  assert_int_equal(files("s-old-", false), 1);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  commit_version(writer, 3);
  must(p3l_pager_checkpoint(writer, &error), &error);
  assert_int_equal(files("s-old-", false), 0);
  must(p3l_pager_close(writer, &error), &error);
  close(ready[0]);
  close(ready[1]);
  remove_folder();
}

/* ---- backup ---- */

static p3l_code refuse(void *state, p3l_pager *copy, p3l_error *error) {
  (void)state;
  (void)copy;
  return p3l_fail(error, P3L_CORRUPT, "refused");
}

static void a_backup_is_a_version_and_a_store(void **state) {
  (void)state;
  p3l_error error;
  char copy[100];
  random_state = 4;
  make_folder();
  must(p3l_store_create(path, &error), &error);
  p3l_pager *writer = open_pager(false), *reader;
  for (unsigned version = 1; version <= 20; version++) commit_version(writer, version);
  reader = open_pager(true);
  commit_version(writer, 21);
  must(p3l_pager_checkpoint(writer, &error), &error);
  snprintf(copy, sizeof(copy), "%s/copy", folder);
  p3l_backup backup = {.check = refuse};
  assert_int_equal(p3l_pager_backup(reader, copy, &backup, &error), P3L_CORRUPT);
  assert_int_equal(files("copy", false), 0);
  backup.check = NULL;
  must(p3l_pager_backup(reader, copy, &backup, &error), &error);
  assert_int_equal(backup.pages, PAGES + 1);
  assert_int_equal(files("copy", false), 2);
  assert_int_equal(p3l_pager_backup(reader, copy, &backup, &error), P3L_MISUSE);
  must(p3l_pager_close(reader, &error), &error);
  must(p3l_pager_close(writer, &error), &error);

  char original[80];
  strcpy(original, path);
  strcpy(path, copy);
  p3l_pager *copied = open_pager(true);
  check_version(copied, 20);
  must(p3l_pager_close(copied, &error), &error);
  copied = open_pager(false);
  commit_version(copied, 21);
  check_version(copied, 21);
  must(p3l_pager_close(copied, &error), &error);
  /* A log of the original is not the copy's. */
  char log[120], other[120];
  snprintf(log, sizeof(log), "%s-log", copy);
  snprintf(other, sizeof(other), "%s-log", original);
  assert_int_equal(rename(other, log), 0);
  p3l_pager_options options = {.read_only = true};
  assert_int_equal(p3l_pager_open(copy, &options, &copied, NULL, &error), P3L_NOT_A_STORE);
  remove_folder();
}

/* What a killed backup left is replaced: half a file, and a log that got its name before its store. */
static void a_killed_backup_is_in_nobodys_way(void **state) {
  (void)state;
  p3l_error error;
  char copy[100], name[120];
  random_state = 5;
  make_folder();
  must(p3l_store_create(path, &error), &error);
  p3l_pager *writer = open_pager(false);
  commit_version(writer, 1);
  must(p3l_pager_close(writer, &error), &error);
  snprintf(copy, sizeof(copy), "%s/copy", folder);
  const char *left[] = {"copy-new", "copy-new-log", "copy-log"};
  for (size_t i = 0; i < 3; i++) {
    snprintf(name, sizeof(name), "%s/%s", folder, left[i]);
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    for (int at = 0; at < 100000; at++) fputc('x', file);
    fclose(file);
  }
  p3l_pager *reader = open_pager(true);
  /* One that is being made is left alone. */
  p3l_device *maker;
  snprintf(name, sizeof(name), "%s/copy-new", folder);
  assert_int_equal(p3l_file_open(name, P3L_OPEN_WRITE, true, &maker), 0);
  p3l_backup backup = {0};
  assert_int_equal(p3l_pager_backup(reader, copy, &backup, &error), P3L_BUSY);
  maker->close(maker);
  must(p3l_pager_backup(reader, copy, &backup, &error), &error);
  must(p3l_pager_close(reader, &error), &error);
  assert_int_equal(files("copy", false), 2);
  strcpy(path, copy);
  reader = open_pager(true);
  check_version(reader, 1);
  must(p3l_pager_close(reader, &error), &error);
  remove_folder();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reader_sees_one_version_until_it_refreshes),
      cmocka_unit_test(old_pages_go_when_their_last_reader_goes),
      cmocka_unit_test(any_order_of_steps),
      cmocka_unit_test(a_writer_that_dies_at_each_write_of_a_checkpoint),
      cmocka_unit_test(readers_are_counted_by_the_kernel),
      cmocka_unit_test(a_killed_reader_keeps_nothing),
      cmocka_unit_test(a_backup_is_a_version_and_a_store),
      cmocka_unit_test(a_killed_backup_is_in_nobodys_way),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
