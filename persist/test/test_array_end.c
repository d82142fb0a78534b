/*
 * The address after the last element of an array, which programs store as its end. It belongs to
 * the array and not to the next object. This also holds for an array of one element, and in the
 * next run, wherever objects are placed then.
 */
#include "programs.h"

typedef struct cell {
  uint64_t number, more; /* 16 bytes: no bytes are left over in its last granule */
} cell;
P3L_PLAIN_TYPE(cell, cell, 1);

typedef struct span {
  cell *begin, *end;
} span;
P3L_TYPE(span, span, 1, P3L_POINTERS(span, begin), P3L_POINTERS(span, end));

enum { SPANS = 500 };

static void make_spans(void) {
  p3l_store *store = open_store(false);
  begin_in(store);
  span *spans = p3l_new_array(store, span, SPANS);
  for (uint64_t i = 0; i < SPANS; i++) {
    uint64_t count = i % 3 == 2 ? 5 : 1;
    spans[i].begin = p3l_new_array(store, cell, count);
    spans[i].end = spans[i].begin + count;
    spans[i].begin->number = i;
  }
  EXPECT(p3l_set_root(store, "spans", spans) == P3L_OK);
  commit_and_close(store);
}

static bool discovery_order;

/* Visits ends before begins, and from last to first, so that no two are adjacent by chance. */
static void count_spans(void) {
  p3l_store *store;
  p3l_error error;
  p3l_options options = {.read_only = true, .discovery_order = discovery_order};
  EXPECT(p3l_open(program_path, &options, &store, &error) == P3L_OK);
  span *spans = p3l_root(store, "spans");
  for (uint64_t i = SPANS; i-- > 0;) {
    cell *end = P3L_LD(spans[i].end), *begin = P3L_LD(spans[i].begin);
    EXPECT(end - begin == (i % 3 == 2 ? 5 : 1));
    EXPECT(begin->number == i);
    EXPECT(p3l_extent(begin) > (size_t)((uint8_t *)end - (uint8_t *)begin));
  }
  close_store(store);
}

static void an_end_is_the_arrays_own(void **state) {
  (void)state;
  make_folder();
  run_program(make_spans);
  run_program(count_spans);
  discovery_order = true;
  run_program(count_spans);
  remove_folder();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(an_end_is_the_arrays_own)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
