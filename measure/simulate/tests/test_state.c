/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * State rules: what they read, and that nothing they are given makes them fault.
 *
 * The host says what can be read: here the pages from `memory` on, behind which
 * lies one that faults.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "state.h"
#include "hm_statement.h"
#include "statement.h"
#include "test.h"

#define PAGE 4096ull
#define READABLE (4 * PAGE)

static unsigned char *memory;
static struct hm_header *header;

int hm_state_readable(uint64_t address, uint64_t length) {
  uint64_t start = (uint64_t)(uintptr_t)memory;
  return address >= start && length <= READABLE && address - start <= READABLE - length;
}

static int set_up(void **state) {
  (void)state;
  memory = mmap(NULL, READABLE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + READABLE, PAGE, PROT_NONE) != 0) return 1;
  size_t table = HM_STATEMENTS * sizeof(struct hm_statement);
  header = calloc(1, HM_RING_OFFSET + table);
  header->statements = HM_RING_OFFSET;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  free(header);
  return munmap(memory, READABLE + PAGE);
}

static uint64_t thread_pointer; /* of the sampled thread */

static uint64_t address_of(size_t offset) { return (uint64_t)(uintptr_t)memory + offset; }
static void put_word(size_t offset, uint64_t word) { memcpy(memory + offset, &word, sizeof word); }

static struct hm_state read_by(struct hm_state_rule rule, uint64_t address) {
  struct hm_state state;
  header->state_rule[0] = rule;
  atomic_store(&header->state_rules, 1);
  hm_read_state(header, thread_pointer, address, &state);
  return state;
}

static struct hm_state_rule statement_rule(uint64_t pointer) {
  return (struct hm_state_rule){.kind = HM_STATE_STATEMENT, .base = pointer};
}

static uint64_t statement(uint64_t text) {
  put_word(0, text);
  return read_by(statement_rule(address_of(0)), 0).statement;
}

static void a_statement_is_its_hash_and_its_text_in_the_table(void **state) {
  (void)state;
  strcpy((char *)memory + 64, "select  5");
  uint64_t hash = statement(address_of(64));
  assert_true(hash == hm_statement_id("select ?", 8));
  const struct hm_statement *table = (struct hm_statement *)((char *)header + HM_RING_OFFSET);
  assert_string_equal(table[hash % HM_STATEMENTS].text, "select ?");
  /* Another text at the same address. */
  strcpy((char *)memory + 64, "select  a");
  assert_true(statement(address_of(64)) == hm_statement_id("select a", 8));
  header->statements = 0; /* no table: the hash is still reported */
  strcpy((char *)memory + 64, "select  b");
  assert_true(statement(address_of(64)) == hm_statement_id("select b", 8));
  header->statements = HM_RING_OFFSET;
}

/* Word 0 points to the statement; word 1 to a structure with the address of the latest one at
 * offset 16. */
static void the_statement_executed_last_is_told_to_be_over(void **state) {
  (void)state;
  struct hm_state_rule rule = statement_rule(address_of(0));
  rule.indirect = 1;
  rule.table = address_of(8);
  rule.offset = 16;
  strcpy((char *)memory + 256, "commit");
  strcpy((char *)memory + 320, "begin");
  put_word(8, address_of(128));
  put_word(128 + 16, address_of(256));
  put_word(0, address_of(320));
  struct hm_state read = read_by(rule, 0);
  assert_true(read.statement == hm_statement_id("begin", 5) && !read.statement_over);
  put_word(0, 0);
  read = read_by(rule, 0);
  assert_true(read.statement == hm_statement_id("commit", 6) && read.statement_over);
  put_word(128 + 16, 0); /* it never executed one */
  read = read_by(rule, 0);
  assert_true(read.statement == 0 && !read.statement_over);
  put_word(8, 0); /* it is just starting */
  assert_true(read_by(rule, 0).statement == 0);
}

static void where_there_is_no_statement_none_is_told(void **state) {
  (void)state;
  assert_true(statement(0) == 0);
  memory[64] = 0;
  assert_true(statement(address_of(64)) == 0); /* an empty text */
  strcpy((char *)memory + 64, " -- nothing");
  assert_true(statement(address_of(64)) == 0);
  /* A pointer that points nowhere, and one that is itself nowhere. */
  const uint64_t nowhere[] = {1,
                              0xdeadbeef,
                              address_of(READABLE),
                              address_of(READABLE - 4),
                              UINT64_MAX,
                              UINT64_MAX - 7,
                              1ull << 63};
  for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) {
    if (!hm_state_readable(nowhere[i], 1)) assert_true(statement(nowhere[i]) == 0);
    assert_true(read_by(statement_rule(nowhere[i]), 0).statement == 0);
  }
}

static void garbage_is_read_as_a_text_and_never_beyond_what_is_there(void **state) {
  (void)state;
  memset(memory + PAGE, 0xff, READABLE - PAGE);
  for (size_t from = READABLE - 3; from < READABLE; from++)
    assert_true(statement(address_of(from)) != 0);
  memset(memory + PAGE, '\'', READABLE - PAGE); /* no end, and quotes without one */
  assert_true(statement(address_of(PAGE)) == hm_statement_id("?", 1));
}

static void a_word_is_read_in_place_or_through_a_pointer(void **state) {
  (void)state;
  put_word(128, 0x1122334455667788);
  put_word(8, address_of(120));
  struct hm_state_rule rule = {
      .kind = HM_STATE_WORD, .id = 9, .base = address_of(128), .length = 4};
  struct hm_state read = read_by(rule, 0);
  assert_int_equal(read.values, 1);
  assert_int_equal(read.value[0].id, 9);
  assert_int_equal(read.value[0].length, 4);
  assert_memory_equal(read.value[0].bytes, "\x88\x77\x66\x55", 4);
  rule.base = address_of(8);
  rule.indirect = 1;
  rule.offset = 8;
  rule.length = 8;
  read = read_by(rule, 0);
  assert_int_equal(read.values, 1);
  assert_memory_equal(read.value[0].bytes, "\x88\x77\x66\x55\x44\x33\x22\x11", 8);
  /* A null pointer, one to nowhere, an offset to nowhere, and one that wraps around. */
  put_word(8, 0);
  assert_int_equal(read_by(rule, 0).values, 0);
  put_word(8, 0x1000);
  assert_int_equal(read_by(rule, 0).values, 0);
  put_word(8, address_of(0));
  rule.offset = READABLE - 7;
  assert_int_equal(read_by(rule, 0).values, 0);
  rule.offset = UINT64_MAX - address_of(0);
  assert_int_equal(read_by(rule, 0).values, 0);
  rule.length = HM_STATE_LONGEST + 1;
  rule.offset = 0;
  assert_int_equal(read_by(rule, 0).values, 0);
  rule.length = 0;
  assert_int_equal(read_by(rule, 0).values, 0);
}

static void an_entry_is_that_of_the_address(void **state) {
  (void)state;
  /* Blocks of 8192 bytes at 1 MiB; their tags every 64 bytes from memory + 1024 on. */
  struct hm_state_rule rule = {.kind = HM_STATE_ENTRY,
                               .id = 3,
                               .base = 1 << 20,
                               .size = 4 * 8192,
                               .stride = 8192,
                               .table = address_of(1024),
                               .table_stride = 64,
                               .length = 20};
  for (int i = 0; i < 5; i++) memset(memory + 1024 + 64 * i, 'a' + i, 20);
  const struct {
    uint64_t address;
    char expected; /* 0: silent */
  } cases[] = {{(1 << 20) - 1, 0},
               {1 << 20, 'a'},
               {(1 << 20) + 8191, 'a'},
               {(1 << 20) + 8192, 'b'},
               {(1 << 20) + 4 * 8192 - 1, 'd'},
               {(1 << 20) + 4 * 8192, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct hm_state read = read_by(rule, cases[i].address);
    assert_int_equal(read.values, cases[i].expected != 0);
    for (int byte = 0; byte < 20 && cases[i].expected != 0; byte++)
      assert_int_equal(read.value[0].bytes[byte], cases[i].expected);
  }
  rule.table = address_of(READABLE) - 64 - 19; /* the second entry is not completely readable */
  assert_int_equal(read_by(rule, 1 << 20).values, 1);
  assert_int_equal(read_by(rule, (1 << 20) + 8192).values, 0);
  rule.stride = 0;
  assert_int_equal(read_by(rule, 1 << 20).values, 0);
  rule.stride = 8192;
  rule.table_stride = UINT64_MAX / 2;
  assert_int_equal(read_by(rule, (1 << 20) + 3 * 8192).values, 0);
}

/* The thread pointer points behind word 4, which points to the session: the connection's number in
 * its word 2, the text in words 4 and 5. */
static void the_statement_of_a_thread_is_that_of_its_session(void **state) {
  (void)state;
  struct hm_state_rule rule = {
      .kind = HM_STATE_THREAD_STATEMENT, .base = (uint64_t)-8, .table = 16, .offset = 32};
  thread_pointer = address_of(40);
  put_word(32, address_of(512));
  put_word(512 + 16, 7);
  put_word(512 + 32, address_of(1024));
  put_word(512 + 40, 16);
  strcpy((char *)memory + 1024, "select `a` # one"); /* MariaDB's names and comments */
  struct hm_state read = read_by(rule, 0);
  assert_true(read.statement == hm_statement_id("select `a`", 10) && !read.statement_over);
  /* Its length ends it, not a zero. */
  strcpy((char *)memory + 1024, "select a, b from");
  put_word(512 + 40, 8);
  assert_true(read_by(rule, 0).statement == hm_statement_id("select a", 8));
  put_word(512 + 40, 11);
  assert_true(read_by(rule, 0).statement == hm_statement_id("select a,b", 10));
  /* Between two: the last one of the same connection. */
  put_word(512 + 32, 0);
  read = read_by(rule, 0);
  assert_true(read.statement == hm_statement_id("select a,b", 10) && read.statement_over);
  put_word(512 + 16, 8);
  assert_true(read_by(rule, 0).statement == 0);
  put_word(512 + 16, 7 + 4096); /* in the same place of the table */
  assert_true(read_by(rule, 0).statement == 0);
  /* No session, none that can be read, no thread pointer. */
  put_word(32, 0);
  assert_true(read_by(rule, 0).statement == 0);
  put_word(32, 0x1000);
  assert_true(read_by(rule, 0).statement == 0);
  thread_pointer = 0;
  assert_true(read_by(rule, 0).statement == 0);
}

static void a_page_says_what_it_is(void **state) {
  (void)state;
  struct hm_state_rule rule = {.kind = HM_STATE_PAGE,
                               .id = 6,
                               .base = address_of(0),
                               .size = 3 * PAGE,
                               .stride = PAGE,
                               .table = 4 | 34 << 16 | (uint64_t)70 << 48,
                               .table_stride = 100,
                               .length = 20};
  memcpy(memory + PAGE, "zero", 4);
  memcpy(memory + PAGE + 4, "page", 4);
  memcpy(memory + PAGE + 34, "area", 4);
  memcpy(memory + PAGE + 70, "tree", 4);
  memcpy(memory + PAGE + 100, "last", 4);
  for (int i = 0; i < 2; i++) {
    struct hm_state read = read_by(rule, address_of(i == 0 ? PAGE : 2 * PAGE - 1));
    assert_int_equal(read.values, 1);
    assert_int_equal(read.value[0].id, 6);
    assert_memory_equal(read.value[0].bytes, "pageareazerotreelast", 20);
  }
  assert_int_equal(read_by(rule, address_of(3 * PAGE)).values, 0); /* behind the region */
  assert_int_equal(read_by(rule, address_of(0) - 1).values, 0);
  rule.length = 18; /* no whole words */
  assert_int_equal(read_by(rule, address_of(PAGE)).values, 0);
  rule.length = 20;
  rule.size = 100 * PAGE; /* addresses that are not mapped */
  assert_int_equal(read_by(rule, address_of(50 * PAGE)).values, 0);
  rule.stride = 0;
  assert_int_equal(read_by(rule, address_of(PAGE)).values, 0);
}

static void all_rules_are_carried_out_and_unknown_ones_left_out(void **state) {
  (void)state;
  strcpy((char *)memory + 64, "commit");
  put_word(0, address_of(64));
  put_word(128, 5);
  header->state_rule[0] = (struct hm_state_rule){.kind = 77, .length = 8, .base = address_of(128)};
  header->state_rule[1] = statement_rule(address_of(0));
  for (uint32_t i = 2; i < HM_STATE_RULES; i++)
    header->state_rule[i] = (struct hm_state_rule){
        .kind = HM_STATE_WORD, .id = i, .length = 8, .base = address_of(128)};
  atomic_store(&header->state_rules, 1000); /* an invalid number */
  struct hm_state read;
  hm_read_state(header, 0, 0, &read);
  assert_true(read.statement == hm_statement_id("commit", 6));
  assert_int_equal(read.values, HM_STATE_RULES - 2);
  assert_int_equal(read.value[HM_STATE_RULES - 3].id, HM_STATE_RULES - 1);
  atomic_store(&header->state_rules, 0);
  hm_read_state(header, 0, 0, &read);
  assert_true(read.statement == 0 && read.values == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_statement_is_its_hash_and_its_text_in_the_table),
      cmocka_unit_test(the_statement_executed_last_is_told_to_be_over),
      cmocka_unit_test(where_there_is_no_statement_none_is_told),
      cmocka_unit_test(garbage_is_read_as_a_text_and_never_beyond_what_is_there),
      cmocka_unit_test(a_word_is_read_in_place_or_through_a_pointer),
      cmocka_unit_test(an_entry_is_that_of_the_address),
      cmocka_unit_test(the_statement_of_a_thread_is_that_of_its_session),
      cmocka_unit_test(a_page_says_what_it_is),
      cmocka_unit_test(all_rules_are_carried_out_and_unknown_ones_left_out),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
