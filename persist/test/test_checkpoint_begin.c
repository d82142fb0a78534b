/*
 * Pages that are written before the checkpoint: those that did not change recently. The log keeps
 * their frames, and no page is written while another process reads.
 */
#include "version_fixture.h"

#include <errno.h>

#include "memory_device.h"

/* ---- devices in memory ---- */

typedef struct world {
  memory_device *file, *log;
  p3l_pager *pager;
  p3l_error error;
} world;

enum { EACH = 4, COMMITS = 40, LENGTH = 1 << 20, BEGIN_REST = LENGTH / 16 };

static world opened(memory_device *file, memory_device *log) {
  world w = {.file = file, .log = log};
  p3l_pager_options options = {.checkpoint_bytes = LENGTH};
  must(p3l_pager_open_devices(&file->device, &log->device, &options, &w.pager, NULL, &w.error),
       &w.error);
  return w;
}

static void closed(world *w) {
  must(p3l_pager_close(w->pager, &w->error), &w->error);
  memory_device_free(w->file);
  memory_device_free(w->log);
}

/* Commit number c changes a byte of page 1 and adds EACH pages, filled with c: 16 KB of log. */
static void add(world *w, unsigned c) {
  p3l_pager_transaction *transaction;
  p3l_page *page;
  must(p3l_pager_begin(w->pager, &transaction, &w->error), &w->error);
  for (unsigned i = 0; i < (c == 0 ? 1 : EACH); i++) {
    p3l_page_number number;
    must(p3l_page_allocate(transaction, &number, &page, &w->error), &w->error);
    assert_int_equal(number.n, c == 0 ? 1 : 2 + (c - 1) * EACH + i);
    memset(page->payload, (int)c, sizeof(page->payload));
  }
  must(p3l_page_for_writing(transaction, (p3l_page_number){1}, &page, &w->error), &w->error);
  page->payload[0] = (uint8_t)c;
  p3l_page_changed(transaction, page, 32, 1);
  must(p3l_pager_commit(transaction, &w->error), &w->error);
}

/* A new store with page 1. */
static world with_page_1(void) {
  p3l_error error;
  memory_device *file = memory_device_new(), *log = memory_device_new();
  must(p3l_store_format(&file->device, &log->device, &error), &error);
  world w = opened(file, log);
  add(&w, 0);
  return w;
}

static void expect(world *w, unsigned commits) {
  p3l_page page;
  for (uint64_t n = 1; n < 2 + (uint64_t)commits * EACH; n++) {
    must(p3l_pager_read(w->pager, (p3l_page_number){n}, &page, &w->error), &w->error);
    assert_int_equal(page.payload[0], n == 1 ? commits : 1 + (n - 2) / EACH);
    assert_int_equal(page.payload[4000], n == 1 ? 0 : 1 + (n - 2) / EACH);
  }
}

/* The first page from `from` on that the file does not have. */
static uint64_t missing(const world *w, uint64_t from) {
  const p3l_page *pages = (const p3l_page *)w->file->bytes;
  uint64_t n = from;
  while ((n + 1) * P3L_PAGE_SIZE <= w->file->size &&
         p3l_page_fault(&pages[n], (p3l_page_number){n}) == NULL)
    n++;
  return n;
}

static uint64_t written;
static int (*plain_write)(p3l_device *, const void *, size_t, p3l_file_offset);
static int counted_write(p3l_device *device, const void *bytes, size_t length, p3l_file_offset at) {
  written += length / P3L_PAGE_SIZE;
  return plain_write(device, bytes, length, at);
}

static bool choose(void *state, size_t write, size_t sector) {
  return *(int *)state == 2 ? (write + sector) % 3 == 0 : *(int *)state;
}

static memory_device *left_of(const memory_device *device, int how) {
  uint64_t size;
  uint8_t *bytes = memory_device_crash(device, choose, &how, &size);
  memory_device *left = memory_device_of(bytes, size);
  free(bytes);
  return left;
}

static void what_rests_is_written_before_the_checkpoint(void **state) {
  (void)state;
  world w = with_page_1();
  must(p3l_pager_checkpoint(w.pager, &w.error), &w.error);
  plain_write = w.file->device.write;
  w.file->device.write = counted_write;
  written = 0;
  for (unsigned c = 1; c <= COMMITS; c++) add(&w, c);
  /* The log has 40 times four pages. The file has each of them once, except those of the last 64 KB
   * of the log (four commits, or a few more), and page 1, which every commit changes, as of the
   * checkpoint. */
  uint64_t pages = 2 + COMMITS * EACH, has = missing(&w, 2);
  assert_in_range(pages - has, 4 * EACH, 7 * EACH);
  assert_int_equal(written, has - 2);
  assert_int_equal(w.file->bytes[P3L_PAGE_SIZE + 32], 0);
  assert_int_equal(w.file->stable_size, 2 * P3L_PAGE_SIZE); /* no sync of the file */
  expect(&w, COMMITS);
  /* Power fails: none, all or a third of the written pages are on the disk. */
  for (int how = 0; how < 3; how++) {
    world after = opened(left_of(w.file, how), left_of(w.log, 1));
    expect(&after, COMMITS);
    closed(&after);
  }
  /* The checkpoint writes the rest: these, page 1 and the header. */
  must(p3l_pager_checkpoint(w.pager, &w.error), &w.error);
  assert_int_equal(written, pages - 2 + 2);
  assert_int_equal(missing(&w, 0), pages);
  assert_int_equal(w.file->stable_size, pages * P3L_PAGE_SIZE);
  expect(&w, COMMITS);
  closed(&w);
}

/* A page that changes after it was written is written again: the file must not keep the old
 * contents. */
static void a_page_that_changes_afterwards_is_written_again(void **state) {
  (void)state;
  world w = with_page_1();
  for (unsigned c = 1; c <= COMMITS; c++) add(&w, c);
  assert_true(missing(&w, 2) > 3);
  p3l_pager_transaction *transaction;
  p3l_page *page;
  must(p3l_pager_begin(w.pager, &transaction, &w.error), &w.error);
  must(p3l_page_for_writing(transaction, (p3l_page_number){3}, &page, &w.error), &w.error);
  page->payload[2000] = 99;
  p3l_page_changed(transaction, page, 2032, 1);
  must(p3l_pager_commit(transaction, &w.error), &w.error);
  for (int how = 0; how < 3; how++) {
    world after = opened(left_of(w.file, how), left_of(w.log, 1));
    p3l_page read;
    must(p3l_pager_read(after.pager, (p3l_page_number){3}, &read, &after.error), &after.error);
    assert_int_equal(read.payload[2000], 99);
    expect(&after, COMMITS);
    closed(&after);
  }
  must(p3l_pager_checkpoint(w.pager, &w.error), &w.error);
  assert_int_equal(w.file->bytes[3 * P3L_PAGE_SIZE + 2032], 99);
  expect(&w, COMMITS);
  closed(&w);
}

/* The disk is full at that moment: the commit succeeds, and the checkpoint tries again. */
static void a_write_that_fails_is_left_to_the_checkpoint(void **state) {
  (void)state;
  world w = with_page_1();
  must(p3l_pager_checkpoint(w.pager, &w.error), &w.error);
  for (unsigned c = 1; c <= COMMITS; c++) {
    w.file->fail_with = ENOSPC;
    w.file->fail_in = 1;
    add(&w, c);
  }
  w.file->fail_in = 0;
  assert_int_equal(missing(&w, 2), 2 + EACH / 2); /* the device writes half before it fails */
  must(p3l_pager_checkpoint(w.pager, &w.error), &w.error);
  assert_int_equal(missing(&w, 0), 2 + COMMITS * EACH);
  expect(&w, COMMITS);
  closed(&w);
}

/* ---- many pages that keep changing ---- */

enum { MANY = 3000, ADDED = 100, LONG = 64 << 20, FEWER = 1024 };

static void commit_from(world *w, unsigned first, unsigned count, uint8_t value, bool add_them) {
  p3l_pager_transaction *transaction;
  must(p3l_pager_begin(w->pager, &transaction, &w->error), &w->error);
  for (unsigned n = first; n < first + count; n++) {
    p3l_page_number number = {1 + n % MANY};
    p3l_page *page;
    if (add_them)
      must(p3l_page_allocate(transaction, &number, &page, &w->error), &w->error);
    else
      must(p3l_page_for_writing(transaction, number, &page, &w->error), &w->error);
    page->payload[100] = value;
    p3l_page_changed(transaction, page, 132, 1);
  }
  must(p3l_pager_commit(transaction, &w->error), &w->error);
}

/* A store with MANY pages in the log and none in the file; from now on its log exceeds the limit.
 * */
static world with_a_long_log(void) {
  p3l_error error;
  memory_device *file = memory_device_new(), *log = memory_device_new();
  must(p3l_store_format(&file->device, &log->device, &error), &error);
  world w = {.file = file, .log = log};
  p3l_pager_options options = {.checkpoint_bytes = LONG};
  must(p3l_pager_open_devices(&file->device, &log->device, &options, &w.pager, NULL, &w.error),
       &w.error);
  for (unsigned n = 0; n < MANY; n += ADDED) commit_from(&w, n, ADDED, 1, true);
  assert_int_equal(missing(&w, 1), 1);
  w.pager->checkpoint_bytes = 8 << 20; /* the log is longer than that */
  plain_write = w.file->device.write;
  w.file->device.write = counted_write;
  written = 0;
  return w;
}

/* Each commit changes some pages: the checkpoint is postponed until few pages are left, and no
 * change is lost. */
static void commits_write_before_a_checkpoint_that_would_write_much(void **state) {
  (void)state;
  world w = with_a_long_log();
  enum { CHANGED = 20 };
  unsigned commits = 0;
  uint64_t round = w.pager->log.round, most = 0;
  for (; w.pager->log.round == round && commits < 100; commits++) {
    uint64_t before = written;
    commit_from(&w, commits * CHANGED, CHANGED, 2, false);
    if (written - before > most) most = written - before;
    for (int how = 0; how < 3; how++) {
      world after = opened(left_of(w.file, how), left_of(w.log, 1));
      p3l_page page;
      for (unsigned n = 0; n < MANY; n += 7) {
        must(p3l_pager_read(after.pager, (p3l_page_number){1 + n}, &page, &after.error),
             &after.error);
        assert_int_equal(page.payload[100], n < (commits + 1) * CHANGED ? 2 : 1);
      }
      closed(&after);
    }
  }
  /* 3,000 pages and the header, and 20 that changed again after each commit but the first: 512 five
   * times, which leaves 3,001 + 4 * 20 - 5 * 512 = 521; with 541 the checkpoint is not postponed.
   * */
  assert_int_equal(commits, 6);
  assert_true(most <= FEWER);
  assert_in_range(written, MANY, MANY + 1 + 6 * CHANGED);
  assert_int_equal(missing(&w, 0), MANY + 1);
  closed(&w);
}

/* If each commit changes all pages, writing them early is useless. */
static void not_where_commits_change_all_of_them(void **state) {
  (void)state;
  world w = with_a_long_log();
  uint64_t round = w.pager->log.round;
  unsigned commits = 0;
  for (; w.pager->log.round == round && commits < 100; commits++)
    commit_from(&w, 0, MANY, (uint8_t)(2 + commits), false);
  assert_int_equal(commits, 2);
  assert_in_range(written, MANY, MANY + 512 + 2);
  closed(&w);
}

/* ---- files, and other processes ---- */

static uint64_t checkpoints_of(const p3l_pager *writer) { return writer->log.round; }

/* A copy of the file, to see what was written. */
static p3l_page *file_now(void) {
  static p3l_page pages[2][PAGES + 1];
  static int which;
  FILE *from = fopen(path, "r");
  assert_non_null(from);
  which = !which;
  memset(pages[which], 0, sizeof(pages[which]));
  assert_true(fread(pages[which], sizeof(p3l_page), PAGES + 1, from) > 0);
  fclose(from);
  return pages[which];
}

static void nothing_is_written_while_a_process_reads(void **state) {
  (void)state;
  p3l_error error;
  unsigned begun = 0, kept = 0;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    random_state = seed;
    make_folder();
    must(p3l_store_create(path, &error), &error);
    p3l_pager *writer = open_pager(false);
    unsigned version = 0;
    while (version < 10) {
      uint64_t round = checkpoints_of(writer);
      p3l_page *before = file_now();
      commit_version(writer, ++version);
      bool same = memcmp(before, file_now(), (PAGES + 1) * sizeof(p3l_page)) == 0;
      begun += round == checkpoints_of(writer) && !same;
    }
    p3l_pager *reader = open_pager(true);
    while (version < 20) {
      uint64_t round = checkpoints_of(writer);
      p3l_page *before = file_now();
      commit_version(writer, ++version);
      bool same = memcmp(before, file_now(), (PAGES + 1) * sizeof(p3l_page)) == 0;
      if (round == checkpoints_of(writer)) assert_true(same);
      kept += round == checkpoints_of(writer);
      check_version(reader, 10);
    }
    p3l_pager *late = open_pager(true);
    check_version(late, 20);
    must(p3l_pager_checkpoint(writer, &error), &error);
    check_version(reader, 10);
    refresh_to(reader, 10, 20);
    check_version(late, 20);
    must(p3l_pager_close(reader, &error), &error);
    must(p3l_pager_close(late, &error), &error);
    must(p3l_pager_close(writer, &error), &error);
    remove_folder();
  }
  assert_true(begun >= 10 && kept >= 10); /* both were tried */
}

static int (*file_write)(p3l_device *, const void *, size_t, p3l_file_offset);
static int writes_left;
static int dying_write(p3l_device *device, const void *bytes, size_t length, p3l_file_offset at) {
  if (writes_left-- == 0) {
    file_write(device, bytes, length / 2, at);
    _exit(9);
  }
  return file_write(device, bytes, length, at);
}

/* A process commits versions 2 to 6, and is killed in the middle of a write to the file. */
static unsigned dies_after(int write_number) {
  int versions[2];
  unsigned last = 1, version;
  fflush(NULL);
  assert_int_equal(pipe(versions), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    p3l_pager *writer = open_pager(false);
    file_write = writer->file->write;
    writes_left = write_number;
    writer->file->write = dying_write;
    for (version = 2; version <= 6; version++) {
      /* The version is in the log before anything is written to the file. */
      if (write(versions[1], &version, sizeof(version)) != sizeof(version)) _exit(1);
      commit_version(writer, version);
    }
    _exit(0);
  }
  close(versions[1]);
  while (read(versions[0], &version, sizeof(version)) == sizeof(version)) last = version;
  close(versions[0]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WEXITSTATUS(status) == 9 ? last : 0;
}

static void a_writer_that_dies_in_such_a_write(void **state) {
  (void)state;
  p3l_error error;
  unsigned tried = 0;
  for (int write_number = 0;; write_number++) {
    make_folder();
    must(p3l_store_create(path, &error), &error);
    random_state = 77;
    p3l_pager *writer = open_pager(false);
    commit_version(writer, 1);
    must(p3l_pager_close(writer, &error), &error);
    uint64_t before = random_state;
    unsigned last = dies_after(write_number);
    /* The child changed its own copy of the oracle; the parent repeats the same choices. */
    random_state = before;
    for (unsigned version = 2; version <= 6; version++) {
      memcpy(changed[version], changed[version - 1], sizeof(changed[version]));
      for (unsigned n = 1; n <= PAGES; n++)
        if (n == 1 || draw(8) == 0) changed[version][n] = version;
    }
    if (last != 0) {
      tried++;
      p3l_pager *reader = open_pager(true);
      check_version(reader, last);
      writer = open_pager(false);
      check_version(writer, last);
      check_version(reader, last);
      must(p3l_pager_close(reader, &error), &error);
      must(p3l_pager_close(writer, &error), &error);
    }
    remove_folder();
    if (last == 0) break;
  }
  assert_true(tried >= 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_rests_is_written_before_the_checkpoint),
      cmocka_unit_test(a_page_that_changes_afterwards_is_written_again),
      cmocka_unit_test(a_write_that_fails_is_left_to_the_checkpoint),
      cmocka_unit_test(commits_write_before_a_checkpoint_that_would_write_much),
      cmocka_unit_test(not_where_commits_change_all_of_them),
      cmocka_unit_test(nothing_is_written_while_a_process_reads),
      cmocka_unit_test(a_writer_that_dies_in_such_a_write),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
