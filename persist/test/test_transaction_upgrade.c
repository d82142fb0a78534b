/*
 * A transaction that changes upgraded objects writes them completely. They move if they have grown.
 * This also holds if the transaction failed once, if the objects are large, or if they are deleted.
 */
#include <signal.h>
#include <sys/resource.h>

#include "programs.h"
#include "tool.h"

typedef struct leaf1 {
  uint64_t number;
  struct leaf1 *next;
} leaf1;
static const p3l_field leaf1_fields[] = {P3L_POINTERS(leaf1, next), {NULL, 0, 0}};
static const p3l_type leaf1_type = {"leaf", 1, sizeof(leaf1), leaf1_fields, NULL};

typedef struct leaf2 {
  uint64_t number;
  struct leaf2 *next, *other;
  uint64_t added[5];
} leaf2;
static bool upgrade(const void *old_object, size_t old_bytes, uint32_t old_version,
                    void *new_object, size_t new_bytes) {
  const leaf1 *from = old_object;
  leaf2 *to = new_object;
  to->number = from->number;
  to->next = (leaf2 *)from->next;
  return old_version == 1 && old_bytes == sizeof(*from) && new_bytes == sizeof(*to);
}
static const p3l_field leaf2_fields[] = {
    P3L_POINTERS(leaf2, next), P3L_POINTERS(leaf2, other), {NULL, 0, 0}};
static const p3l_type leaf2_type = {"leaf", 2, sizeof(leaf2), leaf2_fields, upgrade};

enum { LEAVES = 500, LARGE = 1000 };

static void write_version_1(void) {
  p3l_register_type(&leaf1_type);
  p3l_store *store = open_store(false);
  begin_in(store);
  leaf1 *next = NULL;
  for (uint64_t i = LEAVES; i-- > 0;) {
    leaf1 *made = p3l_allocate(store, &leaf1_type, 1, NULL);
    *made = (leaf1){i, next};
    next = made;
  }
  leaf1 *large = p3l_allocate(store, &leaf1_type, LARGE, NULL);
  for (uint64_t i = 0; i < LARGE; i++) large[i] = (leaf1){i, next};
  p3l_set_root(store, "first", next);
  p3l_set_root(store, "large", large);
  commit_and_close(store);
}

static leaf2 *nth(p3l_store *store, int n) {
  leaf2 *at = p3l_root(store, "first");
  while (n-- > 0) at = P3L_LD(at->next);
  return at;
}

static void change_all(p3l_store *store) {
  leaf2 *first = p3l_root(store, "first"), *large = p3l_root(store, "large"), *before = NULL;
  for (leaf2 *at = first; at != NULL; before = at, at = P3L_LD(at->next)) {
    P3L_SET(at->added[4], at->number + 1);
    P3L_SET(at->other, before == NULL ? large : before);
  }
  P3L_SET(large[LARGE - 1].other, first);
  P3L_SET(large[7].added[0], 77);
}

static void expect_list(p3l_store *store, bool changed, uint64_t first_number) {
  leaf2 *large = p3l_root(store, "large"), *before = NULL, *at = p3l_root(store, "first");
  EXPECT(P3L_LD(large[LARGE - 1].other) == (changed ? at : NULL) || first_number > 0);
  EXPECT(large[7].added[0] == (changed ? 77 : 0));
  for (uint64_t i = 0; i < LARGE; i++) EXPECT(large[i].number == i);
  for (uint64_t i = first_number; i < LEAVES; i++, before = at, at = P3L_LD(at->next)) {
    EXPECT(at->number == i);
    EXPECT(at->added[4] == (changed ? i + 1 : 0));
    if (before != NULL) EXPECT(P3L_LD(at->other) == (changed ? before : NULL));
  }
  EXPECT(at == NULL);
}

/* Limits the size of files, so that the log cannot grow. */
static void limit_files(p3l_store *store, bool limited) {
  (void)store;
  struct rlimit limit;
  EXPECT(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  limit.rlim_cur = limited ? 8192 : limit.rlim_max;
  EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void change_as_version_2(void) {
  p3l_error error;
  p3l_register_type(&leaf2_type);
  p3l_store *store = open_store(false);
  signal(SIGXFSZ, SIG_IGN);
  for (int round = 0; round < 2; round++) {
    begin_in(store);
    change_all(store);
    limit_files(store, true);
    EXPECT(p3l_commit(store, &error) == P3L_NO_SPACE);
    limit_files(store, false);
    expect_list(store, false, 0);
    begin_in(store);
    change_all(store);
    p3l_abort(store);
    expect_list(store, false, 0);
  }
  leaf2 *third = nth(store, 3), *large = p3l_root(store, "large");
  /*
   * A slot that an upgrade added must not contain an address of another store: the commit reports
   * it.
   */
  begin_in(store);
  P3L_SET(third->other, &large[LARGE - 1]);
  EXPECT(p3l_commit(store, &error) == P3L_MISUSE);
  EXPECT(strstr(error.message, "the part by which an upgrade made an object longer") != NULL);
  begin_in(store);
  P3L_SET(third->other, (leaf2 *)&third->added[4]);
  EXPECT(p3l_commit(store, &error) == P3L_MISUSE);
  begin_in(store);
  change_all(store);
  EXPECT(p3l_commit(store, &error) == P3L_OK);
  EXPECT(nth(store, 3) == third); /* moved in the store, not in memory */
  expect_list(store, true, 0);
  begin_in(store); /* an ordinary object now */
  P3L_SET(third->added[0], 33);
  P3L_SET(large[0].other, &large[LARGE - 1]);
  commit_and_close(store);
}

static void delete_as_version_2(void) {
  p3l_error error;
  p3l_register_type(&leaf2_type);
  p3l_store *store = open_store(false);
  expect_list(store, true, 0);
  EXPECT(store->statistics.objects_upgraded == 0);
  EXPECT(nth(store, 3)->added[0] == 33);
  leaf2 *first_of_large = p3l_root(store, "large");
  EXPECT(P3L_LD(first_of_large->other) == &first_of_large[LARGE - 1]);
  begin_in(store);
  leaf2 *large = p3l_root(store, "large"), *tenth = nth(store, 10);
  P3L_SET(tenth->other, NULL);
  for (int i = 0; i < 10; i++) {
    leaf2 *first = p3l_root(store, "first");
    p3l_set_root(store, "first", P3L_LD(first->next));
    p3l_delete(store, first);
  }
  P3L_SET(large[LARGE - 1].other, NULL);
  for (int i = 0; i < LARGE; i++) P3L_SET(large[i].next, tenth);
  EXPECT(p3l_commit(store, &error) == P3L_OK);
  expect_list(store, true, 10);
  close_store(store);
}

static void read_at_last(void) {
  p3l_register_type(&leaf2_type);
  p3l_store *store = open_store(true);
  expect_list(store, true, 10);
  leaf2 *large = p3l_root(store, "large");
  for (int i = 0; i < LARGE; i++) EXPECT(P3L_LD(large[i].next) == p3l_root(store, "first"));
  FILE *nowhere = fopen("/dev/null", "w");
  EXPECT(p3l_verify_store(store->pager, nowhere) == 0);
  fclose(nowhere);
  close_store(store);
}

static void upgraded_objects_are_written_whole(void **state) {
  (void)state;
  make_folder();
  run_program(write_version_1);
  run_program(change_as_version_2);
  run_program(delete_as_version_2);
  run_program(read_at_last);
  remove_folder();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(upgraded_objects_are_written_whole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
