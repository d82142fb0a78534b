/*
 * The last write of a checkpoint, which writes the log's header, fails half way. One copy may be on
 * the disk, and record a start of the log after its contents.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory_device.h"
#include "pager.h"

static int (*whole_write)(p3l_device *device, const void *bytes, size_t length, p3l_file_offset at);
static bool fails;

static int half_write(p3l_device *device, const void *bytes, size_t length, p3l_file_offset at) {
  if (!fails || at.byte >= 2048) return whole_write(device, bytes, length, at);
  whole_write(device, bytes, 512, at);
  return EIO;
}

static p3l_code put(p3l_pager *pager, p3l_page_number *number, uint8_t byte, p3l_error *error) {
  p3l_pager_transaction *transaction;
  p3l_page *page;
  p3l_code code = p3l_pager_begin(pager, &transaction, error);
  if (code != P3L_OK) return code;
  code = number->n == 0 ? p3l_page_allocate(transaction, number, &page, error)
                        : p3l_page_for_writing(transaction, *number, &page, error);
  assert_int_equal(code, P3L_OK);
  page->payload[0] = byte;
  p3l_page_changed(transaction, page, offsetof(p3l_page, payload), 1);
  return p3l_pager_commit(transaction, error);
}

static void what_is_acknowledged_behind_it_stays(void **state) {
  (void)state;
  p3l_error error;
  p3l_pager *pager;
  p3l_pager_options options = {.read_only = false};
  p3l_page_number number = {0};
  p3l_page page;
  memory_device *file = memory_device_new(), *log = memory_device_new();
  assert_int_equal(p3l_store_format(&file->device, &log->device, &error), P3L_OK);
  whole_write = log->device.write;
  log->device.write = half_write;
  assert_int_equal(
      p3l_pager_open_devices(&file->device, &log->device, &options, &pager, NULL, &error), P3L_OK);
  assert_int_equal(put(pager, &number, 1, &error), P3L_OK);
  fails = true;
  assert_int_not_equal(p3l_pager_checkpoint(pager, &error), P3L_OK);
  fails = false;
  uint8_t acknowledged = put(pager, &number, 2, &error) == P3L_OK ? 2 : 1;

  /* The process is killed. */
  memory_device *file_left = memory_device_of(file->bytes, file->size);
  memory_device *log_left = memory_device_of(log->bytes, log->size);
  p3l_pager *again;
  if (p3l_pager_open_devices(&file_left->device, &log_left->device, &options, &again, NULL,
                             &error) != P3L_OK)
    fail_msg("%s", error.message);
  assert_int_equal(p3l_pager_read(again, number, &page, &error), P3L_OK);
  assert_int_equal(page.payload[0], acknowledged);
  p3l_pager_close(again, &error);
  p3l_pager_close(pager, &error);
  memory_device_free(file);
  memory_device_free(log);
  memory_device_free(file_left);
  memory_device_free(log_left);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_acknowledged_behind_it_stays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
