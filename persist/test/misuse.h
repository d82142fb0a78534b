/*
 * Wrong programs: what those of test_misuse.c and test_misuse_more.c have in common, and how each is run.
 */
#ifndef P3L_MISUSE_H
#define P3L_MISUSE_H

#include "programs.h"

typedef struct item {
  uint64_t value;
  struct item *next;
} item;
P3L_TYPE(item, item, 1, P3L_POINTERS(item, next));

/* Audits everything at each commit, as a program does in its tests. */
static inline p3l_store *open_at(const char *path, p3l_options options) {
  p3l_store *store;
  p3l_error error;
  options.audit_places = P3L_AUDIT_ALL;
  if (p3l_open(path, &options, &store, &error) != P3L_OK) {
    fprintf(stderr, "%s\n", error.message);
    exit(1);
  }
  return store;
}

static p3l_store *store;
static p3l_error error;

static inline void must(p3l_code code) {
  if (code == P3L_OK) return;
  fprintf(stderr, "%s\n", error.message);
  exit(1);
}

static inline void begin(void) { must(p3l_begin(store, &error)); }
static inline void commit(void) { must(p3l_commit(store, &error)); }

static inline void reopen(void) {
  must(p3l_close(store, &error));
  store = open_at(program_path, (p3l_options){0});
}

/* "first" -> second -> third, in adjacent places; returns the first. */
static inline item *three(void) {
  store = open_at(program_path, (p3l_options){.create = true});
  begin();
  item *first = p3l_new(store, item);
  first->value = 1;
  first->next = p3l_new_near(store, item, first);
  first->next->value = 2;
  first->next->next = p3l_new_near(store, item, first);
  first->next->next->value = 3;
  must(p3l_set_root(store, "first", first));
  commit();
  return first;
}

static inline void delete_and_replace(item *first) {
  begin();
  p3l_delete(store, P3L_LD(first->next));
  commit();
  begin();
  item *made = p3l_new_near(store, item, first);
  made->value = 99;
  must(p3l_set_root(store, "made", made));
  commit();
}

static inline p3l_store *another(void) {
  char path[PATH_MAX + 32];
  snprintf(path, sizeof(path), "%s-log-other", program_path);
  return open_at(path, (p3l_options){.create = true});
}

/* ---- how they are run ---- */

typedef struct wrong {
  const char *name;
  void (*program)(void);
  const char *says;
  const char *guarded; /* what the debug library says; NULL: the same, or it traps */
} wrong;
#define WRONG(program, says) \
  { #program, program, says, NULL }
#define WRONG_GUARDED(program, says, guarded) \
  { #program, program, says, guarded }

/* True if the debug library explained the program's access: those end before what the release library
 * says. */
#ifdef P3L_TEST_GUARDED
enum { GUARDED = 1 };
#else
enum { GUARDED = 0 };
#endif
static inline bool trapped(const char *output) {
  if (!GUARDED) return false;
  return strstr(output, "writes to byte") != NULL || strstr(output, "reads byte") != NULL ||
         strstr(output, "reads 0x") != NULL || strstr(output, "follows a pointer") != NULL;
}

/* It exits normally or by the fault handler's abort(). */
static inline void run(const wrong *wrong, char *output, size_t bytes) {
  int status = run_wrong(wrong->program, output, bytes);
  if (WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT && !trapped(output))
    fail_msg("%s: ended by signal %d", wrong->name, WTERMSIG(status));
}

static inline void each_is_caught(const wrong *programs, size_t count) {
  size_t missed = 0;
  for (size_t i = 0; i < count; i++) {
    char output[2048], other[PATH_MAX + 32];
    make_folder();
    run(&programs[i], output, sizeof(output));
    bool otherwise = GUARDED && programs[i].guarded != NULL;
    const char *says = otherwise ? programs[i].guarded : programs[i].says;
    if (strstr(output, says) == NULL && !trapped(output))
      missed++, print_error("%s: \"%s\" does not say \"%s\"\n", programs[i].name, output, says);
    snprintf(other, sizeof(other), "%s-log-other", program_path);
    unlink(other);
    snprintf(other, sizeof(other), "%s-log-other-log", program_path);
    unlink(other);
    remove_folder();
  }
  assert_int_equal(missed, 0);
}

/* The main() of a test of these programs. */
#define WRONG_MAIN(programs)                                        \
  static void each_one(void **state) {                              \
    (void)state;                                                    \
    each_is_caught(programs, sizeof(programs) / sizeof(*programs)); \
  }                                                                 \
  int main(void) {                                                  \
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_one)}; \
    return cmocka_run_group_tests(tests, NULL, NULL);               \
  }

#endif
