/*
 * Killed readers and writers: a writer in each write of a checkpoint, a reader with a version that
 * only it needed.
 */
#include "version_fixture.h"

/* ---- a writer killed in the middle of a checkpoint ---- */

static int (*real_write)(p3l_device *, const void *, size_t, p3l_file_offset);
static int writes_left;
static int dying_write(p3l_device *device, const void *bytes, size_t length, p3l_file_offset at) {
  if (writes_left-- == 0) {
    /* Half of the last write reached the file. */
    real_write(device, bytes, length / 2, at);
    _exit(9);
  }
  return real_write(device, bytes, length, at);
}

static bool dies_at(unsigned version, int write_number, bool of_log) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    p3l_pager *writer = open_pager(false);
    p3l_device *device = of_log ? writer->log.device : writer->file;
    commit_version(writer, version);
    real_write = device->write;
    writes_left = write_number;
    device->write = dying_write;
    p3l_pager_checkpoint(writer, NULL);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status) == 9;
}

static void a_writer_that_dies_at_each_write_of_a_checkpoint(void **state) {
  (void)state;
  p3l_error error;
  for (int of_log = 0; of_log < 2; of_log++) {
    bool died = true;
    for (int write_number = 0; died; write_number++) {
      uint64_t before;
      random_state = 100 + (uint64_t)write_number;
      make_folder();
      must(p3l_store_create(path, &error), &error);
      p3l_pager *writer = open_pager(false);
      commit_version(writer, 1);
      must(p3l_pager_close(writer, &error), &error);
      p3l_pager *old = open_pager(true);
      writer = open_pager(false);
      commit_version(writer, 2);
      p3l_pager *reader = open_pager(true);
      must(p3l_pager_close(writer, &error), &error);
      before = random_state;
      died = dies_at(3, write_number, of_log == 1);
      check_version(old, 1);
      check_version(reader, 2);
      /* The child changed its own copy of the oracle; the parent repeats the same choices. */
      random_state = before;
      memcpy(changed[3], changed[2], sizeof(changed[3]));
      for (unsigned n = 1; n <= PAGES; n++)
        if (n == 1 || draw(8) == 0) changed[3][n] = 3;
      p3l_pager *late = open_pager(true);
      check_version(late, 3);
      refresh_to(old, 1, 3);
      writer = open_pager(false); /* recovers, with a checkpoint of its own */
      check_version(reader, 2);
      check_version(late, 3);
      check_version(old, 3);
      commit_version(writer, 4);
      must(p3l_pager_checkpoint(writer, &error), &error);
      check_version(reader, 2);
      check_version(late, 3);
      refresh_to(reader, 2, 4);
      must(p3l_pager_close(reader, &error), &error);
      must(p3l_pager_close(late, &error), &error);
      must(p3l_pager_close(old, &error), &error);
      must(p3l_pager_close(writer, &error), &error);
      assert_int_equal(files("s-old-", false), 0);
      remove_folder();
    }
  }
}

/* The versions of a killed reader are no longer kept. */
static void a_killed_reader_keeps_nothing(void **state) {
  (void)state;
  p3l_error error;
  random_state = 3;
  int ready[2];
  char byte;
  make_folder();
  must(p3l_store_create(path, &error), &error);
  p3l_pager *writer = open_pager(false);
  commit_version(writer, 1);
  must(p3l_pager_close(writer, &error), &error);
  assert_int_equal(pipe(ready), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    open_pager(true);
    if (write(ready[1], "r", 1) == 1) pause();
    _exit(0);
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  writer = open_pager(false);
  commit_version(writer, 2);
  must(p3l_pager_checkpoint(writer, &error), &error);
  assert_int_equal(files("s-old-", false), 1);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  commit_version(writer, 3);
  must(p3l_pager_checkpoint(writer, &error), &error);
  assert_int_equal(files("s-old-", false), 0);
  must(p3l_pager_close(writer, &error), &error);
  close(ready[0]);
  close(ready[1]);
  remove_folder();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_writer_that_dies_at_each_write_of_a_checkpoint),
      cmocka_unit_test(a_killed_reader_keeps_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
