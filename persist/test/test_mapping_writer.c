/*
 * A writer's transactions take pages from the page cache without reads, even if a checkpoint
 * changed the file in the meantime. Their changes are logged directly from there, in many parts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "pager.h"

/* More than half of IOV_MAX, so that a commit of all pages has more parts than one system call
 * accepts. */
enum { PAGES = 1200 };

typedef struct fixture {
  char folder[64], path[80], log[96];
  p3l_pager *pager;
  p3l_error error;
} fixture;

static void must(const fixture *f, p3l_code code) {
  if (code != P3L_OK) fail_msg("%s", f->error.message);
}

static void open_again(fixture *f, p3l_recovery *recovery) {
  p3l_pager_options options = {.checkpoint_bytes = UINT64_C(64) << 20};
  must(f, p3l_pager_open(f->path, &options, &f->pager, recovery, &f->error));
}

static p3l_pager_transaction *begin(fixture *f) {
  p3l_pager_transaction *transaction;
  must(f, p3l_pager_begin(f->pager, &transaction, &f->error));
  return transaction;
}

static uint64_t value_of(const p3l_page *page) {
  uint64_t value;
  memcpy(&value, page->payload, sizeof(value));
  return value;
}

static void set_value(p3l_pager_transaction *transaction, p3l_page *page, uint64_t value) {
  memcpy(page->payload, &value, sizeof(value));
  p3l_page_changed(transaction, page, offsetof(p3l_page, payload), sizeof(value));
}

/* Adds pages at the end of the file; page n has the value n. */
static void add_pages(fixture *f, uint64_t count) {
  p3l_pager_transaction *transaction = begin(f);
  for (uint64_t i = 0; i < count; i++) {
    p3l_page_number number;
    p3l_page *page;
    must(f, p3l_page_allocate(transaction, &number, &page, &f->error));
    set_value(transaction, page, number.n);
  }
  must(f, p3l_pager_commit(transaction, &f->error));
}

/* Creates pages 1 to PAGES; the whole file is in the page cache. */
static fixture fresh(void) {
  fixture f = {.folder = "/tmp/p3l-writer.XXXXXX"};
  assert_non_null(mkdtemp(f.folder));
  snprintf(f.path, sizeof(f.path), "%s/store", f.folder);
  snprintf(f.log, sizeof(f.log), "%s-log", f.path);
  must(&f, p3l_store_create(f.path, &f.error));
  open_again(&f, NULL);
  add_pages(&f, PAGES);
  must(&f, p3l_pager_close(f.pager, &f.error));
  open_again(&f, NULL);
  return f;
}

static void drop(fixture *f) {
  must(f, p3l_pager_close(f->pager, &f->error));
  unlink(f->path);
  unlink(f->log);
  assert_int_equal(rmdir(f->folder), 0);
}

/* Each page n has the value n x factor, and gets n x next. */
static void change_all(fixture *f, p3l_pager_transaction *transaction, uint64_t pages,
                       uint64_t factor, uint64_t next) {
  for (uint64_t n = 1; n <= pages; n++) {
    p3l_page *page;
    must(f, p3l_page_for_writing(transaction, (p3l_page_number){n}, &page, &f->error));
    assert_int_equal(value_of(page), n * factor);
    set_value(transaction, page, n * next);
  }
}

static void check_all(fixture *f, uint64_t pages, uint64_t factor) {
  for (uint64_t n = 1; n <= pages; n++) {
    p3l_page page;
    must(f, p3l_pager_read(f->pager, (p3l_page_number){n}, &page, &f->error));
    assert_int_equal(value_of(&page), n * factor);
  }
}

/* The bytes that this process has read by system calls so far; 0: the kernel does not count
 * them. */
static uint64_t bytes_read(void) {
  unsigned long long bytes = 0;
  FILE *io = fopen("/proc/self/io", "r");
  if (io != NULL && fscanf(io, "rchar: %llu", &bytes) != 1) bytes = 0;
  if (io != NULL) fclose(io);
  return bytes;
}

static void pages_come_without_being_read(void **state) {
  (void)state;
  fixture f = fresh();
  p3l_pager_transaction *transaction = begin(&f);
  uint64_t before = bytes_read();
  change_all(&f, transaction, PAGES, 1, 3);
  /* Only this count itself was read: less than one page in ten. */
  assert_true(bytes_read() - before < PAGES * P3L_PAGE_SIZE / 10);
  p3l_pager_abort(transaction);
  check_all(&f, PAGES, 1);
  drop(&f);
}

static void what_a_checkpoint_wrote_is_what_comes(void **state) {
  (void)state;
  fixture f = fresh();
  p3l_pager_transaction *transaction = begin(&f);
  change_all(&f, transaction, PAGES, 1, 3);
  must(&f, p3l_pager_commit(transaction, &f.error));
  must(&f, p3l_pager_checkpoint(f.pager, &f.error));
  transaction = begin(&f);
  change_all(&f, transaction, PAGES, 3, 1);
  must(&f, p3l_pager_commit(transaction, &f.error));
  /* Pages added after the mapping was made, and after the next one. */
  for (uint64_t more = 1; more <= 2; more++) {
    add_pages(&f, 100);
    must(&f, p3l_pager_checkpoint(f.pager, &f.error));
    transaction = begin(&f);
    change_all(&f, transaction, PAGES + 100 * more, 1, 1);
    must(&f, p3l_pager_commit(transaction, &f.error));
  }
  drop(&f);
}

static void a_damaged_page_is_named(void **state) {
  (void)state;
  fixture f = fresh();
  int file = open(f.path, O_RDWR | O_CLOEXEC);
  assert_int_equal(pwrite(file, "?", 1, 20 * P3L_PAGE_SIZE + 2000), 1);
  close(file);
  p3l_pager_transaction *transaction = begin(&f);
  p3l_page *page;
  const p3l_page *seen;
  assert_int_equal(p3l_page_for_writing(transaction, (p3l_page_number){20}, &page, &f.error),
                   P3L_CORRUPT);
  assert_non_null(strstr(f.error.message, "page 20"));
  assert_int_equal(p3l_page_seen(transaction, (p3l_page_number){20}, &seen, &f.error), P3L_CORRUPT);
  must(&f, p3l_page_for_writing(transaction, (p3l_page_number){19}, &page, &f.error));
  assert_int_equal(value_of(page), 19);
  p3l_pager_abort(transaction);
  drop(&f);
}

/* The process dies after all commits: both files are copied as it leaves them. */
static void a_commit_of_many_parts_is_whole(void **state) {
  (void)state;
  fixture f = fresh(), copy = fresh();
  must(&copy, p3l_pager_close(copy.pager, &copy.error));
  for (uint64_t factor = 1; factor <= 9; factor *= 3) { /* as images, then as ranges */
    p3l_pager_transaction *transaction = begin(&f);
    change_all(&f, transaction, PAGES, factor, factor * 3);
    must(&f, p3l_pager_commit(transaction, &f.error));
  }
  char command[400];
  snprintf(command, sizeof(command), "cp %s %s && cp %s %s", f.path, copy.path, f.log, copy.log);
  assert_int_equal(system(command), 0);
  p3l_recovery recovery;
  open_again(&copy, &recovery);
  assert_int_equal(recovery.transactions, 3);
  assert_int_equal(recovery.pages, PAGES);
  assert_false(recovery.interrupted);
  check_all(&copy, PAGES, 27);
  drop(&copy);
  drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_come_without_being_read),
      cmocka_unit_test(what_a_checkpoint_wrote_is_what_comes),
      cmocka_unit_test(a_damaged_page_is_named),
      cmocka_unit_test(a_commit_of_many_parts_is_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
