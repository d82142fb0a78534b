/*
 * p3l_refresh() of pages whose objects stay the same takes over the units that changed: random changes of
 * small, large and very large objects, of values and of slots, by one commit or several, between
 * creations and deletions of objects. After each refresh the reader's objects equal the writer's.
 */
#include "page.h"
#include "programs.h"

typedef struct item {
  uint64_t value;
  struct item *next, *other;
} item;
P3L_TYPE(item, item, 1, P3L_POINTERS(item, next), P3L_POINTERS(item, other));

typedef struct brick {
  uint64_t values[470]; /* most of a page */
  struct item *middle;
  uint64_t rest[20];
} brick;
P3L_TYPE(brick, brick, 1, P3L_POINTERS(brick, middle));

typedef struct number {
  uint64_t value;
} number;
P3L_PLAIN_TYPE(number, number, 1);

enum { ITEMS = 600, BRICKS = 8, NUMBERS = 3000 };

typedef struct slot {
  item *to;
} slot;
P3L_TYPE(slot, slot, 1, P3L_POINTERS(slot, to));

typedef struct holder {
  slot *items;     /* ITEMS of them: a large object with its own pages */
  number *numbers; /* NUMBERS */
  brick *bricks[BRICKS];
} holder;
P3L_TYPE(holder, holder, 1, P3L_POINTERS(holder, items), P3L_POINTERS(holder, numbers),
         P3L_POINTERS(holder, bricks));

static p3l_store *writer, *reader;
static p3l_error failure;
static p3l_options reading;
static uint64_t random_state;

static void must(p3l_code code) {
  if (code != P3L_OK) fail_msg("%s", failure.message);
}

static unsigned draw(unsigned below) {
  random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (unsigned)(random_state >> 33) % below;
}

static void begin(void) { must(p3l_begin(writer, &failure)); }
static void commit(void) { must(p3l_commit(writer, &failure)); }
static slot *items_of(p3l_store *store) {
  return P3L_LD(((holder *)p3l_root(store, "holder"))->items);
}
static item *new_item(void) {
  item *made = p3l_new(writer, item);
  assert_non_null(made);
  made->value = draw(1000);
  return made;
}

static void make_all(void) {
  make_folder();
  must(p3l_open(program_path, &(p3l_options){.create = true}, &writer, &failure));
  begin();
  holder *all = p3l_new(writer, holder);
  must(p3l_set_root(writer, "holder", all));
  slot *items = p3l_new_array(writer, slot, ITEMS);
  P3L_SET(all->items, items);
  for (unsigned i = 0; i < ITEMS; i++) P3L_SET(items[i].to, new_item());
  P3L_SET(all->numbers, p3l_new_array(writer, number, NUMBERS));
  for (unsigned b = 0; b < BRICKS; b++) P3L_SET(all->bricks[b], p3l_new(writer, brick));
  commit();
}

/* Changes that neither create nor delete objects. */
static void change_some(unsigned changes) {
  begin();
  holder *all = p3l_root(writer, "holder");
  slot *items = P3L_LD(all->items);
  number *numbers = P3L_LD(all->numbers);
  for (; changes > 0; changes--) {
    item *one = P3L_LD(items[draw(ITEMS)].to);
    brick *large = P3L_LD(all->bricks[draw(BRICKS)]);
    unsigned in_values = draw(470), in_rest = draw(20), in_numbers = draw(NUMBERS);
    switch (draw(7)) { /* P3L_SET() evaluates what it sets twice */
      case 0: P3L_SET(one->value, draw(1000)); break;
      case 1: P3L_SET(one->next, P3L_LD(items[draw(ITEMS)].to)); break;
      case 2: P3L_SET(one->other, draw(3) == 0 ? NULL : P3L_LD(items[draw(ITEMS)].to)); break;
      case 3: P3L_SET(large->values[in_values], draw(1000)); break;
      case 4: P3L_SET(large->middle, one); break;
      case 5: P3L_SET(large->rest[in_rest], draw(1000)); break;
      default: P3L_SET(numbers[in_numbers].value, draw(1000));
    }
  }
  commit();
}

/* Deletes objects and creates others. */
static void replace_some(unsigned changes) {
  begin();
  slot *items = items_of(writer);
  holder *all = p3l_root(writer, "holder");
  for (; changes > 0; changes--) {
    unsigned which = draw(ITEMS);
    item *gone = P3L_LD(items[which].to);
    for (unsigned i = 0; i < ITEMS; i++) {
      item *from = P3L_LD(items[i].to);
      if (P3L_LD(from->next) == gone) P3L_SET(from->next, NULL);
      if (P3L_LD(from->other) == gone) P3L_SET(from->other, NULL);
    }
    for (unsigned b = 0; b < BRICKS; b++) {
      brick *large = P3L_LD(all->bricks[b]);
      if (P3L_LD(large->middle) == gone) P3L_SET(large->middle, NULL);
    }
    P3L_SET(items[which].to, NULL);
    p3l_delete(writer, gone);
    P3L_SET(items[which].to, new_item());
  }
  commit();
}

static uint64_t oid(const void *object) {
  return object == NULL ? 0 : (uint64_t)(uintptr_t)p3l_surrogate(object);
}

/* The index of the item; ITEMS: none. */
static unsigned index_of(slot *items, const item *wanted) {
  unsigned i = 0;
  while (i < ITEMS && (wanted == NULL || P3L_LD(items[i].to) != wanted)) i++;
  return i;
}

static void compare_all(void) {
  holder *mine = p3l_root(writer, "holder"), *all = p3l_root(reader, "holder");
  slot *my_items = P3L_LD(mine->items), *items = P3L_LD(all->items);
  for (unsigned i = 0; i < ITEMS; i++) {
    item *my_item = P3L_LD(my_items[i].to), *one = P3L_LD(items[i].to);
    assert_int_equal(one->value, my_item->value);
    assert_int_equal(oid(one), oid(my_item));
    item *my_next = P3L_LD(my_item->next), *next = P3L_LD(one->next);
    assert_int_equal(oid(next), oid(my_next));
    item *my_other = P3L_LD(my_item->other), *other = P3L_LD(one->other);
    if (i % 16 == 0) assert_int_equal(index_of(items, other), index_of(my_items, my_other));
  }
  for (unsigned b = 0; b < BRICKS; b++) {
    brick *my_brick = P3L_LD(mine->bricks[b]), *large = P3L_LD(all->bricks[b]);
    assert_memory_equal(large->values, my_brick->values, sizeof(large->values));
    assert_memory_equal(large->rest, my_brick->rest, sizeof(large->rest));
    assert_int_equal(index_of(items, P3L_LD(large->middle)),
                     index_of(my_items, P3L_LD(my_brick->middle)));
  }
  assert_memory_equal(P3L_LD(all->numbers), P3L_LD(mine->numbers), NUMBERS * sizeof(number));
}

static void random_changes(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 3; seed++) {
    random_state = seed;
    make_all();
    must(p3l_open(program_path, &reading, &reader, &failure));
    compare_all();
    for (int round = 0; round < 60; round++) {
      for (unsigned commits = 1 + draw(3); commits > 0; commits--) change_some(1 + draw(40));
      if (draw(4) == 0) replace_some(1 + draw(3));
      if (draw(4) == 0) change_some(5);
      if (draw(12) == 0) must(p3l_pager_checkpoint(writer->pager, &failure));
      must(p3l_refresh(reader, &failure));
      compare_all();
    }
    must(p3l_close(reader, &failure));
    must(p3l_close(writer, &failure));
    remove_folder();
  }
}

/* Slots in units that did not change stay addresses. */
static void slots_in_other_units_stay(void **state) {
  (void)state;
  random_state = 9;
  make_all();
  begin();
  slot *mine = items_of(writer);
  for (unsigned i = 0; i < ITEMS; i++)
    P3L_SET(((item *)P3L_LD(mine[i].to))->next, P3L_LD(mine[(i + 1) % ITEMS].to));
  commit();
  must(p3l_open(program_path, &reading, &reader, &failure));
  compare_all();
  slot *items = items_of(reader);
  begin();
  P3L_SET(((item *)P3L_LD(mine[100].to))->value, 7777);
  commit();
  must(p3l_refresh(reader, &failure));
  unsigned surrogates = 0;
  for (unsigned i = 0; i < ITEMS; i++) {
    const item *one = items[i].to;
    assert_false(p3l_is_surrogate(one)); /* no page of these changed */
    surrogates += p3l_is_surrogate(one->next);
    if (i == 100) assert_int_equal(one->value, 7777);
  }
  assert_true(surrogates <= P3L_UNIT / sizeof(item) + 1);
  must(p3l_close(reader, &failure));
  must(p3l_close(writer, &failure));
  remove_folder();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_changes),
      cmocka_unit_test(slots_in_other_units_stay),
  };
  int failed = 0;
  reading = (p3l_options){.read_only = true};
  failed += cmocka_run_group_tests_name("in place", tests, NULL, NULL);
  reading.discovery_order = true;
  return failed + cmocka_run_group_tests_name("copied", tests, NULL, NULL);
}
