/*
 * Readers while another process writes: each sees one version, the one at which it opened or
 * refreshed the store, whatever the writer commits and checkpoints in the meantime.
 */
#include "version_fixture.h"

static void a_reader_sees_one_version_until_it_refreshes(void **state) {
  (void)state;
  p3l_error error;
  random_state = 1;
  make_folder();
  must(p3l_store_create(path, &error), &error);
  p3l_pager *writer = open_pager(false);
  commit_version(writer, 1);
  p3l_pager *reader = open_pager(true);
  check_version(reader, 1);
  commit_version(writer, 2);
  check_version(reader, 1);
  refresh_to(reader, 1, 2);
  refresh_to(reader, 2, 2);
  commit_version(writer, 3);
  must(p3l_pager_checkpoint(writer, &error), &error);
  commit_version(writer, 4);
  check_version(reader, 2);
  must(p3l_pager_checkpoint(writer, &error), &error);
  check_version(reader, 2);
  must(p3l_pager_close(writer, &error), &error);
  check_version(reader, 2);
  refresh_to(reader, 2, 4);
  must(p3l_pager_close(reader, &error), &error);
  remove_folder();
}

static void old_pages_go_when_their_last_reader_goes(void **state) {
  (void)state;
  p3l_error error;
  random_state = 2;
  make_folder();
  must(p3l_store_create(path, &error), &error);
  p3l_pager *writer = open_pager(false);
  unsigned version = 1;
  commit_version(writer, version);
  must(p3l_pager_checkpoint(writer, &error), &error);
  assert_int_equal(files("s-old-", false), 0); /* without readers nothing is kept */
  p3l_pager *first = open_pager(true);
  for (; version < 4; version++) {
    commit_version(writer, version + 1);
    must(p3l_pager_checkpoint(writer, &error), &error);
  }
  assert_int_equal(files("s-old-", false), 3);
  p3l_pager *second = open_pager(true);
  check_version(first, 1);
  check_version(second, 4);
  must(p3l_pager_close(first, &error), &error);
  commit_version(writer, ++version);
  must(p3l_pager_checkpoint(writer, &error), &error);
  assert_int_equal(files("s-old-", false), 1);
  check_version(second, 4);
  must(p3l_pager_close(second, &error), &error);
  commit_version(writer, ++version);
  must(p3l_pager_checkpoint(writer, &error), &error);
  assert_int_equal(files("s-old-", false), 0);
  must(p3l_pager_close(writer, &error), &error);
  remove_folder();
}

/* A writer and readers in any order, each step checked against the oracle. */
static void any_order_of_steps(void **state) {
  (void)state;
  p3l_error error;
  for (uint64_t seed = 10; seed < 15; seed++) {
    random_state = seed;
    make_folder();
    must(p3l_store_create(path, &error), &error);
    p3l_pager *writer = open_pager(false), *readers[READERS] = {NULL};
    unsigned version = 0, seen[READERS] = {0};
    commit_version(writer, ++version);
    while (version < VERSIONS) {
      unsigned r = draw(READERS);
      switch (draw(8)) {
        case 0:
        case 1:
        case 2:
          if (writer == NULL) writer = open_pager(false);
          commit_version(writer, ++version);
          break;
        case 3:
          if (writer != NULL) must(p3l_pager_checkpoint(writer, &error), &error);
          break;
        case 4:
          if (draw(4) != 0 || writer == NULL) break;
          must(p3l_pager_close(writer, &error), &error);
          writer = NULL;
          break;
        case 5:
          if (readers[r] == NULL) break;
          if (draw(2) == 0) {
            refresh_to(readers[r], seen[r], version);
            seen[r] = version;
          } else {
            must(p3l_pager_close(readers[r], &error), &error);
            readers[r] = NULL;
          }
          break;
        case 6:
          if (readers[r] != NULL) break;
          readers[r] = open_pager(true);
          seen[r] = version;
          break;
        default:
          if (readers[r] != NULL) check_version(readers[r], seen[r]);
      }
    }
    for (unsigned r = 0; r < READERS; r++) {
      if (readers[r] == NULL) continue;
      check_version(readers[r], seen[r]);
      must(p3l_pager_close(readers[r], &error), &error);
    }
    if (writer == NULL) writer = open_pager(false);
    check_version(writer, version);
    must(p3l_pager_close(writer, &error), &error);
    assert_int_equal(files("s-old-", false), 0);
    remove_folder();
  }
}

/* ---- a writer commits while a reader searches a version ---- */

static p3l_pager *quick_writer;
static unsigned quick_version;
static int (*real_read)(p3l_device *, void *, size_t, p3l_file_offset);
static int reads, every, times_left;
static bool checkpoints;
static int disturbed_read(p3l_device *device, void *bytes, size_t length, p3l_file_offset at) {
  p3l_error error;
  if (++reads % every == 0 && times_left > 0) {
    times_left--;
    commit_version(quick_writer, ++quick_version);
    if (checkpoints) must(p3l_pager_checkpoint(quick_writer, &error), &error);
  }
  return real_read(device, bytes, length, at);
}

/* At each read of the log during a refresh, or at each second one and so on, the writer commits
 * and begins a new round of the log. The reader still gets one version, at least as late as the
 * previous one. */
static void a_writer_that_is_quicker_than_its_reader(void **state) {
  (void)state;
  p3l_error error;
  p3l_news news;
  for (int turn = 0; turn < 40; turn++) {
    random_state = 1000 + (uint64_t)turn;
    make_folder();
    must(p3l_store_create(path, &error), &error);
    quick_writer = open_pager(false);
    for (quick_version = 1; quick_version < 4; quick_version++)
      commit_version(quick_writer, quick_version);
    commit_version(quick_writer, quick_version);
    p3l_pager *reader = open_pager(true), *other = open_pager(true);
    commit_version(quick_writer, ++quick_version);
    real_read = reader->log.device->read;
    reads = 0;
    every = 1 + turn / 2;
    checkpoints = turn % 2 == 0;
    times_left = 30;
    reader->log.device->read = disturbed_read;
    must(p3l_pager_refresh(reader, &news, &error), &error);
    reader->log.device->read = real_read;
    p3l_news_free(&news);
    unsigned seen = version_of(reader);
    assert_true(seen >= 5 && seen <= quick_version);
    check_version(reader, seen);
    check_version(other, 4);
    commit_version(quick_writer, ++quick_version);
    must(p3l_pager_checkpoint(quick_writer, &error), &error);
    check_version(reader, seen);
    check_version(other, 4);
    refresh_to(reader, seen, quick_version);
    must(p3l_pager_close(reader, &error), &error);
    must(p3l_pager_close(other, &error), &error);
    must(p3l_pager_close(quick_writer, &error), &error);
    assert_int_equal(files("s-old-", false), 0);
    remove_folder();
  }
}

/* ---- the table of readers ---- */

static void readers_are_counted_by_the_kernel(void **state) {
  (void)state;
  p3l_error error;
  p3l_device *one, *two, *writer;
  p3l_lsn oldest, newest;
  make_folder();
  must(p3l_store_create(path, &error), &error);
  assert_int_equal(p3l_file_open(path, P3L_OPEN_READ, false, &one), 0);
  assert_int_equal(p3l_file_open(path, P3L_OPEN_READ, false, &two), 0);
  assert_int_equal(p3l_file_open(path, P3L_OPEN_WRITE, true, &writer), 0);
  int file = p3l_file_descriptor(writer);
  assert_true(p3l_writer_is_there(p3l_file_descriptor(one)));
  assert_false(p3l_writer_is_there(file));
  assert_false(p3l_readers_span(file, &oldest, &newest));
  assert_int_equal(p3l_reader_register(p3l_file_descriptor(one), (p3l_lsn){7000}), 0);
  assert_int_equal(p3l_reader_register(p3l_file_descriptor(two), (p3l_lsn){50}), 0);
  assert_int_equal(p3l_reader_register(p3l_file_descriptor(one), (p3l_lsn){300}), 0);
  assert_true(p3l_readers_span(file, &oldest, &newest));
  assert_int_equal(oldest.byte, 50);
  assert_int_equal(newest.byte, 7000);
  p3l_reader_leave(p3l_file_descriptor(one), (p3l_lsn){7000});
  two->close(two);
  assert_true(p3l_readers_span(file, &oldest, &newest));
  assert_int_equal(oldest.byte, 300);
  assert_int_equal(newest.byte, 300);
  one->close(one);
  assert_false(p3l_readers_span(file, &oldest, &newest));
  writer->close(writer);
  remove_folder();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reader_sees_one_version_until_it_refreshes),
      cmocka_unit_test(old_pages_go_when_their_last_reader_goes),
      cmocka_unit_test(any_order_of_steps),
      cmocka_unit_test(a_writer_that_is_quicker_than_its_reader),
      cmocka_unit_test(readers_are_counted_by_the_kernel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
