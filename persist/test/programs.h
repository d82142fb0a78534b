/*
 * Programs that open a store one after another. Each is a process with its own types. A failed
 * check ends the process and fails the test.
 */
#ifndef P3L_PROGRAMS_H
#define P3L_PROGRAMS_H

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "segment.h"
#include "store.h"
#include "types.h"

#define EXPECT(condition)                                             \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                       \
    }                                                                 \
  } while (0)

static jmp_buf program_fault;
static p3l_error program_error;

static inline void program_handler(void *state, const p3l_error *error) {
  (void)state;
  program_error = *error;
  longjmp(program_fault, 1);
}

/* The statement must call the fault handler with a message that contains these words. */
#define EXPECT_FAULT(expected, statement, words)            \
  do {                                                      \
    program_error.code = P3L_OK;                            \
    p3l_on_fault(program_handler, NULL);                    \
    if (setjmp(program_fault) == 0) {                       \
      statement;                                            \
    }                                                       \
    p3l_on_fault(NULL, NULL);                               \
    EXPECT(program_error.code == (expected));               \
    EXPECT(strstr(program_error.message, (words)) != NULL); \
  } while (0)

/* Runs it in a process of its own; its status. */
static inline int status_of_program(void (*program)(void)) {
  int status;
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    program();
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static inline void run_program(void (*program)(void)) {
  assert_int_equal(status_of_program(program), 0);
}

/* Runs a program that goes wrong; returns the status of its process, and what it printed on standard
 * error. */
static inline int run_wrong(void (*program)(void), char *printed, size_t bytes) {
  int ends[2], status;
  size_t length = 0;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    const int cmockas[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE}; /* handlers */
    for (size_t at = 0; at < sizeof(cmockas) / sizeof(*cmockas); at++) signal(cmockas[at], SIG_DFL);
    program();
    _exit(0);
  }
  close(ends[1]);
  for (ssize_t got;
       length + 1 < bytes && (got = read(ends[0], printed + length, bytes - 1 - length)) > 0;)
    length += (size_t)got;
  printed[length] = 0;
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static char program_folder[PATH_MAX], program_path[PATH_MAX + 16];

static inline void make_folder(void) {
  const char *temporary = getenv("TMPDIR");
  snprintf(program_folder, sizeof(program_folder), "%s/p3l-programs-XXXXXX",
           temporary != NULL ? temporary : "/tmp");
  assert_non_null(mkdtemp(program_folder));
  snprintf(program_path, sizeof(program_path), "%s/store.p3l", program_folder);
}

static inline void remove_folder(void) {
  char log[PATH_MAX + 32];
  snprintf(log, sizeof(log), "%s-log", program_path);
  unlink(program_path);
  unlink(log);
  assert_int_equal(rmdir(program_folder), 0);
}

static inline p3l_store *open_store(bool read_only) {
  p3l_store *store;
  p3l_error error;
  p3l_options options = {.create = !read_only, .read_only = read_only};
  if (p3l_open(program_path, &options, &store, &error) != P3L_OK) {
    fprintf(stderr, "%s\n", error.message);
    _exit(1);
  }
  return store;
}

static inline void close_store(p3l_store *store) {
  p3l_error error;
  EXPECT(p3l_close(store, &error) == P3L_OK);
}

static inline void begin_in(p3l_store *store) {
  p3l_error error;
  EXPECT(p3l_begin(store, &error) == P3L_OK);
}

static inline void commit_and_close(p3l_store *store) {
  p3l_error error;
  if (p3l_commit(store, &error) != P3L_OK) {
    fprintf(stderr, "%s\n", error.message);
    _exit(1);
  }
  close_store(store);
}

#endif
