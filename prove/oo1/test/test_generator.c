/* The generator: checked by hand, or by chi-square tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "graph.h"

#define PARTS 20000u

static oo1_graph made(bool locality, uint64_t seed) {
  char path[] = "/tmp/oo1-graph-XXXXXX";
  close(mkstemp(path));
  oo1_graph_generate(path, PARTS, locality, seed);
  oo1_graph graph = oo1_graph_open(path);
  unlink(path);
  return graph;
}

/* Chi-square of counts with equal expectation. */
static double chi_square(const uint32_t *counts, uint32_t cells) {
  double total = 0, sum = 0;
  for (uint32_t i = 0; i < cells; i++) total += counts[i];
  for (uint32_t i = 0; i < cells; i++) {
    double off = counts[i] - total / cells;
    sum += off * off / (total / cells);
  }
  return sum;
}

/* The critical value with a probability of 1 in 100,000: cells - 1 degrees, Wilson and Hilferty. */
static double critical(uint32_t cells) {
  double degrees = cells - 1, third = 2 / (9 * degrees), root = third;
  for (int i = 0; i < 40; i++) root = (root + third / root) / 2;
  double base = 1 - third + 4.265 * root;
  return degrees * base * base * base;
}

/* splitmix64 of seed 1234567, as published by its authors. */
static void random_numbers_are_those_of_splitmix64(void **state) {
  (void)state;
  oo1_random random = {1234567};
  assert_int_equal(oo1_next(&random), UINT64_C(6457827717110365317));
  assert_int_equal(oo1_next(&random), UINT64_C(3203168211198807973));
  assert_int_equal(oo1_next(&random), UINT64_C(9817491932198370423));
}

static void windows_lie_around_the_part_and_within_the_graph(void **state) {
  (void)state;
  uint32_t size;
  assert_int_equal(oo1_window(1000, 2000, &size), 990); /* 990 .. 1009 */
  assert_int_equal(size, 20);
  assert_int_equal(oo1_window(1, 2000, &size), 1);
  assert_int_equal(oo1_window(10, 2000, &size), 1);
  assert_int_equal(oo1_window(11, 2000, &size), 1);
  assert_int_equal(oo1_window(12, 2000, &size), 2);
  assert_int_equal(oo1_window(1991, 2000, &size), 1981); /* 1981 .. 2000, already the last */
  assert_int_equal(oo1_window(2000, 2000, &size), 1981);
  assert_int_equal(oo1_window(50, 100, &size), 50); /* one: itself */
  assert_int_equal(size, 1);
}

static void parts_are_as_cattell_and_skeen_have_them(void **state) {
  (void)state;
  oo1_graph graph = made(true, 1);
  uint32_t part_types[10] = {0}, connection_types[10] = {0}, x[10] = {0}, y[10] = {0},
           years[10] = {0};
  assert_int_equal(graph.header.parts, PARTS);
  for (uint32_t i = 0; i < PARTS; i++) {
    const oo1_graph_part *part = &graph.parts[i];
    assert_int_equal(part->id, i + 1);
    assert_true(part->x < 100000 && part->y < 100000);
    assert_memory_equal(part->type, "part-type", 9);
    part_types[part->type[9] - '0']++;
    x[part->x / 10000]++;
    y[part->y / 10000]++;
    years[(part->build - 315532800) * 10 / (3652 * 86400)]++;
    for (int k = 0; k < OO1_OUT; k++) {
      assert_in_range(part->out[k].to, 1, PARTS);
      assert_memory_equal(part->out[k].type, "conn-type", 9);
      connection_types[part->out[k].type[9] - '0']++;
    }
  }
  assert_true(chi_square(part_types, 10) < critical(10));
  assert_true(chi_square(connection_types, 10) < critical(10));
  assert_true(chi_square(x, 10) < critical(10));
  assert_true(chi_square(y, 10) < critical(10));
  assert_true(chi_square(years, 10) < critical(10));
  oo1_graph_close(&graph);
}

/* 0.9 by the rule and a hundredth of the rest by chance: 0.901 of 60,000, 54,060, sd 73. */
static void nine_of_ten_connections_are_close(void **state) {
  (void)state;
  oo1_graph graph = made(true, 1);
  uint32_t close_ones = 0, places[200] = {0}, far[100] = {0};
  for (uint32_t i = 0; i < PARTS; i++) {
    uint32_t size, first = oo1_window(i + 1, PARTS, &size);
    assert_int_equal(size, 200);
    for (int k = 0; k < OO1_OUT; k++) {
      uint32_t to = graph.parts[i].out[k].to;
      if (to - first < size)
        close_ones++, places[to - first]++;
      else
        far[(to - 1) / 200]++;
    }
  }
  assert_in_range(close_ones, 54060 - 5 * 73, 54060 + 5 * 73);
  assert_true(chi_square(places, 200) < critical(200));
  assert_true(chi_square(far, 100) < critical(100));
  oo1_graph_close(&graph);
}

static void without_locality_connections_lead_anywhere(void **state) {
  (void)state;
  oo1_graph graph = made(false, 1);
  uint32_t distances[100] = {0}, targets[100] = {0};
  for (uint32_t i = 0; i < PARTS; i++) {
    for (int k = 0; k < OO1_OUT; k++) {
      uint32_t to = graph.parts[i].out[k].to;
      targets[(to - 1) / 200]++;
      distances[(to + PARTS - (i + 1)) % PARTS / 200]++;
    }
  }
  assert_true(chi_square(targets, 100) < critical(100));
  assert_true(chi_square(distances, 100) < critical(100));
  oo1_graph_close(&graph);
}

static void equal_seeds_make_equal_graphs(void **state) {
  (void)state;
  oo1_graph one = made(true, 1), again = made(true, 1), two = made(true, 2), far = made(false, 1);
  assert_int_equal(one.mapped_bytes, again.mapped_bytes);
  assert_memory_equal(one.mapping, again.mapping, one.mapped_bytes);
  assert_int_not_equal(one.header.digest, two.header.digest);
  assert_int_not_equal(one.header.digest, far.header.digest);
  oo1_graph_close(&one), oo1_graph_close(&again), oo1_graph_close(&two), oo1_graph_close(&far);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_numbers_are_those_of_splitmix64),
      cmocka_unit_test(windows_lie_around_the_part_and_within_the_graph),
      cmocka_unit_test(parts_are_as_cattell_and_skeen_have_them),
      cmocka_unit_test(nine_of_ten_connections_are_close),
      cmocka_unit_test(without_locality_connections_lead_anywhere),
      cmocka_unit_test(equal_seeds_make_equal_graphs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
