/*
 * The library within a module that a server loads late, unloads and loads again, as Apache does
 * while it reads its configuration.
 */
#include "fixture.h"

#include <dlfcn.h>

struct user {
  unsigned (*use)(const char *);
  _Atomic int stage;
};

/* The thread ends, and runs a destructor of the module after the module was unloaded. */
static void *use_and_end_later(void *argument) {
  struct user *user = argument;
  user->use(fixture_folder);
  atomic_store(&user->stage, 1);
  while (atomic_load(&user->stage) == 1) pause_ms(1);
  return NULL;
}

static void unloaded_and_loaded_again(void **state) {
  (void)state;
  unsigned first = 0;
  for (int i = 0; i < 3; i++) {
    void *module = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
    if (!module) fail_msg("%s", dlerror());
    struct user user = {.stage = 0};
    *(void **)&user.use = dlsym(module, "use");
    assert_non_null(user.use);
    unsigned code = user.use(fixture_folder);
    assert_true(code > SPLIT_CODE_OTHER);
    if (i == 0) first = code;
    assert_int_equal(code, first);
    pthread_t thread;
    pthread_create(&thread, NULL, use_and_end_later, &user);
    while (atomic_load(&user.stage) == 0) pause_ms(1);
    dlclose(module);
    atomic_store(&user.stage, 2);
    pthread_join(thread, NULL);
    pid_t child = fork(); /* fork handlers of the module run */
    if (child == 0) _exit(0);
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(unloaded_and_loaded_again, make_folder, remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
