/* Stores made by earlier versions, and the offset of each word of the format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "allocate.h"
#include "log.h"
#include "tool.h"

#define GOLDEN P3L_SOURCE "/test/golden/"

/* The layout drawn in the headers. A change of one of these needs a new P3L_FORMAT_VERSION. */
_Static_assert(sizeof(p3l_page) == 4096 && offsetof(p3l_page, number) == 8 &&
                   offsetof(p3l_page, next) == 24 && offsetof(p3l_page, payload) == 32,
               "a page");
_Static_assert(sizeof(p3l_header) == 328 && offsetof(p3l_header, store_id) == 32 &&
                   offsetof(p3l_header, page_count) == 48 && offsetof(p3l_header, owner) == 72,
               "the header page");
_Static_assert(sizeof(p3l_frame) == 32 && offsetof(p3l_frame, kind) == 8 &&
                   offsetof(p3l_frame, position) == 16 && offsetof(p3l_frame, address) == 24,
               "a frame of the log");
_Static_assert(sizeof(p3l_object_page) == 4096 && offsetof(p3l_object_page, count) == 34 &&
                   offsetof(p3l_object_page, end) == 36 &&
                   offsetof(p3l_object_page, hole_bytes) == 38 &&
                   offsetof(p3l_object_page, previous) == 40 &&
                   offsetof(p3l_object_page, starts) == 48,
               "a page of objects");
_Static_assert(sizeof(p3l_large_page) == 4096 && offsetof(p3l_large_page, type) == 34 &&
                   offsetof(p3l_large_page, first) == 40 && offsetof(p3l_large_page, bytes) == 48 &&
                   offsetof(p3l_large_page, part) == 64,
               "a page of a large object");
_Static_assert(sizeof(p3l_catalog) == 48 && offsetof(p3l_catalog, types) == 16 &&
                   offsetof(p3l_catalog, roots) == 24 && offsetof(p3l_catalog, holes) == 32 &&
                   offsetof(p3l_catalog, filled) == 40,
               "the catalog");
_Static_assert(sizeof(p3l_type_page) == 4096 && offsetof(p3l_type_page, records) == 40 &&
                   sizeof(p3l_type_record) == 24 && offsetof(p3l_type_record, hash) == 16,
               "a page of types");
_Static_assert(sizeof(p3l_root_page) == 4096 && offsetof(p3l_root_page, entries) == 64 &&
                   sizeof(p3l_root_entry) == 64 && offsetof(p3l_root_entry, name) == 8,
               "a page of roots");

static char *content_of(const char *path, size_t *length) {
  FILE *from = fopen(path, "r");
  if (from == NULL) fail_msg("%s is missing", path);
  char *text = malloc(1 << 20);
  *length = fread(text, 1, (1 << 20) - 1, from);
  text[*length] = 0;
  fclose(from);
  return text;
}

static void copy(const char *from, const char *to) {
  size_t length;
  char *bytes = content_of(from, &length);
  FILE *file = fopen(to, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length, file), length);
  fclose(file);
  free(bytes);
}

static void opens_as_it_was(const char *path, const char *dump_path, bool read_only) {
  p3l_pager_options options = {.read_only = read_only};
  p3l_dump_options all = {0};
  p3l_pager *pager;
  p3l_error error;
  char *text = NULL, *expected;
  size_t length;
  if (p3l_pager_open(path, &options, &pager, NULL, &error) != P3L_OK) fail_msg("%s", error.message);
  FILE *nowhere = fopen("/dev/null", "w"), *to = open_memstream(&text, &length);
  assert_int_equal(p3l_verify_store(pager, nowhere), 0);
  fclose(nowhere);
  assert_int_equal(p3l_dump_store(pager, &all, to), 0);
  fclose(to);
  expected = content_of(dump_path, &length);
  assert_string_equal(text, expected);
  free(text);
  free(expected);
  assert_int_equal(p3l_pager_close(pager, &error), P3L_OK);
}

static void golden(const char *name) {
  char store[256], log[256], dump[256], folder[] = "/tmp/p3l-golden-XXXXXX", path[64], path_log[64];
  snprintf(store, sizeof(store), GOLDEN "%s", name);
  snprintf(log, sizeof(log), GOLDEN "%s-log", name);
  snprintf(dump, sizeof(dump), GOLDEN "%s.dump", name);
  opens_as_it_was(store, dump, true);
  /* Recovers a copy, and writes its log to the file. */
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s/s", folder);
  snprintf(path_log, sizeof(path_log), "%s/s-log", folder);
  copy(store, path);
  copy(log, path_log);
  opens_as_it_was(path, dump, false);
  opens_as_it_was(path, dump, true);
  unlink(path);
  unlink(path_log);
  rmdir(folder);
}

static void all_in_the_log(void **state) {
  (void)state;
  golden("ring");
}

static void deleted_and_moved(void **state) {
  (void)state;
  golden("holes");
}

static void places_used_again(void **state) {
  (void)state;
  golden("reused");
}

static void unions(void **state) {
  (void)state;
  golden("unions");
}

static void log_of_version_2(void **state) {
  (void)state;
  golden("changes");
}

static uint32_t version_of(p3l_pager *pager) {
  p3l_page zero;
  p3l_error error;
  assert_int_equal(p3l_pager_read(pager, (p3l_page_number){0}, &zero, &error), P3L_OK);
  return p3l_header_of(&zero)->version;
}

/* The version changes with the first deletion and not before: until then an earlier library can
 * open the store. */
static void version_1_becomes_version_2(void **state) {
  (void)state;
  char folder[] = "/tmp/p3l-golden-XXXXXX", path[64], path_log[64];
  p3l_pager_options options = {0};
  p3l_pager_transaction *transaction;
  p3l_pager *pager;
  p3l_error error;
  p3l_address address;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s/s", folder);
  snprintf(path_log, sizeof(path_log), "%s/s-log", folder);
  copy(GOLDEN "ring", path);
  copy(GOLDEN "ring-log", path_log);
  assert_int_equal(p3l_pager_open(path, &options, &pager, NULL, &error), P3L_OK);
  assert_int_equal(p3l_pager_begin(pager, &transaction, &error), P3L_OK);
  assert_int_equal(p3l_room_take(transaction, 1, 24, (p3l_address){0}, &address, &error), P3L_OK);
  assert_int_equal(p3l_room_generation(transaction, address), 0);
  assert_int_equal(p3l_pager_commit(transaction, &error), P3L_OK);
  assert_int_equal(version_of(pager), 1);
  assert_int_equal(p3l_pager_begin(pager, &transaction, &error), P3L_OK);
  assert_int_equal(p3l_room_give(transaction, address, &error), P3L_OK);
  assert_int_equal(p3l_room_take(transaction, 1, 24, (p3l_address){0}, &address, &error), P3L_OK);
  assert_int_equal(p3l_room_generation(transaction, address), 1);
  assert_int_equal(p3l_pager_commit(transaction, &error), P3L_OK);
  assert_int_equal(version_of(pager), 2);
  assert_int_equal(p3l_pager_close(pager, &error), P3L_OK);
  unlink(path);
  unlink(path_log);
  rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_in_the_log),
                                     cmocka_unit_test(deleted_and_moved),
                                     cmocka_unit_test(places_used_again),
                                     cmocka_unit_test(log_of_version_2),
                                     cmocka_unit_test(unions),
                                     cmocka_unit_test(version_1_becomes_version_2)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
