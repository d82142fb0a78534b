/*
 * The program's types and the store's: which types may be registered, and which stores can be
 * opened. Programs with other types are separate processes.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "open_stores.h"
#include "programs.h"

typedef struct shape {
  uint64_t corners;
  struct shape *next;
} shape;
static const p3l_field shape_fields[] = {P3L_POINTERS(shape, next), {NULL, 0, 0}};
static const p3l_type shape_type = {"shape", 1, sizeof(shape), shape_fields, NULL};

static const p3l_field no_fields[] = {{NULL, 0, 0}};

/* ---- registering ---- */

static void the_same_type_may_come_twice(void) {
  static const p3l_type again = {"shape", 1, sizeof(shape), shape_fields, NULL};
  p3l_register_type(&shape_type);
  p3l_register_type(&again);
}

static void fields_side_by_side_are_one(void) {
  static const p3l_field two[] = {{"a", 8, 1}, {"b", 16, 1}, {NULL, 0, 0}};
  static const p3l_field one[] = {{"ab", 8, 2}, {NULL, 0, 0}};
  static const p3l_type first = {"pair", 1, 24, two, NULL}, second = {"pair", 1, 24, one, NULL};
  p3l_register_type(&first);
  p3l_register_type(&second);
}

static void another_layout_of_the_name_is_refused(void) {
  static const p3l_type other = {"shape", 1, 24, shape_fields, NULL};
  p3l_register_type(&shape_type);
  EXPECT_FAULT(P3L_MISUSE, p3l_register_type(&other), "registered twice");
}

static void expect_refusal(const p3l_type *type, const char *words) {
  EXPECT_FAULT(P3L_MISUSE, p3l_register_type(type), words);
}

static void slots_are_aligned(void) {
  static const p3l_field crooked[] = {{"next", 4, 1}, {NULL, 0, 0}};
  static const p3l_field whole[] = {{"next", 8, 1}, {NULL, 0, 0}};
  static const p3l_field behind[] = {{"next", 8, 2}, {NULL, 0, 0}};
  static const p3l_field backwards[] = {{"b", 8, 1}, {"a", 0, 1}, {NULL, 0, 0}};
  static const p3l_type types[] = {
      {"crooked", 1, 16, crooked, NULL},  {"odd", 1, 20, whole, NULL},
      {"behind", 1, 16, behind, NULL},    {"backwards", 1, 16, backwards, NULL},
      {"nothing", 1, 0, no_fields, NULL},
  };
  const char *words[] = {"not aligned", "multiple of 8", "behind its end", "out of order",
                         "has no size"};
  for (size_t i = 0; i < 5; i++) expect_refusal(&types[i], words[i]);
}

static void types_are_registered_once_and_well(void **state) {
  (void)state;
  run_program(the_same_type_may_come_twice);
  run_program(fields_side_by_side_are_one);
  run_program(another_layout_of_the_name_is_refused);
  run_program(slots_are_aligned);
}

/* ---- opening ---- */

static void write_shapes(void) {
  p3l_register_type(&shape_type);
  p3l_store *store = open_store(false);
  begin_in(store);
  shape *made = p3l_allocate(store, &shape_type, 1, NULL);
  made->corners = 3;
  made->next = made;
  p3l_set_root(store, "shape", made);
  commit_and_close(store);
}

static void read_shapes(void) {
  p3l_register_type(&shape_type);
  p3l_store *store = open_store(true);
  shape *read = p3l_root(store, "shape");
  EXPECT(read->corners == 3);
  EXPECT(P3L_LD(read->next) == read);
  p3l_type_id id = 0;
  p3l_place place;
  EXPECT(p3l_place_of(read, &place));
  id = place.type;
  EXPECT(p3l_types_program(store, id) == &shape_type);
  EXPECT(strcmp(p3l_types_of(store, id)->name, "shape") == 0);
  EXPECT(p3l_types_of(store, 77) == NULL && p3l_types_of(store, P3L_HOLE) == NULL);
  close_store(store);
}

static void read_without_the_type(void) {
  p3l_store *store = open_store(true); /* such as a tool: reading is allowed */
  shape *read = p3l_root(store, "shape");
  EXPECT(read->corners == 3);
  p3l_place place;
  EXPECT(p3l_place_of(read, &place));
  EXPECT(p3l_types_program(store, place.type) == NULL);
  close_store(store);
}

static void expect_wrong_type(const p3l_type *type, const char *words) {
  p3l_error error;
  p3l_store *store;
  p3l_register_type(type);
  EXPECT(p3l_open(program_path, NULL, &store, &error) == P3L_WRONG_TYPE);
  EXPECT(strstr(error.message, words) != NULL);
  EXPECT(strstr(error.message, "shape") != NULL);
  EXPECT(strstr(error.message, "P3L_TYPE_UPGRADED") != NULL);
  EXPECT(p3l_open_stores == NULL);
}

static void another_version_without_an_upgrade(void) {
  static const p3l_type other = {"shape", 2, 24, shape_fields, NULL};
  expect_wrong_type(&other, "in version 1, the program has version 2");
}

static void another_layout_of_the_same_version(void) {
  static const p3l_type other = {"shape", 1, 24, shape_fields, NULL};
  expect_wrong_type(&other, "16 bytes");
}

static void the_same_size_with_a_pointer_less(void) {
  static const p3l_type other = {"shape", 1, 16, no_fields, NULL};
  expect_wrong_type(&other, "another layout");
}

static void stores_with_other_types_are_refused_or_not(void **state) {
  (void)state;
  make_folder();
  run_program(write_shapes);
  run_program(read_shapes);
  run_program(read_without_the_type);
  run_program(another_version_without_an_upgrade);
  run_program(another_layout_of_the_same_version);
  run_program(the_same_size_with_a_pointer_less);
  run_program(read_shapes); /* unchanged */
  remove_folder();
}

/* ---- in transactions ---- */

static void a_type_of_an_aborted_transaction_is_forgotten(void) {
  static const p3l_type other = {"other", 1, 32, no_fields, NULL};
  p3l_register_type(&shape_type);
  p3l_register_type(&other);
  p3l_store *store = open_store(false);
  begin_in(store);
  EXPECT(p3l_allocate(store, &shape_type, 1, NULL) != NULL);
  p3l_abort(store);
  begin_in(store);
  void *made = p3l_allocate(store, &other, 1, NULL); /* gets the id that the first one had */
  EXPECT(made != NULL);
  shape *second = p3l_allocate(store, &shape_type, 1, NULL);
  second->next = second;
  p3l_set_root(store, "shape", second);
  p3l_place place;
  EXPECT(p3l_place_of(made, &place) && p3l_types_program(store, place.type) == &other);
  EXPECT(p3l_place_of(second, &place) && p3l_types_program(store, place.type) == &shape_type);
  commit_and_close(store);
  store = open_store(true);
  second = p3l_root(store, "shape");
  EXPECT(P3L_LD(second->next) == second);
  close_store(store);
}

static void ids_follow_transactions(void **state) {
  (void)state;
  make_folder();
  run_program(a_type_of_an_aborted_transaction_is_forgotten);
  remove_folder();
}

/* ---- options ---- */

static void opening_says_what_is_wrong(void) {
  p3l_error error;
  p3l_store *store, *second;
  EXPECT(p3l_open("/nowhere/store.p3l", NULL, &store, &error) == P3L_IO);
  EXPECT(strstr(error.message, "/nowhere/store.p3l") != NULL);
  EXPECT(p3l_open(program_path, &(p3l_options){.memory_bytes = 1000}, &store, &error) ==
         P3L_MISUSE);
  EXPECT(strstr(error.message, "4 MB") != NULL);
  EXPECT(p3l_open(program_path, &(p3l_options){.create = true, .read_only = true}, &store,
                  &error) == P3L_MISUSE);
  EXPECT(p3l_open(program_path, &(p3l_options){.create = true}, &store, &error) == P3L_OK);
  EXPECT(p3l_open(program_path, NULL, &second, &error) == P3L_BUSY);
  EXPECT(p3l_open_stores == store && store->next == NULL);
  close_store(store);
  EXPECT(p3l_open_stores == NULL);
  EXPECT(p3l_open(program_path, &(p3l_options){.create = true}, &store, &error) == P3L_OK);
  close_store(store);
  EXPECT(p3l_open(program_path, &(p3l_options){.read_only = true}, &store, &error) == P3L_OK);
  EXPECT(p3l_open(program_path, &(p3l_options){.read_only = true}, &second, &error) == P3L_OK);
  EXPECT(p3l_begin(store, &error) == P3L_READ_ONLY);
  close_store(second);
  close_store(store);
}

static void options_are_checked(void **state) {
  (void)state;
  make_folder();
  run_program(opening_says_what_is_wrong);
  remove_folder();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types_are_registered_once_and_well),
      cmocka_unit_test(stores_with_other_types_are_refused_or_not),
      cmocka_unit_test(ids_follow_transactions),
      cmocka_unit_test(options_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
