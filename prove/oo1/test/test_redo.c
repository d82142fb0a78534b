/* The log of texas, e and offset: after a crash, committed changes are there, torn ones are not. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "redo.h"

/* A file of 64 bytes 'a', two commits: 'b' at 8 (3 bytes), 'c' at 40 (8 bytes) and 0 (1 byte).
 * The process then dies, and unsynced contents of the file are lost. */
static int crashed(char *path, char *log_path) {
  strcpy(path, "/tmp/oo1-redo-XXXXXX");
  int file = mkstemp(path);
  sprintf(log_path, "%s.log", path);
  char first[64];
  memset(first, 'a', sizeof first);
  assert_int_equal(pwrite(file, first, sizeof first, 0), sizeof first);
  redo *log = redo_open(path, file);
  redo_add(log, 8, "bbb", 3);
  redo_commit(log);
  redo_add(log, 40, "cccccccc", 8);
  redo_add(log, 0, "c", 1);
  redo_commit(log);
  /* commits: headers of 24 bytes, ranges of 16 and their bytes, padded to 8 */
  assert_int_equal(redo_bytes(log), (24 + 16 + 8) + (24 + 2 * (16 + 8)));
  assert_int_equal(pwrite(file, first, sizeof first, 0), sizeof first);
  return file;
}

static void assert_bytes(int file, const char *expected) {
  char bytes[65] = "";
  assert_int_equal(pread(file, bytes, 64, 0), 64);
  assert_string_equal(bytes, expected);
}

static void commits_are_replayed(void **state) {
  (void)state;
  char path[64], log_path[80];
  int file = crashed(path, log_path);
  redo_recover(path, file);
  assert_bytes(file, "caaaaaaabbbaaaaaaaaaaaaaaaaaaaaaaaaaaaaaccccccccaaaaaaaaaaaaaaaa");
  struct stat status;
  assert_int_equal(stat(log_path, &status), 0);
  assert_int_equal(status.st_size, 0);
  close(file), unlink(path), unlink(log_path);
}

static void torn_commits_are_not(void **state) {
  (void)state;
  for (off_t cut = 0; cut < 120; cut++) {
    char path[64], log_path[80];
    int file = crashed(path, log_path);
    assert_int_equal(truncate(log_path, cut), 0);
    redo_recover(path, file);
    assert_bytes(file, cut < 48
                           ? "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                           : "aaaaaaaabbbaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    close(file), unlink(path), unlink(log_path);
  }
}

static void changed_commits_are_not(void **state) {
  (void)state;
  char path[64], log_path[80];
  int file = crashed(path, log_path);
  int log = open(log_path, O_RDWR);
  assert_int_equal(pwrite(log, "x", 1, 48 + 24 + 16), 1); /* within the second's bytes */
  close(log);
  redo_recover(path, file);
  assert_bytes(file, "aaaaaaaabbbaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
  close(file), unlink(path), unlink(log_path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(commits_are_replayed),
      cmocka_unit_test(torn_commits_are_not),
      cmocka_unit_test(changed_commits_are_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
