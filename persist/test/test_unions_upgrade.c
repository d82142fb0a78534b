/*
 * Unions and programs: one that does not describe them is refused, one of the next version
 * upgrades them; descriptions that cannot be.
 */
#include "programs.h"

typedef struct value1 {
  uint64_t is_pointer;
  union {
    int64_t number;
    struct value1 *to;
  } is;
} value1;
static const p3l_field no_fields[] = {{NULL, 0, 0}};
static const p3l_type value1_type = {"value", 1, sizeof(value1), no_fields, NULL};

static uint32_t live1(const void *object, size_t element) {
  return (uint32_t)((const value1 *)object)[element].is_pointer;
}
static const p3l_union value1_unions[] =
    P3L_UNIONS(P3L_UNION(value1, is, live1, P3L_PLAIN_ARM, P3L_ARM(value1, is, is.to)));

/* Another order, and a name before. */
typedef struct value2 {
  char name[8];
  union {
    struct value2 *to;
    int64_t number;
  } is;
  uint8_t kind; /* 7: a pointer */
  uint8_t zeros[7];
} value2;

static uint32_t live2(const void *object, size_t element) {
  return ((const value2 *)object)[element].kind == 7;
}
static const p3l_union value2_unions[] =
    P3L_UNIONS(P3L_UNION(value2, is, live2, P3L_PLAIN_ARM, P3L_ARM(value2, is, is.to)));

static bool upgrade(const void *old_object, size_t old_bytes, uint32_t old_version,
                    void *new_object, size_t new_bytes) {
  const value1 *from = old_object;
  value2 *to = new_object;
  if (old_version != 1 || old_bytes != sizeof(*from) || new_bytes != sizeof(*to)) return false;
  memcpy(&to->is, &from->is, sizeof(to->is));
  to->kind = from->is_pointer ? 7 : 0;
  return true;
}
static const p3l_type value2_type = {"value", 2, sizeof(value2), no_fields, upgrade};

enum { VALUES = 500 };

static void commit_in(p3l_store *store) {
  p3l_error error;
  if (p3l_commit(store, &error) == P3L_OK) return;
  fprintf(stderr, "%s\n", error.message);
  _exit(1);
}

static void write_values(void) {
  p3l_register_unions(&value1_type, value1_unions);
  p3l_store *store = open_store(false);
  begin_in(store);
  value1 *all = p3l_allocate(store, &value1_type, VALUES, NULL);
  EXPECT(all != NULL);
  for (int i = 0; i < VALUES; i++) {
    all[i].is_pointer = i % 3 == 0;
    if (i % 3 == 0)
      all[i].is.to = &all[VALUES - 1 - i];
    else if (i % 3 == 1)
      all[i].is.number = (int64_t)(intptr_t)p3l_surrogate(&all[i]);
    else
      all[i].is.number = i;
  }
  p3l_set_root(store, "values", all);
  commit_in(store);
  EXPECT(p3l_close(store, NULL) == P3L_OK);
}

static void refused(void) {
  p3l_store *store;
  p3l_error error;
  p3l_options options = {.read_only = true};
  EXPECT(p3l_open(program_path, NULL, &store, &error) == P3L_WRONG_TYPE);
  EXPECT(strstr(error.message,
                "has objects of type value, version 1, with a union of pointers and "
                "others, and the program has no function that says which arm is live; "
                "describe the type (P3L_TYPE_UNIONS)") != NULL);
  EXPECT(p3l_open(program_path, &options, &store, &error) == P3L_WRONG_TYPE);
  static const p3l_field as_pointer[] = {{"is", 8, 1}, {NULL, 0, 0}};
  static const p3l_type other = {"value", 1, sizeof(value1), as_pointer, NULL};
  p3l_register_type(&other);
  EXPECT(p3l_open(program_path, NULL, &store, &error) == P3L_WRONG_TYPE);
  EXPECT(strstr(error.message, "another layout by that version") != NULL);
}

static void check_values(value2 *all) {
  for (int i = 0; i < VALUES; i++) {
    EXPECT(all[i].kind == (i % 3 == 0 ? 7 : 0));
    if (i % 3 == 0)
      EXPECT(P3L_LD(all[i].is.to) == &all[VALUES - 1 - i]);
    else if (i % 3 == 1)
      EXPECT(all[i].is.number < 0);
    else
      EXPECT(all[i].is.number == i);
  }
}

/* Pointers into a larger array of another element size lead to the element by its old offset. */
static void read_upgraded(bool change, bool read_only) {
  p3l_register_unions(&value2_type, value2_unions);
  p3l_store *store = open_store(read_only);
  value2 *all = p3l_root(store, "values");
  for (int i = 0; i < VALUES; i++) {
    EXPECT(all[i].kind == (i % 3 == 0 ? 7 : 0));
    if (i % 3 == 1) EXPECT(all[i].is.number < 0);
    if (i % 3 == 2) EXPECT(all[i].is.number == i);
  }
  if (change) {
    begin_in(store); /* it moves; before, pointers into its new part cannot be stored */
    P3L_SET(all[0].name[0], 'a');
    for (int i = 0; i < VALUES; i += 3) P3L_SET(all[i].is.to, all);
    commit_in(store);
    begin_in(store);
    p3l_dirty(all, VALUES * sizeof(*all));
    for (int i = 0; i < VALUES; i += 3) all[i].is.to = &all[VALUES - 1 - i];
    commit_in(store);
    check_values(all);
    EXPECT(p3l_evict(store, 0, NULL) == P3L_OK);
    check_values(p3l_root(store, "values"));
  }
  EXPECT(p3l_close(store, NULL) == P3L_OK);
}

static void look_at_version_1(void) { read_upgraded(false, true); }
static void change_to_version_2(void) { read_upgraded(true, false); }

static void look_at_version_2(void) {
  p3l_register_unions(&value2_type, value2_unions);
  p3l_store *store = open_store(true);
  check_values(p3l_root(store, "values"));
  EXPECT(p3l_close(store, NULL) == P3L_OK);
}

static void the_next_version_upgrades_unions(void **state) {
  (void)state;
  make_folder();
  run_program(write_values);
  run_program(refused);
  run_program(look_at_version_1);
  run_program(change_to_version_2);
  run_program(look_at_version_2);
  remove_folder();
}

/* The arm of a union changes without a report. */
static void forget_a_report(void) {
  p3l_register_unions(&value1_type, value1_unions);
  p3l_store *store;
  p3l_error error;
  p3l_options options = {.audit_places = P3L_AUDIT_ALL};
  EXPECT(p3l_open(program_path, &options, &store, &error) == P3L_OK);
  value1 *all = p3l_root(store, "values");
  EXPECT(all[3].is_pointer);
  begin_in(store);
  all[3].is_pointer = 0;
  EXPECT(p3l_commit(store, &error) == P3L_MISUSE);
  EXPECT(strstr(error.message, "byte 48 of the value at page ") != NULL);
  EXPECT(strstr(error.message, "was changed and not reported") != NULL);
}

static void an_unreported_arm_is_reported(void **state) {
  (void)state;
  make_folder();
  run_program(write_values);
  run_program(forget_a_report);
  remove_folder();
}

static const p3l_union *bad_unions;
static const p3l_field *bad_fields;
static const char *bad_words;
static void refuse_bad(void) {
  static p3l_type type = {"value", 1, sizeof(value1), NULL, NULL};
  type.pointers = bad_fields;
  EXPECT_FAULT(P3L_MISUSE, p3l_register_unions(&type, bad_unions), bad_words);
}

static void refuses(const p3l_union *unions, const p3l_field *fields, const char *words) {
  bad_unions = unions;
  bad_fields = fields;
  bad_words = words;
  run_program(refuse_bad);
}

static void descriptions_that_cannot_be(void **state) {
  (void)state;
  static const p3l_field shared[] = {{"u.pointer", 8, 0}, {NULL, 0, 0}},
                         first[] = {{"is_pointer", 0, 2}, {NULL, 0, 0}};
  static const p3l_union no_function[] =
      P3L_UNIONS(P3L_UNION(value1, is, NULL, P3L_PLAIN_ARM, P3L_ARM(value1, is, is.to)));
  static const p3l_union behind[] = P3L_UNIONS(P3L_UNION(value1, is, live1, UINT64_C(2)));
  static const p3l_union no_arms[] = {{"is", 8, 8, live1, {P3L_ARMS_END}}, {NULL, 0, 0, NULL, {0}}};
  static const p3l_union unaligned[] = {{"is", 4, 8, live1, {1, P3L_ARMS_END}},
                                        {NULL, 0, 0, NULL, {0}}};
  static const p3l_union outside[] = {{"is", 16, 8, live1, {1, P3L_ARMS_END}},
                                      {NULL, 0, 0, NULL, {0}}};
  refuses(NULL, shared, "shares its place with what is none, in a union that is not described");
  refuses(value1_unions, first, "within a union");
  refuses(no_function, no_fields, "without a function that says which arm is live");
  refuses(behind, no_fields, "a union with a pointer behind its end");
  refuses(no_arms, no_fields, "a union with no arms, or with more than 16");
  refuses(unaligned, no_fields, "a union that is not aligned");
  refuses(outside, no_fields, "a union behind its end");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_next_version_upgrades_unions),
                                     cmocka_unit_test(an_unreported_arm_is_reported),
                                     cmocka_unit_test(descriptions_that_cannot_be)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
