/*
 * Schema evolution: version 1 of a program writes; version 2 has another layout and an upgrade
 * function. Objects are upgraded one by one when they are first loaded. In the store they stay
 * unchanged until the program changes them.
 */
#include "programs.h"

/* ---- the versions ---- */

typedef struct item1 {
  uint64_t number;
  struct item1 *next;
} item1;
static const p3l_field item1_fields[] = {P3L_POINTERS(item1, next), {NULL, 0, 0}};
static const p3l_type item1_type = {"item", 1, sizeof(item1), item1_fields, NULL};

/* Larger than its piece of 16 bytes: it moves when it is changed. */
typedef struct item2 {
  uint64_t number, doubled;
  struct item2 *previous, *next;
} item2;
static const p3l_field item2_fields[] = {
    P3L_POINTERS(item2, previous), P3L_POINTERS(item2, next), {NULL, 0, 0}};

static bool upgrade_to_2(const void *old_object, size_t old_bytes, uint32_t old_version,
                         void *new_object, size_t new_bytes) {
  const item1 *from = old_object;
  item2 *to = new_object;
  if (old_version != 1 || old_bytes != sizeof(*from) || new_bytes != sizeof(*to)) return false;
  to->number = from->number;
  to->doubled = 2 * from->number;
  to->next = (item2 *)P3L_LD(((item1 *)old_object)->next); /* P3L_LD leaves it unchanged */
  return to->previous == NULL;
}
static const p3l_type item2_type = {"item", 2, sizeof(item2), item2_fields, upgrade_to_2};

/* Smaller: the pointer is removed. */
typedef struct item3 {
  uint32_t number;
} item3;
static const p3l_field no_fields[] = {{NULL, 0, 0}};
static bool upgrade_to_3(const void *old_object, size_t old_bytes, uint32_t old_version,
                         void *new_object, size_t new_bytes) {
  (void)old_bytes;
  (void)new_bytes;
  if (old_version > 2) return false;
  ((item3 *)new_object)->number =
      (uint32_t)((const item1 *)old_object)->number; /* first member of both */
  return true;
}
static const p3l_type item3_type = {"item", 3, sizeof(item3), no_fields, upgrade_to_3};

enum { ITEMS = 300 };

/* ---- version 1 ---- */

static void write_items(void) {
  p3l_register_type(&item1_type);
  p3l_store *store = open_store(false);
  begin_in(store);
  item1 *first = NULL;
  for (uint64_t i = ITEMS; i-- > 0;) {
    item1 *made = p3l_allocate(store, &item1_type, 1, NULL);
    made->number = i;
    made->next = first;
    first = made;
  }
  item1 *array = p3l_allocate(store, &item1_type, 10, NULL);
  item1 *large = p3l_allocate(store, &item1_type, 5000, NULL); /* 80,000 bytes */
  for (uint64_t i = 0; i < 10; i++) array[i] = (item1){1000 + i, &array[(i + 1) % 10]};
  for (uint64_t i = 0; i < 5000; i++) large[i] = (item1){i, first};
  p3l_set_root(store, "first", first);
  p3l_set_root(store, "array", array);
  p3l_set_root(store, "large", large);
  commit_and_close(store);
}

static void read_as_version_1(void) {
  p3l_register_type(&item1_type);
  p3l_store *store = open_store(true);
  uint64_t sum = 0;
  for (item1 *at = p3l_root(store, "first"); at != NULL; at = P3L_LD(at->next)) sum += at->number;
  EXPECT(sum == ITEMS * (ITEMS - 1) / 2);
  EXPECT(store->statistics.objects_upgraded == 0);
  close_store(store);
}

/* ---- version 2 ---- */

static void expect_items(p3l_store *store, uint64_t changed, uint64_t doubled) {
  item2 *at = p3l_root(store, "first");
  for (uint64_t i = 0; i < ITEMS; i++, at = P3L_LD(at->next)) {
    EXPECT(at != NULL && at->number == i);
    EXPECT(at->doubled == (i == changed ? doubled : 2 * i));
  }
  EXPECT(at == NULL);
}

static void read_only_as_version_2(void) {
  p3l_register_type(&item2_type);
  p3l_store *store = open_store(true);
  item2 *first = p3l_root(store, "first");
  EXPECT(store->statistics.objects_upgraded == 1);
  EXPECT(p3l_extent(first) == 32);
  p3l_place place;
  EXPECT(p3l_place_of(&first->next, &place) && place.memory == (uint8_t *)first);
  EXPECT((place.resident->flags & P3L_RESIDENT_UPGRADED) != 0);
  EXPECT(p3l_types_program(store, place.type) == &item2_type);
  expect_items(store, ITEMS, 0);
  EXPECT(store->statistics.objects_upgraded == ITEMS);
  expect_items(store, ITEMS, 0); /* each of them once */
  EXPECT(store->statistics.objects_upgraded == ITEMS);

  item2 *array = p3l_root(store, "array"), *large = p3l_root(store, "large");
  for (uint64_t i = 0; i < 10; i++) {
    EXPECT(array[i].number == 1000 + i && array[i].doubled == 2000 + 2 * i);
    /* A pointer into an array of the old layout keeps its distance in bytes, which is now
     * another element: 16 bytes are half an element. Only a pointer to the first element is
     * unchanged. */
  }
  EXPECT(P3L_LD(array[9].next) == array);
  EXPECT(p3l_extent(large) >= 5000 * sizeof(item2));
  for (uint64_t i = 0; i < 5000; i++) {
    EXPECT(large[i].number == i && large[i].doubled == 2 * i);
    EXPECT(P3L_LD(large[i].next) == first);
  }
  close_store(store);
}

static void change_as_version_2(void) {
  p3l_register_type(&item2_type);
  p3l_store *store = open_store(false);
  item2 *first = p3l_root(store, "first");
  begin_in(store);
  item2 *fifth = first;
  for (int i = 0; i < 5; i++) fifth = P3L_LD(fifth->next);
  P3L_SET(fifth->doubled, 77);
  P3L_SET(fifth->previous, first);
  p3l_error error;
  EXPECT(p3l_commit(store, &error) == P3L_OK);
  EXPECT(fifth->doubled == 77); /* at the same address */
  expect_items(store, 5, 77);
  begin_in(store);
  P3L_SET(fifth->doubled, 78); /* now it is like any other object */
  commit_and_close(store);
}

static void abort_as_version_2(void) {
  p3l_register_type(&item2_type);
  p3l_store *store = open_store(false);
  item2 *first = p3l_root(store, "first");
  begin_in(store);
  P3L_SET(first->doubled, 99);
  p3l_abort(store);
  EXPECT(first->doubled == 0);
  close_store(store);
}

static void read_the_changed_one(void) {
  p3l_register_type(&item2_type);
  p3l_store *store = open_store(true);
  expect_items(store, 5, 78);
  EXPECT(store->statistics.objects_upgraded == ITEMS - 1); /* the fifth is of version 2 */
  item2 *fifth = p3l_root(store, "first"), *first = fifth;
  for (int i = 0; i < 5; i++) fifth = P3L_LD(fifth->next);
  EXPECT(P3L_LD(fifth->previous) == first);
  close_store(store);
}

static void a_new_version_reads_what_an_older_wrote(void **state) {
  (void)state;
  make_folder();
  run_program(write_items);
  run_program(read_only_as_version_2);
  run_program(read_as_version_1); /* no change was written */
  run_program(abort_as_version_2);
  run_program(read_only_as_version_2);
  run_program(change_as_version_2);
  run_program(read_the_changed_one);
  remove_folder();
}

/* ---- version 3 ---- */

static void shrink_as_version_3(void) {
  p3l_register_type(&item3_type);
  p3l_store *store = open_store(false);
  item3 *first = p3l_root(store, "first");
  EXPECT(first->number == 0);
  begin_in(store);
  P3L_SET(first->number, 4711);
  commit_and_close(store);
}

static void read_as_version_3(void) {
  p3l_register_type(&item3_type);
  p3l_store *store = open_store(true);
  item3 *first = p3l_root(store, "first"), *large = p3l_root(store, "large");
  EXPECT(first->number == 4711);
  EXPECT(large[4999].number == 4999);
  close_store(store);
}

static void a_layout_may_shrink(void **state) {
  (void)state;
  make_folder();
  run_program(write_items);
  run_program(shrink_as_version_3);
  run_program(read_as_version_3);
  remove_folder();
}

/* ---- refused upgrades ---- */

static bool refuse(const void *old_object, size_t old_bytes, uint32_t old_version, void *new_object,
                   size_t new_bytes) {
  (void)old_object;
  (void)old_bytes;
  (void)old_version;
  (void)new_object;
  (void)new_bytes;
  return false;
}

static void load_with_a_failing_upgrade(void) {
  static const p3l_type type = {"item", 2, sizeof(item2), item2_fields, refuse};
  p3l_register_type(&type);
  p3l_store *store = open_store(true);
  EXPECT_FAULT(P3L_WRONG_TYPE, p3l_root(store, "first"), "version 1 to 2 failed");
  EXPECT_FAULT(P3L_WRONG_TYPE, p3l_root(store, "large"), "item");
  close_store(store);
}

static void read_version_2_with_version_1(void) {
  p3l_error error;
  p3l_store *store;
  p3l_register_type(&item1_type);
  EXPECT(p3l_open(program_path, NULL, &store, &error) == P3L_WRONG_TYPE);
  EXPECT(strstr(error.message, "in version 2, the program has version 1") != NULL);
}

static void a_failing_upgrade_is_told_and_harms_nothing(void **state) {
  (void)state;
  make_folder();
  run_program(write_items);
  run_program(load_with_a_failing_upgrade);
  run_program(read_as_version_1);
  run_program(change_as_version_2);
  run_program(read_version_2_with_version_1);
  run_program(read_the_changed_one);
  remove_folder();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_new_version_reads_what_an_older_wrote),
      cmocka_unit_test(a_layout_may_shrink),
      cmocka_unit_test(a_failing_upgrade_is_told_and_harms_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
