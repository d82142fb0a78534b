/* Allocation of objects, compared with a model that lists the objects by place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "allocate.h"
#include "pager_fixture.h"

static uint64_t take(fixture *f, p3l_pager_transaction *transaction, uint64_t bytes,
                     uint64_t near) {
  p3l_address address;
  must(f, p3l_room_take(transaction, 1, bytes, (p3l_address){near}, &address, &f->error));
  return address.byte;
}

/* ---- values by hand ---- */

static void objects_go_where_the_header_says(void **state) {
  (void)state;
  fixture f = fresh(1 << 18);
  p3l_pager_transaction *transaction = begin(&f);
  assert_int_equal(take(&f, transaction, 100, 0), 4096 + 80);
  assert_int_equal(take(&f, transaction, 16, 0), 4096 + 80 + 112);
  assert_int_equal(take(&f, transaction, 3900, 0), 2 * 4096 + 80); /* page 1 is listed */
  assert_int_equal(take(&f, transaction, 3000, 0), 4096 + 80 + 128);
  /* Near: page 2 has space for 80 more bytes, page 3 is full. */
  assert_int_equal(take(&f, transaction, 1000, 0), 3 * 4096 + 80);
  assert_int_equal(take(&f, transaction, 64, 2 * 4096 + 90), 2 * 4096 + 80 + 3904);
  assert_int_equal(take(&f, transaction, 64, 2 * 4096 + 90), 3 * 4096 + 80 + 1008);
  /* 10,000 bytes take three adjacent pages; 4,032 take one. */
  assert_int_equal(take(&f, transaction, 10000, 0), 4 * 4096);
  assert_int_equal(take(&f, transaction, 4032, 0), 7 * 4096);
  /* A `near` that leads nowhere, or into a large object, does no harm. */
  assert_int_equal(take(&f, transaction, 16, 5 * 4096), 3 * 4096 + 80 + 1072);
  assert_int_equal(take(&f, transaction, 16, 999 * 4096), 3 * 4096 + 80 + 1088);
  /* The large object's pages are released and allocated again as adjacent pages. */
  must(&f, p3l_room_give(transaction, (p3l_address){4 * 4096}, &f.error));
  assert_int_equal(take(&f, transaction, 12000, 0), 4 * 4096);
  assert_int_equal(p3l_transaction_page_count(transaction), 8);
  must(&f, p3l_pager_commit(transaction, &f.error));
  drop(&f);
}

static void what_is_no_object_is_dangling(void **state) {
  (void)state;
  fixture f = fresh(1 << 18);
  p3l_pager_transaction *transaction = begin(&f);
  uint64_t one = take(&f, transaction, 100, 0), large = take(&f, transaction, 9000, 0);
  uint64_t two = take(&f, transaction, 100, 0);
  const uint64_t nowhere[] = {0,    80,           one + 16,   one - 16,        two + 112,
                              4096, large + 4096, large + 16, 100 * 4096 + 80, ~UINT64_C(0) >> 8};
  for (size_t i = 0; i < sizeof(nowhere) / sizeof(*nowhere); i++)
    assert_int_equal(p3l_room_give(transaction, (p3l_address){nowhere[i]}, &f.error), P3L_DANGLING);
  must(&f, p3l_room_give(transaction, (p3l_address){one}, &f.error));
  assert_int_equal(p3l_room_give(transaction, (p3l_address){one}, &f.error), P3L_DANGLING);
  assert_non_null(strstr(f.error.message, "page 1, byte 80"));
  must(&f, p3l_room_give(transaction, (p3l_address){large}, &f.error));
  assert_int_equal(p3l_room_give(transaction, (p3l_address){large}, &f.error), P3L_DANGLING);
  p3l_address address;
  assert_int_equal(p3l_room_take(transaction, P3L_FORWARD, 8, (p3l_address){0}, &address, &f.error),
                   P3L_MISUSE);
  assert_int_equal(
      p3l_room_take(transaction, 1, UINT64_C(1) << 50, (p3l_address){0}, &address, &f.error),
      P3L_NO_SPACE);
  p3l_pager_abort(transaction);
  drop(&f);
}

static void a_forward_goes_with_its_object(void **state) {
  (void)state;
  fixture f = fresh(1 << 18);
  p3l_pager_transaction *transaction = begin(&f);
  uint64_t one = take(&f, transaction, 40, 0), two = take(&f, transaction, 400, 0);
  uint64_t large = take(&f, transaction, 9000, 0), larger = take(&f, transaction, 19000, 0);
  const p3l_page *page;
  uint64_t surrogate;
  must(&f, p3l_room_forward(transaction, (p3l_address){one}, (p3l_address){two}, &f.error));
  must(&f, p3l_room_forward(transaction, (p3l_address){large}, (p3l_address){larger}, &f.error));
  for (uint64_t number = 1; number <= 4; number++) {
    must(&f, p3l_page_seen(transaction, (p3l_page_number){number}, &page, &f.error));
    assert_null(p3l_data_page_fault(page));
    if (number == 1) memcpy(&surrogate, (const uint8_t *)page + 80, 8);
    if (number == 1) assert_true(surrogate == (UINT64_C(1) << 63 | two));
    if (number == 2) memcpy(&surrogate, (const uint8_t *)page + 64, 8);
    if (number == 2) assert_true(surrogate == (UINT64_C(1) << 63 | larger));
  }
  must(&f, p3l_room_give(transaction, (p3l_address){one}, &f.error));
  assert_int_equal(p3l_room_give(transaction, (p3l_address){two}, &f.error), P3L_DANGLING);
  must(&f, p3l_room_give(transaction, (p3l_address){large}, &f.error));
  assert_int_equal(p3l_room_give(transaction, (p3l_address){larger}, &f.error), P3L_DANGLING);
  p3l_header header;
  must(&f, p3l_page_seen(transaction, (p3l_page_number){0}, &page, &f.error));
  memcpy(&header, page->payload, sizeof(header));
  assert_int_equal(header.free_count, header.page_count - 1); /* no object is left */
  p3l_pager_abort(transaction);
  drop(&f);
}

/* ---- the model ---- */

enum { MOST = 1500 };

typedef struct object {
  uint64_t address, bytes;
  uint8_t fill;
} object;

typedef struct model {
  object objects[MOST];
  int count;
} model;

static uint64_t random_state;
static uint32_t random_below(uint32_t limit) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 33) % limit;
}

/* Compares or writes the bytes of an object, as the transaction or as all readers see them. */
static void fill(fixture *f, p3l_pager_transaction *transaction, const object *o) {
  for (uint64_t at = 0; at < o->bytes;) {
    bool large = o->bytes > P3L_SMALL_BYTES;
    uint64_t number = o->address / 4096 + (large ? at / P3L_LARGE_PART : 0);
    uint64_t offset = large ? 64 + at % P3L_LARGE_PART : o->address % 4096;
    uint64_t length = o->bytes - at < P3L_PAGE_SIZE - offset ? o->bytes - at : 4096 - offset;
    p3l_page *page;
    must(f, p3l_page_for_writing(transaction, (p3l_page_number){number}, &page, &f->error));
    for (uint64_t i = 0; i < length; i++) assert_int_equal(((uint8_t *)page)[offset + i], 0);
    memset((uint8_t *)page + offset, o->fill, length);
    p3l_page_changed(transaction, page, (uint32_t)offset, (uint32_t)length);
    at += length;
  }
}

static void compare_object(fixture *f, const object *o) {
  p3l_page page;
  for (uint64_t at = 0; at < o->bytes;) {
    bool large = o->bytes > P3L_SMALL_BYTES;
    uint64_t number = o->address / 4096 + (large ? at / P3L_LARGE_PART : 0);
    uint64_t offset = large ? 64 + at % P3L_LARGE_PART : o->address % 4096;
    uint64_t length = o->bytes - at < P3L_PAGE_SIZE - offset ? o->bytes - at : 4096 - offset;
    must(f, p3l_data_page_read(f->pager, number, large ? P3L_USE_LARGE : P3L_USE_OBJECTS, &page,
                               &f->error));
    for (uint64_t i = 0; i < length; i++) assert_int_equal(((uint8_t *)&page)[offset + i], o->fill);
    at += length;
  }
}

/* Tests the invariants of allocate.h and of pages, and that the store contains only objects of
 * the model. */
static void compare(fixture *f, const model *m) {
  p3l_catalog catalog;
  uint64_t bytes = 0, expected = 0, listed = 0, on_list = 0, previous = 0;
  p3l_page page;
  p3l_verification verification;
  must(f, p3l_pager_verify(f->pager, NULL, NULL, &verification, &f->error));
  assert_int_equal(verification.faults, 0);
  must(f, p3l_catalog_read(f->pager, &catalog, &f->error));
  for (int i = 0; i < m->count; i++) {
    compare_object(f, &m->objects[i]);
    expected += m->objects[i].bytes > P3L_SMALL_BYTES
                    ? (m->objects[i].bytes + P3L_LARGE_PART - 1) / P3L_LARGE_PART * P3L_LARGE_PART
                    : (m->objects[i].bytes + 15) / 16 * 16;
  }
  for (uint64_t number = 1; number < p3l_pager_page_count(f->pager); number++) {
    must(f, p3l_pager_read(f->pager, (p3l_page_number){number}, &page, &f->error));
    if (page.kind == P3L_PAGE_FREE) continue;
    const char *fault = p3l_data_page_fault(&page);
    if (fault != NULL) fail_msg("page %d %s", (int)number, fault);
    const p3l_object_page *objects = (const void *)&page;
    if (objects->use == P3L_USE_LARGE) bytes += P3L_LARGE_PART;
    if (objects->use != P3L_USE_OBJECTS) continue;
    assert_true(objects->count > 0);
    bytes += objects->end - 80u - objects->hole_bytes;
    listed += objects->previous != 0;
  }
  assert_int_equal(bytes, expected);
  for (uint64_t number = catalog.holes; number != 0; number = page.next) {
    must(f, p3l_pager_read(f->pager, (p3l_page_number){number}, &page, &f->error));
    assert_int_equal(((const p3l_object_page *)(const void *)&page)->previous,
                     previous == 0 ? number : previous);
    assert_true(number != catalog.filled);
    previous = number;
    on_list++;
  }
  assert_int_equal(on_list, listed);
}

static uint64_t random_bytes(void) {
  switch (random_below(20)) {
    case 0: return 4001 + random_below(20000);
    case 1:
    case 2: return 1000 + random_below(3001);
    default: return 1 + random_below(200);
  }
}

static void room_does_what_the_model_does(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 4; seed++) {
    fixture f = fresh(1 << 18);
    static model m, before;
    m.count = 0;
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
    for (int round = 0; round < 120; round++) {
      p3l_pager_transaction *transaction = begin(&f);
      uint32_t adding = round / 20 % 2 == 0 ? 75 : 25;
      before = m;
      for (int step = 0; step < 60; step++) {
        if (random_below(100) < adding && m.count < MOST) {
          uint64_t near = m.count > 0 && random_below(2) == 0
                              ? m.objects[random_below((uint32_t)m.count)].address + 8
                              : 0;
          object o = {.bytes = random_bytes(), .fill = (uint8_t)(1 + random_below(255))};
          o.address = take(&f, transaction, o.bytes, near);
          fill(&f, transaction, &o);
          m.objects[m.count++] = o;
        } else if (m.count > 0) {
          uint32_t victim = random_below((uint32_t)m.count);
          must(&f, p3l_room_give(transaction, (p3l_address){m.objects[victim].address}, &f.error));
          m.objects[victim] = m.objects[--m.count];
        }
      }
      if (random_below(4) == 0) {
        p3l_pager_abort(transaction);
        m = before;
      } else {
        must(&f, p3l_pager_commit(transaction, &f.error));
      }
      if (round % 10 == 9) compare(&f, &m);
      if (round % 30 == 29) {
        p3l_pager_close(f.pager, NULL);
        open_again(&f, 1 << 18);
        compare(&f, &m);
      }
    }
    p3l_pager_transaction *transaction = begin(&f);
    while (m.count > 0)
      must(&f, p3l_room_give(transaction, (p3l_address){m.objects[--m.count].address}, &f.error));
    must(&f, p3l_pager_commit(transaction, &f.error));
    compare(&f, &m);
    drop(&f);
  }
}

/* Space of deleted objects is used again, so that the store does not grow without limit. */
static void a_store_in_balance_does_not_grow(void **state) {
  (void)state;
  fixture f = fresh(1 << 18);
  static model m;
  m.count = 0;
  random_state = 7;
  p3l_pager_transaction *transaction = begin(&f);
  while (m.count < 1000) {
    m.objects[m.count] = (object){.bytes = 64};
    m.objects[m.count].address = take(&f, transaction, 64, 0);
    m.count++;
  }
  must(&f, p3l_pager_commit(transaction, &f.error));
  assert_int_equal(p3l_pager_page_count(f.pager), 1 + 17); /* 60 objects per page */
  for (int round = 0; round < 100; round++) {
    transaction = begin(&f);
    for (int i = 0; i < 200; i++) {
      uint32_t victim = random_below(1000);
      must(&f, p3l_room_give(transaction, (p3l_address){m.objects[victim].address}, &f.error));
      m.objects[victim].address = take(&f, transaction, 64, 0);
    }
    must(&f, p3l_pager_commit(transaction, &f.error));
  }
  /* Pages are at least three quarters full, with a few exceptions. */
  assert_true(p3l_pager_page_count(f.pager) <= 1 + 17 * 4 / 3 + 2);
  drop(&f);
}

static void a_broken_list_of_holes_is_told(void **state) {
  (void)state;
  fixture f = fresh(1 << 18);
  p3l_pager_transaction *transaction = begin(&f);
  uint64_t objects[4], other[4];
  for (int i = 0; i < 4; i++) {
    objects[i] = take(&f, transaction, 3000, 0);
    other[i] = take(&f, transaction, 900, objects[i]);
  }
  for (int i = 0; i < 3; i++)
    must(&f, p3l_room_give(transaction, (p3l_address){objects[i]}, &f.error));
  must(&f, p3l_pager_commit(transaction, &f.error));
  /* The list is 3, 2, 1. Page 3 claims that 1 follows. */
  transaction = begin(&f);
  p3l_page *page;
  must(&f, p3l_page_for_writing(transaction, (p3l_page_number){3}, &page, &f.error));
  assert_int_equal(page->next, 2);
  page->next = 1;
  p3l_page_changed(transaction, page, 0, 32);
  must(&f, p3l_pager_commit(transaction, &f.error));
  transaction = begin(&f);
  assert_int_equal(p3l_room_give(transaction, (p3l_address){other[1]}, &f.error), P3L_CORRUPT);
  assert_non_null(strstr(f.error.message, "list of pages with holes is broken at page 2"));
  p3l_pager_abort(transaction);
  drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(objects_go_where_the_header_says),
                                     cmocka_unit_test(what_is_no_object_is_dangling),
                                     cmocka_unit_test(a_forward_goes_with_its_object),
                                     cmocka_unit_test(room_does_what_the_model_does),
                                     cmocka_unit_test(a_store_in_balance_does_not_grow),
                                     cmocka_unit_test(a_broken_list_of_holes_is_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
