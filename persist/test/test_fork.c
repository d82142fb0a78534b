/*
 * A process forks with a store open. The child inherits its memory and the lock. The child must not
 * write to the store, nor read a file that the parent changes.
 */
#include "programs.h"

typedef struct step {
  uint64_t number;
  struct step *next;
} step;
P3L_TYPE(step, step, 1, P3L_POINTERS(step, next));

static void add_step(p3l_store *store, uint64_t number) {
  p3l_error error;
  EXPECT(p3l_begin(store, &error) == P3L_OK);
  step *made = p3l_new(store, step);
  *made = (step){number, p3l_root(store, "last")};
  p3l_set_root(store, "last", made);
  EXPECT(p3l_commit(store, &error) == P3L_OK);
}

static void expect_steps(p3l_store *store, uint64_t last) {
  const step *at = p3l_root(store, "last");
  for (uint64_t number = last; number > 0; number--) {
    EXPECT(at != NULL && at->number == number);
    at = P3L_LD(((step *)at)->next);
  }
  EXPECT(at == NULL);
}

static void in_child(void (*body)(p3l_store *store), p3l_store *store) {
  int status;
  fflush(NULL);
  pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    body(store);
    _exit(0);
  }
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(status == 0);
}

static void begin_and_close(p3l_store *store) {
  p3l_error error;
  EXPECT(p3l_begin(store, &error) == P3L_MISUSE);
  EXPECT(strstr(error.message, program_path) != NULL && strstr(error.message, "fork") != NULL);
  EXPECT(p3l_close(store, &error) == P3L_OK);
}

static void commit_in_child(p3l_store *store) {
  p3l_error error;
  EXPECT(p3l_commit(store, &error) == P3L_MISUSE);
  EXPECT(p3l_close(store, &error) == P3L_OK);
}

static void abort_in_child(p3l_store *store) {
  p3l_error error;
  p3l_abort(store);
  EXPECT(p3l_close(store, &error) == P3L_OK);
}

static void open_in_child(p3l_store *store) {
  p3l_store *another;
  p3l_error error;
  (void)store;
  EXPECT(p3l_open(program_path, NULL, &another, &error) == P3L_BUSY);
}

static step *second; /* resident */
static void look_in_child(p3l_store *store) {
  EXPECT(second->number == 2 && second->next->number == 1); /* resident objects stay readable */
  EXPECT_FAULT(P3L_MISUSE, p3l_root(store, "last"), "fork");
}

static void parent(void) {
  p3l_error error;
  p3l_store *store = open_store(false);
  add_step(store, 1);
  in_child(open_in_child, store);
  in_child(begin_and_close, store);
  add_step(store, 2);
  EXPECT(p3l_pager_checkpoint(store->pager, &error) == P3L_OK);
  second = p3l_root(store, "last");
  expect_steps(store, 2);
  in_child(look_in_child, store);
  EXPECT(p3l_begin(store, &error) == P3L_OK);
  step *made = p3l_new(store, step);
  *made = (step){3, p3l_root(store, "last")};
  p3l_set_root(store, "last", made);
  in_child(commit_in_child, store);
  in_child(abort_in_child, store);
  EXPECT(p3l_commit(store, &error) == P3L_OK);
  add_step(store, 4);
  expect_steps(store, 4);
  close_store(store);
}

static void reader(void) {
  p3l_store *store = open_store(true);
  in_child((void (*)(p3l_store *))close_store, store);
  expect_steps(store, 4);
  close_store(store);
}

/* A store open for reading stays readable in the child, because the file does not change. */
static void read_in_child(p3l_store *store) {
  expect_steps(store, 4);
  close_store(store);
}

static void reader_whose_child_reads(void) {
  p3l_store *store = open_store(true);
  in_child(read_in_child, store);
  expect_steps(store, 4);
  close_store(store);
}

static void children_do_not_write(void **state) {
  (void)state;
  make_folder();
  run_program(parent);
  run_program(reader);
  run_program(reader_whose_child_reads);
  remove_folder();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(children_do_not_write)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
