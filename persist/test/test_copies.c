/*
 * p3l_pager_backup(): a copy contains one version and is an independent store; a killed backup does
 * not affect the next one.
 */
#include "version_fixture.h"

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
  /* A log of the original is not accepted as the copy's log. */
  char log[120], other[120];
  snprintf(log, sizeof(log), "%s-log", copy);
  snprintf(other, sizeof(other), "%s-log", original);
  assert_int_equal(rename(other, log), 0);
  p3l_pager_options options = {.read_only = true};
  assert_int_equal(p3l_pager_open(copy, &options, &copied, NULL, &error), P3L_NOT_A_STORE);
  remove_folder();
}

/* The files of a killed backup are replaced: a half-written file, and a log that got its name
 * before its store. */
static void a_killed_backup_is_replaced(void **state) {
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
  /* A backup in progress is left alone. */
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
      cmocka_unit_test(a_backup_is_a_version_and_a_store),
      cmocka_unit_test(a_killed_backup_is_replaced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
