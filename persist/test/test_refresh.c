/*
 * p3l_refresh(): a reader of a store with a writer moves from version to version, and every slot
 * leads to the object of that version. Objects are used in place, copied in the order of discovery,
 * and evicted.
 */
#include <dirent.h>
#include <fcntl.h>

#include "changes.h"
#include "programs.h"

typedef struct item {
  uint64_t value;
  struct item *next;
} item;
P3L_TYPE(item, item, 1, P3L_POINTERS(item, next));

typedef struct pair {
  uint64_t values[4];
} pair;
P3L_PLAIN_TYPE(pair, pair, 1);

typedef struct late {
  uint64_t value;
} late;
P3L_PLAIN_TYPE(late, late, 1);

typedef struct holder {
  void *any; /* to an item or a pair */
  uint64_t kind;
  uint64_t *large;
  uint64_t count;
} holder;
P3L_TYPE(holder, holder, 1, P3L_POINTERS(holder, any), P3L_POINTERS(holder, large));

typedef struct number {
  uint64_t value;
} number;
P3L_PLAIN_TYPE(number, number, 1);

enum { ITEMS = 2000 };

static p3l_store *writer, *reader;
static p3l_error failure;
static p3l_options reading;

static void must(p3l_code code) {
  if (code != P3L_OK) fail_msg("%s", failure.message);
}

static void start(void) {
  make_folder();
  must(p3l_open(program_path, &(p3l_options){.create = true}, &writer, &failure));
}

static void finish(void) {
  if (reader != NULL) must(p3l_close(reader, &failure));
  must(p3l_close(writer, &failure));
  reader = NULL;
  remove_folder();
}

static void open_reader(void) { must(p3l_open(program_path, &reading, &reader, &failure)); }
static void begin(void) { must(p3l_begin(writer, &failure)); }
static void commit(void) { must(p3l_commit(writer, &failure)); }
static void checkpoint(void) { must(p3l_pager_checkpoint(writer->pager, &failure)); }
static void refresh(void) { must(p3l_refresh(reader, &failure)); }

/* Creates a list of items from the root on: 0, 1, 2 .. plus `more`. */
static void make_items(void) {
  begin();
  item *last = NULL;
  for (uint64_t i = ITEMS; i-- > 0;) {
    item *made = p3l_new(writer, item);
    made->value = i;
    made->next = last;
    last = made;
  }
  must(p3l_set_root(writer, "items", last));
  commit();
}

static void add_to_each(uint64_t more, uint64_t step) {
  begin();
  uint64_t i = 0;
  for (item *at = p3l_root(writer, "items"); at != NULL; at = P3L_LD(at->next), i++)
    if (i % step == 0) P3L_SET(at->value, at->value + more);
  commit();
}

static uint64_t sum_of(p3l_store *store) {
  uint64_t sum = 0;
  for (item *at = p3l_root(store, "items"); at != NULL; at = P3L_LD(at->next)) sum += at->value;
  return sum;
}

enum { SUM = ITEMS * (ITEMS - 1) / 2 };

static void one_version_until_refresh(void **state) {
  (void)state;
  start();
  make_items();
  open_reader();
  add_to_each(1000, 1);
  assert_int_equal(sum_of(reader), SUM); /* read for the first time after the change */
  add_to_each(1000, 1);
  checkpoint();
  assert_int_equal(sum_of(reader), SUM);
  refresh();
  assert_int_equal(sum_of(reader), SUM + 2000 * ITEMS);
  add_to_each(1, 10);
  refresh(); /* from the log's frames alone */
  assert_int_equal(sum_of(reader), SUM + 2000 * ITEMS + ITEMS / 10);
  assert_int_equal(sum_of(writer), sum_of(reader));
  finish();
}

static void what_did_not_change_stays(void **state) {
  (void)state;
  p3l_statistics before, after;
  if (reading.memory_bytes > 0) return;
  start();
  make_items();
  open_reader();
  assert_int_equal(sum_of(reader), SUM);
  item *first = p3l_root(reader, "items");
  p3l_pin(first);
  begin();
  P3L_SET(((item *)p3l_root(writer, "items"))->value, 77);
  commit();
  assert_int_equal(first->value, 0);
  p3l_get_statistics(reader, &before);
  refresh();
  assert_int_equal(first->value, 77); /* pinned: at the same address */
  assert_ptr_equal(p3l_root(reader, "items"), first);
  assert_int_equal(sum_of(reader), SUM + 77);
  p3l_get_statistics(reader, &after);
  /* Only slots of the changed page are swizzled again. */
  assert_true(after.swizzled - before.swizzled <= 4096 / sizeof(item) + 2);
  assert_true(after.pages_read - before.pages_read <= 1);
  p3l_unpin(first);
  finish();
}

static void set_any(const p3l_type *type, uint64_t kind) {
  begin();
  holder *all = p3l_root(writer, "holder");
  void *old = P3L_LD(all->any);
  if (old != NULL) p3l_delete(writer, old);
  P3L_SET(all->any, NULL);
  commit();
  begin();
  all = p3l_root(writer, "holder");
  uint64_t *made = p3l_allocate(writer, type, 1, all);
  assert_non_null(made);
  *made = kind * 100;
  P3L_SET(all->any, (void *)made);
  P3L_SET(all->kind, kind);
  commit();
}

/* The new object begins where the old one began, and the slot has the new one's generation. */
static void another_object_in_the_place_of_one(void **state) {
  (void)state;
  start();
  begin();
  must(p3l_set_root(writer, "holder", p3l_new(writer, holder)));
  commit();
  set_any(&p3l_type_of_item, 1);
  uint64_t surrogate =
      (uint64_t)(uintptr_t)p3l_surrogate(P3L_LD(((holder *)p3l_root(writer, "holder"))->any));
  open_reader();
  holder *all = p3l_root(reader, "holder");
  assert_int_equal(((item *)P3L_LD(all->any))->value, 100);
  set_any(&p3l_type_of_pair, 2);
  assert_int_equal(
      (uint64_t)(uintptr_t)p3l_surrogate(P3L_LD(((holder *)p3l_root(writer, "holder"))->any)),
      surrogate + (UINT64_C(1) << 56));
  all = p3l_root(reader, "holder");
  assert_int_equal(((item *)P3L_LD(all->any))->value, 100);
  refresh();
  all = p3l_root(reader, "holder");
  pair *any = P3L_LD(all->any);
  assert_int_equal(all->kind, 2);
  assert_int_equal(any->values[0], 200);
  assert_ptr_equal(p3l_type_of(any), &p3l_type_of_pair);
  set_any(&p3l_type_of_item, 3);
  checkpoint();
  refresh();
  all = p3l_root(reader, "holder");
  assert_int_equal(((item *)P3L_LD(all->any))->value, 300);
  assert_ptr_equal(p3l_type_of(P3L_LD(all->any)), &p3l_type_of_item);
  finish();
}

static void set_large(uint64_t count, uint64_t value) {
  begin();
  holder *all = p3l_root(writer, "holder");
  number *old = (number *)(void *)P3L_LD(all->large);
  if (old != NULL && all->count != count) {
    p3l_delete(writer, old);
    old = NULL;
  }
  number *made = old != NULL ? old : p3l_new_array(writer, number, count);
  assert_non_null(made);
  for (uint64_t i = 0; i < count; i += 100) P3L_SET(made[i].value, value + i);
  P3L_SET(all->large, (uint64_t *)(void *)made);
  P3L_SET(all->count, count);
  commit();
}

static void check_large(uint64_t count, uint64_t value) {
  holder *all = p3l_root(reader, "holder");
  assert_int_equal(all->count, count);
  number *numbers = (number *)(void *)P3L_LD(all->large);
  for (uint64_t i = 0; i < count; i += 100) assert_int_equal(numbers[i].value, value + i);
}

static p3l_error told;
static jmp_buf back;
static void tell(void *state, const p3l_error *error) {
  (void)state;
  told = *error;
  longjmp(back, 1);
}

/* In the store the slot is unchanged, so it does not lead to the new object in that place. */
static void a_slot_that_nobody_changed_goes_stale(void **state) {
  (void)state;
  start();
  begin();
  must(p3l_set_root(writer, "holder", p3l_new(writer, holder)));
  commit();
  set_any(&p3l_type_of_item, 1);
  open_reader();
  holder *mine = p3l_root(writer, "holder"), *all = p3l_root(reader, "holder");
  assert_int_equal(((item *)P3L_LD(all->any))->value, 100);
  item *old = P3L_LD(mine->any);
  uint64_t place = (uint64_t)(uintptr_t)p3l_surrogate(old);
  begin();
  p3l_delete(writer, old);
  commit();
  begin();
  pair *made = p3l_new_near(writer, pair, mine);
  made->values[0] = 200;
  assert_int_equal((uint64_t)(uintptr_t)p3l_surrogate(made), place + (UINT64_C(1) << 56));
  must(p3l_set_root(writer, "made", made));
  commit();
  refresh();
  all = p3l_root(reader, "holder");
  told.code = P3L_OK;
  p3l_on_fault(tell, NULL);
  if (setjmp(back) == 0) (void)P3L_LD(all->any);
  p3l_on_fault(NULL, NULL);
  assert_int_equal(told.code, P3L_DANGLING);
  assert_non_null(strstr(told.message, "where another object is now"));
  pair *seen = p3l_root(reader, "made");
  assert_int_equal(seen->values[0], 200);
  finish();
}

static void large_objects_too(void **state) {
  (void)state;
  start();
  begin();
  must(p3l_set_root(writer, "holder", p3l_new(writer, holder)));
  commit();
  set_large(5000, 1);
  open_reader();
  check_large(5000, 1);
  set_large(5000, 7);
  check_large(5000, 1);
  refresh();
  check_large(5000, 7);
  set_large(300, 9); /* perhaps at the large object's first page */
  set_large(9000, 11);
  check_large(5000, 7);
  refresh();
  check_large(9000, 11);
  set_large(200, 13);
  checkpoint();
  refresh();
  check_large(200, 13);
  finish();
}

typedef struct brick {
  uint64_t values[500]; /* a page of its own */
} brick;
P3L_PLAIN_TYPE(brick, brick, 1);

static uint64_t page_of(const void *object) {
  return ((uint64_t)(uintptr_t)p3l_surrogate(object) & P3L_SURROGATE_ADDRESS) / P3L_PAGE_SIZE;
}

static void delete_root(const char *name) {
  begin();
  p3l_delete(writer, p3l_root(writer, name));
  must(p3l_set_root(writer, name, NULL));
  commit();
}

static void a_large_object_where_pages_of_objects_were(void **state) {
  (void)state;
  start();
  begin();
  must(p3l_set_root(writer, "holder", p3l_new(writer, holder)));
  brick *a = p3l_new(writer, brick), *b = p3l_new(writer, brick);
  must(p3l_set_root(writer, "a", a));
  must(p3l_set_root(writer, "b", b));
  a->values[0] = b->values[0] = 3;
  commit();
  uint64_t first = page_of(a);
  assert_int_equal(page_of(b), first + 1);
  open_reader();
  assert_int_equal(((brick *)p3l_root(reader, "a"))->values[0], 3);
  assert_int_equal(((brick *)p3l_root(reader, "b"))->values[0], 3);
  delete_root("b");
  delete_root("a");
  refresh();
  set_large(800, 7);
  assert_int_equal(page_of(P3L_LD(((holder *)p3l_root(writer, "holder"))->large)), first);
  refresh();
  check_large(800, 7);
  finish();
}

typedef struct most {
  uint64_t values[480]; /* in one page */
} most;
P3L_PLAIN_TYPE(most, most, 1);

typedef struct rest {
  uint64_t values[10];
} rest;
P3L_PLAIN_TYPE(rest, rest, 1);

/*
 * The page's type ids occupy the bytes of a former object, and show which generation the new object
 * has.
 */
static void type_ids_where_an_object_was(void **state) {
  (void)state;
  enum { LATER = 50 };
  start();
  begin();
  holder *all = p3l_new(writer, holder);
  most *before = p3l_new_near(writer, most, all);
  pair *stays = p3l_new_near(writer, pair, all);
  rest *behind = p3l_new_near(writer, rest, all);
  stays->values[0] = 7;
  must(p3l_set_root(writer, "holder", all));
  must(p3l_set_root(writer, "before", before));
  must(p3l_set_root(writer, "stays", stays));
  must(p3l_set_root(writer, "behind", behind));
  commit();
  uint64_t page = page_of(all);
  assert_int_equal(page_of(before), page);
  assert_int_equal(page_of(stays), page);
  assert_int_equal(page_of(behind), page);
  open_reader();
  assert_int_equal(((most *)p3l_root(reader, "before"))->values[0], 0);
  assert_int_equal(((pair *)p3l_root(reader, "stays"))->values[0], 7);
  assert_int_equal(((rest *)p3l_root(reader, "behind"))->values[0], 0);
  delete_root("before");
  delete_root("behind");
  begin();
  P3L_SET(all->any, (void *)stays);
  for (int at = 0; at < LATER; at++)
    assert_int_equal(page_of(p3l_new_near(writer, late, all)), page);
  commit();
  uint64_t ids = P3L_PAGE_SIZE - (LATER + 2) * sizeof(uint16_t);
  uint64_t end = (uint64_t)(uintptr_t)p3l_surrogate(stays) % P3L_PAGE_SIZE + sizeof(pair);
  assert_true(end < ids && ids < end + sizeof(rest));
  refresh();
  holder *mine = p3l_root(reader, "holder");
  pair *seen = P3L_LD(mine->any);
  assert_int_equal(seen->values[0], 7);
  assert_ptr_equal(p3l_type_of(seen), &p3l_type_of_pair);
  finish();
}

/*
 * The writer has begun to log a transaction: its pages do not exist yet, and do not count as
 * changed.
 */
static void a_transaction_without_its_commit(void **state) {
  (void)state;
  start();
  begin();
  must(p3l_set_root(writer, "holder", p3l_new(writer, holder)));
  commit();
  open_reader();
  assert_int_equal(((holder *)p3l_root(reader, "holder"))->kind, 0);
  begin();
  P3L_SET(((holder *)p3l_root(writer, "holder"))->kind, 5);
  commit();
  begin();
  holder *all = p3l_root(writer, "holder");
  P3L_SET(all->large, (uint64_t *)(void *)p3l_new_array(writer, number, 5000));
  P3L_SET(all->count, 5000);
  must(p3l_pager_append_early(writer->changes->pager, 1, &failure));
  refresh();
  assert_int_equal(((holder *)p3l_root(reader, "holder"))->kind, 5);
  assert_null(((holder *)p3l_root(reader, "holder"))->large);
  commit();
  refresh();
  assert_int_equal(((holder *)p3l_root(reader, "holder"))->count, 5000);
  assert_non_null(P3L_LD(((holder *)p3l_root(reader, "holder"))->large));
  finish();
}

static void another_large_object_in_the_place_of_one(void **state) {
  (void)state;
  start();
  begin();
  must(p3l_set_root(writer, "holder", p3l_new(writer, holder)));
  commit();
  set_large(5000, 1);
  open_reader();
  check_large(5000, 1);
  holder *all = p3l_root(writer, "holder");
  number *old = (number *)(void *)P3L_LD(all->large);
  uint64_t place = (uint64_t)(uintptr_t)p3l_surrogate(old);
  begin();
  p3l_delete(writer, old);
  P3L_SET(all->large, NULL);
  commit();
  set_large(5000, 7); /* the same pages and the same length */
  assert_int_equal((uint64_t)(uintptr_t)p3l_surrogate(P3L_LD(all->large)),
                   place + (UINT64_C(1) << 56));
  refresh();
  check_large(5000, 7);
  finish();
}

static void a_type_that_came_later(void **state) {
  (void)state;
  start();
  make_items();
  open_reader();
  assert_int_equal(sum_of(reader), SUM);
  begin();
  late *made = p3l_new(writer, late);
  made->value = 5;
  must(p3l_set_root(writer, "late", made));
  commit();
  assert_null(p3l_root(reader, "late"));
  refresh();
  late *seen = p3l_root(reader, "late");
  assert_int_equal(seen->value, 5);
  assert_ptr_equal(p3l_type_of(seen), &p3l_type_of_late);
  finish();
}

/* Readers see nothing of a load before it has ended, and all of it afterwards. */
static void a_load_is_one_version(void **state) {
  (void)state;
  enum { MORE = 20000 };
  start();
  make_items();
  open_reader();
  assert_int_equal(sum_of(reader), SUM);
  must(p3l_load_begin(writer, &failure));
  item *last = NULL;
  for (int commits = 0; commits < 10; commits++) {
    begin();
    for (int i = 0; i < MORE / 10; i++) {
      item *made = p3l_new(writer, item);
      made->value = 1;
      made->next = last;
      last = made;
    }
    must(p3l_set_root(writer, "more", last));
    item *first = p3l_root(writer, "items");
    P3L_SET(first->value, (uint64_t)commits + 1);
    commit();
    refresh();
    assert_null(p3l_root(reader, "more"));
    assert_int_equal(sum_of(reader), SUM);
  }
  must(p3l_close(reader, &failure));
  open_reader();
  assert_null(p3l_root(reader, "more"));
  must(p3l_load_end(writer, &failure));
  assert_null(p3l_root(reader, "more"));
  refresh();
  assert_int_equal(sum_of(reader), SUM + 10);
  uint64_t count = 0;
  for (item *at = p3l_root(reader, "more"); at != NULL; at = P3L_LD(at->next)) count += at->value;
  assert_int_equal(count, MORE);
  must(p3l_close(reader, &failure));
  open_reader();
  assert_non_null(p3l_root(reader, "more"));
  begin();
  assert_int_equal(p3l_load_begin(writer, &failure), P3L_MISUSE);
  assert_int_equal(p3l_load_end(writer, &failure), P3L_MISUSE);
  commit();
  finish();
}

static void misuse_is_refused(void **state) {
  (void)state;
  start();
  make_items();
  open_reader();
  p3l_enter(reader);
  assert_int_equal(p3l_refresh(reader, &failure), P3L_MISUSE);
  p3l_leave(reader);
  begin();
  assert_int_equal(p3l_refresh(writer, &failure), P3L_MISUSE);
  commit();
  must(p3l_refresh(writer, &failure)); /* no change to refresh */
  assert_int_equal(p3l_begin(reader, &failure), P3L_READ_ONLY);
  finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_version_until_refresh),
      cmocka_unit_test(what_did_not_change_stays),
      cmocka_unit_test(another_object_in_the_place_of_one),
      cmocka_unit_test(a_slot_that_nobody_changed_goes_stale),
      cmocka_unit_test(large_objects_too),
      cmocka_unit_test(a_large_object_where_pages_of_objects_were),
      cmocka_unit_test(type_ids_where_an_object_was),
      cmocka_unit_test(another_large_object_in_the_place_of_one),
      cmocka_unit_test(a_transaction_without_its_commit),
      cmocka_unit_test(a_type_that_came_later),
      cmocka_unit_test(a_load_is_one_version),
      cmocka_unit_test(misuse_is_refused),
  };
  int failed = 0;
  reading = (p3l_options){.read_only = true};
  failed += cmocka_run_group_tests_name("in place", tests, NULL, NULL);
  reading.discovery_order = true;
  failed += cmocka_run_group_tests_name("copied", tests, NULL, NULL);
  reading = (p3l_options){.read_only = true, .memory_bytes = 4 << 20};
  return failed + cmocka_run_group_tests_name("evicted", tests, NULL, NULL);
}
