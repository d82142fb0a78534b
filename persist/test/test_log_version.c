/*
 * Logs of version 1 of the log's format: an empty one becomes one of version 2 with the first commit; one of
 * a later version is refused. (test_golden has logs of version 1 with frames.)
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

/* Headers of 56 bytes at multiples of 512: version in bytes 16 and 17, the checksum in 20 to 23. */
enum { HEADERS = 4, SECTOR = 512, HEADER = 56, VERSION_AT = 16, CHECKSUM_AT = 20 };

static void set_version(memory_device *log, uint16_t version) {
  for (size_t i = 0; i < HEADERS; i++) {
    uint8_t *header = log->bytes + i * SECTOR;
    if (memcmp(header, "P3L log", 7) != 0) continue;
    uint32_t checksum = 0;
    memcpy(header + VERSION_AT, &version, sizeof(version));
    memcpy(header + CHECKSUM_AT, &checksum, sizeof(checksum));
    checksum = p3l_crc32c(0, header, HEADER);
    memcpy(header + CHECKSUM_AT, &checksum, sizeof(checksum));
  }
}

/* A store with one page, closed in order or killed after a checkpoint, as version 1 left it. */
static fixture old_store(bool clean) {
  fixture f = fresh(0);
  p3l_pager_transaction *transaction = begin(&f);
  p3l_page_number number;
  p3l_page *page;
  must(&f, p3l_page_allocate(transaction, &number, &page, &f.error));
  must(&f, p3l_pager_commit(transaction, &f.error));
  must(&f, p3l_pager_checkpoint(f.pager, &f.error));
  if (clean) must(&f, p3l_pager_close(f.pager, &f.error));
  fixture copy = {.file = memory_device_of(f.file->bytes, f.file->size),
                  .log = memory_device_of(f.log->bytes, f.log->size)};
  if (clean) f.pager = NULL;
  drop(&f);
  set_version(copy.log, 1);
  return copy;
}

static void set_byte(fixture *f, uint8_t value) {
  p3l_pager_transaction *transaction = begin(f);
  p3l_page *page;
  must(f, p3l_page_for_writing(transaction, (p3l_page_number){1}, &page, &f->error));
  page->payload[0] = value;
  p3l_page_changed(transaction, page, 32, 1);
  must(f, p3l_pager_commit(transaction, &f->error));
}

static bool everything(void *state, size_t write, size_t sector) {
  (void)state, (void)write, (void)sector;
  return true;
}

static void the_first_commit_begins_version_2(void **state) {
  (void)state;
  for (int clean = 0; clean < 2; clean++) {
    fixture f = old_store(clean);
    open_again(&f, 0);
    assert_int_equal(f.pager->log.version, 1);
    uint64_t round = f.pager->log.round;
    set_byte(&f, 5);
    set_byte(&f, 6);
    assert_int_equal(f.pager->log.version, 2);
    assert_int_equal(f.pager->log.round, round + 1);
    uint64_t size;
    uint8_t *bytes = memory_device_crash(f.log, everything, NULL, &size);
    fixture after = {.file = memory_device_of(f.file->bytes, f.file->size),
                     .log = memory_device_of(bytes, size)};
    free(bytes);
    open_again(&after, 0);
    p3l_page page;
    must(&after, p3l_pager_read(after.pager, (p3l_page_number){1}, &page, &after.error));
    assert_int_equal(page.payload[0], 6);
    drop(&after);
    drop(&f);
  }
}

static void a_later_version_is_refused(void **state) {
  (void)state;
  fixture f = old_store(true);
  p3l_pager_options options = {0};
  set_version(f.log, 3);
  assert_int_equal(
      p3l_pager_open_devices(&f.file->device, &f.log->device, &options, &f.pager, NULL, &f.error),
      P3L_WRONG_VERSION);
  assert_non_null(
      strstr(f.error.message, "has version 3 of the format, this library knows versions 1 to 2"));
  f.pager = NULL;
  drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_commit_begins_version_2),
      cmocka_unit_test(a_later_version_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
