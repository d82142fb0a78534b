/*
 * Large arrays with pointers are read where the program touches them (unread.h): counted by pages, at the
 * version that the store shows, beside transactions, evictions, damage, threads and refreshes. Signals and
 * forks: test_unread_signals.c.
 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "pool_frames.h"
#include "soon.h"
#include "unread_fixture.h"

P3L_PLAIN_TYPE(plain, uint64_t, 1);

static void touched_parts_are_read(void **state) {
  (void)state;
  fixture f = filled();
  uint64_t before = counts(&f).pages_read;
  item *items = p3l_root(f.store, "items");
  assert_in_range(counts(&f).pages_read - before, 1, 24); /* clusters of up to 16 pages */
  assert_int_equal(items[5].number, 16);
  before = counts(&f).pages_read - before;
  assert_in_range(before, STRETCH_PAGES - 1, STRETCH_PAGES + 24);
  assert_int_equal(items[6].number, 19); /* the same stretch */
  assert_int_equal(items[ITEMS - 1].number, (ITEMS - 1) * UINT64_C(3) + 1);
  assert_true(counts(&f).pages_read < 2 * STRETCH_PAGES + 32);
  /* One slot was followed, and leads to a stretch that is not read yet. */
  uint64_t swizzled = counts(&f).swizzled;
  assert_int_equal(P3L_LD(items[0].other)->number, ITEMS / 2 * UINT64_C(3) + 1);
  assert_int_equal(counts(&f).swizzled, swizzled + 1);
  uint64_t sum = 0;
  for (uint64_t at = 0; at < ITEMS; at++) sum += items[at].number;
  assert_int_equal(sum, (uint64_t)ITEMS * (ITEMS - 1) / 2 * 3 + ITEMS);
  assert_in_range(counts(&f).pages_read, ALL_PAGES, ALL_PAGES + 9 * 2 + 32);
  fixture_drop(&f);
}

/* Every page at once, as a system call needs it. */
static void whole_arrays_are_read_at_once(void **state) {
  (void)state;
  fixture f = filled();
  int pipes[2];
  assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
  item *items = p3l_root(f.store, "items");
  assert_int_equal(write(pipes[1], &items[ITEMS / 2], 16), -1);
  f.options.whole_arrays = true;
  fixture_reopen(&f);
  items = p3l_root(f.store, "items");
  assert_true(counts(&f).pages_read >= ALL_PAGES);
  assert_int_equal(write(pipes[1], &items[ITEMS / 2], 16), 16);
  /* Without pointers that is so in any case. */
  f.options.whole_arrays = false;
  fixture_reopen(&f);
  begin(&f);
  p3l_set_root(f.store, "numbers", p3l_new_array(f.store, plain, 2 * ITEMS));
  commit(&f);
  fixture_reopen(&f);
  uint64_t *numbers = p3l_root(f.store, "numbers");
  assert_int_equal(write(pipes[1], &numbers[ITEMS], 16), 16);
  close(pipes[0]);
  close(pipes[1]);
  fixture_drop(&f);
}

static void changes_read_first(void **state) {
  (void)state;
  fixture f = filled();
  item *items = p3l_root(f.store, "items");
  uint64_t far = 3 * STRETCH_ITEMS + 17;
  begin(&f);
  P3L_SET(items[far].number, 7);
  P3L_SET(items[far].other, &items[1]);
  p3l_abort(f.store);
  assert_int_equal(items[far].number, far * 3 + 1);
  begin(&f);
  P3L_SET(items[far].number, 8);
  P3L_SET(items[far].other, &items[2]);
  /* The last word of a stretch and the first of the next, both unread. */
  p3l_dirty(&items[6 * STRETCH_ITEMS - 1].other, 16);
  items[6 * STRETCH_ITEMS - 1].other = &items[9];
  items[6 * STRETCH_ITEMS].number = 10;
  commit(&f);
  fixture_reopen(&f);
  items = p3l_root(f.store, "items");
  assert_int_equal(items[far].number, 8);
  assert_ptr_equal(P3L_LD(items[far].other), &items[2]);
  assert_int_equal(items[far - 1].number, far * 3 - 2);
  assert_ptr_equal(P3L_LD(items[6 * STRETCH_ITEMS - 1].other), &items[9]);
  assert_int_equal(items[6 * STRETCH_ITEMS].number, 10);
  /* The first 16 bytes after the stretch are as they were, and no change is found that was not made. */
  begin(&f);
  P3L_SET(items[0].number, 11);
  commit(&f);
  fixture_drop(&f);
}

/* The object's memory goes with it, and its pages get other objects. */
static void deleted_while_unread(void **state) {
  (void)state;
  fixture f = filled();
  item *items = p3l_root(f.store, "items");
  begin(&f);
  p3l_delete(f.store, items);
  p3l_set_root(f.store, "items", NULL);
  assert_int_equal(items[4 * STRETCH_ITEMS].number, 4 * STRETCH_ITEMS * UINT64_C(3) + 1);
  p3l_abort(f.store);
  items = p3l_root(f.store, "items");
  assert_int_equal(items[5 * STRETCH_ITEMS].number, 5 * STRETCH_ITEMS * UINT64_C(3) + 1);
  p3l_pin(items); /* reads the rest */
  begin(&f);
  p3l_delete(f.store, items);
  p3l_set_root(f.store, "items", NULL);
  commit(&f);
  fill(f.store, &f.error);
  assert_int_equal(items[7 * STRETCH_ITEMS].number, 7 * STRETCH_ITEMS * UINT64_C(3) + 1);
  p3l_unpin(items);
  fixture_drop(&f);
}

static void evicted_while_unread(void **state) {
  (void)state;
  fixture f = filled();
  item *items = p3l_root(f.store, "items");
  uint64_t before = counts(&f).pages_read;
  item *last = P3L_LD(items[STRETCH_ITEMS - 1].other);
  begin(&f); /* something that stays, and leads there */
  item *one = p3l_new(f.store, item);
  one->other = last;
  p3l_set_root(f.store, "one", one);
  commit(&f);
  uint64_t number = last->number;
  p3l_pin(one);
  assert_int_equal(p3l_evict(f.store, 0, &f.error), P3L_OK);
  assert_true(counts(&f).pages_read < before + 3 * STRETCH_PAGES); /* the sweep read nothing */
  assert_int_equal(P3L_LD(one->other)->number, number);
  p3l_unpin(one);
  /* The array stays, its pointer to what goes is a surrogate again. */
  items = p3l_root(f.store, "items");
  assert_int_equal(items[0].number, 1);
  p3l_pin(items);
  assert_int_equal(p3l_evict(f.store, 0, &f.error), P3L_OK);
  assert_int_equal(P3L_LD(items[STRETCH_ITEMS - 1].other)->number, number);
  p3l_unpin(items);
  fixture_drop(&f);
}

__attribute__((unused)) static uint64_t page_behind(const fixture *f, uint64_t item_number) {
  p3l_place place;
  item *items = p3l_root(f->store, "items");
  assert_true(p3l_place_of(items, &place));
  return place.address.byte / P3L_PAGE_SIZE + item_number * sizeof(item) / P3L_LARGE_PART;
}

__attribute__((unused)) static void damage_is_a_fault(void **state) {
  (void)state;
  fixture f = filled();
  uint64_t far = 4 * STRETCH_ITEMS + 300, page = page_behind(&f, far);
  uint8_t byte;
  p3l_file_offset at = {page * P3L_PAGE_SIZE + 2000};
  assert_int_equal(f.file->device.read(&f.file->device, &byte, 1, at), 0);
  byte ^= 4;
  assert_int_equal(f.file->device.write(&f.file->device, &byte, 1, at), 0);
  item *volatile items = p3l_root(f.store, "items");
  for (int twice = 0; twice < 2; twice++) {
    volatile uint64_t number = 0;
    assert_fault(P3L_CORRUPT, number = items[far].number, "checksum");
    assert_int_equal(number, 0);
  }
  assert_int_equal(items[5 * STRETCH_ITEMS].number, 5 * STRETCH_ITEMS * UINT64_C(3) + 1);
  assert_fault(P3L_CORRUPT, p3l_pin(items), "checksum");
  byte ^= 4;
  assert_int_equal(f.file->device.write(&f.file->device, &byte, 1, at), 0);
  assert_int_equal(items[far].number, far * 3 + 1);
  fixture_drop(&f);
}

enum { THREADS = 4, DRAWS = 200000 };
static item *shared;

static void *look(void *seed) {
  uint64_t random = *(uint64_t *)seed, wrong = 0;
  for (int n = 0; n < DRAWS; n++) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
    uint64_t at = (random >> 33) % ITEMS;
    wrong += shared[at].number != at * 3 + 1;
  }
  *(uint64_t *)seed = wrong;
  return NULL;
}

static void threads_see_whole_stretches(void **state) {
  (void)state;
  fixture f = filled();
  pthread_t threads[THREADS];
  uint64_t seeds[THREADS];
  shared = p3l_root(f.store, "items");
  for (uint64_t n = 0; n < THREADS; n++) {
    seeds[n] = n;
    assert_int_equal(pthread_create(&threads[n], NULL, look, &seeds[n]), 0);
  }
  for (uint64_t n = 0; n < THREADS; n++) {
    pthread_join(threads[n], NULL);
    assert_int_equal(seeds[n], 0);
  }
  assert_in_range(counts(&f).pages_read, ALL_PAGES, ALL_PAGES + 9 * 2 + 32); /* each once */
  fixture_drop(&f);
}

/* Readers at their version: what they read late is of the version that they show. */
static void readers_keep_their_version(void **state) {
  (void)state;
  char folder[] = "/tmp/p3l-unread-XXXXXX", path[64], log[64];
  p3l_store *writer, *reader;
  p3l_error error;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s/s", folder);
  snprintf(log, sizeof(log), "%s/s-log", folder);
  const p3l_options writes = {.create = true, .checkpoint_bytes = 1 << 20};
  const p3l_options reads = {.read_only = true};
  assert_int_equal(p3l_open(path, &writes, &writer, &error), P3L_OK);
  fill(writer, &error);
  assert_int_equal(p3l_open(path, &reads, &reader, &error), P3L_OK);
  item *read = p3l_root(reader, "items"), *written = p3l_root(writer, "items");
  assert_int_equal(read[0].number, 1);
  for (uint64_t version = 1; version <= 4; version++) {
    assert_int_equal(p3l_begin(writer, &error), P3L_OK);
    for (uint64_t at = 0; at < ITEMS; at += STRETCH_ITEMS) P3L_SET(written[at].number, version);
    assert_int_equal(p3l_commit(writer, &error), P3L_OK);
    /* Not the writer's: stretch 2 * version is read for the first time after the commit. */
    if (version < 4) {
      uint64_t late = 2 * version * STRETCH_ITEMS;
      assert_int_equal(read[late].number, version == 1 ? late * 3 + 1 : version - 1);
    }
    assert_int_equal(p3l_refresh(reader, &error), P3L_OK);
    read = p3l_root(reader, "items");
    assert_int_equal(read[0].number, version);
    assert_int_equal(read[(2 * version - 1) * STRETCH_ITEMS].number, version);
  }
  assert_int_equal(p3l_begin(writer, &error), P3L_OK);
  p3l_delete(writer, written);
  p3l_set_root(writer, "items", NULL);
  assert_int_equal(p3l_commit(writer, &error), P3L_OK);
  assert_int_equal(p3l_refresh(reader, &error), P3L_OK);
  assert_null(p3l_root(reader, "items"));
  assert_int_equal(p3l_close(reader, &error), P3L_OK);
  assert_int_equal(p3l_close(writer, &error), P3L_OK);
  unlink(path);
  unlink(log);
  assert_int_equal(rmdir(folder), 0);
}

/* ---- locks ---- */

typedef struct files {
  char folder[32], path[64], log[64];
  p3l_store *writer, *reader;
} files;

static void files_open(files *files) {
  p3l_error error;
  strcpy(files->folder, "/tmp/p3l-unread-XXXXXX");
  assert_non_null(mkdtemp(files->folder));
  snprintf(files->path, sizeof(files->path), "%s/s", files->folder);
  snprintf(files->log, sizeof(files->log), "%s/s-log", files->folder);
  const p3l_options writes = {.create = true}, reads = {.read_only = true};
  assert_int_equal(p3l_open(files->path, &writes, &files->writer, &error), P3L_OK);
  fill(files->writer, &error);
  assert_int_equal(p3l_close(files->writer, &error), P3L_OK); /* all is in the file */
  assert_int_equal(p3l_open(files->path, &writes, &files->writer, &error), P3L_OK);
  assert_int_equal(p3l_open(files->path, &reads, &files->reader, &error), P3L_OK);
}

static void files_close(files *files) {
  p3l_error error;
  assert_int_equal(p3l_close(files->reader, &error), P3L_OK);
  assert_int_equal(p3l_close(files->writer, &error), P3L_OK);
  unlink(files->path);
  unlink(files->log);
  assert_int_equal(rmdir(files->folder), 0);
}

/* Changes a byte of the page with that item, in the file; once more changes it back. */
static void files_damage(const files *files, uint64_t item_number) {
  p3l_place place;
  uint8_t byte;
  assert_true(p3l_place_of(p3l_root(files->reader, "items"), &place));
  uint64_t part = item_number * sizeof(item) / P3L_LARGE_PART;
  off_t at = (off_t)(place.address.byte + part * P3L_PAGE_SIZE + 2000);
  int file = open(files->path, O_RDWR | O_CLOEXEC);
  assert_int_equal(pread(file, &byte, 1, at), 1);
  byte ^= 4;
  assert_int_equal(pwrite(file, &byte, 1, at), 1);
  close(file);
}

/* Stretch 1 is read, those beside it are not and cannot be; the pages across its borders changed. */
static void refresh_changes_what_is_read(void **state) {
  (void)state;
  files files;
  p3l_error error;
  p3l_statistics before, after;
  files_open(&files);
  item *read = p3l_root(files.reader, "items"), *written = p3l_root(files.writer, "items");
  const uint64_t borders[] = {STRETCH_ITEMS, 2 * STRETCH_ITEMS};
  assert_int_equal(read[STRETCH_ITEMS + 1000].number, (STRETCH_ITEMS + 1000) * UINT64_C(3) + 1);
  assert_int_equal(p3l_begin(files.writer, &error), P3L_OK);
  for (int at = 0; at < 2; at++) {
    P3L_SET(written[borders[at] - 1].number, 70 + at);
    P3L_SET(written[borders[at]].number, 80 + at);
  }
  files_damage(&files, STRETCH_ITEMS / 2);
  files_damage(&files, 2 * STRETCH_ITEMS + STRETCH_ITEMS / 2);
  assert_int_equal(p3l_commit(files.writer, &error), P3L_OK);
  p3l_get_statistics(files.reader, &before);
  assert_int_equal(p3l_refresh(files.reader, &error), P3L_OK);
  p3l_get_statistics(files.reader, &after);
  assert_true(after.pages_read - before.pages_read < STRETCH_PAGES - 1); /* not a stretch */
  assert_int_equal(read[borders[0]].number, 80);
  assert_int_equal(read[borders[1] - 1].number, 71);
  files_damage(&files, STRETCH_ITEMS / 2);
  files_damage(&files, 2 * STRETCH_ITEMS + STRETCH_ITEMS / 2);
  assert_int_equal(read[borders[0] - 1].number, 70);
  assert_int_equal(read[borders[1]].number, 81);
  files_close(&files);
}

typedef struct three {
  struct three *to[3];
} three;
P3L_TYPE(three, three, 1, P3L_POINTERS(three, to));
enum { THREES = (8 << 20) / sizeof(three), ACROSS = P3L_STRETCH_BYTES / sizeof(three) };

/* to[0] of one element is the last word of a stretch: the slots behind it are not read. */
static void hints_read_nothing(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  three *all = p3l_new_array(f.store, three, THREES);
  for (int at = 0; at < 3; at++) all[ACROSS].to[at] = &all[at];
  p3l_set_root(f.store, "threes", all);
  commit(&f);
  fixture_reopen(&f);
  all = p3l_root(f.store, "threes");
  assert_int_equal((uintptr_t)&all[ACROSS].to[1] % P3L_STRETCH_BYTES, 0);
  assert_ptr_equal(P3L_LD(all[ACROSS].to[0]), all); /* reads stretch 0 */
  uint64_t before = counts(&f).reads;
  pthread_mutex_lock(&f.store->slow);
  f.store->slot = &all[ACROSS].to[0];
  p3l_soon_neighbours(f.store, &f.store->pool->soon, 1, 1, 1);
  f.store->slot = NULL;
  pthread_mutex_unlock(&f.store->slow);
  assert_int_equal(counts(&f).reads, before);
  assert_ptr_equal(P3L_LD(all[ACROSS].to[2]), &all[2]);
  assert_true(counts(&f).reads > before);
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(touched_parts_are_read),
      cmocka_unit_test(whole_arrays_are_read_at_once),
      cmocka_unit_test(changes_read_first),
      cmocka_unit_test(deleted_while_unread),
      cmocka_unit_test(evicted_while_unread),
#ifndef __SANITIZE_THREAD__ /* it does not expect longjmp() out of a signal handler */
      cmocka_unit_test(damage_is_a_fault),
#endif
      cmocka_unit_test(threads_see_whole_stretches),
      cmocka_unit_test(readers_keep_their_version),
      cmocka_unit_test(refresh_changes_what_is_read),
      cmocka_unit_test(hints_read_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
