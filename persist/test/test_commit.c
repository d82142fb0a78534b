/* The two halves of a commit, runs of pages, the transaction's view, the contents of the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "pager_fixture.h"

static p3l_page *page_of(fixture *f, p3l_pager_transaction *transaction, uint64_t number) {
  p3l_page *page;
  must(f, p3l_page_for_writing(transaction, (p3l_page_number){number}, &page, &f->error));
  return page;
}

/* Creates pages 1 to `count` in the file; the first byte of each is its number. */
static void make_pages(fixture *f, uint64_t count) {
  p3l_pager_transaction *transaction = begin(f);
  p3l_page_number first;
  must(f, p3l_page_allocate_run(transaction, count, &first, &f->error));
  assert_int_equal(first.n, 1);
  for (uint64_t number = 1; number <= count; number++) {
    p3l_page *page = page_of(f, transaction, number);
    assert_int_equal(page->kind, P3L_PAGE_DATA);
    page->payload[0] = (uint8_t)number;
    p3l_page_changed(transaction, page, 32, 1);
  }
  must(f, p3l_pager_commit(transaction, &f->error));
  must(f, p3l_pager_checkpoint(f->pager, &f->error));
}

static void set_byte(fixture *f, uint64_t number, uint8_t value) {
  p3l_pager_transaction *transaction = begin(f);
  p3l_page *page = page_of(f, transaction, number);
  page->payload[0] = value;
  p3l_page_changed(transaction, page, 32, 1);
  must(f, p3l_pager_commit(transaction, &f->error));
}

static uint8_t byte_of(fixture *f, uint64_t number) {
  p3l_page page;
  must(f, p3l_pager_read(f->pager, (p3l_page_number){number}, &page, &f->error));
  return page.payload[0];
}

/* ---- runs ---- */

static int reads;
static int (*real_read)(p3l_device *, void *, size_t, p3l_file_offset);
static int counted_read(p3l_device *device, void *bytes, size_t length, p3l_file_offset at) {
  reads++;
  return real_read(device, bytes, length, at);
}

static void a_run_is_one_read_and_the_newest_pages(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_page pages[20];
  make_pages(&f, 20);
  set_byte(&f, 5, 105);
  set_byte(&f, 20, 120);
  real_read = f.file->device.read;
  f.file->device.read = counted_read;
  reads = 0;
  must(&f, p3l_pager_read_run(f.pager, (p3l_page_number){1}, 20, pages, &f.error));
  assert_int_equal(reads, 1);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(pages[i].number, i + 1);
    assert_int_equal(pages[i].payload[0], i + 1 + (i == 4 || i == 19 ? 100 : 0));
  }
  must(&f, p3l_pager_read_run(f.pager, (p3l_page_number){20}, 1, pages, &f.error));
  assert_int_equal(reads, 1); /* it is in memory */
  assert_int_equal(p3l_pager_read_run(f.pager, (p3l_page_number){15}, 7, pages, &f.error),
                   P3L_MISUSE);
  assert_int_equal(p3l_pager_read_run(f.pager, (p3l_page_number){99}, ~(size_t)0, pages, &f.error),
                   P3L_MISUSE);
  f.file->bytes[9 * 4096 + 77] ^= 1; /* the pages before it are intact */
  memset(pages, 0, sizeof(pages));
  assert_int_equal(p3l_pager_read_run(f.pager, (p3l_page_number){1}, 20, pages, &f.error),
                   P3L_CORRUPT);
  assert_non_null(strstr(f.error.message, "page 9 does not have the checksum"));
  assert_int_equal(pages[4].payload[0], 105);
  assert_int_equal(pages[7].payload[0], 8);
  f.file->bytes[9 * 4096 + 77] ^= 1;
  f.file->size = 12 * 4096; /* truncated */
  assert_int_equal(p3l_pager_read_run(f.pager, (p3l_page_number){1}, 20, pages, &f.error),
                   P3L_CORRUPT);
  assert_non_null(strstr(f.error.message, "page 12 is missing"));
  drop(&f);
}

static void runs_of_free_pages_are_taken_again(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_pages(&f, 6);
  p3l_page_number first;
  p3l_pager_transaction *transaction = begin(&f);
  for (uint64_t number = 5; number >= 2; number--)
    must(&f, p3l_page_release(transaction, (p3l_page_number){number}, &f.error));
  must(&f, p3l_page_allocate_run(transaction, 5, &first, &f.error)); /* four pages are too few */
  assert_int_equal(first.n, 7);
  must(&f, p3l_page_allocate_run(transaction, 3, &first, &f.error));
  assert_int_equal(first.n, 2);
  assert_int_equal(page_of(&f, transaction, 2)->payload[0], 0);
  must(&f, p3l_page_allocate_run(transaction, 1, &first, &f.error));
  assert_int_equal(first.n, 5);
  assert_int_equal(p3l_transaction_page_count(transaction), 12);
  assert_int_equal(p3l_pager_page_count(f.pager), 7);
  must(&f, p3l_pager_commit(transaction, &f.error));
  p3l_verification verification;
  must(&f, p3l_pager_verify(f.pager, NULL, NULL, &verification, &f.error));
  assert_int_equal(verification.faults, 0);
  assert_int_equal(verification.data_pages, 11);
  drop(&f);
}

/* ---- visibility of changes, contents of the log ---- */

static void a_transaction_sees_its_own_pages(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_pages(&f, 3);
  set_byte(&f, 2, 102);
  p3l_pager_transaction *transaction = begin(&f);
  const p3l_page *seen;
  assert_null(p3l_page_private(transaction, (p3l_page_number){3}));
  page_of(&f, transaction, 3)->payload[0] = 203;
  must(&f, p3l_page_seen(transaction, (p3l_page_number){1}, &seen, &f.error));
  assert_int_equal(seen->payload[0], 1); /* of the file */
  must(&f, p3l_page_seen(transaction, (p3l_page_number){2}, &seen, &f.error));
  assert_int_equal(seen->payload[0], 102); /* committed */
  must(&f, p3l_page_seen(transaction, (p3l_page_number){3}, &seen, &f.error));
  assert_int_equal(seen->payload[0], 203); /* the transaction's own */
  assert_ptr_equal(seen, p3l_page_private(transaction, (p3l_page_number){3}));
  assert_int_equal(p3l_page_seen(transaction, (p3l_page_number){4}, &seen, &f.error), P3L_MISUSE);
  p3l_pager_abort(transaction);
  drop(&f);
}

static void the_log_carries_what_differs(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_pages(&f, 3);
  uint64_t before = p3l_pager_bytes_logged(f.pager);
  set_byte(&f, 1, 101);
  /* Of a page that is mostly zeros, the nonzero bytes 0 to 23 and 32 to 39, after five numbers of a
   * byte each (the page, offset and length of both runs): 37 bytes, padded to 40. */
  assert_int_equal(p3l_pager_bytes_logged(f.pager) - before, 32 + 40 + 32);
  /* The whole page is reported, but only two of its bytes differ, 32 and 4095. Five numbers, one of
   * them of two bytes, and the two bytes are 8 bytes. */
  before = p3l_pager_bytes_logged(f.pager);
  p3l_pager_transaction *transaction = begin(&f);
  p3l_page *page = page_of(&f, transaction, 1);
  page->payload[0] = 102;
  page->payload[sizeof(page->payload) - 1] = 1;
  p3l_page_changed(transaction, page, 0, P3L_PAGE_SIZE);
  must(&f, p3l_pager_commit(transaction, &f.error));
  assert_int_equal(p3l_pager_bytes_logged(f.pager) - before, 32 + 8 + 32);
  /* A reported unit that did not change makes no frame and no commit. */
  before = p3l_pager_bytes_logged(f.pager);
  uint64_t calls = f.log->calls;
  transaction = begin(&f);
  page = page_of(&f, transaction, 1);
  p3l_page_changed(transaction, page, 0, P3L_PAGE_SIZE);
  must(&f, p3l_pager_commit(transaction, &f.error));
  assert_int_equal(p3l_pager_bytes_logged(f.pager), before);
  assert_int_equal(f.log->calls, calls);
  assert_int_equal(byte_of(&f, 1), 102);
  /* A page without zeros is logged as it is. */
  before = p3l_pager_bytes_logged(f.pager);
  transaction = begin(&f);
  page = page_of(&f, transaction, 3);
  memset(page->payload, 7, sizeof(page->payload));
  p3l_page_changed(transaction, page, 32, sizeof(page->payload));
  must(&f, p3l_pager_commit(transaction, &f.error));
  assert_int_equal(p3l_pager_bytes_logged(f.pager) - before, 32 + 4096 + 32);
  drop(&f);
}

/* A page that was requested but not changed has no image in the log. Its next change must log
 * the image. */
static void a_page_that_was_not_changed_is_not_logged_yet(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_pages(&f, 2);
  p3l_pager_transaction *transaction = begin(&f);
  page_of(&f, transaction, 2);
  p3l_page *page = page_of(&f, transaction, 1);
  page->payload[0] = 101;
  p3l_page_changed(transaction, page, 32, 1);
  must(&f, p3l_pager_commit(transaction, &f.error));
  set_byte(&f, 2, 102);
  /* The process dies and another one recovers. */
  memory_device *file = memory_device_of(f.file->bytes, f.file->size);
  memory_device *log = memory_device_of(f.log->bytes, f.log->size);
  drop(&f);
  f = (fixture){.file = file, .log = log};
  open_again(&f, 0);
  assert_int_equal(byte_of(&f, 1), 101);
  assert_int_equal(byte_of(&f, 2), 102);
  drop(&f);
}

/* A log that was closed in order is not searched for frames, however long it was before. A log
 * written since then is searched. */
static void a_clean_log_is_not_searched(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_pages(&f, 100);
  must(&f, p3l_pager_close(f.pager, &f.error));
  real_read = f.log->device.read;
  f.log->device.read = counted_read;
  reads = 0;
  open_again(&f, 0);
  assert_int_equal(reads, 4); /* two headers, two copies each */
  set_byte(&f, 50, 150);
  /* The process dies. No frame of this round may be missed, whichever header is damaged. */
  for (uint64_t damaged = 0; damaged <= 4; damaged++) {
    fixture again = {.file = memory_device_of(f.file->bytes, f.file->size),
                     .log = memory_device_of(f.log->bytes, f.log->size)};
    if (damaged < 4) again.log->bytes[damaged * 512 + 30] ^= 1;
    open_again(&again, 0);
    assert_int_equal(byte_of(&again, 50), 150);
    drop(&again);
  }
  drop(&f);
}

/* ---- append and wait ---- */

static void appended_is_seen_and_waited_for_is_durable(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_pages(&f, 2);
  p3l_lsn first, second;
  uint64_t stable = f.log->stable_size;
  p3l_pager_transaction *transaction = begin(&f);
  p3l_page *page = page_of(&f, transaction, 1);
  page->payload[0] = 101;
  p3l_page_changed(transaction, page, 32, 1);
  must(&f, p3l_pager_append(transaction, &first, &f.error));
  assert_int_equal(byte_of(&f, 1), 101);
  assert_int_equal(f.log->write_count, 1); /* written, not synced */
  assert_int_equal(f.log->stable_size, stable);
  transaction = begin(&f); /* the next transaction may begin */
  page = page_of(&f, transaction, 2);
  assert_int_equal(page_of(&f, transaction, 1)->payload[0], 101);
  page->payload[0] = 102;
  p3l_page_changed(transaction, page, 32, 1);
  must(&f, p3l_pager_append(transaction, &second, &f.error));
  assert_true(second.byte > first.byte);
  uint64_t calls = f.log->calls;
  must(&f, p3l_pager_wait(f.pager, second, &f.error));
  assert_int_equal(f.log->calls, calls + 1); /* one sync */
  must(&f, p3l_pager_wait(f.pager, first, &f.error));
  assert_int_equal(f.log->calls, calls + 1); /* the sync covered both commits */
  assert_int_equal(f.log->write_count, 0);

  transaction = begin(&f);
  page_of(&f, transaction, 1);
  must(&f, p3l_pager_append(transaction, &first, &f.error)); /* nothing was changed */
  assert_int_equal(first.byte, 0);
  must(&f, p3l_pager_wait(f.pager, first, &f.error));
  assert_int_equal(f.log->calls, calls + 1);
  drop(&f);
}

static void a_failed_append_leaves_nothing_a_failed_wait_breaks(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_pages(&f, 1);
  p3l_lsn position;
  p3l_pager_transaction *transaction = begin(&f);
  p3l_page *page = page_of(&f, transaction, 1);
  page->payload[0] = 101;
  p3l_page_changed(transaction, page, 32, 1);
  f.log->fail_in = 1;
  f.log->fail_with = ENOSPC;
  assert_int_equal(p3l_pager_append(transaction, &position, &f.error), P3L_NO_SPACE);
  assert_int_equal(byte_of(&f, 1), 1);
  set_byte(&f, 1, 102);
  transaction = begin(&f);
  page = page_of(&f, transaction, 1);
  page->payload[0] = 103;
  p3l_page_changed(transaction, page, 32, 1);
  must(&f, p3l_pager_append(transaction, &position, &f.error));
  f.log->fail_in = 1;
  f.log->fail_with = EIO;
  assert_int_equal(p3l_pager_wait(f.pager, position, &f.error), P3L_BROKEN);
  assert_int_equal(p3l_pager_begin(f.pager, &transaction, &f.error), P3L_BROKEN);
  drop(&f);
}

static uint64_t log_room(const fixture *f) { return f->log->size; }

/* The checkpoint of a long log waits for a running transaction, but not for ever. */
static void the_checkpoint_waits_for_the_writer_only_if_it_must(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_pages(&f, 3);
  p3l_pager_close(f.pager, NULL);
  open_again(&f, 5000);
  p3l_lsn position;
  p3l_pager_transaction *transaction = begin(&f);
  for (uint64_t number = 1; number <= 3; number++) {
    p3l_page *page = page_of(&f, transaction, number);
    page->payload[0] = 9;
    p3l_page_changed(transaction, page, 32, 1);
  }
  must(&f, p3l_pager_append(transaction, &position, &f.error)); /* 12,416 bytes */
  transaction = begin(&f);
  uint64_t calls = f.file->calls;
  must(&f, p3l_pager_wait(f.pager, position, &f.error)); /* would hang if it waited */
  assert_int_equal(f.file->calls, calls);
  p3l_page *page = page_of(&f, transaction, 1);
  page->payload[0] = 10;
  p3l_page_changed(transaction, page, 32, 1);
  must(&f, p3l_pager_commit(transaction, &f.error)); /* no transaction is running now */
  assert_true(f.file->calls > calls);
  assert_int_equal(f.file->bytes[4096 + 32], 10);
  assert_true(log_room(&f) < 30000);
  drop(&f);
}

typedef struct shared {
  fixture *f;
  pthread_mutex_t *outer; /* like the runtime's scopes: held from begin to append, not in wait */
  int commits;
} shared;

static void *append_and_wait(void *argument) {
  shared *shared = argument;
  for (int i = 0; i < shared->commits; i++) {
    p3l_pager_transaction *transaction;
    p3l_error error;
    p3l_page *page;
    p3l_lsn position;
    pthread_mutex_lock(shared->outer);
    p3l_code code = p3l_pager_begin(shared->f->pager, &transaction, &error);
    if (code == P3L_OK)
      code = p3l_page_for_writing(transaction, (p3l_page_number){1}, &page, &error);
    if (code != P3L_OK) return "begin";
    uint64_t value;
    memcpy(&value, page->payload + 8, sizeof(value));
    value++;
    memcpy(page->payload + 8, &value, sizeof(value));
    p3l_page_changed(transaction, page, 0, P3L_PAGE_SIZE);
    code = p3l_pager_append(transaction, &position, &error);
    pthread_mutex_unlock(shared->outer);
    if (code == P3L_OK) code = p3l_pager_wait(shared->f->pager, position, &error);
    if (code != P3L_OK) return "commit";
  }
  return NULL;
}

static void threads_append_in_turn_and_wait_together(void **state) {
  (void)state;
  enum { THREADS = 4, COMMITS = 500 };
  fixture f = fresh(0);
  pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER;
  shared shared = {&f, &outer, COMMITS};
  pthread_t threads[THREADS];
  make_pages(&f, 1);
  p3l_pager_close(f.pager, NULL);
  open_again(&f, 6000); /* a checkpoint every few commits */
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, append_and_wait, &shared);
  for (int i = 0; i < THREADS; i++) {
    void *failure;
    pthread_join(threads[i], &failure);
    if (failure != NULL) fail_msg("%s", (char *)failure);
  }
  p3l_page page;
  uint64_t value;
  must(&f, p3l_pager_read(f.pager, (p3l_page_number){1}, &page, &f.error));
  memcpy(&value, page.payload + 8, sizeof(value));
  assert_int_equal(value, THREADS * COMMITS);
  /* Four times the length, plus what was appended while a thread waited. */
  assert_true(log_room(&f) < 4096 + 4 * 6000 + THREADS * 5000);
  drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_is_one_read_and_the_newest_pages),
      cmocka_unit_test(runs_of_free_pages_are_taken_again),
      cmocka_unit_test(a_transaction_sees_its_own_pages),
      cmocka_unit_test(the_log_carries_what_differs),
      cmocka_unit_test(a_page_that_was_not_changed_is_not_logged_yet),
      cmocka_unit_test(a_clean_log_is_not_searched),
      cmocka_unit_test(appended_is_seen_and_waited_for_is_durable),
      cmocka_unit_test(a_failed_append_leaves_nothing_a_failed_wait_breaks),
      cmocka_unit_test(the_checkpoint_waits_for_the_writer_only_if_it_must),
      cmocka_unit_test(threads_append_in_turn_and_wait_together)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
