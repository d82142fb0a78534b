/*
 * Loading: data built without a log is present completely when the load has ended, and not at all
 * after a crash at any moment before. Readers of the store see one or the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>

#include "pager_fixture.h"

enum { OLD = 8, FRESH = 60, ROUNDS = 3, KEPT_PAGES = 10 };

static void fill(p3l_pager_transaction *transaction, fixture *f, uint64_t number, int with) {
  p3l_page *page;
  must(f, p3l_page_for_writing(transaction, (p3l_page_number){number}, &page, &f->error));
  memset(page->payload, with, sizeof(page->payload));
  p3l_page_changed(transaction, page, 0, P3L_PAGE_SIZE);
}

static void make_old(fixture *f) {
  p3l_pager_transaction *transaction = begin(f);
  for (int i = 0; i < OLD; i++) {
    p3l_page_number number;
    p3l_page *page;
    must(f, p3l_page_allocate(transaction, &number, &page, &f->error));
    fill(transaction, f, number.n, 1);
  }
  must(f, p3l_pager_commit(transaction, &f->error));
  must(f, p3l_pager_checkpoint(f->pager, &f->error));
}

/* Changes old and new pages several times; in the end all have the value 9. */
static void build(fixture *f) {
  for (int round = 1; round <= ROUNDS; round++) {
    int with = round == ROUNDS ? 9 : 1 + round;
    for (int i = 0; i < FRESH; i++) {
      p3l_pager_transaction *transaction = begin(f);
      uint64_t number = OLD + 1 + (uint64_t)i;
      if (round == 1) {
        p3l_page_number made;
        p3l_page *page;
        must(f, p3l_page_allocate(transaction, &made, &page, &f->error));
        assert_int_equal(made.n, number);
      }
      fill(transaction, f, number, with);
      fill(transaction, f, 1 + (uint64_t)i % OLD, with);
      must(f, p3l_pager_commit(transaction, &f->error));
    }
  }
}

/* 1: as before the load; 9: as after it. Any other state fails the test. */
static int state_of(p3l_pager *pager) {
  p3l_error error;
  p3l_page page;
  uint64_t pages = p3l_pager_page_count(pager);
  int state = pages == OLD + 1 ? 1 : 9;
  assert_int_equal(pages, state == 1 ? OLD + 1 : OLD + 1 + FRESH);
  for (uint64_t number = 1; number < pages; number++) {
    if (p3l_pager_read(pager, (p3l_page_number){number}, &page, &error) != P3L_OK)
      fail_msg("%s", error.message);
    for (size_t at = 0; at < sizeof(page.payload); at++)
      if (page.payload[at] != state) fail_msg("page %d has %d", (int)number, page.payload[at]);
  }
  return state;
}

/* ---- crashes ---- */

typedef struct crashing {
  fixture *f;
  int moments, ended, last;
  bool after; /* the load has ended */
} crashing;

static bool all(void *state, size_t write, size_t sector) {
  (void)state, (void)write, (void)sector;
  return true;
}
static bool none(void *state, size_t write, size_t sector) {
  (void)state, (void)write, (void)sector;
  return false;
}
static bool some(void *state, size_t write, size_t sector) {
  uint64_t hash = (write * 31 + sector + (uint64_t) * (int *)state) * UINT64_C(0x9e3779b97f4a7c15);
  return hash >> 63;
}

static int state_after_crash(crashing *crashing, bool (*choose)(void *, size_t, size_t)) {
  uint64_t file_size, log_size;
  p3l_pager_options options = {0};
  p3l_pager *pager;
  p3l_error error;
  p3l_verification found;
  uint8_t *file = memory_device_crash(crashing->f->file, choose, &crashing->moments, &file_size);
  uint8_t *log = memory_device_crash(crashing->f->log, choose, &crashing->moments, &log_size);
  memory_device *file_device = memory_device_of(file, file_size),
                *log_device = memory_device_of(log, log_size);
  if (p3l_pager_open_devices(&file_device->device, &log_device->device, &options, &pager, NULL,
                             &error) != P3L_OK)
    fail_msg("moment %d: %s", crashing->moments, error.message);
  int state = state_of(pager);
  assert_int_equal(p3l_pager_verify(pager, NULL, NULL, &found, &error), P3L_OK);
  assert_int_equal(found.faults, 0);
  assert_int_equal(p3l_pager_close(pager, &error), P3L_OK);
  memory_device_free(file_device);
  memory_device_free(log_device);
  free(file);
  free(log);
  return state;
}

static void look(void *context) {
  crashing *crashing = context;
  static bool (*const ways[])(void *, size_t, size_t) = {all, none, some};
  crashing->moments++;
  for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++) {
    int state = state_after_crash(crashing, ways[way]);
    if (crashing->after) assert_int_equal(state, 9);
    crashing->ended += state == 9;
    crashing->last = state;
  }
}

static void a_crash_at_any_moment(void **state) {
  (void)state;
  fixture f = fresh(0);
  crashing crashing = {.f = &f};
  make_old(&f);
  must(&f, p3l_pager_load_begin(f.pager, KEPT_PAGES * P3L_PAGE_SIZE, &f.error));
  f.file->before = f.log->before = look;
  f.file->before_state = f.log->before_state = &crashing;
  build(&f);
  assert_true(crashing.moments > 5); /* pages were written in the meantime */
  assert_int_equal(crashing.ended, 0);
  must(&f, p3l_pager_load_end(f.pager, &f.error));
  assert_true(crashing.ended > 0);
  crashing.after = true;
  look(&crashing);
  must(&f, p3l_pager_close(f.pager, &f.error));
  look(&crashing);
  f.pager = NULL;
  f.file->before = f.log->before = NULL;
  drop(&f);
}

/* ---- what is written ---- */

static void little_is_logged(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_old(&f);
  uint64_t before = p3l_pager_bytes_logged(f.pager);
  must(&f, p3l_pager_load_begin(f.pager, KEPT_PAGES * P3L_PAGE_SIZE, &f.error));
  build(&f);
  assert_int_equal(p3l_pager_bytes_logged(f.pager), before);
  assert_int_equal(state_of(f.pager), 9);
  must(&f, p3l_pager_load_end(f.pager, &f.error));
  /* The header page and the old pages, each as a whole, and a commit. */
  assert_int_equal(p3l_pager_bytes_logged(f.pager) - before, (OLD + 1) * (P3L_PAGE_SIZE + 32) + 32);
  assert_int_equal(state_of(f.pager), 9);
  /* From here on commits are logged as usual. */
  p3l_pager_transaction *transaction = begin(&f);
  fill(transaction, &f, 1, 9);
  must(&f, p3l_pager_commit(transaction, &f.error));
  must(&f, p3l_pager_close(f.pager, &f.error));
  open_again(&f, 0);
  assert_int_equal(state_of(f.pager), 9);
  drop(&f);
}

static void an_abort_within(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_old(&f);
  must(&f, p3l_pager_load_begin(f.pager, 0, &f.error)); /* written with each commit */
  build(&f);
  p3l_pager_transaction *transaction = begin(&f);
  fill(transaction, &f, 3, 77);
  fill(transaction, &f, OLD + 5, 77);
  p3l_pager_abort(transaction);
  assert_int_equal(state_of(f.pager), 9);
  must(&f, p3l_pager_close(f.pager, &f.error)); /* also ends the load */
  open_again(&f, 0);
  assert_int_equal(state_of(f.pager), 9);
  drop(&f);
}

static void misuse_is_told(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_old(&f);
  assert_int_equal(p3l_pager_load_end(f.pager, &f.error), P3L_MISUSE);
  must(&f, p3l_pager_load_begin(f.pager, 0, &f.error));
  assert_int_equal(p3l_pager_load_begin(f.pager, 0, &f.error), P3L_MISUSE);
  assert_int_equal(p3l_pager_checkpoint(f.pager, &f.error), P3L_MISUSE);
  must(&f, p3l_pager_load_end(f.pager, &f.error));
  assert_int_equal(state_of(f.pager), 1);
  drop(&f);
}

/*
 * The disk is full in each write at the end of a load. The end can be tried again, or the store
 * closed, as before.
 */
static void a_full_disk(void **state) {
  (void)state;
  for (int again = 0; again < 2; again++)
    for (uint64_t n = 1; n < 100; n++) {
      fixture f = fresh(0);
      make_old(&f);
      must(&f, p3l_pager_load_begin(f.pager, KEPT_PAGES * P3L_PAGE_SIZE, &f.error));
      build(&f);
      f.file->fail_with = ENOSPC;
      f.file->fail_in = n;
      p3l_code code = p3l_pager_load_end(f.pager, &f.error);
      bool reached = f.file->fail_in == 0;
      f.file->fail_in = 0;
      if (code == P3L_OK || code == P3L_BROKEN) { /* no further write, or it was the sync */
        p3l_pager_close(f.pager, NULL);
        open_again(&f, 0);
        assert_true(state_of(f.pager) == 9 || code == P3L_BROKEN);
        drop(&f);
        if (!reached) break;
        continue;
      }
      assert_int_equal(code, P3L_NO_SPACE);
      if (again == 1) {
        must(&f, p3l_pager_load_end(f.pager, &f.error));
        assert_int_equal(state_of(f.pager), 9);
      } else {
        f.file->fail_with = ENOSPC;
        f.file->fail_in = 1; /* also while closing */
        assert_int_equal(p3l_pager_close(f.pager, &f.error), P3L_NO_SPACE);
        f.file->fail_in = 0;
        open_again(&f, 0);
        assert_int_equal(state_of(f.pager), 1);
      }
      drop(&f);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_crash_at_any_moment), cmocka_unit_test(little_is_logged),
      cmocka_unit_test(an_abort_within),       cmocka_unit_test(misuse_is_told),
      cmocka_unit_test(a_full_disk),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
