/* Memory for copies of pages: no buffer is allocated twice, and released buffers are used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "buffers.h"

enum { MANY = 1500 }; /* three slabs of 511 */

/* Writes all bytes of each buffer. This detects overlapping buffers; the sanitizers detect
 * buffers that are too short. */
static void take_all(p3l_buffers *buffers, p3l_page *taken[MANY]) {
  for (int i = 0; i < MANY; i++) {
    taken[i] = p3l_buffer_take(buffers);
    assert_non_null(taken[i]);
    memset(taken[i], i % 251, sizeof(*taken[i]));
  }
}

static void assert_mine(const p3l_page *buffer, int i) {
  const uint8_t *bytes = (const uint8_t *)buffer;
  for (size_t at = 0; at < sizeof(*buffer); at++) assert_int_equal(bytes[at], i % 251);
}

static void buffers_do_not_overlap(void **state) {
  (void)state;
  static p3l_page *taken[MANY];
  p3l_buffers buffers = {0};
  take_all(&buffers, taken);
  for (int i = 0; i < MANY; i++) assert_mine(taken[i], i);
  /* Every third buffer is released and taken again; the others keep their contents. */
  for (int i = 0; i < MANY; i += 3) p3l_buffer_give(&buffers, taken[i]);
  for (int i = 0; i < MANY; i += 3) {
    taken[i] = p3l_buffer_take(&buffers);
    memset(taken[i], i % 251, sizeof(*taken[i]));
  }
  for (int i = 0; i < MANY; i++) assert_mine(taken[i], i);
  for (int i = 0; i < MANY; i++) p3l_buffer_give(&buffers, taken[i]);
  p3l_buffers_end(&buffers);
}

/* Commits that take a few buffers and release them need only one slab. */
static void given_back_is_taken_again(void **state) {
  (void)state;
  p3l_buffers buffers = {0};
  p3l_page *first = p3l_buffer_take(&buffers), *second = p3l_buffer_take(&buffers);
  assert_ptr_not_equal(first, second);
  for (int i = 0; i < MANY; i++) {
    p3l_buffer_give(&buffers, first);
    assert_ptr_equal(p3l_buffer_take(&buffers), first);
  }
  p3l_buffer_give(&buffers, second);
  p3l_buffer_give(&buffers, first);
  p3l_buffer_give(&buffers, NULL);
  assert_ptr_equal(p3l_buffer_take(&buffers),
                   first); /* the slab still exists: the last one is kept */
  p3l_buffer_give(&buffers, first);
  p3l_buffers_end(&buffers);
  assert_null(buffers.with_room);
}

/* A load takes many buffers once: empty slabs are freed, except one. */
static void empty_slabs_go(void **state) {
  (void)state;
  static p3l_page *taken[MANY];
  p3l_buffers buffers = {0};
  take_all(&buffers, taken);
  assert_non_null(buffers.with_room); /* 33 buffers of the third are free */
  for (int i = 0; i < MANY; i++) p3l_buffer_give(&buffers, taken[i]);
  p3l_buffer_take(&buffers);
  const p3l_slab *kept = buffers.with_room;
  for (int i = 1; i < 511; i++) {
    p3l_page *buffer = p3l_buffer_take(&buffers);
    assert_ptr_equal((void *)((uintptr_t)buffer & ~((UINT64_C(1) << 21) - 1)), kept);
  }
  assert_null(buffers.with_room); /* no more slabs */
  for (int i = 1; i <= 511; i++) p3l_buffer_give(&buffers, (p3l_page *)kept + i);
  p3l_buffers_end(&buffers);
}

/* All at once, whatever was taken: one slab is kept, and begins from the front. */
static void all_are_given_back_at_once(void **state) {
  (void)state;
  static p3l_page *taken[MANY];
  p3l_buffers buffers = {0};
  p3l_buffers_give_all(&buffers); /* none */
  for (int round = 0; round < 3; round++) {
    take_all(&buffers, taken);
    p3l_buffer_give(&buffers, taken[5]);
    p3l_buffers_give_all(&buffers);
    assert_ptr_equal(buffers.all, buffers.with_room);
    const p3l_slab *kept = buffers.all;
    for (int i = 1; i <= 511; i++)
      assert_ptr_equal(p3l_buffer_take(&buffers), (const p3l_page *)kept + i);
    assert_null(buffers.with_room);
  }
  p3l_buffers_end(&buffers); /* frees those, too */
  assert_null(buffers.all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buffers_do_not_overlap), cmocka_unit_test(given_back_is_taken_again),
      cmocka_unit_test(empty_slabs_go), cmocka_unit_test(all_are_given_back_at_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
