/*
 * Unions of pointers and others: what is a pointer is so in the next run, in other processes and
 * for the tools; what only looks like one, or like an address, stays as it is.
 */
#include "test_evict_fixture.h"

#include <signal.h>
#include <sys/wait.h>

enum kind { NUMBER, LIST, PAIR, SECOND, KINDS };

struct value {
  uint32_t kind, id;
  union {
    int64_t number;
    char text[16];
    struct value *list;
    struct {
      struct value *left, *right;
    } pair;
    struct {
      int64_t number;
      struct value *to;
    } second;
  } is;
};

static uint32_t live(const void *object, size_t element) {
  return ((const struct value *)object)[element].kind;
}

#define ARMS                                                                                    \
  P3L_UNION(struct value, is, live, P3L_PLAIN_ARM, P3L_ARM(struct value, is, is.list),          \
            P3L_ARM(struct value, is, is.pair.left) | P3L_ARM(struct value, is, is.pair.right), \
            P3L_ARM(struct value, is, is.second.to))
P3L_TYPE_UNIONS(value, struct value, 1, NULL, P3L_UNIONS(ARMS), P3L_NO_POINTERS);

static uint64_t random_state = 1;
static uint64_t draw(uint64_t limit) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (random_state >> 33) % limit;
}

static struct value *root(fixture *f) { return p3l_root(f->store, "values"); }

static void begin(fixture *f) { MUST(f, p3l_begin(f->store, &f->error)); }
static void commit(fixture *f) { MUST(f, p3l_commit(f->store, &f->error)); }

static struct value *make(fixture *f, size_t count) {
  struct value *values =
      count == 1 ? p3l_new(f->store, value) : p3l_new_array(f->store, value, count);
  if (values == NULL) fail_msg("%s", p3l_failure(f->store)->message);
  return values;
}

/* What `p3l WORDS STORE` prints. */
static void tool(const fixture *f, const char *words, char *output, size_t bytes) {
  char command[256];
  snprintf(command, sizeof(command), P3L_COMMAND " %s %s 2>&1", words, f->path);
  FILE *from = popen(command, "r");
  assert_non_null(from);
  output[fread(output, 1, bytes - 1, from)] = 0;
  pclose(from);
}

static void verifies(const fixture *f, unsigned pointers) {
  char output[4096], expected[64];
  tool(f, "verify", output, sizeof(output));
  snprintf(expected, sizeof(expected), " %u pointers, 1 roots: 0 faults, 0 dangling", pointers);
  if (strstr(output, expected) == NULL) fail_msg("%s\nand not%s", output, expected);
}

/* ---- one object ---- */

static void numbers_stay_numbers(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  begin(&f);
  struct value *all = make(&f, 4), *other = make(&f, 1);
  other->is.number = 77;
  int64_t surrogate = (int64_t)(intptr_t)p3l_surrogate(other), address = (intptr_t)other;
  all[0].is.number = surrogate;
  all[1].is.number = address;
  all[2].kind = LIST;
  all[2].is.list = other;
  all[3].kind = SECOND;
  all[3].is.second.number = surrogate + 4096 * 4096; /* of a page that is not there */
  all[3].is.second.to = other;
  p3l_set_root(f.store, "values", all);
  commit(&f);
  verifies(&f, 2);
  fixture_reopen(&f, 0);
  all = root(&f);
  assert_int_equal(all[0].is.number, surrogate);
  assert_int_equal(all[1].is.number, address);
  assert_int_equal(P3L_LD(all[2].is.list)->is.number, 77);
  assert_int_equal(all[3].is.second.number, surrogate + 4096 * 4096);
  assert_ptr_equal(P3L_LD(all[3].is.second.to), P3L_LD(all[2].is.list));
  assert_int_equal(all[0].is.number, surrogate);
  fixture_drop(&f);
}

/* The bytes of the word stay, and what they mean changes. */
static void only_the_arm_changes(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  begin(&f);
  struct value *all = make(&f, 2), *other = make(&f, 1);
  all[0].kind = all[1].kind = LIST;
  all[0].is.list = all[1].is.list = other;
  p3l_set_root(f.store, "values", all);
  commit(&f);
  begin(&f);
  P3L_SET(all[0].kind, NUMBER); /* an address, which is kept as a number */
  int64_t number = all[0].is.number;
  commit(&f);
  verifies(&f, 1);
  fixture_reopen(&f, 0);
  all = root(&f);
  assert_int_equal(all[0].is.number, number);
  begin(&f);
  P3L_SET(all[0].is.list, P3L_LD(all[1].is.list));
  commit(&f); /* as a number, again */
  begin(&f);
  P3L_SET(all[0].kind, LIST);
  commit(&f);
  verifies(&f, 2);
  fixture_reopen(&f, 0);
  all = root(&f);
  assert_ptr_equal(P3L_LD(all[0].is.list), P3L_LD(all[1].is.list));
  fixture_drop(&f);
}

static void an_abort_restores_arms(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  begin(&f);
  struct value *all = make(&f, 3);
  all[0].kind = LIST;
  all[0].is.list = &all[2];
  all[1].is.number = 5;
  p3l_set_root(f.store, "values", all);
  commit(&f);
  begin(&f);
  p3l_dirty(all, 3 * sizeof(*all));
  all[1].kind = LIST;
  all[1].is.list = &all[0];
  all[0].kind = KINDS; /* so that the commit fails after it has seen the others */
  all[2].is.number = 1;
  assert_int_equal(p3l_commit(f.store, &f.error), P3L_MISUSE);
  assert_non_null(strstr(f.error.message,
                         "the function for the union is says that arm 4 is live in element 0 of "
                         "the value at page "));
  assert_non_null(strstr(f.error.message, "it has 4 arms"));
  assert_int_equal(all[0].kind, LIST);
  assert_int_equal(all[1].is.number, 5);
  verifies(&f, 1);
  MUST(&f, p3l_evict(f.store, 0, &f.error));
  all = root(&f);
  assert_int_equal(all[1].is.number, 5);
  assert_ptr_equal(P3L_LD(all[0].is.list), &all[2]);
  fixture_drop(&f);
}

static void a_number_where_a_pointer_should_be(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  begin(&f);
  struct value *all = make(&f, 2);
  all[0].kind = LIST;
  all[0].is.list = &all[1];
  p3l_set_root(f.store, "values", all);
  commit(&f);
  begin(&f);
  P3L_SET(all[1].kind, LIST);
  P3L_SET(all[1].is.number, 1234); /* where a pointer should be */
  assert_int_equal(p3l_commit(f.store, &f.error), P3L_MISUSE);
  assert_non_null(strstr(f.error.message,
                         "element 1, is, by the arm that is live, byte 0 of the "
                         "value at page "));
  fixture_drop(&f);
}

/* ---- many, with a model ---- */

enum { MANY = 3000, SMALL = 40 };

typedef struct model {
  uint32_t kind;
  int64_t number, second; /* of pointers: the index of their target */
} model;

static int64_t any_number(fixture *f, struct value *all, size_t count) {
  int64_t numbers[] = {(int64_t)draw(1000),
                       (intptr_t)&all[draw(count)],
                       (int64_t)(intptr_t)p3l_surrogate(&all[draw(count)]),
                       INT64_MIN + (int64_t)draw(1 << 30),
                       (intptr_t)f,
                       0};
  return numbers[draw(sizeof(numbers) / sizeof(*numbers))];
}

static void change(fixture *f, struct value *all, size_t count, model *models, size_t at) {
  struct value *value = &all[at];
  model *m = &models[at];
  bool same_bytes =
      m->kind == LIST && draw(2) == 0; /* a number that is stored as the pointer was */
  int64_t before = (int64_t)(intptr_t)p3l_surrogate(&all[m->kind == LIST ? m->number : 0]);
  *m = (model){(uint32_t)draw(KINDS), (int64_t)draw(count), (int64_t)draw(count)};
  if (m->kind == NUMBER || m->kind == SECOND)
    m->number = same_bytes ? before : any_number(f, all, count);
  p3l_dirty(value, sizeof(*value));
  memset(&value->is, 0, sizeof(value->is));
  value->kind = m->kind;
  switch (m->kind) {
    case NUMBER: value->is.number = m->number; break;
    case LIST: value->is.list = &all[m->number]; break;
    case PAIR:
      value->is.pair.left = &all[m->number];
      value->is.pair.right = &all[m->second];
      break;
    default: value->is.second.number = m->number; value->is.second.to = &all[m->second];
  }
}

static void check(struct value *all, const model *models, size_t count) {
  for (size_t at = 0; at < count; at++) {
    const model *m = &models[at];
    struct value *value = &all[at];
    assert_int_equal(value->kind, m->kind);
    switch (m->kind) {
      case NUMBER: assert_int_equal(value->is.number, m->number); break;
      case LIST: assert_ptr_equal(P3L_LD(value->is.list), &all[m->number]); break;
      case PAIR:
        assert_ptr_equal(P3L_LD(value->is.pair.left), &all[m->number]);
        assert_ptr_equal(P3L_LD(value->is.pair.right), &all[m->second]);
        break;
      default:
        assert_int_equal(value->is.second.number, m->number);
        assert_ptr_equal(P3L_LD(value->is.second.to), &all[m->second]);
    }
  }
}

/* A store that is also read: each version is what the model says, in both. */
static void as_the_model(size_t count, bool discovery, uint64_t memory) {
  static model models[MANY];
  memset(models, 0, sizeof(models));
  fixture f;
  fixture_make(&f, memory);
  fixture_close(&f);
  p3l_options writing = {.discovery_order = discovery, .memory_bytes = memory},
              reading = {.read_only = true, .discovery_order = discovery};
  p3l_store *reader;
  MUST(&f, p3l_open(f.path, &writing, &f.store, &f.error));
  begin(&f);
  p3l_set_root(f.store, "values", make(&f, count));
  commit(&f);
  MUST(&f, p3l_open(f.path, &reading, &reader, &f.error));
  for (int round = 0; round < 60; round++) {
    struct value *all = root(&f);
    begin(&f);
    bool undone = draw(4) == 0;
    static model before[MANY];
    memcpy(before, models, sizeof(models));
    for (uint64_t n = draw(count < 100 ? 10 : 300) + 1; n-- > 0;)
      change(&f, all, count, models, draw(count));
    if (undone) {
      p3l_abort(f.store);
      memcpy(models, before, sizeof(models));
    } else {
      commit(&f);
    }
    check(all, models, count);
    if (draw(3) == 0) MUST(&f, p3l_evict(f.store, 0, &f.error));
    if (draw(8) == 0) {
      fixture_close(&f);
      MUST(&f, p3l_open(f.path, &writing, &f.store, &f.error));
    }
    if (draw(2) == 0) {
      MUST(&f, p3l_refresh(reader, &f.error));
      p3l_use(reader);
      check(p3l_root(reader, "values"), models, count);
    }
    p3l_use(f.store);
    if (draw(3) == 0) check(root(&f), models, count);
  }
  p3l_use(NULL);
  MUST(&f, p3l_close(reader, &f.error));
  unsigned pointers = 0;
  for (size_t at = 0; at < count; at++)
    pointers += models[at].kind == PAIR ? 2 : models[at].kind != NUMBER;
  verifies(&f, pointers);
  fixture_drop(&f);
}

static void small_arrays_are_as_the_model(void **state) {
  (void)state;
  for (random_state = 1; random_state < 6; random_state++) {
    uint64_t seed = random_state;
    as_the_model(SMALL, seed % 2 == 0, 0);
    random_state = seed;
  }
}

static void large_arrays_are_as_the_model(void **state) {
  (void)state;
  random_state = 20;
  as_the_model(MANY, false, 0);
  as_the_model(MANY, true, 4 << 20);
}

/* ---- eviction ---- */

/* A list through unions, longer than memory; each has a number that is the address of the one
 * before. */
static void lists_longer_than_memory(void **state) {
  (void)state;
  enum { LENGTH = 200000 };
  fixture f;
  fixture_make(&f, 4 << 20);
  for (int part = 0; part < LENGTH;) {
    begin(&f);
    struct value *last = root(&f);
    for (int i = 0; i < 5000; i++, part++) {
      struct value *made = make(&f, 1);
      made->kind = last == NULL ? NUMBER : SECOND;
      made->id = (uint32_t)part;
      made->is.second.number = (intptr_t)last;
      if (last != NULL) made->is.second.to = last;
      last = made;
    }
    p3l_set_root(f.store, "values", last);
    commit(&f);
  }
  assert_true(fixture_statistics(&f).evictions > 0);
  fixture_reopen(&f, 4 << 20);
  void *position = p3l_surrogate(root(&f));
  uint32_t id = LENGTH;
  while (position != NULL) {
    p3l_enter(f.store);
    void *slot = position;
    struct value *at = P3L_LD(slot);
    for (int i = 0; i < 1000 && at != NULL; i++) {
      assert_int_equal(at->id, --id);
      assert_int_equal(at->is.second.number % 16, 0);
      at = at->kind == NUMBER ? NULL : P3L_LD(at->is.second.to);
    }
    position = p3l_surrogate(at);
    p3l_leave(f.store);
  }
  assert_int_equal(id, 0);
  assert_true(fixture_statistics(&f).evictions > 0);
  verifies(&f, LENGTH - 1);
  fixture_drop(&f);
}

static void prefetch_follows_live_arms(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  begin(&f);
  struct value *first = make(&f, 1), *second = make(&f, 1), *third = make(&f, 1);
  first->kind = LIST;
  first->is.list = second;
  second->is.number = (int64_t)(intptr_t)p3l_surrogate(third);
  p3l_set_root(f.store, "values", first);
  p3l_set_root(f.store, "third", third);
  commit(&f);
  fixture_reopen(&f, 0);
  assert_int_equal(p3l_prefetch(f.store, root(&f), 5), 2);
  assert_true(P3L_LD(root(&f)->is.list)->is.number < 0);
  fixture_drop(&f);
}

/* ---- tools ---- */

static void tools_know_pointers(void **state) {
  (void)state;
  char output[4096], expected[128];
  fixture f;
  fixture_make(&f, 0);
  begin(&f);
  struct value *all = make(&f, 1), *used = make(&f, 1), *unused = make(&f, 1);
  all->kind = SECOND;
  all->is.second.number = (int64_t)(intptr_t)p3l_surrogate(unused);
  all->is.second.to = used;
  uint64_t to = (uint64_t)(uintptr_t)p3l_surrogate(used) & P3L_SURROGATE_ADDRESS;
  p3l_set_root(f.store, "values", all);
  commit(&f);
  fixture_close(&f);
  tool(&f, "dump", output, sizeof(output));
  snprintf(expected, sizeof(expected), "\n  +16 -> %d:%d\n", (int)(to / 4096), (int)(to % 4096));
  if (strstr(output, expected) == NULL) fail_msg("%s", output);
  assert_null(strstr(output, "  +8 -> "));
  tool(&f, "gc", output, sizeof(output));
  assert_non_null(strstr(output, "value "));
  tool(&f, "stat", output, sizeof(output));
  if (strstr(output, "all                                                          2") == NULL)
    fail_msg("%s", output);
  verifies(&f, 1);
  fixture_open(&f, 0);
  assert_ptr_not_equal(P3L_LD(root(&f)->is.second.to), NULL);
  fixture_drop(&f);
}

/* ---- kill -9 ---- */

/* Numbers whose sum stays, pointers by which each value leads to itself. */
static void flip(fixture *f) {
  struct value *all = root(f);
  begin(f);
  for (int i = 0; i < 20; i++) {
    struct value *one = &all[draw(MANY)], *other = &all[draw(MANY)];
    p3l_dirty(one, sizeof(*one));
    p3l_dirty(other, sizeof(*other));
    if (one->kind == SECOND || draw(2) == 0) {
      one->kind = NUMBER;
      one->is.second.to = (struct value *)(INT64_MIN + (intptr_t)draw(1 << 24));
    } else {
      one->kind = SECOND;
      one->is.second.to = one;
    }
    int64_t moved = (int64_t)draw(100);
    one->is.second.number -= moved;
    other->is.second.number += moved;
  }
  commit(f);
}

static void survives_kills(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  begin(&f);
  struct value *all = make(&f, MANY);
  p3l_set_root(f.store, "values", all);
  commit(&f);
  fixture_close(&f);
  for (int kill_number = 0; kill_number < 15; kill_number++) {
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
      random_state = (uint64_t)kill_number + 100;
      fixture_open(&f, 0);
      if (write(ready[1], "r", 1) != 1) _exit(1);
      for (;;) flip(&f);
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    usleep((useconds_t)draw(60000));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    fixture_open(&f, 0);
    int64_t sum = 0;
    unsigned pointers = 0;
    all = root(&f);
    for (size_t at = 0; at < MANY; at++) {
      sum += all[at].is.second.number;
      pointers += all[at].kind == SECOND;
      if (all[at].kind == SECOND) assert_ptr_equal(P3L_LD(all[at].is.second.to), &all[at]);
    }
    assert_int_equal(sum, 0);
    if (kill_number == 14) assert_true(pointers > 0);
    fixture_close(&f);
    verifies(&f, pointers);
  }
  fixture_open(&f, 0);
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_stay_numbers),
      cmocka_unit_test(only_the_arm_changes),
      cmocka_unit_test(an_abort_restores_arms),
      cmocka_unit_test(a_number_where_a_pointer_should_be),
      cmocka_unit_test(small_arrays_are_as_the_model),
      cmocka_unit_test(large_arrays_are_as_the_model),
      cmocka_unit_test(lists_longer_than_memory),
      cmocka_unit_test(prefetch_follows_live_arms),
      cmocka_unit_test(tools_know_pointers),
      cmocka_unit_test(survives_kills),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
