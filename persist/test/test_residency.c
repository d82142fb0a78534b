/*
 * Placement of objects: in place, or copied in the order of discovery. The program sees the same
 * graph in both cases. Effects of eviction and transactions on it.
 */
#include <pthread.h>

#include "store_fixture.h"

#include "page_copies.h"
#include "page_state.h"
#include "pool.h"
#include "pool_frames.h"
#include "residency_change.h"
#include "residency_known.h"
#include "small_store.h"

typedef struct part {
  uint32_t id;
  uint32_t rest[7]; /* 32 bytes before the slots, 64 in all */
  struct part *to[4];
} part;
P3L_TYPE(part, part, 1, P3L_POINTERS(part, to));
P3L_PLAIN_TYPE(
    ballast, struct { uint8_t byte; }, 1);

/* The lowest limit. A store larger than half of it is always copied. */
#define LIMIT (UINT64_C(4) << 20)
/* Without a limit, a store of this size does not count as small. */
#define BEYOND_SMALL (P3L_SMALL_STORE_PAGES * P3L_PAGE_SIZE)

/* Creates `count` parts, where number i leads to i + steps[0], i + steps[1] ..., and closes the
 * store, which is `ballast_bytes` larger. */
static const uint32_t steps[4] = {5, 2, 7777, 4};

static fixture parts(uint32_t count, uint64_t ballast_bytes) {
  fixture f = fixture_new();
  part **made = malloc(count * sizeof(*made));
  begin(&f);
  for (uint32_t i = 0; i < count; i++) {
    made[i] = p3l_new(f.store, part);
    assert_non_null(made[i]);
    made[i]->id = i;
  }
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < 4; k++) made[i]->to[k] = made[(i + steps[k]) % count];
  p3l_set_root(f.store, "first", made[0]);
  if (ballast_bytes > 0) assert_non_null(p3l_new_array(f.store, ballast, ballast_bytes));
  commit(&f);
  fixture_close(&f);
  free(made);
  return f;
}

static p3l_address address_of(const void *object) {
  return (p3l_address){(uint64_t)(uintptr_t)p3l_surrogate(object) & ~P3L_SURROGATE_BIT};
}

static void a_small_store_is_used_in_place(void **state) {
  (void)state;
  fixture f = parts(1000, 0);
  fixture_open(&f);
  part *first = p3l_root(f.store, "first"), *other = P3L_LD(first->to[1]);
  assert_int_equal(other->id, 2);
  assert_int_equal(address_of(first).byte % P3L_PAGE_SIZE, (uintptr_t)first % P3L_PAGE_SIZE);
  /* The same distance as in the store. */
  assert_int_equal((uintptr_t)other - (uintptr_t)first,
                   address_of(other).byte - address_of(first).byte);
  assert_int_equal(f.store->statistics.objects_copied, 0);
  assert_int_equal(f.store->statistics.pages_adopted, 1);
  fixture_drop(&f);
}

static void beyond_memory_objects_lie_in_the_order_of_discovery(void **state) {
  (void)state;
  fixture f = parts(1000, 3 << 20);
  f.options.memory_bytes = LIMIT;
  fixture_open(&f);
  part *zero = p3l_root(f.store, "first");
  part *four = P3L_LD(zero->to[3]);
  part *nine = P3L_LD(four->to[0]);
  part *two = P3L_LD(zero->to[1]);
  assert_int_equal(four->id, 4);
  assert_int_equal(nine->id, 9);
  assert_int_equal(two->id, 2);
  assert_ptr_equal(four, zero + 1);
  assert_ptr_equal(nine, zero + 2);
  assert_ptr_equal(two, zero + 3);
  assert_int_equal(address_of(nine).byte - address_of(zero).byte, 9 * 64);
  assert_int_equal(f.store->statistics.objects_copied, 4);
  assert_int_equal(f.store->statistics.pages_adopted, 0);
  assert_int_equal(f.store->statistics.pages_read, 1);
  /* Into the middle of a copied object, and of one that was not copied. */
  uint8_t *surrogate = p3l_surrogate(nine);
  assert_ptr_equal(p3l_swizzle(NULL, surrogate + 20), &nine->rest[4]);
  uint32_t *inside = p3l_swizzle(NULL, surrogate + 64); /* number 10 */
  assert_int_equal(*inside, 10);
  assert_ptr_equal(inside, zero + 4);
  assert_ptr_equal(p3l_swizzle(NULL, surrogate + 64 + 63), (uint8_t *)inside + 63);
  fixture_drop(&f);
}

static void a_small_store_is_copied_if_that_is_asked_for(void **state) {
  (void)state;
  fixture f = parts(1000, 0);
  f.options.discovery_order = true;
  fixture_open(&f);
  part *zero = p3l_root(f.store, "first");
  part *four = P3L_LD(zero->to[3]);
  part *two = P3L_LD(zero->to[1]);
  part *nine = P3L_LD(four->to[0]);
  assert_int_equal(four->id, 4);
  assert_int_equal(two->id, 2);
  assert_int_equal(nine->id, 9);
  assert_ptr_equal(four, zero + 1);
  assert_ptr_equal(two, zero + 2);
  assert_ptr_equal(nine, zero + 3);
  /* A larger part of the page than the limit for its adoption. */
  for (uint32_t i = 0; i < 60; i++) {
    part *at = p3l_swizzle(NULL, (uint8_t *)p3l_surrogate(zero) + i * 64);
    assert_int_equal(at->id, i);
  }
  assert_int_equal(f.store->statistics.objects_copied, 60);
  assert_int_equal(f.store->statistics.pages_adopted, 0);
  /* Both are objects of the store. */
  begin(&f);
  P3L_SET(nine->rest[0], 77);
  commit(&f);
  f.options.discovery_order = false;
  fixture_reopen(&f);
  zero = p3l_root(f.store, "first");
  four = P3L_LD(zero->to[3]);
  nine = P3L_LD(four->to[0]);
  assert_int_equal(nine->rest[0], 77);
  assert_int_equal(f.store->statistics.objects_copied, 0);
  fixture_drop(&f);
}

/* In a large store without a limit, objects are copied from a page until a third of the page is
 * known. */
static void a_page_is_adopted_when_a_third_of_it_is_known(void **state) {
  (void)state;
  fixture f = parts(1000, BEYOND_SMALL);
  fixture_open(&f);
  part *zero = p3l_root(f.store, "first");
  uint8_t *surrogate = p3l_surrogate(zero);
  const p3l_page_state *page =
      p3l_page_state_known(f.store, (p3l_page_number){address_of(zero).byte / P3L_PAGE_SIZE});
  /* 80 + 60 * 64 + 60 * 2 = 4040 bytes: 60 parts on the first page. 19 of them are copied. */
  assert_int_equal(page->pieces, 60);
  for (uint32_t i = 1; i < 19; i++)
    assert_ptr_equal(p3l_swizzle(NULL, surrogate + i * 64), zero + i);
  assert_false(page->adopted);
  part *twentieth = p3l_swizzle(NULL, surrogate + 19 * 64);
  assert_true(page->adopted);
  assert_int_equal(twentieth->id, 19);
  assert_ptr_equal(twentieth,
                   (uint8_t *)page->frame + address_of(zero).byte % P3L_PAGE_SIZE + 19 * 64);
  /* Copied objects stay where they are; the others are used in place. */
  for (uint32_t i = 0; i < 60; i++) {
    part *at = p3l_swizzle(NULL, surrogate + i * 64);
    assert_int_equal(at->id, i);
    assert_ptr_equal(at, i < 19 ? zero + i : twentieth + (i - 19));
    p3l_place place;
    assert_true(p3l_place_of(at, &place));
    assert_ptr_equal(place.memory, at);
    assert_int_equal(place.bytes, 64);
    assert_int_equal(place.address.byte, address_of(zero).byte + i * 64);
  }
  assert_int_equal(f.store->statistics.objects_copied, 19);
  assert_int_equal(f.store->statistics.pages_adopted, 1);
  /* The dead copies in the frame do not count as objects. */
  p3l_place place;
  assert_false(p3l_place_of(twentieth - 1, &place));
  fixture_drop(&f);
}

/* The next pointer to follow, 0 to 3: random, so that the walk reaches all parts. */
static uint32_t choice(uint32_t *random) {
  *random = *random * 1664525 + 1013904223;
  return *random >> 30;
}

/* Follows `count` pointers and mixes the numbers met on the way. */
static uint64_t walk(p3l_store *store, uint32_t count) {
  part *at = p3l_root(store, "first");
  uint64_t mixed = 0;
  uint32_t random = 1;
  for (uint32_t i = 0; i < count; i++) {
    mixed = mixed * 31 + at->id;
    at = P3L_LD(at->to[choice(&random)]);
  }
  return mixed;
}

static void all_policies_give_the_same_graph(void **state) {
  (void)state;
  enum { COUNT = 20000, STEPS = 100000 };
  uint64_t expected = 0;
  uint32_t random = 1;
  for (uint32_t i = 0, at = 0; i < STEPS; i++) {
    expected = expected * 31 + at;
    at = (at + steps[choice(&random)]) % COUNT;
  }
  fixture f = parts(COUNT, 3 << 20);
  fixture_open(&f);
  assert_int_equal(walk(f.store, STEPS), expected); /* in place */
  fixture_close(&f);
  f.options.memory_bytes = LIMIT;
  fixture_open(&f);
  assert_int_equal(walk(f.store, STEPS), expected); /* copied */
  assert_true(f.store->statistics.objects_copied > 0);
  fixture_close(&f);
  f.options = (p3l_options){.read_only = true};
  fixture_open(&f);
  assert_int_equal(walk(f.store, STEPS), expected);
  fixture_drop(&f);
  f = parts(COUNT, BEYOND_SMALL);
  fixture_open(&f);
  assert_int_equal(walk(f.store, STEPS), expected); /* first copied, then adopted */
  assert_true(f.store->statistics.objects_copied > 0 && f.store->statistics.pages_adopted > 0);
  fixture_drop(&f);
}

typedef struct reader {
  p3l_store *store;
  uint64_t mixed;
  bool wrong;
} reader;

static void *walk_as_reader(void *argument) {
  reader *reader = argument;
  p3l_enter(reader->store);
  reader->mixed = walk(reader->store, 20000);
  part *first = p3l_root(reader->store, "first");
  for (int i = 0; i < 1000; i++) { /* search while other threads fill the arena */
    reader->wrong |= p3l_extent(first) != sizeof(part);
    first = P3L_LD(first->to[i % 4]);
  }
  p3l_leave(reader->store);
  return NULL;
}

static void many_readers_copy_at_once(void **state) {
  (void)state;
  enum { READERS = 4 };
  fixture f = parts(5000, 3 << 20);
  fixture_open(&f);
  uint64_t expected = walk(f.store, 20000);
  fixture_close(&f);
  f.options.memory_bytes = LIMIT;
  fixture_open(&f);
  pthread_t threads[READERS];
  reader readers[READERS];
  for (int i = 0; i < READERS; i++) {
    readers[i] = (reader){f.store, 0, false};
    assert_int_equal(pthread_create(&threads[i], NULL, walk_as_reader, &readers[i]), 0);
  }
  for (int i = 0; i < READERS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < READERS; i++) {
    assert_int_equal(readers[i].mixed, expected);
    assert_false(readers[i].wrong);
  }
  fixture_drop(&f);
}

static void an_array_that_is_copied_has_an_end_of_its_own(void **state) {
  (void)state;
  fixture f = parts(10, 3 << 20);
  fixture_open(&f);
  begin(&f);
  part *array = p3l_new_array(f.store, part, 3), *after = p3l_new(f.store, part);
  part *first = p3l_root(f.store, "first");
  p3l_dirty(first, sizeof(*first));
  first->to[0] = array + 3;
  first->to[1] = after;
  first->to[2] = array;
  commit(&f);
  fixture_close(&f);
  f.options.memory_bytes = LIMIT;
  fixture_open(&f);
  first = p3l_root(f.store, "first");
  after = P3L_LD(first->to[1]);
  array = P3L_LD(first->to[2]);
  assert_ptr_equal(P3L_LD(first->to[0]), array + 3);
  fixture_drop(&f);
}

/* ---- placement and the statistics ---- */

static void what_was_forgotten_is_read_again(void **state) {
  (void)state;
  fixture f = parts(1000, 3 << 20);
  f.options.memory_bytes = LIMIT;
  fixture_open(&f);
  part *zero = p3l_root(f.store, "first"), *four = P3L_LD(zero->to[3]);
  p3l_address address = address_of(four);
  assert_int_equal(four->id, 4);
  assert_true(p3l_residency_has(f.store, address));
  pthread_mutex_lock(&f.store->slow);
  while (f.store->oldest != NULL) {
    p3l_segment *segment = f.store->oldest;
    p3l_residency_forget(f.store, segment);
    p3l_segment_release(segment);
  }
  assert_false(p3l_residency_has(f.store, address));
  p3l_page_states_trim(f.store);
  assert_int_equal(f.store->statistics.memory_bytes, 0);
  pthread_mutex_unlock(&f.store->slow);
  zero = p3l_root(f.store, "first");
  assert_int_equal(P3L_LD(zero->to[3])->id, 4);
  fixture_drop(&f);
}

static void an_evicted_copy_of_an_adopted_page_is_not_taken_from_its_frame(void **state) {
  (void)state;
  fixture f = parts(1000, BEYOND_SMALL);
  fixture_open(&f);
  part *zero = p3l_root(f.store, "first");
  p3l_address address = address_of(zero);
  for (uint32_t i = 1; i < 30; i++) p3l_swizzle(NULL, (uint8_t *)p3l_surrogate(zero) + i * 64);
  begin(&f);
  P3L_SET(zero->rest[0], 77); /* in the arena and in the file, not in the frame */
  commit(&f);
  p3l_segment *arena = p3l_segment_of(zero);
  assert_int_equal(arena->kind, P3L_ARENA);
  pthread_mutex_lock(&f.store->slow);
  p3l_residency_forget(f.store, arena);
  p3l_segment_release(arena);
  pthread_mutex_unlock(&f.store->slow);
  zero = p3l_swizzle(NULL, (void *)(uintptr_t)(P3L_SURROGATE_BIT | address.byte));
  assert_int_equal(zero->rest[0], 77);
  fixture_drop(&f);
}

static void a_page_that_is_offered_is_not_read_again(void **state) {
  (void)state;
  fixture f = parts(1000, 3 << 20);
  f.options.memory_bytes = LIMIT;
  fixture_open(&f);
  part *zero = p3l_root(f.store, "first");
  p3l_address last = {address_of(zero).byte + 5 * P3L_PAGE_SIZE};
  p3l_page_number number = {last.byte / P3L_PAGE_SIZE};
  p3l_page page;
  p3l_error error;
  void *memory;
  assert_int_equal(p3l_pager_read(f.store->pager, number, &page, &error), P3L_OK);
  pthread_mutex_lock(&f.store->slow);
  uint64_t reads = f.store->statistics.reads;
  assert_false(p3l_residency_has(f.store, last));
  assert_int_equal(p3l_residency_offer(f.store, number, &page, &error), P3L_OK);
  assert_int_equal(p3l_residency_offer(f.store, number, &page, &error), P3L_OK); /* has no effect */
  assert_true(p3l_residency_has(f.store, last));
  assert_int_equal(p3l_resolve(f.store, p3l_surrogate_make(last, 0), &memory, &error), P3L_OK);
  pthread_mutex_unlock(&f.store->slow);
  assert_int_equal(f.store->statistics.reads, reads);
  assert_int_equal(((part *)memory)->id, 300); /* 60 per page, the same offset */
  fixture_drop(&f);
}

static void the_pool_keeps_to_its_frames(void **state) {
  (void)state;
  enum { COUNT = 40000 }; /* 667 pages */
  fixture f = parts(COUNT, 0);
  f.options.memory_bytes = LIMIT;
  fixture_open(&f);
  assert_int_equal(p3l_pool_frames(f.store), 128); /* an eighth of 4 MB */
  part *zero = p3l_root(f.store, "first");
  p3l_address first = address_of(zero);
  uint64_t frames = 0;
  for (uint32_t page = 0; page < 600; page++) { /* one object per page */
    part *at = p3l_swizzle(
        NULL, (void *)(uintptr_t)(P3L_SURROGATE_BIT | (first.byte + page * P3L_PAGE_SIZE)));
    assert_int_equal(at->id, page * 60);
  }
  for (p3l_segment *segment = f.store->oldest; segment != NULL; segment = segment->younger)
    if (segment->kind == P3L_FRAMES) frames += segment->frames.fresh;
  assert_in_range(frames, 1, 128);
  fixture_drop(&f);
}

static void a_corrupt_neighbour_does_not_harm(void **state) {
  (void)state;
  fixture f = parts(1000, 0); /* 17 pages: all are read at once */
  fixture_open(&f);
  uint64_t number = address_of(p3l_root(f.store, "first")).byte / P3L_PAGE_SIZE;
  fixture_close(&f);
  f.file->bytes[(number + 1) * P3L_PAGE_SIZE + 500] ^= 1;
  fixture_open(&f);
  part *zero = p3l_root(f.store, "first");
  assert_int_equal(zero->id, 0);
  assert_int_equal(P3L_LD(zero->to[3])->id, 4);
  char what[32];
  snprintf(what, sizeof(what), "page %llu", (unsigned long long)(number + 1));
  assert_fault(P3L_CORRUPT, p3l_swizzle(NULL, (uint8_t *)p3l_surrogate(zero) + P3L_PAGE_SIZE),
               what);
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_small_store_is_used_in_place),
      cmocka_unit_test(a_small_store_is_copied_if_that_is_asked_for),
      cmocka_unit_test(beyond_memory_objects_lie_in_the_order_of_discovery),
      cmocka_unit_test(a_page_is_adopted_when_a_third_of_it_is_known),
      cmocka_unit_test(all_policies_give_the_same_graph),
      cmocka_unit_test(many_readers_copy_at_once),
      cmocka_unit_test(an_array_that_is_copied_has_an_end_of_its_own),
      cmocka_unit_test(what_was_forgotten_is_read_again),
      cmocka_unit_test(an_evicted_copy_of_an_adopted_page_is_not_taken_from_its_frame),
      cmocka_unit_test(a_page_that_is_offered_is_not_read_again),
      cmocka_unit_test(the_pool_keeps_to_its_frames),
      cmocka_unit_test(a_corrupt_neighbour_does_not_harm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
