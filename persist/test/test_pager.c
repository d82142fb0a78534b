/* The pager's rules, one by one: pages, the free list, disk errors, locks, readers while another
 * process writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "pager_fixture.h"

static p3l_page_number add_page(fixture *f, uint64_t value) {
  p3l_pager_transaction *transaction;
  p3l_page_number number;
  p3l_page *page;
  assert_int_equal(p3l_pager_begin(f->pager, &transaction, &f->error), P3L_OK);
  assert_int_equal(p3l_page_allocate(transaction, &number, &page, &f->error), P3L_OK);
  memcpy(page->payload, &value, sizeof(value));
  assert_int_equal(p3l_pager_commit(transaction, &f->error), P3L_OK);
  return number;
}

static p3l_code write_value(fixture *f, p3l_page_number number, uint64_t value) {
  p3l_pager_transaction *transaction;
  p3l_page *page;
  p3l_code code = p3l_pager_begin(f->pager, &transaction, &f->error);
  if (code != P3L_OK) return code;
  code = p3l_page_for_writing(transaction, number, &page, &f->error);
  if (code != P3L_OK) {
    p3l_pager_abort(transaction);
    return code;
  }
  memcpy(page->payload, &value, sizeof(value));
  p3l_page_changed(transaction, page, offsetof(p3l_page, payload), sizeof(value));
  return p3l_pager_commit(transaction, &f->error);
}

static uint64_t value_of(fixture *f, p3l_page_number number) {
  p3l_page page;
  uint64_t value;
  if (p3l_pager_read(f->pager, number, &page, &f->error) != P3L_OK)
    fail_msg("%s", f->error.message);
  memcpy(&value, page.payload, sizeof(value));
  return value;
}

static void committed_pages_outlive_the_process(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_page_number one = add_page(&f, 11), two = add_page(&f, 22);
  assert_int_equal(one.n, 1);
  assert_int_equal(two.n, 2);
  assert_int_equal(p3l_pager_page_count(f.pager), 3);
  assert_int_equal(p3l_pager_close(f.pager, &f.error), P3L_OK);
  open_again(&f, 0);
  assert_int_equal(value_of(&f, one), 11);
  assert_int_equal(value_of(&f, two), 22);
  p3l_page page;
  assert_int_equal(p3l_pager_read(f.pager, (p3l_page_number){3}, &page, &f.error), P3L_MISUSE);
  drop(&f);
}

static void an_aborted_transaction_leaves_nothing(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_page_number one = add_page(&f, 11), other;
  p3l_pager_transaction *transaction;
  p3l_page *page;
  assert_int_equal(p3l_pager_begin(f.pager, &transaction, &f.error), P3L_OK);
  assert_int_equal(p3l_page_for_writing(transaction, one, &page, &f.error), P3L_OK);
  memset(page->payload, 0xee, 100);
  p3l_page_changed(transaction, page, 32, 100);
  assert_int_equal(p3l_page_allocate(transaction, &other, &page, &f.error), P3L_OK);
  p3l_pager_abort(transaction);
  assert_int_equal(value_of(&f, one), 11);
  assert_int_equal(p3l_pager_page_count(f.pager), 2);
  /* The number is used again, and its page is zeroed. */
  assert_int_equal(add_page(&f, 33).n, other.n);
  drop(&f);
}

static void a_commit_logs_what_was_changed_and_no_more(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_page_number one = add_page(&f, 1);
  uint64_t before = f.log->size;
  assert_int_equal(write_value(&f, one, 2), P3L_OK);
  /* A frame with page, place, length and one byte, filled up to 8, and the commit's frame. */
  assert_int_equal(f.log->size - before, 32 + 8 + 32);
  /* The first change after a checkpoint logs the page. The log begins again, in the same bytes of
   * the file. */
  assert_int_equal(p3l_pager_checkpoint(f.pager, &f.error), P3L_OK);
  memset(f.log->bytes + 4096, 0xaa, f.log->size - 4096);
  assert_int_equal(write_value(&f, one, 3), P3L_OK);
  /* Only the nonzero bytes are logged: three words of the header, and one other. With offset and
   * length of each, and the page, 37 bytes, padded to 40. */
  assert_int_equal(f.log->bytes[4096 + 32 + 40 + 32 - 1], 0);
  assert_int_equal(f.log->bytes[4096 + 32 + 40 + 32], 0xaa);
  drop(&f);
}

static void released_pages_are_given_again(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_page_number pages[4];
  p3l_pager_transaction *transaction;
  p3l_verification verification;
  for (int i = 0; i < 4; i++) pages[i] = add_page(&f, (uint64_t)i);
  assert_int_equal(p3l_pager_begin(f.pager, &transaction, &f.error), P3L_OK);
  assert_int_equal(p3l_page_release(transaction, pages[1], &f.error), P3L_OK);
  assert_int_equal(p3l_page_release(transaction, pages[2], &f.error), P3L_OK);
  assert_int_equal(p3l_page_release(transaction, pages[2], &f.error), P3L_MISUSE);
  assert_int_equal(p3l_pager_commit(transaction, &f.error), P3L_OK);
  assert_int_equal(p3l_pager_verify(f.pager, NULL, NULL, &verification, &f.error), P3L_OK);
  assert_int_equal(verification.free_pages, 2);
  assert_int_equal(verification.faults, 0);
  assert_int_equal(add_page(&f, 5).n, pages[2].n);
  assert_int_equal(add_page(&f, 5).n, pages[1].n);
  assert_int_equal(p3l_pager_page_count(f.pager), 5);
  drop(&f);
}

static void a_full_disk_costs_the_transaction_and_nothing_else(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_page_number one = add_page(&f, 11);
  f.log->fail_in = 1;
  f.log->fail_with = ENOSPC;
  assert_int_equal(write_value(&f, one, 12), P3L_NO_SPACE);
  assert_int_equal(value_of(&f, one), 11);
  /* When there is space again, the store continues. The half-written frame is ignored. */
  assert_int_equal(write_value(&f, one, 13), P3L_OK);
  assert_int_equal(p3l_pager_close(f.pager, &f.error), P3L_OK);
  open_again(&f, 0);
  assert_int_equal(value_of(&f, one), 13);
  drop(&f);
}

static void a_checkpoint_without_space_is_made_later(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_page_number one = add_page(&f, 11);
  f.file->fail_in = 1;
  f.file->fail_with = ENOSPC;
  assert_int_equal(p3l_pager_checkpoint(f.pager, &f.error), P3L_NO_SPACE);
  assert_int_equal(value_of(&f, one), 11);
  assert_int_equal(write_value(&f, one, 12), P3L_OK);
  assert_int_equal(p3l_pager_checkpoint(f.pager, &f.error), P3L_OK);
  assert_int_equal(value_of(&f, one), 12);
  drop(&f);
}

static void after_a_failed_sync_nothing_is_written(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_page_number one = add_page(&f, 11);
  f.log->fail_in = 2; /* the write, then the sync */
  f.log->fail_with = EIO;
  assert_int_equal(write_value(&f, one, 12), P3L_BROKEN);
  uint64_t calls = f.log->calls + f.file->calls;
  assert_int_equal(write_value(&f, one, 13), P3L_BROKEN);
  assert_int_equal(p3l_pager_checkpoint(f.pager, &f.error), P3L_BROKEN);
  assert_int_equal(f.log->calls + f.file->calls, calls);
  assert_non_null(strstr(f.error.message, "open the store again"));
  drop(&f);
}

static int failing_read(p3l_device *device, void *bytes, size_t length, p3l_file_offset at) {
  (void)device, (void)bytes, (void)length, (void)at;
  return EIO;
}

static void a_disk_that_cannot_be_read_is_told_with_the_page(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_page pages[2];
  add_page(&f, 11);
  add_page(&f, 22);
  assert_int_equal(p3l_pager_checkpoint(f.pager, &f.error), P3L_OK);
  int (*read)(p3l_device *, void *, size_t, p3l_file_offset) = f.file->device.read;
  f.file->device.read = failing_read;
  assert_int_equal(p3l_pager_read(f.pager, (p3l_page_number){2}, pages, &f.error), P3L_IO);
  assert_string_equal(f.error.message, "(memory): reading page 2: Input/output error");
  assert_int_equal(p3l_pager_read_run(f.pager, (p3l_page_number){1}, 2, pages, &f.error), P3L_IO);
  assert_string_equal(f.error.message,
                      "(memory): reading 2 pages from page 1 on: Input/output error");
  assert_int_equal(write_value(&f, (p3l_page_number){2}, 23), P3L_IO);
  f.file->device.read = read; /* and now it can again */
  assert_int_equal(write_value(&f, (p3l_page_number){2}, 23), P3L_OK);
  assert_int_equal(value_of(&f, (p3l_page_number){2}), 23);
  drop(&f);
}

/* ---- files ---- */

static void make_folder(char *folder) {
  strcpy(folder, "/tmp/p3l-test-XXXXXX");
  assert_non_null(mkdtemp(folder));
}

static void remove_folder(const char *folder) {
  char name[128];
  const char *names[] = {"s", "s-log", "foreign"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
    snprintf(name, sizeof(name), "%s/%s", folder, names[i]);
    unlink(name);
  }
  rmdir(folder);
}

static void one_writer_and_who_excludes_writers(void **state) {
  (void)state;
  char folder[64], path[80];
  p3l_error error;
  p3l_pager *writer, *reader, *another;
  p3l_pager_options writing = {0}, reading = {.read_only = true},
                    alone = {.read_only = true, .excludes_writers = true};
  make_folder(folder);
  snprintf(path, sizeof(path), "%s/s", folder);
  assert_int_equal(p3l_store_create(path, &error), P3L_OK);
  assert_int_equal(p3l_store_create(path, &error), P3L_MISUSE);
  assert_int_equal(p3l_pager_open(path, &writing, &writer, NULL, &error), P3L_OK);
  assert_int_equal(p3l_pager_open(path, &writing, &another, NULL, &error), P3L_BUSY);
  assert_int_equal(p3l_pager_open(path, &alone, &another, NULL, &error), P3L_BUSY);
  assert_int_equal(p3l_pager_open(path, &reading, &reader, NULL, &error), P3L_OK);
  p3l_pager_close(reader, NULL);
  p3l_pager_close(writer, NULL);
  assert_int_equal(p3l_pager_open(path, &alone, &reader, NULL, &error), P3L_OK);
  assert_int_equal(p3l_pager_open(path, &alone, &another, NULL, &error), P3L_OK);
  assert_int_equal(p3l_pager_open(path, &writing, &writer, NULL, &error), P3L_BUSY);
  p3l_pager_transaction *transaction;
  assert_int_equal(p3l_pager_begin(reader, &transaction, &error), P3L_READ_ONLY);
  p3l_pager_close(reader, NULL);
  p3l_pager_close(another, NULL);
  remove_folder(folder);
}

static void what_is_no_store_is_told(void **state) {
  (void)state;
  char folder[64], path[80], other[80];
  p3l_error error;
  p3l_pager *pager;
  p3l_pager_options options = {0};
  make_folder(folder);
  snprintf(path, sizeof(path), "%s/foreign", folder);
  assert_int_equal(p3l_pager_open(path, &options, &pager, NULL, &error), P3L_IO);
  assert_non_null(strstr(error.message, "No such file"));
  assert_int_equal(p3l_pager_open(folder, &options, &pager, NULL, &error), P3L_IO);
  FILE *file = fopen(path, "w");
  for (int i = 0; i < 2000; i++) fputs("not a store\n", file);
  fclose(file);
  assert_int_equal(p3l_pager_open(path, &options, &pager, NULL, &error), P3L_NOT_A_STORE);
  snprintf(other, sizeof(other), "%s/s", folder);
  assert_int_equal(p3l_store_create(other, &error), P3L_OK);
  snprintf(other, sizeof(other), "%s/s-log", folder);
  unlink(other);
  snprintf(other, sizeof(other), "%s/s", folder);
  assert_int_equal(p3l_pager_open(other, &options, &pager, NULL, &error), P3L_CORRUPT);
  assert_non_null(strstr(error.message, "s-log is missing"));
  remove_folder(folder);
}

/* A closed store does not keep the log of a load. */
static void a_closed_log_is_short(void **state) {
  (void)state;
  char folder[64], path[80];
  p3l_error error;
  p3l_pager *pager;
  p3l_pager_options options = {0};
  p3l_pager_transaction *transaction;
  p3l_page_number first;
  p3l_page page;
  FILE *log;
  make_folder(folder);
  snprintf(path, sizeof(path), "%s/s", folder);
  assert_int_equal(p3l_store_create(path, &error), P3L_OK);
  assert_int_equal(p3l_pager_open(path, &options, &pager, NULL, &error), P3L_OK);
  assert_int_equal(p3l_pager_begin(pager, &transaction, &error), P3L_OK);
  assert_int_equal(p3l_page_allocate_run(transaction, 2000, &first, &error), P3L_OK);
  for (uint64_t i = 0; i < 2000; i++) {
    p3l_page *filled;
    assert_int_equal(
        p3l_page_for_writing(transaction, (p3l_page_number){first.n + i}, &filled, &error), P3L_OK);
    memset(filled->payload, 7, sizeof(filled->payload));
    p3l_page_changed(transaction, filled, 32, sizeof(filled->payload));
  }
  assert_int_equal(p3l_pager_commit(transaction, &error), P3L_OK);
  assert_int_equal(p3l_pager_close(pager, &error), P3L_OK);
  snprintf(path, sizeof(path), "%s/s-log", folder);
  log = fopen(path, "r");
  assert_non_null(log);
  fseek(log, 0, SEEK_END);
  assert_int_equal(ftell(log), 4 << 20); /* 8.3 MB before */
  fclose(log);
  snprintf(path, sizeof(path), "%s/s", folder);
  assert_int_equal(p3l_pager_open(path, &options, &pager, NULL, &error), P3L_OK);
  assert_int_equal(p3l_pager_read(pager, (p3l_page_number){2000}, &page, &error), P3L_OK);
  assert_int_equal(p3l_pager_close(pager, &error), P3L_OK);
  remove_folder(folder);
}

/* ---- threads ---- */

enum { COMMITS = 200, THREADS = 4 };

typedef struct shared {
  fixture *f;
  p3l_page_number left, right; /* always changed together */
  atomic_bool stop;
  uint64_t torn, reads;
} shared;

static void *commit_often(void *argument) {
  shared *shared = argument;
  for (int i = 0; i < COMMITS; i++) {
    p3l_pager_transaction *transaction;
    p3l_page *left, *right;
    p3l_error error;
    uint64_t value;
    if (p3l_pager_begin(shared->f->pager, &transaction, &error) != P3L_OK) return "begin";
    if (p3l_page_for_writing(transaction, shared->left, &left, &error) != P3L_OK) return "left";
    if (p3l_page_for_writing(transaction, shared->right, &right, &error) != P3L_OK) return "right";
    memcpy(&value, left->payload, sizeof(value));
    value++;
    memcpy(left->payload, &value, sizeof(value));
    memcpy(right->payload, &value, sizeof(value));
    p3l_page_changed(transaction, left, 32, 8);
    p3l_page_changed(transaction, right, 32, 8);
    if (p3l_pager_commit(transaction, &error) != P3L_OK) return "commit";
  }
  return NULL;
}

static void *read_often(void *argument) {
  shared *shared = argument;
  uint64_t last = 0;
  while (!shared->stop) {
    p3l_page page;
    p3l_error error;
    uint64_t value;
    if (p3l_pager_read(shared->f->pager, shared->left, &page, &error) != P3L_OK) return "read";
    memcpy(&value, page.payload, sizeof(value));
    if (value < last) return "went back";
    last = value;
    shared->reads++;
  }
  return NULL;
}

static void threads_commit_one_after_the_other(void **state) {
  (void)state;
  fixture f = fresh(0);
  shared shared = {.f = &f, .left = add_page(&f, 0), .right = add_page(&f, 0)};
  pthread_t writers[THREADS], reader;
  void *failure;
  p3l_pager_close(f.pager, NULL);
  open_again(&f, 20000); /* checkpoints in between */
  pthread_create(&reader, NULL, read_often, &shared);
  for (int i = 0; i < THREADS; i++) pthread_create(&writers[i], NULL, commit_often, &shared);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(writers[i], &failure);
    if (failure != NULL) fail_msg("%s", (char *)failure);
  }
  shared.stop = true;
  pthread_join(reader, &failure);
  if (failure != NULL) fail_msg("%s", (char *)failure);
  assert_int_equal(value_of(&f, shared.left), COMMITS * THREADS);
  assert_int_equal(value_of(&f, shared.right), COMMITS * THREADS);
  drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(committed_pages_outlive_the_process),
      cmocka_unit_test(an_aborted_transaction_leaves_nothing),
      cmocka_unit_test(a_commit_logs_what_was_changed_and_no_more),
      cmocka_unit_test(released_pages_are_given_again),
      cmocka_unit_test(a_full_disk_costs_the_transaction_and_nothing_else),
      cmocka_unit_test(a_checkpoint_without_space_is_made_later),
      cmocka_unit_test(after_a_failed_sync_nothing_is_written),
      cmocka_unit_test(a_disk_that_cannot_be_read_is_told_with_the_page),
      cmocka_unit_test(one_writer_and_who_excludes_writers),
      cmocka_unit_test(what_is_no_store_is_told),
      cmocka_unit_test(a_closed_log_is_short),
      cmocka_unit_test(threads_commit_one_after_the_other)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
