/* verify, stat, dump and gc: their output for undamaged and damaged stores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocate.h"
#include "memory_device.h"
#include "tool.h"

/*
 * A graph as a program would make it. Types: 1 node {id, to, to}, 2 blob (no pointers).
 *
 *   root "first" -> a -> b -> c      d -> e (no slot leads to d)      blob 9,000 bytes <- c
 *                        ^____|                                      hub: 1,000 nodes in a row <- b
 */
typedef struct node {
  uint64_t id, to[2];
} node;

typedef struct graph {
  memory_device *file, *log;
  p3l_pager *pager;
  p3l_type_table types;
  p3l_error error;
  uint64_t a, b, c, d, e, blob, hub;
} graph;

static void must(graph *g, p3l_code code) {
  if (code != P3L_OK) fail_msg("%s", g->error.message);
}

static p3l_pager_transaction *begin(graph *g) {
  p3l_pager_transaction *transaction;
  must(g, p3l_pager_begin(g->pager, &transaction, &g->error));
  return transaction;
}

static uint64_t take(graph *g, p3l_pager_transaction *transaction, p3l_type_id type,
                     uint64_t bytes) {
  p3l_address address;
  must(g, p3l_room_take(transaction, type, bytes, (p3l_address){0}, &address, &g->error));
  return address.byte;
}

/* Writes eight bytes at an address of a small object, or of a large object's first page. */
static void put(graph *g, p3l_pager_transaction *transaction, uint64_t address, uint64_t value) {
  p3l_page *page;
  must(g, p3l_page_for_writing(transaction, (p3l_page_number){address / 4096}, &page, &g->error));
  const p3l_object_page *view = (const void *)page;
  uint32_t at = (uint32_t)(address % 4096) + (view->use == P3L_USE_LARGE ? 64 : 0);
  memcpy((uint8_t *)page + at, &value, sizeof(value));
  p3l_page_changed(transaction, page, at, sizeof(value));
}

static uint64_t surrogate(uint64_t address) { return UINT64_C(1) << 63 | address; }

static graph make(void) {
  graph g = {.file = memory_device_new(), .log = memory_device_new()};
  p3l_pager_options options = {0};
  static const struct p3l_stored_field to[] = {{8, 2}};
  const p3l_stored_type types[] = {
      {.name = "node", .version = 1, .bytes = 24, .fields = to, .field_count = 1},
      {.name = "bl\x01ob\xff", .version = 3, .bytes = 1}};
  p3l_type_id id;
  must(&g, p3l_store_format(&g.file->device, &g.log->device, &g.error));
  must(&g,
       p3l_pager_open_devices(&g.file->device, &g.log->device, &options, &g.pager, NULL, &g.error));
  p3l_pager_transaction *t = begin(&g);
  for (int i = 0; i < 2; i++) must(&g, p3l_type_add(t, &g.types, &types[i], &id, &g.error));
  uint64_t *nodes[] = {&g.a, &g.b, &g.c, &g.d, &g.e};
  for (int i = 0; i < 5; i++) *nodes[i] = take(&g, t, 1, 24);
  g.blob = take(&g, t, 2, 9000);
  g.hub = take(&g, t, 1, 24000);
  put(&g, t, g.a + 8, surrogate(g.b));
  put(&g, t, g.b + 8, surrogate(g.c + 8)); /* into the middle */
  put(&g, t, g.b + 16, surrogate(g.hub + 7200));
  put(&g, t, g.c + 8, surrogate(g.b));
  put(&g, t, g.c + 16, surrogate(g.blob));
  put(&g, t, g.d + 8, surrogate(g.e));
  put(&g, t, g.hub + 8, surrogate(g.a));
  must(&g, p3l_root_set(t, "first", (p3l_address){g.a}, &g.error));
  must(&g, p3l_pager_commit(t, &g.error));
  return g;
}

static void drop(graph *g) {
  p3l_pager_close(g->pager, NULL);
  p3l_type_table_free(&g->types);
  memory_device_free(g->file);
  memory_device_free(g->log);
}

typedef int (*command)(graph *g, FILE *to);

static int run_verify(graph *g, FILE *to) { return p3l_verify_store(g->pager, to); }
static int run_stat(graph *g, FILE *to) {
  p3l_recovery recovery = {0};
  return p3l_stat_store(g->pager, &recovery, to);
}
static int run_dump(graph *g, FILE *to) {
  return p3l_dump_store(g->pager, &(p3l_dump_options){0}, to);
}
static int run_json(graph *g, FILE *to) {
  return p3l_dump_store(g->pager,
                        &(p3l_dump_options){.json = true, .type = "node", .root = "first"}, to);
}
static int run_dry(graph *g, FILE *to) {
  return p3l_gc_store(g->pager, &(p3l_gc_options){.dry_run = true}, to);
}
static int run_gc(graph *g, FILE *to) { return p3l_gc_store(g->pager, &(p3l_gc_options){0}, to); }

/* Returns the output; the caller frees it. */
static char *output_of(graph *g, command command, int expected_status) {
  char *text = NULL;
  size_t length;
  FILE *to = open_memstream(&text, &length);
  int status = command(g, to);
  fclose(to);
  if (status != expected_status) fail_msg("status %d: %s", status, text);
  return text;
}

static void expect(graph *g, command command, int status, const char *line) {
  char *text = output_of(g, command, status);
  if (strstr(text, line) == NULL) fail_msg("\"%s\" is not in:\n%s", line, text);
  free(text);
}

/* The last row of a table. */
static const char *all(int objects, int bytes) {
  static char row[100];
  snprintf(row, sizeof(row), "%-32s %7s %8s %12d %16d\n", "all", "", "", objects, bytes);
  return row;
}

/* ---- an undamaged store ---- */

static void verify_counts_what_is_there(void **state) {
  (void)state;
  graph g = make();
  /* Page 1: types; 2: nodes; 3-5: blob; 6-11: hub; 12: roots. */
  char *text = output_of(&g, run_verify, 0);
  assert_string_equal(text,
                      "13 pages (12 data, 0 free), 5 objects, 2 large ones, 0 moved ones, "
                      "7 pointers, 1 roots: 0 faults, 0 dangling pointers\n");
  free(text);
  drop(&g);
}

static void stat_counts_by_type(void **state) {
  (void)state;
  graph g = make();
  char *text = output_of(&g, run_stat, 0);
  /* Five nodes of 32 bytes with padding, in 4016 bytes; a hub of 24,000 bytes. */
  assert_non_null(strstr(text, "object pages     1, 4.0 % filled; 0 holes of 0 bytes in all\n"));
  assert_non_null(strstr(text, "9 of large objects, 1 of types, 1 of roots\n"));
  assert_non_null(strstr(text, "root             \"first\" at 2:80\n"));
  assert_non_null(strstr(
      text, "node                                   1       24            6            24160\n"));
  assert_non_null(strstr(
      text, "bl\\x01ob\\xff                           3        1            1             9000\n"));
  free(text);
  drop(&g);
}

static void dump_lists_objects_and_pointers(void **state) {
  (void)state;
  graph g = make();
  char *text = output_of(&g, run_dump, 0);
  assert_string_equal(text,
                      "root \"first\" -> 2:80\n"
                      "2:80  node version 1, 32 bytes\n  +8 -> 2:112\n"
                      "2:112  node version 1, 32 bytes\n  +8 -> 2:152\n  +16 -> 7:3104\n"
                      "2:144  node version 1, 32 bytes\n  +8 -> 2:112\n  +16 -> 3:0\n"
                      "2:176  node version 1, 32 bytes\n  +8 -> 2:208\n"
                      "2:208  node version 1, 32 bytes\n"
                      "3:0  bl\\x01ob\\xff version 3, 9000 bytes\n"
                      "6:0  node version 1, 24000 bytes\n  +8 -> 2:80\n");
  free(text);
  text = output_of(&g, run_json, 0);
  assert_string_equal(
      text,
      "{\"root\":\"first\",\"to\":\"2:80\"}\n"
      "{\"address\":\"2:80\",\"type\":\"node\",\"version\":1,\"bytes\":32,\"pointers\":"
      "[{\"offset\":8,\"to\":\"2:112\"}]}\n"
      "{\"address\":\"2:112\",\"type\":\"node\",\"version\":1,\"bytes\":32,\"pointers\":"
      "[{\"offset\":8,\"to\":\"2:152\"},{\"offset\":16,\"to\":\"7:3104\"}]}\n"
      "{\"address\":\"2:144\",\"type\":\"node\",\"version\":1,\"bytes\":32,\"pointers\":"
      "[{\"offset\":8,\"to\":\"2:112\"},{\"offset\":16,\"to\":\"3:0\"}]}\n"
      "{\"address\":\"6:0\",\"type\":\"node\",\"version\":1,\"bytes\":24000,\"pointers\":"
      "[{\"offset\":8,\"to\":\"2:80\"}]}\n");
  free(text);
  drop(&g);
}

static void gc_takes_what_no_root_leads_to(void **state) {
  (void)state;
  graph g = make();
  const char *row =
      "node                                   1       24            2               64\n";
  expect(&g, run_dry, 0, row);
  expect(&g, run_verify, 0, " 5 objects, 2 large ones"); /* still there */
  expect(&g, run_gc, 0, row);
  expect(&g, run_verify, 0, " 3 objects, 2 large ones, 0 moved ones, 6 pointers");
  expect(&g, run_dry, 0, all(0, 0));
  /* Without its root everything is collected, including the cycle. */
  p3l_pager_transaction *t = begin(&g);
  must(&g, p3l_root_set(t, "first", (p3l_address){0}, &g.error));
  must(&g, p3l_pager_commit(t, &g.error));
  expect(&g, run_gc, 0, all(5, 33096));
  expect(&g, run_verify, 0, "13 pages (2 data, 10 free), 0 objects, 0 large ones");
  drop(&g);
}

/* ---- moved objects ---- */

static void an_object_that_moved_is_followed(void **state) {
  (void)state;
  graph g = make();
  p3l_pager_transaction *t = begin(&g);
  uint64_t new_c = take(&g, t, 1, 48), new_e = take(&g, t, 1, 48);
  put(&g, t, new_c + 8, surrogate(g.b));
  must(&g, p3l_room_forward(t, (p3l_address){g.c}, (p3l_address){new_c}, &g.error));
  must(&g, p3l_room_forward(t, (p3l_address){g.e}, (p3l_address){new_e}, &g.error));
  put(&g, t, g.a + 16, surrogate(new_e)); /* also found by its new address */
  must(&g, p3l_pager_commit(t, &g.error));
  expect(&g, run_verify, 0, "5 objects, 2 large ones, 2 moved ones");
  expect(&g, run_dump, 0, "2:208  (moved), 32 bytes\n  +0 -> 2:288\n");
  /* No pointer leads to the blob now. d is collected, and the forward at e, but not its target. */
  expect(&g, run_gc, 0, all(3, 9064));
  expect(&g, run_verify, 0, "4 objects, 1 large ones, 1 moved ones");
  drop(&g);
}

/* ---- damage, with checksums that are right ---- */

static void change(graph *g, uint64_t address, uint64_t value) {
  p3l_pager_transaction *t = begin(g);
  put(g, t, address, value);
  must(g, p3l_pager_commit(t, &g->error));
}

static void change_page(graph *g, uint64_t number, size_t offset, uint64_t value, size_t length) {
  p3l_page *page;
  p3l_pager_transaction *t = begin(g);
  must(g, p3l_page_for_writing(t, (p3l_page_number){number}, &page, &g->error));
  memcpy((uint8_t *)page + offset, &value, length);
  p3l_page_changed(t, page, 0, P3L_PAGE_SIZE);
  must(g, p3l_pager_commit(t, &g->error));
}

static void dangling_pointers_are_a_warning(void **state) {
  (void)state;
  graph g = make();
  p3l_pager_transaction *t = begin(&g);
  must(&g, p3l_room_give(t, (p3l_address){g.blob}, &g.error));
  must(&g, p3l_pager_commit(t, &g.error));
  expect(&g, run_verify, 0,
         "dangling: the node at page 2, byte 144 points by byte 16 of it to page 3, byte 0");
  expect(&g, run_verify, 0, "0 faults, 1 dangling pointers");
  expect(&g, run_dump, 0, "+16 -> 3:0  dangling\n");
  expect(&g, run_gc, 0, all(2, 64));
  drop(&g);
}

static void each_damage_is_told(void **state) {
  (void)state;
  const struct {
    uint64_t page;
    size_t offset;
    uint64_t value;
    size_t length;
    const char *says;
  } cases[] = {
      {2, 88, 0x7fff12345678, 8, "page 2: the node at byte 80 has at byte 8 what is not a pointer"},
      {2, 88, UINT64_C(0xa000000000002050), 8, "what is not a pointer"},
      {2, 4094, 9, 2, "page 2: the object at byte 80 is of type 9, which is not in the table"},
      {2, 32, 7, 2, "page 2 has data of no known use"},
      {2, 40, 77, 8, "page 2 should be on a list, and no list leads to it"},
      {4, 40, 2, 8, "page 4 is of the large object at page 2, whose pages do not agree"},
      {4, 48, 9001, 8, "page 3 is of the large object at page 3, whose pages do not agree"},
      {7, 34, 2, 2, "page 6 is of the large object at page 6, whose pages do not agree"},
      {12, 64, 5 * 4096 + 900, 8,
       "the root \"first\" leads to page 5, byte 900, where no object is"},
      {12, 24, 12, 8, "the list of roots leads to page 12, a second time"},
      {1, 24, 2, 8, "the list of types leads to page 2, which is not one of these"},
      {0, 168 + 16, 5, 8, "the list of types leads to page 5, which is not one of these"},
      {0, 168 + 32, 2, 8,
       "page 2 is on the list of pages with holes behind page 2, and names page 0"},
      {0, 168 + 40, 900, 8, "page 900 is to be filled with objects, and is not a page for them"},
      {0, 168 + 12, 'Z', 1, "has objects in another form"},
      {0, 168, 'Z', 1, "page 0 leads to no objects that this library knows"},
  };
  assert_int_equal(offsetof(p3l_page, payload) + offsetof(p3l_header, owner), 104);
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    graph g = make();
    size_t offset = cases[i].offset >= 168 && cases[i].page == 0 ? cases[i].offset - 168 + 104
                                                                 : cases[i].offset;
    change_page(&g, cases[i].page, offset, cases[i].value, cases[i].length);
    expect(&g, run_verify, 1, cases[i].says);
    drop(&g);
  }
}

static void nothing_is_deleted_from_a_damaged_store(void **state) {
  (void)state;
  graph g = make();
  change_page(&g, 5, 40, 2, 8); /* one page of the blob */
  free(output_of(&g, run_gc, 1));
  expect(&g, run_verify, 1, " 5 objects, ");
  drop(&g);
  g = make();
  change(&g, g.d + 8, 12345); /* unreachable, so that its targets do not matter */
  expect(&g, run_dry, 0, all(2, 64));
  change(&g, g.a + 8, 12345);
  free(output_of(&g, run_gc, 1));
  expect(&g, run_verify, 1, " 5 objects, ");
  drop(&g);
}

static void two_roots_of_one_name_on_two_pages(void **state) {
  (void)state;
  graph g = make();
  p3l_pager_transaction *t = begin(&g);
  for (int i = 0; i < 63; i++) {
    char name[16];
    snprintf(name, sizeof(name), "more %d", i);
    must(&g, p3l_root_set(t, name, (p3l_address){g.a}, &g.error));
  }
  must(&g, p3l_pager_commit(t, &g.error)); /* the last one is on page 13 */
  expect(&g, run_verify, 0, " 64 roots: 0 faults");
  change_page(&g, 13, 72, 0x7473726966, 8); /* "first" */
  expect(&g, run_verify, 1, "there are two roots of the name \"first\"");
  drop(&g);
}

/* ---- the command ---- */

static int shell(const char *arguments, char *text, size_t size) {
  char line[1024];
  snprintf(line, sizeof(line), "%s %s 2>&1", P3L_COMMAND, arguments);
  FILE *from = popen(line, "r");
  assert_non_null(from);
  size_t length = fread(text, 1, size - 1, from);
  text[length] = 0;
  int status = pclose(from);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static void every_command_helps_and_has_three_answers(void **state) {
  (void)state;
  char folder[] = "/tmp/p3l-tool-XXXXXX", line[256], text[8192];
  const char *commands[] = {"create", "stat", "verify", "dump", "gc", "torture"};
  assert_non_null(mkdtemp(folder));
  for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
    snprintf(line, sizeof(line), "%s --help", commands[i]);
    assert_int_equal(shell(line, text, sizeof(text)), 0);
    if (strstr(text, "Example: p3l ") == NULL) fail_msg("%s", text);
    snprintf(line, sizeof(line), "%s --nonsense", commands[i]);
    assert_int_equal(shell(line, text, sizeof(text)), 2);
    snprintf(line, sizeof(line), "%s %s/none/there", commands[i], folder);
    int status = shell(line, text, sizeof(text));
    if (status != 1) fail_msg("%s: %d: %s", line, status, text);
  }
  snprintf(line, sizeof(line), "create %s/s", folder);
  assert_int_equal(shell(line, text, sizeof(text)), 0);
  for (size_t i = 1; i < 5; i++) {
    snprintf(line, sizeof(line), "%s %s/s", commands[i], folder);
    int status = shell(line, text, sizeof(text));
    if (status != 0) fail_msg("%s: %d: %s", line, status, text);
  }
  snprintf(line, sizeof(line), "dump --root nobody %s/s", folder);
  assert_int_equal(shell(line, text, sizeof(text)), 1);
  assert_non_null(strstr(text, "no root of the name \"nobody\""));
  snprintf(line, sizeof(line), "dump --format xml %s/s", folder);
  assert_int_equal(shell(line, text, sizeof(text)), 2);
  assert_int_equal(shell("frobnicate", text, sizeof(text)), 2);
  snprintf(line, sizeof(line), "rm -r %s", folder);
  assert_int_equal(system(line), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(verify_counts_what_is_there),
                                     cmocka_unit_test(stat_counts_by_type),
                                     cmocka_unit_test(dump_lists_objects_and_pointers),
                                     cmocka_unit_test(gc_takes_what_no_root_leads_to),
                                     cmocka_unit_test(an_object_that_moved_is_followed),
                                     cmocka_unit_test(dangling_pointers_are_a_warning),
                                     cmocka_unit_test(each_damage_is_told),
                                     cmocka_unit_test(nothing_is_deleted_from_a_damaged_store),
                                     cmocka_unit_test(two_roots_of_one_name_on_two_pages),
                                     cmocka_unit_test(every_command_helps_and_has_three_answers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
