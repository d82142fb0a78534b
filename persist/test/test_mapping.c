/* Pages used in the page cache: only of a store without a writer, and only undamaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "memory_device.h"
#include "open.h"
#include "page_state.h"
#include "pager.h"
#include "small_store.h"
#include "store.h"

typedef struct part {
  uint64_t id;
  struct part *to[2];
} part;
P3L_TYPE(part, part, 1, P3L_POINTERS(part, to));
P3L_PLAIN_TYPE(
    ballast, struct { uint8_t byte; }, 1);

enum { PARTS = 10007 }; /* a prime: a walk in steps of five visits each part */

typedef struct fixture {
  char folder[64], path[80], log[96];
  p3l_error error;
} fixture;

static void must(const fixture *f, p3l_code code) {
  if (code != P3L_OK) fail_msg("%s", f->error.message);
}

static fixture folder_new(void) {
  fixture f = {.folder = "/tmp/p3l-mapping.XXXXXX"};
  assert_non_null(mkdtemp(f.folder));
  snprintf(f.path, sizeof(f.path), "%s/store", f.folder);
  snprintf(f.log, sizeof(f.log), "%s-log", f.path);
  return f;
}

static void folder_drop(const fixture *f) {
  unlink(f->path);
  unlink(f->log);
  assert_int_equal(rmdir(f->folder), 0);
}

/* Creates parts. Each leads to the fifth one after it and to the second one before it. Adds
 * `ballast_bytes` of other data. */
static void make_parts(fixture *f, uint64_t ballast_bytes) {
  p3l_options options = {.create = true};
  p3l_store *store;
  must(f, p3l_open(f->path, &options, &store, &f->error));
  must(f, p3l_begin(store, &f->error));
  part **made = malloc(PARTS * sizeof(*made));
  for (uint32_t i = 0; i < PARTS; i++) {
    made[i] = p3l_new(store, part);
    made[i]->id = i;
  }
  for (uint32_t i = 0; i < PARTS; i++) {
    made[i]->to[0] = made[(i + 5) % PARTS];
    made[i]->to[1] = made[(i + PARTS - 2) % PARTS];
  }
  p3l_set_root(store, "first", made[0]);
  if (ballast_bytes > 0) assert_non_null(p3l_new_array(store, ballast, ballast_bytes));
  must(f, p3l_commit(store, &f->error));
  must(f, p3l_close(store, &f->error));
  free(made);
}

/* Reads the file, so that all of it is in the page cache. */
static void read_file(const char *path) {
  static char bytes[1 << 16];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  assert_true(file >= 0);
  while (read(file, bytes, sizeof(bytes)) > 0) continue;
  close(file);
}

static p3l_pager *open_pager(fixture *f, bool read_only) {
  p3l_pager *pager;
  p3l_pager_options options = {.read_only = read_only, .excludes_writers = read_only};
  must(f, p3l_pager_open(f->path, &options, &pager, NULL, &f->error));
  return pager;
}

static void it_is_the_page_that_is_read(void **state) {
  (void)state;
  fixture f = folder_new();
  make_parts(&f, 0);
  read_file(f.path);
  p3l_pager *pager = open_pager(&f, true);
  uint64_t count = p3l_pager_page_count(pager);
  assert_true(count > 64); /* several windows, the last not full */
  for (uint64_t n = 0; n < count; n++) {
    p3l_page page;
    const p3l_page *mapped = p3l_pager_mapped(pager, (p3l_page_number){n});
    assert_non_null(mapped);
    must(&f, p3l_pager_read(pager, (p3l_page_number){n}, &page, &f.error));
    assert_memory_equal(mapped, &page, sizeof(page));
  }
  assert_null(p3l_pager_mapped(pager, (p3l_page_number){count}));
  must(&f, p3l_pager_close(pager, &f.error));
  folder_drop(&f);
}

static void a_damaged_page_is_left_to_the_read_that_names_it(void **state) {
  (void)state;
  fixture f = folder_new();
  make_parts(&f, 0);
  int file = open(f.path, O_RDWR | O_CLOEXEC);
  assert_int_equal(pwrite(file, "?", 1, 20 * P3L_PAGE_SIZE + 2000), 1);
  close(file);
  read_file(f.path);
  p3l_pager *pager = open_pager(&f, true);
  p3l_page page;
  assert_non_null(p3l_pager_mapped(pager, (p3l_page_number){19}));
  assert_null(p3l_pager_mapped(pager, (p3l_page_number){20}));
  assert_int_equal(p3l_pager_read(pager, (p3l_page_number){20}, &page, &f.error), P3L_CORRUPT);
  assert_non_null(strstr(f.error.message, "page 20"));
  must(&f, p3l_pager_close(pager, &f.error));
  folder_drop(&f);
}

static void who_writes_has_no_mapping(void **state) {
  (void)state;
  fixture f = folder_new();
  make_parts(&f, 0);
  read_file(f.path);
  p3l_pager *pager = open_pager(&f, false);
  assert_null(p3l_pager_mapped(pager, (p3l_page_number){20}));
  must(&f, p3l_pager_close(pager, &f.error));
  folder_drop(&f);
}

/* The log of a writer that died is newer than the file. */
static void what_recovery_found_is_not_mapped(void **state) {
  (void)state;
  fixture f = folder_new(), copy = folder_new();
  make_parts(&f, 0);
  p3l_options options = {0};
  p3l_store *store;
  must(&f, p3l_open(f.path, &options, &store, &f.error));
  must(&f, p3l_begin(store, &f.error));
  part *first = p3l_root(store, "first");
  P3L_SET(first->id, 99);
  must(&f, p3l_commit(store, &f.error));
  char command[400];
  snprintf(command, sizeof(command), "cp %s %s && cp %s %s", f.path, copy.path, f.log, copy.log);
  assert_int_equal(system(command), 0);
  must(&f, p3l_close(store, &f.error));
  p3l_pager *pager = open_pager(&copy, true);
  for (uint64_t n = 0; n < p3l_pager_page_count(pager); n++)
    assert_null(p3l_pager_mapped(pager, (p3l_page_number){n}));
  must(&copy, p3l_pager_close(pager, &copy.error));
  folder_drop(&f);
  folder_drop(&copy);
}

/* Some parts of pages in the page cache are copied, then the page is adopted: a store of more
 * than 64 MB, all of whose parts are visited. */
static void a_large_store_is_the_same_graph(void **state) {
  (void)state;
  fixture f = folder_new();
  make_parts(&f, P3L_SMALL_STORE_PAGES * P3L_PAGE_SIZE);
  read_file(f.path);
  p3l_options options = {.read_only = true, .excludes_writers = true};
  p3l_store *store;
  must(&f, p3l_open(f.path, &options, &store, &f.error));
  p3l_enter(store);
  part *at = p3l_root(store, "first");
  for (uint64_t i = 0; i < PARTS; i++) {
    uint64_t id = i * 5 % PARTS;
    assert_int_equal(at->id, id);
    assert_int_equal(P3L_LD(at->to[1])->id, (id + PARTS - 2) % PARTS);
    at = P3L_LD(at->to[0]);
  }
  p3l_statistics statistics;
  p3l_get_statistics(store, &statistics);
  /* Each page was used once and none was read; reading 64 MB would take some 100 requests. */
  assert_int_equal(statistics.reads, 0);
  assert_true(statistics.objects_copied > 0);
  assert_true(statistics.pages_adopted > 0);
  assert_true(statistics.pages_read >= statistics.pages_adopted);
  p3l_leave(store);
  /* Evicted pages are loaded again. */
  must(&f, p3l_evict(store, UINT64_MAX, &f.error));
  p3l_enter(store);
  at = p3l_root(store, "first");
  for (uint64_t i = 0; i < PARTS; i++) {
    assert_int_equal(at->id, i * 5 % PARTS);
    at = P3L_LD(at->to[0]);
  }
  p3l_leave(store);
  must(&f, p3l_close(store, &f.error));
  folder_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_the_page_that_is_read),
      cmocka_unit_test(a_damaged_page_is_left_to_the_read_that_names_it),
      cmocka_unit_test(who_writes_has_no_mapping),
      cmocka_unit_test(what_recovery_found_is_not_mapped),
      cmocka_unit_test(a_large_store_is_the_same_graph),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
