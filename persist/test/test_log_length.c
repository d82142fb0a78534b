/*
 * The length of the log if the program sets no limit: a page that changes repeatedly is logged as
 * an image only once in a while, not every 16 MB, and new pages do not make the log longer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "images.h"
#include "pager_fixture.h"

enum { PAGES = 2000, MB = 1 << 20 };

static p3l_page *page_of(fixture *f, p3l_pager_transaction *transaction, uint64_t number) {
  p3l_page *page;
  must(f, p3l_page_for_writing(transaction, (p3l_page_number){number}, &page, &f->error));
  return page;
}

/* Pages without zeros, of which the log needs every byte. */
static void make_pages(fixture *f, uint64_t count) {
  p3l_pager_transaction *transaction = begin(f);
  p3l_page_number first;
  must(f, p3l_page_allocate_run(transaction, count, &first, &f->error));
  for (uint64_t i = 0; i < count; i++) {
    p3l_page *page = page_of(f, transaction, first.n + i);
    for (size_t at = 0; at < sizeof(page->payload); at++)
      page->payload[at] = (uint8_t)(1 + (first.n + i + at) % 255);
    p3l_page_changed(transaction, page, 32, sizeof(page->payload));
  }
  must(f, p3l_pager_commit(transaction, &f->error));
}

/* In the log this is 41 bytes of a page: three numbers before the changed bytes. */
enum { CHANGED = 38 };

static void change_all(fixture *f, uint8_t value) {
  p3l_pager_transaction *transaction = begin(f);
  for (uint64_t n = 1; n <= PAGES; n++) {
    p3l_page *page = page_of(f, transaction, n);
    memset(page->payload + 16, value, CHANGED);
    p3l_page_changed(transaction, page, 32 + 16, CHANGED);
  }
  must(f, p3l_pager_commit(transaction, &f->error));
}

static uint64_t length(const fixture *f) {
  return f->pager->log.end.byte - f->pager->log.start.byte;
}

static void change_often(fixture *f, int times, uint64_t *longest, int *checkpoints) {
  uint64_t start = f->pager->log.start.byte;
  *longest = *checkpoints = 0;
  for (int i = 0; i < times; i++) {
    change_all(f, (uint8_t)(i + 1));
    if (length(f) > *longest) *longest = length(f);
    *checkpoints += f->pager->log.start.byte != start;
    start = f->pager->log.start.byte;
  }
}

static bool none(void *state, size_t write, size_t sector) {
  (void)state, (void)write, (void)sector;
  return false;
}

/* The power fails: the disks have what was synced. */
static void lose_power(const fixture *f, fixture *after) {
  uint64_t size;
  uint8_t *bytes = memory_device_crash(f->file, none, NULL, &size);
  after->file = memory_device_of(bytes, size);
  free(bytes);
  bytes = memory_device_crash(f->log, none, NULL, &size);
  after->log = memory_device_of(bytes, size);
  free(bytes);
  open_again(after, 0);
}

static void expect_all(fixture *f, uint8_t value) {
  for (uint64_t n = 1; n <= PAGES; n++) {
    p3l_page page;
    must(f, p3l_pager_read(f->pager, (p3l_page_number){n}, &page, &f->error));
    assert_int_equal(page.payload[16], value);
  }
}

static void old_pages_are_logged_whole_until_it_has_paid(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_pages(&f, PAGES);
  must(&f, p3l_pager_checkpoint(f.pager, &f.error));
  uint64_t before = p3l_pager_bytes_logged(f.pager), longest;
  int checkpoints;
  /* Images are 8 MB; a commit is 82 KB: 600 are 49 MB. */
  change_often(&f, 600, &longest, &checkpoints);
  uint64_t logged = p3l_pager_bytes_logged(f.pager) - before;
  assert_in_range(checkpoints, 2, 3);         /* each after 16 MB other than images */
  assert_in_range(longest, 20 * MB, 25 * MB); /* 8 + 16, and a commit */
  assert_in_range(logged, 55 * MB, 48 * MB * 3 / 2 + 9 * MB);
  assert_true(length(&f) > 8 * MB); /* all of it is needed now */
  fixture after;
  lose_power(&f, &after);
  expect_all(&after, (uint8_t)600);
  drop(&after);
  drop(&f);
}

/* With the program's own limit the log gets as long as that, and no longer. */
static void a_length_that_was_given_is_kept(void **state) {
  (void)state;
  fixture f = fresh(16 * MB);
  make_pages(&f, PAGES);
  must(&f, p3l_pager_checkpoint(f.pager, &f.error));
  uint64_t longest;
  int checkpoints;
  change_often(&f, 600, &longest, &checkpoints);
  assert_in_range(checkpoints, 5, 7); /* each after 8 MB other than images */
  assert_true(longest < 17 * MB);
  drop(&f);
}

static void memory_for_images_is_limited(void **state) {
  (void)state;
  fixture f = fresh(0);
  make_pages(&f, PAGES);
  must(&f, p3l_pager_checkpoint(f.pager, &f.error));
  f.pager->image_bytes = 4 * MB;
  uint64_t longest;
  int checkpoints;
  change_often(&f, 400, &longest, &checkpoints);
  assert_in_range(checkpoints, 3, 5);
  assert_true(longest < 17 * MB);
  drop(&f);
}

static void new_pages_make_it_no_longer(void **state) {
  (void)state;
  fixture f = fresh(0);
  uint64_t longest = 0;
  for (int i = 0; i < 100; i++) {
    make_pages(&f, 100);
    if (length(&f) > longest) longest = length(&f);
  }
  assert_in_range(longest, 15 * MB, 17 * MB);
  drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(old_pages_are_logged_whole_until_it_has_paid),
      cmocka_unit_test(a_length_that_was_given_is_kept),
      cmocka_unit_test(memory_for_images_is_limited),
      cmocka_unit_test(new_pages_make_it_no_longer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
