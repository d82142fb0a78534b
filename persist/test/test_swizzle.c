/*
 * p3l_swizzle(): its result for a surrogate, and the change of the slot. The store is small, so
 * that its objects are used in place.
 */
#include <pthread.h>
#include <unistd.h>

#include "store_fixture.h"

typedef struct part {
  uint32_t id;
  uint32_t numbers[5]; /* 24 bytes before the slots */
  void *to[3];         /* to parts and into their middle */
} part;
P3L_TYPE(part, part, 1, P3L_POINTERS(part, to));

static part *make(fixture *f, uint32_t id) {
  part *made = p3l_new(f->store, part);
  assert_non_null(made);
  made->id = id;
  for (uint32_t i = 0; i < 5; i++) made->numbers[i] = id * 10 + i;
  return made;
}

static void *surrogate_of(uint64_t page, uint64_t offset) {
  return (void *)(uintptr_t)(P3L_SURROGATE_BIT | (page * P3L_PAGE_SIZE + offset));
}

/* Two parts, closed and reopened: "a" leads to "b". */
static fixture two_parts(void) {
  fixture f = fixture_new();
  begin(&f);
  part *a = make(&f, 1), *b = make(&f, 2);
  a->to[0] = b;
  a->to[1] = &b->numbers[3];
  p3l_set_root(f.store, "a", a);
  commit(&f);
  fixture_reopen(&f);
  return f;
}

static void a_slot_is_healed_and_its_object_is_there_once(void **state) {
  (void)state;
  fixture f = two_parts();
  part *a = p3l_root(f.store, "a");
  void *surrogate = a->to[0];
  assert_true(p3l_is_surrogate(surrogate));
  part *b = p3l_swizzle(&a->to[0], surrogate);
  assert_int_equal(b->id, 2);
  assert_ptr_equal(a->to[0], b);
  assert_ptr_equal(p3l_swizzle(&a->to[0], surrogate), b); /* the same again, also when healed */
  assert_ptr_equal(p3l_surrogate(b), surrogate);
  fixture_drop(&f);
}

static void a_pointer_into_an_object_leads_to_its_byte(void **state) {
  (void)state;
  fixture f = two_parts();
  part *a = p3l_root(f.store, "a");
  uint32_t *inside = P3L_LD(a->to[1]);
  assert_int_equal(*inside, 23);
  part *b = P3L_LD(a->to[0]);
  assert_ptr_equal(inside, &b->numbers[3]);
  /* Tests each byte of it. */
  for (size_t i = 0; i < sizeof(part); i++) {
    void *byte = p3l_swizzle(NULL, (uint8_t *)p3l_surrogate(b) + i);
    assert_ptr_equal(byte, (uint8_t *)b + i);
  }
  fixture_drop(&f);
}

static void a_slot_elsewhere_is_left_alone(void **state) {
  (void)state;
  fixture f = two_parts();
  part *a = p3l_root(f.store, "a");
  void *kept = p3l_surrogate(a), *before = kept;
  assert_ptr_equal(P3L_LD(kept), a);
  assert_ptr_equal(kept, before);
  assert_ptr_equal(p3l_swizzle(NULL, before), a); /* the slot may be a register */
  fixture_drop(&f);
}

static void what_is_no_surrogate_comes_back(void **state) {
  (void)state;
  fixture f = two_parts();
  part *a = p3l_root(f.store, "a");
  void *minus_one = (void *)-1, *kernels = (void *)(uintptr_t)UINT64_C(0xffff800000000000);
  void *minus_zero = (void *)(uintptr_t)P3L_SURROGATE_BIT; /* as a double */
  void *page_zero = surrogate_of(0, 4095);
  assert_ptr_equal(p3l_swizzle(&a->to[2], minus_one), minus_one);
  assert_ptr_equal(p3l_swizzle(NULL, kernels), kernels);
  assert_ptr_equal(p3l_swizzle(NULL, minus_zero), minus_zero);
  assert_ptr_equal(p3l_swizzle(NULL, page_zero), page_zero);
  assert_null(p3l_swizzle(&a->to[2], NULL));
  assert_ptr_equal(p3l_swizzle(NULL, a), a); /* swizzled already */
  assert_null(P3L_LD(a->to[2]));
  fixture_drop(&f);
}

static void a_slot_that_changed_meanwhile_is_not_healed(void **state) {
  (void)state;
  fixture f = two_parts();
  part *a = p3l_root(f.store, "a");
  void *surrogate = a->to[0];
  begin(&f);
  P3L_SET(a->to[0], a); /* between the load and its slow path */
  part *b = p3l_swizzle(&a->to[0], surrogate);
  assert_int_equal(b->id, 2);
  assert_ptr_equal(a->to[0], a);
  commit(&f);
  fixture_drop(&f);
}

/* ---- pointers that lead nowhere ---- */

static void a_dangling_pointer_is_told_with_page_and_offset(void **state) {
  (void)state;
  fixture f = two_parts();
  part *a = p3l_root(f.store, "a"), *b = P3L_LD(a->to[0]);
  uint64_t address = (uint64_t)(uintptr_t)p3l_surrogate(b) & ~P3L_SURROGATE_BIT;
  char where[64];
  snprintf(where, sizeof(where), "page %llu, offset %llu,",
           (unsigned long long)(address / P3L_PAGE_SIZE),
           (unsigned long long)(address % P3L_PAGE_SIZE));
  begin(&f);
  p3l_delete(f.store, b);
  commit(&f);
  fixture_reopen(&f);
  a = p3l_root(f.store, "a");
  assert_fault(P3L_DANGLING, P3L_LD(a->to[0]), where);
  assert_true(p3l_is_surrogate(a->to[0])); /* unchanged */
  assert_fault(P3L_DANGLING, P3L_LD(a->to[1]), "p3l gc");
  assert_int_equal(a->id, 1); /* and the store still works */
  fixture_drop(&f);
}

static void places_without_objects_are_dangling(void **state) {
  (void)state;
  fixture f = two_parts();
  part *a = p3l_root(f.store, "a");
  uint64_t page = ((uint64_t)(uintptr_t)p3l_surrogate(a) & ~P3L_SURROGATE_BIT) / P3L_PAGE_SIZE;
  uint64_t count = p3l_pager_page_count(f.store->pager);
  assert_fault(P3L_DANGLING, p3l_swizzle(NULL, surrogate_of(page, 8)), "where no object is");
  assert_fault(P3L_DANGLING, p3l_swizzle(NULL, surrogate_of(page, 4095)), "offset 4095");
  assert_fault(P3L_DANGLING, p3l_swizzle(NULL, surrogate_of(count, 80)), "behind the last page");
  assert_fault(P3L_DANGLING, p3l_swizzle(NULL, surrogate_of((UINT64_C(1) << 44) - 1, 80)),
               "page 17592186044415");
  for (uint64_t other = 1; other < count; other++)
    if (other != page)
      assert_fault(P3L_DANGLING, p3l_swizzle(NULL, surrogate_of(other, 80)), "no objects");
  fixture_drop(&f);
}

static void a_corrupt_page_is_named_and_others_are_not_harmed(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  part *first = make(&f, 1), *last = first;
  for (uint32_t i = 2; i <= 500; i++) { /* 48 bytes each: several pages */
    part *next = make(&f, i);
    last->to[0] = next;
    last = next;
  }
  p3l_set_root(f.store, "first", first);
  p3l_set_root(f.store, "last", last);
  uint64_t page = ((uint64_t)(uintptr_t)p3l_surrogate(last) & ~P3L_SURROGATE_BIT) / P3L_PAGE_SIZE;
  commit(&f);
  fixture_close(&f);
  f.file->bytes[page * P3L_PAGE_SIZE + 100] ^= 0x10;
  fixture_open(&f);
  char what[32];
  snprintf(what, sizeof(what), "page %llu", (unsigned long long)page);
  assert_fault(P3L_CORRUPT, p3l_root(f.store, "last"), what);
  part *at = p3l_root(f.store, "first"); /* read in one cluster with the corrupt one */
  for (uint32_t i = 1; i <= 60; i++, at = P3L_LD(at->to[0])) assert_int_equal(at->id, i);
  fixture_drop(&f);
}

/* ---- arrays and large objects ---- */

static void an_array_has_an_end(void **state) {
  (void)state;
  fixture f = fixture_new();
  begin(&f);
  part *holder = make(&f, 9), *array = p3l_new_array(f.store, part, 4), *after = make(&f, 5);
  for (uint32_t i = 0; i < 4; i++) array[i].id = 100 + i;
  holder->to[0] = array;
  holder->to[1] = array + 4;
  holder->to[2] = after;
  p3l_set_root(f.store, "holder", holder);
  commit(&f);
  fixture_reopen(&f);
  holder = p3l_root(f.store, "holder");
  part *end = P3L_LD(holder->to[1]), *at = P3L_LD(holder->to[0]);
  assert_ptr_equal(end, at + 4);
  uint32_t sum = 0;
  for (; at != end; at++) sum += at->id;
  assert_int_equal(sum, 406);
  fixture_drop(&f);
}

static void a_large_object_is_one_piece_of_memory(void **state) {
  (void)state;
  enum { COUNT = 50000 }; /* 2.4 MB */
  fixture f = fixture_new();
  begin(&f);
  part *large = p3l_new_array(f.store, part, COUNT), *holder = make(&f, 9);
  assert_non_null(large);
  for (uint32_t i = 0; i < COUNT; i++) {
    large[i].id = i;
    large[i].to[0] = &large[(i * 7 + 1) % COUNT];
  }
  holder->to[0] = &large[COUNT - 1].numbers[2]; /* into its middle first */
  holder->to[1] = large;
  holder->to[2] = large + COUNT;
  p3l_set_root(f.store, "holder", holder);
  commit(&f);
  fixture_reopen(&f);
  holder = p3l_root(f.store, "holder");
  uint32_t *inside = P3L_LD(holder->to[0]);
  large = P3L_LD(holder->to[1]);
  assert_ptr_equal(inside, &large[COUNT - 1].numbers[2]);
  assert_ptr_equal(P3L_LD(holder->to[2]), large + COUNT);
  uint32_t at = 0;
  for (uint32_t i = 0; i < COUNT; i++) {
    assert_int_equal(large[at].id, at);
    at = ((part *)P3L_LD(large[at].to[0]))->id;
  }
  assert_fault(P3L_DANGLING, p3l_swizzle(NULL, (uint8_t *)p3l_surrogate(large) + COUNT * 48 + 32),
               "behind the end");
  fixture_drop(&f);
}

/* ---- objects that have moved ---- */

static p3l_address address_of(const void *object) {
  return (p3l_address){(uint64_t)(uintptr_t)p3l_surrogate(object) & ~P3L_SURROGATE_BIT};
}

/* Moves "b" of two_parts() to a new place without the runtime noticing. */
static p3l_address forward(fixture *f, p3l_address from, p3l_address to) {
  p3l_pager_transaction *transaction;
  p3l_page *source, *target;
  assert_int_equal(p3l_pager_begin(f->store->pager, &transaction, &f->error), P3L_OK);
  if (to.byte == 0) {
    assert_int_equal(p3l_room_take(transaction, 1, sizeof(part), from, &to, &f->error), P3L_OK);
    p3l_page_number a = {from.byte / P3L_PAGE_SIZE}, b = {to.byte / P3L_PAGE_SIZE};
    assert_int_equal(p3l_page_for_writing(transaction, a, &source, &f->error), P3L_OK);
    assert_int_equal(p3l_page_for_writing(transaction, b, &target, &f->error), P3L_OK);
    memcpy((uint8_t *)target + to.byte % P3L_PAGE_SIZE,
           (uint8_t *)source + from.byte % P3L_PAGE_SIZE, sizeof(part));
    p3l_page_changed(transaction, target, 0, P3L_PAGE_SIZE);
  }
  assert_int_equal(p3l_room_forward(transaction, from, to, &f->error), P3L_OK);
  assert_int_equal(p3l_pager_commit(transaction, &f->error), P3L_OK);
  return to;
}

static void a_moved_object_is_found_by_both_addresses(void **state) {
  (void)state;
  fixture f = two_parts();
  part *a = p3l_root(f.store, "a");
  p3l_address old = address_of(P3L_LD(a->to[0])), new;
  fixture_reopen(&f);
  new = forward(&f, old, (p3l_address){0});
  assert_int_not_equal(old.byte, new.byte);
  fixture_reopen(&f);
  a = p3l_root(f.store, "a");
  part *b = P3L_LD(a->to[0]);
  assert_int_equal(b->id, 2);
  assert_int_equal(address_of(b).byte, new.byte);
  assert_ptr_equal(P3L_LD(a->to[1]), &b->numbers[3]); /* into its middle, through the forward */
  assert_ptr_equal(p3l_swizzle(NULL, (void *)(uintptr_t)(P3L_SURROGATE_BIT | new.byte)), b);
  fixture_drop(&f);
}

static void forwards_that_lead_in_a_circle_are_corrupt(void **state) {
  (void)state;
  fixture f = two_parts();
  part *a = p3l_root(f.store, "a");
  p3l_address one = address_of(a), two = address_of(P3L_LD(a->to[0]));
  fixture_reopen(&f);
  forward(&f, one, two);
  forward(&f, two, one);
  fixture_reopen(&f);
  assert_fault(P3L_CORRUPT, p3l_root(f.store, "a"), "cycle");
  fixture_drop(&f);
}

/* ---- several stores ---- */

static void a_slot_says_which_store_is_meant(void **state) {
  (void)state;
  fixture f = two_parts(), g = fixture_new();
  begin(&g);
  part *other = make(&g, 70), *next = make(&g, 71);
  other->to[0] = next;
  p3l_set_root(g.store, "a", other);
  commit(&g);
  fixture_reopen(&g);
  part *a = p3l_root(f.store, "a");
  other = p3l_root(g.store, "a");
  void *in_f = p3l_surrogate(a), *in_g = p3l_surrogate(other);
  assert_ptr_equal(in_f, in_g); /* the same numbers mean other objects */
  assert_int_equal(((part *)P3L_LD(a->to[0]))->id, 2);
  assert_int_equal(((part *)P3L_LD(other->to[0]))->id, 71);

  assert_fault(P3L_MISUSE, p3l_swizzle(NULL, in_f), "p3l_use()");
  p3l_use(f.store);
  assert_ptr_equal(p3l_swizzle(NULL, in_f), a);
  p3l_use(g.store);
  assert_ptr_equal(p3l_swizzle(NULL, in_g), other);
  assert_int_equal(((part *)P3L_LD(a->to[0]))->id, 2); /* its slot determines the right store */
  p3l_use(NULL);
  assert_fault(P3L_MISUSE, p3l_swizzle(NULL, in_f), "several stores are open");
  fixture_drop(&f);
  assert_ptr_equal(p3l_swizzle(NULL, in_g), other); /* the only open store */
  fixture_drop(&g);
  assert_fault(P3L_MISUSE, p3l_swizzle(NULL, in_g), "no store is open");
}

static void a_store_opens_wherever_there_is_room(void **state) {
  (void)state;
  fixture f = two_parts();
  part *a = p3l_root(f.store, "a"), *b = P3L_LD(a->to[0]);
  uintptr_t before = (uintptr_t)a;
  assert_int_equal(b->id, 2);
  fixture_close(&f);
  fixture g = two_parts(); /* at the same addresses */
  p3l_root(g.store, "a");
  fixture_open(&f);
  a = p3l_root(f.store, "a");
  assert_true((uintptr_t)a != before);
  b = P3L_LD(a->to[0]);
  assert_int_equal(b->id, 2);
  assert_ptr_equal(P3L_LD(a->to[1]), &b->numbers[3]);
  fixture_drop(&g);
  fixture_drop(&f);
}

/* ---- threads ---- */

enum { READERS = 4, NODES = 3000 };

typedef struct reader {
  p3l_store *store;
  uint32_t step, seen;
} reader;

static void *read_all(void *argument) {
  reader *reader = argument;
  p3l_enter(reader->store);
  part *at = p3l_root(reader->store, "a");
  for (uint32_t i = 0; i < NODES; i++) {
    reader->seen += at->id;
    at = P3L_LD(at->to[(i * reader->step) % 3]);
  }
  p3l_leave(reader->store);
  return NULL;
}

static void many_readers_swizzle_at_once(void **state) {
  (void)state;
  static part *parts[NODES];
  uint32_t expected[READERS] = {0};
  fixture f = fixture_new();
  begin(&f);
  for (uint32_t i = 0; i < NODES; i++) parts[i] = make(&f, i);
  for (uint32_t i = 0; i < NODES; i++)
    for (uint32_t k = 0; k < 3; k++) parts[i]->to[k] = parts[(i * 5 + k * 1009 + 1) % NODES];
  p3l_set_root(f.store, "a", parts[0]);
  commit(&f);
  for (uint32_t r = 0; r < READERS; r++)
    for (uint32_t i = 0, at = 0; i < NODES; i++) {
      expected[r] += at;
      at = (at * 5 + (i * (r + 1)) % 3 * 1009 + 1) % NODES;
    }
  fixture_reopen(&f);
  pthread_t threads[READERS];
  reader readers[READERS];
  for (uint32_t r = 0; r < READERS; r++) {
    readers[r] = (reader){f.store, r + 1, 0};
    assert_int_equal(pthread_create(&threads[r], NULL, read_all, &readers[r]), 0);
  }
  for (uint32_t r = 0; r < READERS; r++) pthread_join(threads[r], NULL);
  for (uint32_t r = 0; r < READERS; r++) assert_int_equal(readers[r].seen, expected[r]);
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_slot_is_healed_and_its_object_is_there_once),
      cmocka_unit_test(a_pointer_into_an_object_leads_to_its_byte),
      cmocka_unit_test(a_slot_elsewhere_is_left_alone),
      cmocka_unit_test(what_is_no_surrogate_comes_back),
      cmocka_unit_test(a_slot_that_changed_meanwhile_is_not_healed),
      cmocka_unit_test(a_dangling_pointer_is_told_with_page_and_offset),
      cmocka_unit_test(places_without_objects_are_dangling),
      cmocka_unit_test(a_corrupt_page_is_named_and_others_are_not_harmed),
      cmocka_unit_test(an_array_has_an_end),
      cmocka_unit_test(a_large_object_is_one_piece_of_memory),
      cmocka_unit_test(a_moved_object_is_found_by_both_addresses),
      cmocka_unit_test(forwards_that_lead_in_a_circle_are_corrupt),
      cmocka_unit_test(a_slot_says_which_store_is_meant),
      cmocka_unit_test(a_store_opens_wherever_there_is_room),
      cmocka_unit_test(many_readers_swizzle_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
