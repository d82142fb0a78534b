/* Pieces of a page, compared with a model that records the owner of each granule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "object_page.h"

static p3l_page fresh(void) {
  p3l_page page;
  p3l_page_init(&page, P3L_PAGE_DATA, (p3l_page_number){7});
  p3l_object_page_init(&page);
  return page;
}

static const p3l_object_page *of(const p3l_page *page) { return (const void *)page; }

/* ---- values by hand ---- */

static void pieces_lie_where_the_picture_says(void **state) {
  (void)state;
  p3l_page page = fresh();
  const uint8_t *bytes = (const uint8_t *)&page;
  assert_int_equal(p3l_piece_add(&page, 3, 20), 80);     /* 32 bytes */
  assert_int_equal(p3l_piece_add(&page, 0x234, 1), 112); /* 16 bytes */
  assert_int_equal(p3l_piece_add(&page, 5, 64), 128);
  assert_null(p3l_data_page_fault(&page));
  /* use, count, end = 192, no holes */
  assert_memory_equal(bytes + 32, "\x01\0\x03\0\xc0\0\0\0", 8);
  /* Starts at granules 5, 7 and 8. */
  assert_memory_equal(bytes + 48, "\xa0\x01\0\0\0\0\0\0", 8);
  /* Types from the end of the page. */
  assert_memory_equal(bytes + 4090, "\x05\0\x34\x02\x03\0", 6);

  p3l_piece piece;
  assert_true(p3l_piece_at(of(&page), 111, &piece));
  assert_int_equal(piece.offset, 80);
  assert_int_equal(piece.bytes, 32);
  assert_int_equal(piece.type, 3);
  assert_true(p3l_piece_at(of(&page), 191, &piece));
  assert_int_equal(piece.offset, 128);
  assert_int_equal(piece.index, 2);
  assert_false(p3l_piece_at(of(&page), 79, &piece));
  assert_false(p3l_piece_at(of(&page), 192, &piece));
  assert_false(p3l_piece_at(of(&page), 5000, &piece));

  p3l_piece_remove(&page, 112);
  assert_int_equal(of(&page)->hole_bytes, 16);
  p3l_piece_remove(&page, 80); /* now one hole of 48 bytes */
  assert_int_equal(of(&page)->hole_bytes, 48);
  assert_int_equal(of(&page)->count, 2);
  assert_null(p3l_data_page_fault(&page));
  p3l_piece_remove(&page, 128); /* frees the piece at `end`, and the hole before it */
  assert_int_equal(of(&page)->count, 0);
  assert_int_equal(of(&page)->end, 80);
  assert_int_equal(of(&page)->hole_bytes, 0);
  p3l_page empty = fresh();
  empty.generation = 1; /* the next object is not mistaken for the deleted one */
  assert_memory_equal(&page, &empty, sizeof(page));
}

/*
 * An id is 11 bits of type and 5 of generation. A hole has the next generation; two holes that are
 * merged keep the later one.
 */
static void generations_lie_beside_types(void **state) {
  (void)state;
  p3l_page page = fresh();
  const uint8_t *bytes = (const uint8_t *)&page;
  p3l_piece piece;
  for (int i = 0; i < 4; i++) p3l_piece_add(&page, 3, 32); /* at 80, 112, 144, 176 */
  assert_false(p3l_has_generations(of(&page)));
  p3l_piece_remove(&page, 112);
  assert_memory_equal(bytes + 4088, "\x03\0\x03\0\x00\x08\x03\0", 8); /* hole: 1 << 11 */
  assert_false(p3l_has_generations(of(&page)));
  assert_int_equal(p3l_piece_add(&page, 5, 32), 112);
  assert_memory_equal(bytes + 4088, "\x03\0\x03\0\x05\x08\x03\0", 8);
  assert_true(p3l_has_generations(of(&page)));
  assert_int_equal(p3l_type_of_all(of(&page)), P3L_HOLE);
  p3l_piece_remove(&page, 112); /* 2 */
  p3l_piece_remove(&page, 144); /* 1, and both become one hole */
  assert_true(p3l_piece_at(of(&page), 150, &piece));
  assert_int_equal(piece.offset, 112);
  assert_int_equal(piece.generation, 2);
  assert_int_equal(p3l_piece_add(&page, 6, 16), 112);
  assert_true(p3l_piece_at(of(&page), 128, &piece)); /* the rest of the hole */
  assert_int_equal(piece.type, P3L_HOLE);
  assert_int_equal(piece.generation, 2);
  p3l_piece_set_type(&page, 1, P3L_FORWARD);
  assert_true(p3l_piece_at(of(&page), 112, &piece));
  assert_int_equal(piece.type, P3L_FORWARD);
  assert_int_equal(piece.generation, 2);
  p3l_piece_set_type(&page, 1, 6);
  assert_null(p3l_data_page_fault(&page));
  for (int round = 0; round < 40; round++) { /* at the end of the page; repeats after 31 */
    assert_true(p3l_piece_at(of(&page), 176, &piece));
    assert_int_equal(piece.generation, round == 0 ? 0 : (1 + round) % 31);
    p3l_piece_remove(&page, 176);
    assert_int_equal(of(&page)->end, 128); /* together with the hole of generation 2 before it */
    assert_int_equal(p3l_piece_add(&page, 3, 48), 128);
    assert_int_equal(p3l_piece_add(&page, 3, 32), 176);
    p3l_piece_remove(&page, 128);
  }
}

static void a_page_takes_one_of_4000_bytes_or_223_of_16(void **state) {
  (void)state;
  p3l_page page = fresh();
  assert_int_equal(p3l_page_room(of(&page)), 4000);
  assert_int_equal(p3l_piece_add(&page, 1, 4001), 0);
  assert_int_equal(p3l_piece_add(&page, 1, 4000), 80);
  assert_int_equal(p3l_page_room(of(&page)), 0);
  assert_null(p3l_data_page_fault(&page));
  page = fresh();
  int taken = 0;
  while (p3l_piece_add(&page, 1, 16) != 0) taken++;
  assert_int_equal(taken, 223); /* (4096 - 80) / (16 + 2) */
  assert_null(p3l_data_page_fault(&page));
}

/*
 * Four ids are searched at once. Tests each kind of id at each position among others, and after any
 * id.
 */
static void ids_are_told_all_at_once(void **state) {
  (void)state;
  static const p3l_type_id ids[] = {1, 2, 0x100, 0x3ff, 0x400, 0x7fe, P3L_HOLE, P3L_FORWARD};
  enum { IDS = sizeof(ids) / sizeof(ids[0]), MOST = 9 };
  for (uint32_t count = 1; count <= MOST; count++)
    for (uint32_t at = 0; at < count; at++)
      for (uint32_t one = 0; one < IDS; one++)
        for (uint32_t others = 0; others < 6; others++) { /* neither holes nor forwards */
          p3l_page page = fresh();
          memset(page.payload, (int)one * 37, sizeof(page.payload));
          p3l_object_page *objects = (void *)&page;
          objects->count = (uint16_t)count;
          for (uint32_t i = 0; i < count; i++)
            p3l_piece_set_type(&page, i, i == at ? ids[one] : ids[others]);
          bool special = ids[one] == P3L_HOLE || ids[one] == P3L_FORWARD;
          assert_int_equal(p3l_has_holes_or_forwards(objects), special);
          assert_int_equal(p3l_type_of_all(objects),
                           count == 1 || one == others ? ids[one] : P3L_HOLE);
        }
  p3l_page empty = fresh();
  assert_false(p3l_has_holes_or_forwards(of(&empty)));
  assert_int_equal(p3l_type_of_all(of(&empty)), P3L_HOLE);
}

static void a_hole_without_room_for_a_type_id_must_fit_exactly(void **state) {
  (void)state;
  p3l_page page = fresh();
  /* 222 pieces, the second of 32 bytes: 80 + 223 x 16 + 2 x 222 = 4092; two more ids fit. */
  assert_int_equal(p3l_piece_add(&page, 1, 16), 80);
  assert_int_equal(p3l_piece_add(&page, 1, 32), 96);
  for (int i = 0; i < 220; i++) assert_int_not_equal(p3l_piece_add(&page, 1, 16), 0);
  assert_int_equal(p3l_piece_add(&page, 1, 16), 0);
  p3l_piece_remove(&page, 96);
  assert_int_equal(p3l_page_room(of(&page)), 32);
  assert_int_equal(p3l_piece_add(&page, 2, 16), 96); /* and a hole of 16 after it: 4094 */
  assert_null(p3l_data_page_fault(&page));
  assert_int_equal(p3l_piece_add(&page, 2, 16), 112);
  p3l_piece_remove(&page, 80);
  p3l_piece_remove(&page, 112);
  assert_null(p3l_data_page_fault(&page));
  assert_int_equal(p3l_piece_add(&page, 2, 32), 0);
}

/* ---- the model ---- */

enum { GRANULES = P3L_PAGE_SIZE / 16, FIRST = 80 / 16, STEPS = 160000 };

typedef struct object {
  int first, count; /* granules; count 0: none */
  p3l_type_id type;
  uint8_t fill;
} object;

typedef struct model {
  p3l_page page;
  object objects[GRANULES]; /* by first granule */
  bool taken[GRANULES];
} model;

static uint64_t random_state;
static uint32_t random_below(uint32_t limit) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 33) % limit;
}

/* The model follows the header comment: pieces as runs of granules, holes included. */
static int model_end(const model *m) {
  int end = FIRST;
  for (int g = FIRST; g < GRANULES; g++)
    if (m->taken[g]) end = g + 1;
  return end;
}

static int model_pieces(const model *m, int *holes) {
  int pieces = 0, end = model_end(m);
  *holes = 0;
  for (int g = FIRST; g < end;) {
    int run = m->objects[g].count;
    if (run == 0) {
      while (!m->taken[g + run]) run++;
      *holes += run;
    }
    g += run;
    pieces++;
  }
  return pieces;
}

/* The position of an object with this many granules; 0: none. */
static int model_place(const model *m, int count) {
  int holes, end = model_end(m), best = 0, best_run = GRANULES + 1;
  int pieces = model_pieces(m, &holes);
  bool split = end * 16 + 2 * (pieces + 1) <= (int)P3L_PAGE_SIZE;
  for (int g = FIRST; g < end;) {
    int run = m->objects[g].count;
    bool hole = run == 0;
    if (hole)
      while (!m->taken[g + run]) run++;
    if (hole && (run == count || (run > count && split)) && run < best_run) {
      best = g;
      best_run = run;
    }
    g += run;
  }
  if (best != 0) return best;
  return (end + count) * 16 + 2 * (pieces + 1) <= (int)P3L_PAGE_SIZE ? end : 0;
}

static void add(model *m) {
  int bytes = random_below(8) == 0 ? (int)random_below(1500) : 1 + (int)random_below(100);
  int count = bytes == 0 ? 1 : (bytes + 15) / 16, place = model_place(m, count);
  p3l_type_id type = (p3l_type_id)(1 + random_below(0x7fe));
  uint32_t offset = p3l_piece_add(&m->page, type, (uint32_t)bytes);
  assert_int_equal(offset, place * 16);
  if (place == 0) return;
  uint8_t *at = (uint8_t *)&m->page + offset;
  for (int i = 0; i < count * 16; i++) assert_int_equal(at[i], 0);
  object *o = &m->objects[place];
  *o = (object){place, count, type, (uint8_t)(1 + random_below(255))};
  if (type == P3L_FORWARD) o->type = 1;
  p3l_piece piece;
  assert_true(p3l_piece_at(of(&m->page), offset, &piece));
  p3l_piece_set_type(&m->page, piece.index, o->type);
  memset(at, o->fill, (size_t)count * 16);
  for (int i = 0; i < count; i++) m->taken[place + i] = true;
}

static void drop(model *m) {
  int g = FIRST + (int)random_below(GRANULES - FIRST);
  while (g < GRANULES && m->objects[g].count == 0) g++;
  if (g == GRANULES) return;
  p3l_piece_remove(&m->page, (uint32_t)g * 16);
  for (int i = 0; i < m->objects[g].count; i++) m->taken[g + i] = false;
  m->objects[g] = (object){0};
}

static void compare(const model *m) {
  int holes, pieces = model_pieces(m, &holes), end = model_end(m), largest = 0;
  const char *fault = p3l_data_page_fault(&m->page);
  if (fault != NULL) fail_msg("%s", fault);
  assert_int_equal(of(&m->page)->count, pieces);
  assert_int_equal(of(&m->page)->end, end * 16);
  assert_int_equal(of(&m->page)->hole_bytes, holes * 16);
  p3l_piece piece = {0};
  for (int g = FIRST; g < end;) {
    const object *o = &m->objects[g];
    assert_true(p3l_piece_next(of(&m->page), &piece));
    assert_int_equal(piece.offset, g * 16);
    assert_int_equal(piece.type, o->type);
    if (o->count > 0) assert_int_equal(piece.bytes, o->count * 16);
    p3l_piece inner;
    assert_true(p3l_piece_at(of(&m->page), piece.offset + random_below(piece.bytes), &inner));
    assert_memory_equal(&inner, &piece, sizeof(piece));
    for (int i = 0; i < piece.bytes; i++)
      assert_int_equal(((const uint8_t *)&m->page)[piece.offset + i], o->fill);
    g += piece.bytes / 16;
  }
  assert_false(p3l_piece_next(of(&m->page), &piece));
  for (int count = 1; count <= 250; count++)
    if (model_place(m, count) != 0) largest = count;
  assert_int_equal(p3l_page_room(of(&m->page)), largest * 16);
}

static void pieces_do_what_the_model_does(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    static model m;
    m = (model){.page = fresh()};
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t adding = 50;
    for (int step = 0; step < STEPS / 20; step++) {
      if (step % 500 == 0) adding = 20 + random_below(70); /* grows for some time, then shrinks */
      if (random_below(100) < adding)
        add(&m);
      else
        drop(&m);
      if (step % 16 == 0) compare(&m);
    }
  }
}

/* ---- malformed pages ---- */

static p3l_page good(void) {
  p3l_page page = fresh();
  p3l_piece_add(&page, 1, 48);
  p3l_piece_add(&page, 2, 32);
  p3l_piece_add(&page, 3, 16);
  p3l_piece_remove(&page, 128);
  return page; /* 80: type 1, 128: a hole of 32, 160: type 3; end 176 */
}

static void expect_fault(const p3l_page *page, const char *part) {
  const char *fault = p3l_data_page_fault(page);
  assert_non_null(fault);
  if (strstr(fault, part) == NULL) fail_msg("\"%s\" should say \"%s\"", fault, part);
}

static void each_broken_invariant_is_told(void **state) {
  (void)state;
  p3l_page page = good();
  uint8_t *bytes = (uint8_t *)&page;
  p3l_object_page *view = (void *)&page;
  uint64_t surrogate = UINT64_C(1) << 63 | 9 * 4096;
  assert_null(p3l_data_page_fault(&page));
  view->use = 9, expect_fault(&page, "no known use");
  page = good(), page.kind = P3L_PAGE_FREE, expect_fault(&page, "not a data page");
  page = good(), view->end = 64, expect_fault(&page, "where none can be");
  page = good(), view->end = 170, expect_fault(&page, "where none can be");
  page = good(), view->count = 2000, expect_fault(&page, "where none can be");
  page = good(), view->count = 4, expect_fault(&page, "miscounts its objects");
  page = good(), view->starts[0] |= 1, expect_fault(&page, "begin where none can be");
  page = good(), view->starts[3] |= UINT64_C(1) << 63;
  expect_fault(&page, "begin where none can be");
  page = good(), view->starts[0] ^= 3u << 5, expect_fault(&page, "belong to no object");
  page = good(), view->hole_bytes = 16, expect_fault(&page, "miscounts its holes");
  page = good(), bytes[130] = 1, expect_fault(&page, "hole with something in it");
  page = good(), bytes[176] = 1, expect_fault(&page, "free space");
  page = good(), bytes[4089] = 1, expect_fault(&page, "free space");
  page = good(), p3l_piece_set_type(&page, 2, P3L_HOLE), expect_fault(&page, "side by side");
  page = good(), p3l_piece_set_type(&page, 1, 1), p3l_piece_set_type(&page, 2, P3L_HOLE);
  view->hole_bytes = 16, expect_fault(&page, "ends with a hole");
  page = good(), p3l_piece_set_type(&page, 0, P3L_FORWARD), expect_fault(&page, "moved");
  memcpy(bytes + 80, &surrogate, 8);
  assert_null(p3l_data_page_fault(&page));
  bytes[88] = 1, expect_fault(&page, "moved");
}

static p3l_page large(uint64_t number, uint64_t first, uint64_t length) {
  p3l_page page;
  p3l_page_init(&page, P3L_PAGE_DATA, (p3l_page_number){number});
  p3l_large_page *view = (void *)&page;
  view->use = P3L_USE_LARGE;
  view->type = 1;
  view->first = first;
  view->bytes = length;
  return page;
}

static void pages_of_large_objects_are_checked(void **state) {
  (void)state;
  p3l_page page = large(7, 7, 4001);
  p3l_large_page *view = (void *)&page;
  assert_null(p3l_data_page_fault(&page));
  view->part[4000] = 1;
  assert_null(p3l_data_page_fault(&page));
  view->part[4001] = 1, expect_fault(&page, "behind the end");
  page = large(7, 7, 4000), expect_fault(&page, "cannot be");
  page = large(7, 0, 5000), expect_fault(&page, "cannot be");
  page = large(7, 7, UINT64_C(1) << 56), expect_fault(&page, "cannot be");
  page = large(7, 8, 5000), expect_fault(&page, "does not contain it");
  page = large(8, 7, 4032), expect_fault(&page, "does not contain it"); /* it ends with page 7 */
  page = large(8, 7, 4033);
  assert_null(p3l_data_page_fault(&page));
  page = large(7, 7, 5000), view->zero = 1, expect_fault(&page, "never written");
  page = large(7, 7, 5000), view->type = P3L_FORWARD, expect_fault(&page, "moved");
}

/*
 * For any contents of a page, no walk leaves it, and a page without a fault can be walked to its
 * end.
 */
static void noise_is_survived(void **state) {
  (void)state;
  random_state = 42;
  int believed = 0;
  for (int round = 0; round < 200000; round++) {
    p3l_page page = good();
    uint8_t *bytes = (uint8_t *)&page;
    for (uint32_t i = 1 + random_below(3); i > 0; i--) {
      static const uint32_t from[] = {32, 0, 4080}, length[] = {50, 4096, 16};
      uint32_t where = random_below(3);
      bytes[from[where] + random_below(length[where])] ^= (uint8_t)(1u << random_below(8));
    }
    if (p3l_data_page_fault(&page) != NULL || of(&page)->use != P3L_USE_OBJECTS) continue;
    believed++;
    uint32_t end = P3L_OBJECTS_BEGIN, pieces = 0;
    for (p3l_piece piece = {0}; p3l_piece_next(of(&page), &piece); pieces++) {
      assert_int_equal(piece.offset, end);
      end += piece.bytes;
    }
    assert_int_equal(end, of(&page)->end);
    assert_int_equal(pieces, of(&page)->count);
  }
  assert_true(believed > 1000); /* bytes of objects and heads may have any value */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_lie_where_the_picture_says),
      cmocka_unit_test(generations_lie_beside_types),
      cmocka_unit_test(a_page_takes_one_of_4000_bytes_or_223_of_16),
      cmocka_unit_test(ids_are_told_all_at_once),
      cmocka_unit_test(a_hole_without_room_for_a_type_id_must_fit_exactly),
      cmocka_unit_test(pieces_do_what_the_model_does),
      cmocka_unit_test(each_broken_invariant_is_told),
      cmocka_unit_test(pages_of_large_objects_are_checked),
      cmocka_unit_test(noise_is_survived)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
