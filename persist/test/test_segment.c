/*
 * The address range for objects: look-up by address. Arenas are filled by hand, so that every
 * address is known.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "store_fixture.h"

typedef struct node {
  uint64_t id;
  struct node *next;
} node;
P3L_TYPE(node, node, 1, P3L_POINTERS(node, next));

/* An object of `bytes` with the store's address `address`. */
static p3l_place add(p3l_store *store, uint64_t address, uint16_t bytes) {
  p3l_place place;
  p3l_error error;
  p3l_resident object = {.address = address, .type = 7, .granules = bytes / P3L_GRANULE};
  assert_int_equal(p3l_arena_add(store, object, &place, &error), P3L_OK);
  memset(place.memory, 0xab, bytes);
  return place;
}

static void the_range_is_aligned_and_its_cards_are_clear(void **state) {
  (void)state;
  fixture f = fixture_new();
  assert_true(p3l_persistent_memory.bytes >= UINT64_C(64) << 20);
  assert_int_equal(p3l_persistent_memory.base % P3L_SEGMENT_BYTES, 0);
  assert_int_equal(p3l_persistent_memory.cards[0], 0);
  assert_int_equal(p3l_persistent_memory.cards[(p3l_persistent_memory.bytes >> P3L_CARD_SHIFT) - 1],
                   0);
  int local;
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  assert_true(p3l_persistent_memory.base + p3l_persistent_memory.bytes <= UINT64_C(1) << 46);
  assert_true(((uintptr_t)&local >> 46 & 1) == 1); /* the plugin relies on it */
#endif
  assert_false(p3l_is_persistent(&local));
  assert_null(p3l_segment_of(&local));
  assert_null(p3l_segment_of(NULL));
  fixture_drop(&f);
}

static void an_arena_is_filled_without_gaps_and_found_by_any_byte(void **state) {
  (void)state;
  fixture f = fixture_new();
  p3l_place a = add(f.store, 0x1050, 16), b = add(f.store, 0x2050, 4000),
            c = add(f.store, 0x3050, 48);
  assert_ptr_equal(b.memory, a.memory + 16);
  assert_ptr_equal(c.memory, a.memory + 16 + 4000);
  const struct {
    size_t byte;
    uint64_t address, bytes;
  } expected[] = {{0, 0x1050, 16},      {15, 0x1050, 16},     {16, 0x2050, 4000},
                  {2000, 0x2050, 4000}, {4015, 0x2050, 4000}, {4016, 0x3050, 48},
                  {4063, 0x3050, 48}};
  for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
    p3l_place place;
    assert_true(p3l_place_of(a.memory + expected[i].byte, &place));
    assert_int_equal(place.address.byte, expected[i].address);
    assert_int_equal(place.bytes, expected[i].bytes);
    assert_int_equal(place.type, 7);
  }
  p3l_place none;
  assert_false(p3l_place_of(a.memory + 4064, &none)); /* after the last */
  fixture_drop(&f);
}

static void thousands_of_objects_keep_their_ranks(void **state) {
  (void)state;
  fixture f = fixture_new();
  /* 16, 32, .. 160, 16, 32 ...: the sum of each ten is 880. The second arena begins in between. */
  enum { COUNT = 15000 };
  static uint8_t *memory[COUNT];
  for (int i = 0; i < COUNT; i++)
    memory[i] = add(f.store, 0x10000 + (uint64_t)i * 256, (uint16_t)(16 * (i % 10 + 1))).memory;
  for (int i = 0; i < COUNT; i++) {
    p3l_place place;
    unsigned bytes = 16 * (unsigned)(i % 10 + 1);
    assert_true(p3l_place_of(memory[i] + bytes - 1, &place));
    assert_ptr_equal(place.memory, memory[i]);
    assert_int_equal(place.address.byte, 0x10000 + (uint64_t)i * 256);
    assert_int_equal(place.bytes, bytes);
  }
  /* 1 MB holds 11910 objects: 1191 times ten are 1048080 bytes; then 16 + 32 + .. + 480 do not
   * fit. */
  assert_ptr_equal(p3l_segment_of(memory[0]), p3l_segment_of(memory[11909]));
  assert_ptr_not_equal(p3l_segment_of(memory[0]), p3l_segment_of(memory[14999]));
  fixture_drop(&f);
}

typedef struct seen {
  uint64_t addresses[16];
  size_t count;
} seen;

static p3l_code see(void *state, const p3l_place *place, p3l_error *error) {
  (void)error;
  seen *seen = state;
  seen->addresses[seen->count++] = place->address.byte;
  return P3L_OK;
}

static void a_range_has_the_objects_that_overlap_it(void **state) {
  (void)state;
  fixture f = fixture_new();
  p3l_place a = add(f.store, 0x1050, 64), b = add(f.store, 0x2050, 64),
            c = add(f.store, 0x3050, 64);
  seen seen = {.count = 0};
  p3l_error error;
  assert_int_equal(p3l_places_in(a.segment, a.memory + 63, a.memory + 129, see, &seen, &error),
                   P3L_OK);
  assert_int_equal(seen.count, 3);
  assert_int_equal(seen.addresses[0], 0x1050);
  assert_int_equal(seen.addresses[2], 0x3050);
  seen.count = 0;
  p3l_places_in(a.segment, b.memory, b.memory + 64, see, &seen, &error);
  assert_int_equal(seen.count, 1);
  seen.count = 0;
  p3l_places_in(a.segment, c.memory + 64, c.memory + 1024, see, &seen, &error);
  assert_int_equal(seen.count, 0);
  /* A dead object is not found, but a slot that points to it still has an address. */
  b.resident->flags |= P3L_RESIDENT_DEAD;
  p3l_places_in(a.segment, a.memory, a.memory + 1024, see, &seen, &error);
  assert_int_equal(seen.count, 2);
  p3l_place place;
  assert_false(p3l_place_of(b.memory, &place));
  p3l_store *store;
  uint64_t surrogate;
  assert_true(p3l_memory_surrogate(b.memory + 5, &store, &surrogate));
  assert_ptr_equal(store, f.store);
  assert_int_equal(p3l_surrogate_address(surrogate).byte, 0x2055);
  fixture_drop(&f);
}

static void segments_side_by_side_are_one_object(void **state) {
  (void)state;
  fixture f = fixture_new();
  p3l_segment *large, *arena;
  p3l_error error;
  assert_int_equal(p3l_segment_take(f.store, P3L_LARGE, 3, &large, &error), P3L_OK);
  assert_int_equal(p3l_segment_take(f.store, P3L_ARENA, 1, &arena, &error), P3L_OK);
  large->large.object = (p3l_resident){.address = 0x5000, .type = 9};
  large->large.bytes = 2 * P3L_SEGMENT_BYTES + 16;
  p3l_place place;
  assert_true(p3l_place_of(large->memory + 2 * P3L_SEGMENT_BYTES + 15, &place));
  assert_ptr_equal(place.memory, large->memory);
  assert_int_equal(place.address.byte, 0x5000);
  assert_false(p3l_place_of(large->memory + 2 * P3L_SEGMENT_BYTES + 16, &place));
  large->memory[3 * P3L_SEGMENT_BYTES - 1] = 1; /* the whole range is mapped */
  assert_true(large->younger == arena && arena->older == large);

  uint8_t *memory = large->memory;
  uint64_t before = f.store->statistics.memory_bytes;
  p3l_segment_release(large);
  assert_null(p3l_segment_of(memory));
  assert_null(arena->older);
  assert_int_equal(f.store->statistics.memory_bytes, before - sizeof(p3l_segment));
  /* Reused from the front, and zeroed. */
  assert_int_equal(p3l_segment_take(f.store, P3L_LARGE, 3, &large, &error), P3L_OK);
#ifndef P3L_DEBUG
  assert_ptr_equal(large->memory, memory);
#endif
  assert_int_equal(large->memory[3 * P3L_SEGMENT_BYTES - 1], 0);
  fixture_drop(&f);
}

/* ---- in a process of its own ---- */

#define EXPECT(condition)                                             \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                       \
    }                                                                 \
  } while (0)

static int run_alone(void (*function)(void)) {
  int status;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    function();
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

/* The limit ends with the process: so this is for children only. */
static bool ration(rlim_t bytes) {
  struct rlimit limit = {bytes, bytes}, now;
  return setrlimit(RLIMIT_AS, &limit) == 0 && getrlimit(RLIMIT_AS, &now) == 0 &&
         now.rlim_cur == bytes;
}

static void rations_addresses(void) { EXPECT(ration(UINT64_C(2) << 30)); }

static void with_rationed_addresses(void) {
  p3l_error error;
  EXPECT(ration(UINT64_C(2) << 30));
  EXPECT(p3l_memory_reserve(&error) == P3L_OK);
  EXPECT(p3l_persistent_memory.bytes == UINT64_C(1) << 30); /* half of them */
}

static void with_too_few_addresses(void) {
  p3l_error error;
  EXPECT(ration(UINT64_C(100) << 20));
  EXPECT(p3l_memory_reserve(&error) == P3L_NO_MEMORY);
  EXPECT(strstr(error.message, "ulimit -v") != NULL);
  EXPECT(p3l_persistent_memory.bytes == 0);
}

/* Runs first, before any addresses are reserved. Sanitizers use address ranges of their own,
 * which such a limit would not leave. */
static void less_is_reserved_where_addresses_are_rationed(void **state) {
  (void)state;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (run_alone(rations_addresses) != 0) {
    print_message("skipped: a limit of addresses (RLIMIT_AS) has no effect, as in qemu-user\n");
    skip();
  }
  assert_int_equal(run_alone(with_rationed_addresses), 0);
  assert_int_equal(run_alone(with_too_few_addresses), 0);
#else
  (void)rations_addresses;
  (void)with_rationed_addresses;
  (void)with_too_few_addresses;
  skip();
#endif
}

static uint8_t *freed;
static void touch_freed(void) {
  signal(SIGSEGV, SIG_DFL); /* cmocka and sanitizers have their own handlers */
  *(volatile uint8_t *)freed = 1;
}

static void a_dangling_pointer_into_a_released_segment_traps(void **state) {
  (void)state;
  fixture f = fixture_new();
  p3l_segment *segment;
  p3l_error error;
  assert_int_equal(p3l_segment_take(f.store, P3L_LARGE, 2, &segment, &error), P3L_OK);
  freed = segment->memory;
  *freed = 1;
  p3l_segment_release(segment);
  int status = run_alone(touch_freed);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(less_is_reserved_where_addresses_are_rationed),
      cmocka_unit_test(the_range_is_aligned_and_its_cards_are_clear),
      cmocka_unit_test(an_arena_is_filled_without_gaps_and_found_by_any_byte),
      cmocka_unit_test(thousands_of_objects_keep_their_ranks),
      cmocka_unit_test(a_range_has_the_objects_that_overlap_it),
      cmocka_unit_test(segments_side_by_side_are_one_object),
      cmocka_unit_test(a_dangling_pointer_into_a_released_segment_traps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
