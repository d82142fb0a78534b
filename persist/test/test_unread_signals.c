/*
 * Large arrays that are read where the program touches them (unread.h), beside the program's handlers of
 * SIGSEGV, blocked signals, small signal stacks and forks.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs.h"
#include "unread_fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

/* ---- fork ---- */

static int (*device_read)(p3l_device *, void *, size_t, p3l_file_offset);
static _Atomic int stops; /* 1: the next read stops; 2: it has; 0: it goes on */

static int stopping_read(p3l_device *device, void *bytes, size_t length, p3l_file_offset at) {
  int wanted = 1;
  if (atomic_compare_exchange_strong(&stops, &wanted, 2))
    while (stops == 2) usleep(1000);
  return device_read(device, bytes, length, at);
}

static void *touch_late(void *items) {
  uint64_t far = 3 * STRETCH_ITEMS + 5;
  return (void *)(uintptr_t)(((item *)items)[far].number == far * 3 + 1);
}

/* Another thread is reading a stretch when the process forks: the child reads that one and others. */
static void children_read_too(void **state) {
  (void)state;
  fixture f = filled();
  f.options.read_only = true;
  fixture_reopen(&f);
  item *items = p3l_root(f.store, "items");
  device_read = f.file->device.read;
  f.file->device.read = stopping_read;
  stops = 1;
  pthread_t thread;
  void *right;
  int status;
  assert_int_equal(pthread_create(&thread, NULL, touch_late, items), 0);
  while (stops != 2) usleep(1000);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    alarm(60); /* ends one that waits for the thread */
    uint64_t other = 5 * STRETCH_ITEMS;
    stops = 0;
    _exit(items[other].number == other * 3 + 1 && touch_late(items) != NULL ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  stops = 0;
  pthread_join(thread, &right);
  assert_int_equal(status, 0);
  assert_non_null(right);
  f.file->device.read = device_read;
  fixture_drop(&f);
}

/* ---- other signals ---- */

static void check(bool right) {
  if (!right) _exit(9);
}

static void *nowhere(void) {
  return mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static sigjmp_buf recovered;
static void recovers(int signal) {
  (void)signal;
  siglongjmp(recovered, 1);
}

/* The program's handler is set first and leaves by siglongjmp(): each time at the same depth. */
__attribute__((unused)) static void recover_thrice(void) {
  volatile int *none = nowhere();
  volatile int times = 0;
  signal(SIGSEGV, recovers);
  fixture f = filled();
  item *volatile items = p3l_root(f.store, "items");
  while (times < 3) {
    if (sigsetjmp(recovered, 1) != 0)
      times++;
    else
      *none = 1;
    uint64_t at = (uint64_t)(times + 1) * STRETCH_ITEMS;
    check(items[at].number == at * 3 + 1);
  }
}

static struct sigaction librarys;
static int *calls; /* shared with the parent */
static void passes_on(int signal, siginfo_t *information, void *state) {
  if (++*calls > 3) _exit(8); /* instead of until the stack is full */
  librarys.sa_sigaction(signal, information, state);
}

/* It passes on to the library's handler, which is then set over it again. */
__attribute__((unused)) static void pass_in_a_circle(void) {
  signal(SIGSEGV, SIG_DFL);
  fixture f = filled();
  p3l_root(f.store, "items");
  struct sigaction action = {.sa_sigaction = passes_on, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &action, &librarys);
  fixture_reopen(&f);
  item *items = p3l_root(f.store, "items");
  check(items[0].number == 1 && *calls == 0);
  *(volatile int *)nowhere() = 1;
}

__attribute__((unused)) static void handlers_that_leave_or_pass_on(void **state) {
  (void)state;
  assert_int_equal(status_of_program(recover_thrice), 0);
  calls = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int status = status_of_program(pass_in_a_circle);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  assert_int_equal(*calls, 1);
  munmap(calls, 4096);
}

static void touch_with_blocked_signals(void) {
  sigset_t all;
  signal(SIGSEGV, SIG_DFL);
  fixture f = filled();
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  item *items = p3l_root(f.store, "items");
  check(counts(&f).pages_read >= ALL_PAGES);
  for (uint64_t at = 0; at < ITEMS; at += STRETCH_ITEMS) check(items[at].number == at * 3 + 1);
}

static void arrays_are_whole_where_signals_are_blocked(void **state) {
  (void)state;
  assert_int_equal(status_of_program(touch_with_blocked_signals), 0);
}

/* The length that docs/persist.md names, and nothing behind it. */
__attribute__((unused)) static void small_signal_stacks_suffice(void **state) {
  (void)state;
  const size_t bytes = 32 << 10, page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t before = page > bytes ? page : bytes;
  uint8_t *memory = mmap(NULL, before + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint8_t *stack = memory + before;
  assert_int_equal(mprotect(stack, bytes, PROT_READ | PROT_WRITE), 0);
  const stack_t own = {.ss_sp = stack, .ss_size = bytes}, none = {.ss_flags = SS_DISABLE};
  fixture f = filled();
  item *items = p3l_root(f.store, "items");
  assert_int_equal(sigaltstack(&own, NULL), 0);
  uint64_t number = items[4 * STRETCH_ITEMS].number;
  assert_int_equal(sigaltstack(&none, NULL), 0);
  assert_int_equal(number, 4 * STRETCH_ITEMS * UINT64_C(3) + 1);
  bool used = false;
  for (size_t at = 0; at < bytes; at++) used = used || stack[at] != 0;
  assert_true(used);
  munmap(memory, before + bytes);
  fixture_drop(&f);
}

static void programs_own(int signal) { _exit(signal == SIGSEGV ? 7 : 8); }

/* A process whose own handler is there before the first array is read, or which has none. */
static int status_of(bool handler, bool sent) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    volatile int *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGSEGV, handler ? programs_own : SIG_DFL);
    fixture f = filled();
    item *items = p3l_root(f.store, "items");
    if (items[STRETCH_ITEMS].number != STRETCH_ITEMS * UINT64_C(3) + 1) _exit(9);
    if (sent)
      raise(SIGSEGV);
    else
      *nowhere = 1;
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void other_signals_pass(void **state) {
  (void)state;
  for (int sent = 0; sent < 2; sent++) {
    int status = status_of(true, sent == 1);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
#ifndef SANITIZED /* a sanitizer has a handler */
    status = status_of(false, sent == 1);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
#endif
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(other_signals_pass),
      cmocka_unit_test(children_read_too),
      cmocka_unit_test(arrays_are_whole_where_signals_are_blocked),
#ifndef SANITIZED /* its own handlers, and larger frames */
      cmocka_unit_test(handlers_that_leave_or_pass_on),
      cmocka_unit_test(small_signal_stacks_suffice),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
