/* Types and roots in a store: after a restart, after an abort, on many pages, and from malformed
 * pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "catalog.h"
#include "pager_fixture.h"
#include "slots.h"

/* ---- types ---- */

static const struct p3l_stored_field links[] = {{8, 3}, {40, 1}};

static p3l_stored_type named(const char *name, uint32_t version) {
  return (p3l_stored_type){
      .name = name, .version = version, .bytes = 56, .fields = links, .field_count = 2};
}

static void types_outlive_the_process(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_type_table table;
  p3l_type_id id;
  must(&f, p3l_type_table_read(f.pager, &table, &f.error));
  assert_int_equal(table.limit, 0);
  p3l_pager_transaction *transaction = begin(&f);
  p3l_stored_type part = named("part", 1), part2 = named("part", 2);
  p3l_stored_type plain = {.name = "plain", .version = 7, .bytes = 3};
  must(&f, p3l_type_add(transaction, &table, &part, &id, &f.error));
  assert_int_equal(id, 1);
  must(&f, p3l_type_add(transaction, &table, &plain, &id, &f.error));
  must(&f, p3l_type_add(transaction, &table, &part2, &id, &f.error));
  assert_int_equal(id, 3);
  must(&f, p3l_pager_commit(transaction, &f.error));
  p3l_type_table_free(&table);
  p3l_pager_close(f.pager, NULL);
  open_again(&f, 0);
  must(&f, p3l_type_table_read(f.pager, &table, &f.error));
  assert_int_equal(table.limit, 4);
  assert_null(table.types[0]);
  assert_string_equal(table.types[2]->name, "plain");
  assert_int_equal(table.types[2]->bytes, 3);
  assert_int_equal(table.types[3]->field_count, 2);
  assert_memory_equal(table.types[3]->fields, links, sizeof(links));
  assert_ptr_equal(p3l_type_find(&table, "part", p3l_type_hash("part", 2, 56, links, 2, 0)),
                   table.types[3]);
  assert_null(p3l_type_find(&table, "part", 12345));
  assert_null(p3l_type_find(&table, "pary", table.types[3]->hash));
  p3l_type_table_free(&table);
  drop(&f);
}

/* FNV-1a with 64 bits over "a\0", version 1, 8 bytes, no fields; computed here from its
 * definition. */
static void the_hash_is_fnv(void **state) {
  (void)state;
  const uint8_t bytes[] = {'a', 0, 1, 0, 0, 0, 8, 0, 0, 0};
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < sizeof(bytes); i++) hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
  assert_true(p3l_type_hash("a", 1, 8, NULL, 0, 0) == hash);
  assert_true(p3l_type_hash("a", 2, 8, NULL, 0, 0) != hash);
  assert_true(p3l_type_hash("a", 1, 8, links, 1, 0) != hash);
}

static void an_aborted_type_is_forgotten(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_type_table table = {0};
  p3l_type_id id;
  p3l_pager_transaction *transaction = begin(&f);
  p3l_stored_type a = named("a", 1), b = named("b", 1);
  must(&f, p3l_type_add(transaction, &table, &a, &id, &f.error));
  must(&f, p3l_pager_commit(transaction, &f.error));
  transaction = begin(&f);
  uint32_t limit = table.limit;
  must(&f, p3l_type_add(transaction, &table, &b, &id, &f.error));
  assert_int_equal(id, 2);
  p3l_pager_abort(transaction);
  p3l_type_table_forget(&table, limit);
  assert_null(p3l_type_find(&table, "b", p3l_type_hash("b", 1, 56, links, 2, 0)));
  p3l_type_table_free(&table);
  must(&f, p3l_type_table_read(f.pager, &table, &f.error));
  assert_int_equal(table.limit, 2);
  transaction = begin(&f);
  must(&f, p3l_type_add(transaction, &table, &b, &id, &f.error));
  assert_int_equal(id, 2);
  must(&f, p3l_pager_commit(transaction, &f.error));
  p3l_type_table_free(&table);
  drop(&f);
}

static void many_types_go_over_many_pages(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_type_table table = {0};
  p3l_type_id id;
  enum { TYPES = 1000 };
  for (int i = 0; i < TYPES; i++) {
    char name[40];
    snprintf(name, sizeof(name), "type with number %d", i);
    p3l_stored_type type = named(name, (uint32_t)i);
    p3l_pager_transaction *transaction = begin(&f);
    must(&f, p3l_type_add(transaction, &table, &type, &id, &f.error));
    must(&f, p3l_pager_commit(transaction, &f.error));
    assert_int_equal(id, i + 1);
  }
  p3l_type_table_free(&table);
  must(&f, p3l_type_table_read(f.pager, &table, &f.error));
  assert_int_equal(table.limit, TYPES + 1);
  for (int i = 0; i < TYPES; i++) {
    char name[40];
    snprintf(name, sizeof(name), "type with number %d", i);
    assert_string_equal(table.types[i + 1]->name, name);
  }
  /* 24 + 16 + 24 bytes per record; 63 records in a page of 4056 bytes: 16 pages and the header. */
  assert_int_equal(p3l_pager_page_count(f.pager), 17);
  p3l_type_table_free(&table);
  drop(&f);
}

static void types_that_cannot_be_are_refused(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_type_table table = {0};
  p3l_type_id id;
  static const struct p3l_stored_field odd[] = {{4, 1}}, back[] = {{16, 1}, {8, 1}},
                                       beyond[] = {{48, 2}}, none[] = {{8, 0}};
  static struct p3l_stored_field many[600];
  for (uint32_t i = 0; i < 600; i++) many[i] = (struct p3l_stored_field){16 * i, 1};
  const struct {
    p3l_stored_type type;
    const char *says;
  } cases[] = {
      {{.name = "t", .bytes = 56, .fields = odd, .field_count = 1}, "not aligned"},
      {{.name = "t", .bytes = 56, .fields = back, .field_count = 2}, "not in order"},
      {{.name = "t", .bytes = 56, .fields = none, .field_count = 1}, "not in order"},
      {{.name = "t", .bytes = 56, .fields = beyond, .field_count = 1}, "behind its end"},
      {{.name = "t", .bytes = 52, .fields = links, .field_count = 1}, "not a multiple of 8"},
      {{.name = "t", .bytes = 9600, .fields = many, .field_count = 600}, "too many"},
      {{.name = "t", .bytes = 0}, "has no size"},
      {{.name = "", .bytes = 8}, "has no name"},
  };
  p3l_pager_transaction *transaction = begin(&f);
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    assert_int_equal(p3l_type_add(transaction, &table, &cases[i].type, &id, &f.error), P3L_MISUSE);
    if (strstr(f.error.message, cases[i].says) == NULL) fail_msg("%s", f.error.message);
  }
  p3l_pager_abort(transaction);
  p3l_type_table_free(&table);
  drop(&f);
}

/* ---- slots ---- */

typedef struct seen {
  uint64_t offsets[64];
  int count;
} seen;

static void see(void *state, uint64_t offset) {
  seen *seen = state;
  seen->offsets[seen->count++] = offset;
}

static void slots_repeat_in_arrays(void **state) {
  (void)state;
  p3l_stored_type part = named("part", 1); /* 8, 16, 24, 40; then 64, 72, 80, 96; ... */
  seen s = {.count = 0};
  p3l_type_slots(&part, 0, 56, see, &s);
  assert_int_equal(s.count, 4);
  assert_int_equal(s.offsets[3], 40);
  s.count = 0;
  p3l_type_slots(&part, 20, 80, see, &s); /* 16 in part, 24, 40, 64, 72 */
  const uint64_t expected[] = {16, 24, 40, 64, 72};
  assert_int_equal(s.count, 5);
  assert_memory_equal(s.offsets, expected, sizeof(expected));
  s.count = 0;
  p3l_type_slots(&part, 25, 41, see, &s);
  assert_int_equal(s.count, 2);
  assert_int_equal(s.offsets[0], 24);
  assert_int_equal(s.offsets[1], 40);
  s.count = 0;
  p3l_type_slots(&part, 32, 40, see, &s);
  assert_int_equal(s.count, 0);
  /* Compares every window of an array of five with every slot of the array. */
  for (uint64_t from = 0; from < 280; from++)
    for (uint64_t to = from; to <= 280; to += 7) {
      int count = 0;
      s.count = 0;
      p3l_type_slots(&part, from, to, see, &s);
      for (uint64_t element = 0; element < 280; element += 56)
        for (int k = 0; k < 4; k++) {
          uint64_t slot = element + (k == 3 ? 40 : 8 + 8 * (uint64_t)k);
          if (slot + 8 <= from || slot >= to) continue;
          assert_int_equal(s.offsets[count], slot);
          count++;
        }
      assert_int_equal(s.count, count);
    }
  for (uint64_t word = 0; word < 280; word += 8) {
    uint64_t inside = word % 56;
    assert_int_equal(p3l_type_is_slot(&part, word), (inside >= 8 && inside < 32) || inside == 40);
  }
}

/* ---- roots ---- */

static p3l_code count_roots(void *state, const p3l_root_entry *entry, p3l_error *error) {
  (void)error;
  assert_true(entry->address != 0);
  (*(int *)state)++;
  return P3L_OK;
}

static void roots_do_what_an_array_does(void **state) {
  (void)state;
  fixture f = fresh(0);
  enum { NAMES = 200 };
  uint64_t expected[NAMES] = {0};
  uint64_t random = 99;
  for (int step = 0; step < 600; step++) {
    p3l_pager_transaction *transaction = begin(&f);
    uint64_t before[NAMES];
    memcpy(before, expected, sizeof(before));
    for (int i = 0; i < 5; i++) {
      random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
      unsigned name_number = (unsigned)(random >> 40) % NAMES;
      uint64_t address = (random >> 20) % 3 == 0 ? 0 : 4096 + (random >> 10) % 100000;
      char name[64];
      p3l_address found;
      snprintf(name, sizeof(name), "root %u", name_number);
      must(&f, p3l_root_set(transaction, name, (p3l_address){address}, &f.error));
      expected[name_number] = address;
      must(&f, p3l_root_find_in(transaction, name, &found, &f.error));
      assert_int_equal(found.byte, address);
    }
    if (step % 7 == 0) {
      p3l_pager_abort(transaction);
      memcpy(expected, before, sizeof(before));
    } else {
      must(&f, p3l_pager_commit(transaction, &f.error));
    }
  }
  p3l_pager_close(f.pager, NULL);
  open_again(&f, 0);
  int count = 0, seen = 0;
  for (int i = 0; i < NAMES; i++) {
    char name[64];
    p3l_address found;
    snprintf(name, sizeof(name), "root %d", i);
    must(&f, p3l_root_find(f.pager, name, &found, &f.error));
    assert_int_equal(found.byte, expected[i]);
    count += expected[i] != 0;
  }
  must(&f, p3l_root_each(f.pager, count_roots, &seen, &f.error));
  assert_int_equal(seen, count);
  assert_true(count > 63); /* more than a page */
  drop(&f);
}

static void names_of_roots_have_1_to_55_bytes(void **state) {
  (void)state;
  fixture f = fresh(0);
  char name[57];
  p3l_address found;
  memset(name, 'x', 56);
  name[56] = 0;
  p3l_pager_transaction *transaction = begin(&f);
  assert_int_equal(p3l_root_set(transaction, name, (p3l_address){4176}, &f.error), P3L_MISUSE);
  assert_int_equal(p3l_root_set(transaction, "", (p3l_address){4176}, &f.error), P3L_MISUSE);
  must(&f, p3l_root_set(transaction, name + 1, (p3l_address){4176}, &f.error));
  must(&f, p3l_root_find_in(transaction, name + 1, &found, &f.error));
  assert_int_equal(found.byte, 4176);
  must(&f, p3l_root_find_in(transaction, name, &found, &f.error));
  assert_int_equal(found.byte, 0);
  p3l_pager_abort(transaction);
  drop(&f);
}

/* ---- hostile tables ---- */

static void change_page(fixture *f, uint64_t number, size_t offset, const void *bytes,
                        size_t length) {
  p3l_page *page;
  p3l_pager_transaction *transaction = begin(f);
  must(f, p3l_page_for_writing(transaction, (p3l_page_number){number}, &page, &f->error));
  memcpy((uint8_t *)page + offset, bytes, length);
  p3l_page_changed(transaction, page, 0, P3L_PAGE_SIZE);
  must(f, p3l_pager_commit(transaction, &f->error));
}

static void lists_that_go_round_end(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_type_table table = {0};
  p3l_type_id id;
  p3l_address found;
  int seen = 0;
  p3l_stored_type part = named("part", 1);
  p3l_pager_transaction *transaction = begin(&f);
  must(&f, p3l_type_add(transaction, &table, &part, &id, &f.error));          /* page 1 */
  must(&f, p3l_root_set(transaction, "here", (p3l_address){4176}, &f.error)); /* page 2 */
  must(&f, p3l_pager_commit(transaction, &f.error));
  p3l_type_table_free(&table);
  uint64_t one = 1, two = 2, far = 99;
  change_page(&f, 1, offsetof(p3l_page, next), &one, sizeof(one));
  change_page(&f, 2, offsetof(p3l_page, next), &two, sizeof(two));
  assert_int_equal(p3l_type_table_read(f.pager, &table, &f.error), P3L_CORRUPT);
  assert_int_equal(p3l_root_find(f.pager, "there", &found, &f.error), P3L_CORRUPT);
  assert_non_null(strstr(f.error.message, "has a cycle at page 2"));
  assert_int_equal(p3l_root_each(f.pager, count_roots, &seen, &f.error), P3L_CORRUPT);
  /* An existing root is found before the damaged page. */
  must(&f, p3l_root_find(f.pager, "here", &found, &f.error));
  transaction = begin(&f);
  assert_int_equal(p3l_type_add(transaction, &table, &part, &id, &f.error), P3L_CORRUPT);
  assert_int_equal(p3l_root_set(transaction, "there", (p3l_address){4176}, &f.error), P3L_CORRUPT);
  p3l_pager_abort(transaction);
  /* Links beyond the end, and to a page of another kind. */
  change_page(&f, 1, offsetof(p3l_page, next), &far, sizeof(far));
  change_page(&f, 2, offsetof(p3l_page, next), &one, sizeof(one));
  assert_int_equal(p3l_type_table_read(f.pager, &table, &f.error), P3L_CORRUPT);
  assert_non_null(strstr(f.error.message, "page 99"));
  assert_int_equal(p3l_root_each(f.pager, count_roots, &seen, &f.error), P3L_CORRUPT);
  assert_non_null(
      strstr(f.error.message, "page 1 is used differently from what its pointer requires"));
  drop(&f);
}

static void every_flipped_bit_of_a_table_is_told_or_harmless(void **state) {
  (void)state;
  fixture f = fresh(0);
  p3l_type_table table = {0};
  p3l_type_id id;
  p3l_stored_type part = named("part", 1), plain = {.name = "p", .version = 1, .bytes = 1};
  p3l_pager_transaction *transaction = begin(&f);
  must(&f, p3l_type_add(transaction, &table, &part, &id, &f.error));
  must(&f, p3l_type_add(transaction, &table, &plain, &id, &f.error));
  must(&f, p3l_root_set(transaction, "here", (p3l_address){4176}, &f.error));
  must(&f, p3l_pager_commit(transaction, &f.error));
  p3l_type_table_free(&table);
  for (uint64_t number = 1; number <= 2; number++) {
    p3l_page page;
    must(&f, p3l_pager_read(f.pager, (p3l_page_number){number}, &page, &f.error));
    assert_null(p3l_data_page_fault(&page));
    for (size_t bit = 32 * 8; bit < sizeof(page) * 8; bit++) {
      ((uint8_t *)&page)[bit / 8] ^= (uint8_t)(1u << bit % 8);
      const char *fault = p3l_data_page_fault(&page);
      ((uint8_t *)&page)[bit / 8] ^= (uint8_t)(1u << bit % 8);
      /* A root's name and address are not redundant, and the id of the last type may have any
       * higher value. */
      if (number == 2 && bit >= 64 * 8 && bit < 77 * 8) continue;
      if (fault == NULL && number == 1 && bit >= 40 * 8 + 48 * 8 && bit < 40 * 8 + 50 * 8) continue;
      if (fault == NULL) fail_msg("bit %zu of page %d", bit, (int)number);
    }
  }
  drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types_outlive_the_process),
      cmocka_unit_test(the_hash_is_fnv),
      cmocka_unit_test(an_aborted_type_is_forgotten),
      cmocka_unit_test(many_types_go_over_many_pages),
      cmocka_unit_test(types_that_cannot_be_are_refused),
      cmocka_unit_test(slots_repeat_in_arrays),
      cmocka_unit_test(roots_do_what_an_array_does),
      cmocka_unit_test(names_of_roots_have_1_to_55_bytes),
      cmocka_unit_test(lists_that_go_round_end),
      cmocka_unit_test(every_flipped_bit_of_a_table_is_told_or_harmless)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
