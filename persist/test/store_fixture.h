/*
 * A store over devices in memory, for tests of the runtime. It can be opened, closed and reopened,
 * and its disk can be made full. Each test runs twice: with objects used in place in their pages,
 * and with objects copied one by one into arenas.
 */
#ifndef P3L_STORE_FIXTURE_H
#define P3L_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory_device.h"
#include "open.h"
#include "page_state.h"
#include "residency.h"
#include "segment.h"
#include "store.h"
#include "types.h"

typedef struct fixture {
  memory_device *file, *log;
  p3l_store *store;
  p3l_options options;
  p3l_error error;
} fixture;

static inline void fixture_open(fixture *f) {
  p3l_pager *pager;
  p3l_pager_options options = {.read_only = f->options.read_only,
                               .checkpoint_bytes = f->options.checkpoint_bytes};
  if (p3l_pager_open_devices(&f->file->device, &f->log->device, &options, &pager, NULL,
                             &f->error) != P3L_OK ||
      p3l_open_pager(pager, &f->options, &f->store, &f->error) != P3L_OK)
    fail_msg("%s", f->error.message);
}

static inline void fixture_close(fixture *f) {
  if (f->store != NULL && p3l_close(f->store, &f->error) != P3L_OK)
    fail_msg("%s", f->error.message);
  f->store = NULL;
}

static inline void fixture_reopen(fixture *f) {
  fixture_close(f);
  fixture_open(f);
}

/* A store that does not fit into half of its memory limit is never used in place. The limit is
 * large enough that nothing is evicted, because tests keep pointers. */
enum { FIXTURE_LIMIT = 4 << 20 };
static uint64_t fixture_limit; /* 0: none; objects are used in place */

typedef struct fixture_filler {
  uint8_t bytes[4096];
} fixture_filler;
P3L_PLAIN_TYPE(fixture_filler, fixture_filler, 1);

static inline void fixture_fill(fixture *f) {
  p3l_begin(f->store, &f->error);
  size_t count = (fixture_limit / 2 + (1 << 16)) / sizeof(fixture_filler);
  p3l_set_root(f->store, "filler", p3l_new_array(f->store, fixture_filler, count));
  if (p3l_commit(f->store, &f->error) != P3L_OK) fail_msg("%s", f->error.message);
  f->options.memory_bytes = fixture_limit;
  fixture_reopen(f);
}

static inline fixture fixture_new(void) {
  fixture f = {.file = memory_device_new(), .log = memory_device_new()};
  assert_int_equal(p3l_store_format(&f.file->device, &f.log->device, &f.error), P3L_OK);
  fixture_open(&f);
  if (fixture_limit > 0) fixture_fill(&f);
  return f;
}

/* Runs the tests in both modes; for main(). */
#define fixture_run(tests)                                      \
  (cmocka_run_group_tests_name("in place", tests, NULL, NULL) + \
   (fixture_limit = FIXTURE_LIMIT, cmocka_run_group_tests_name("copied", tests, NULL, NULL)))

static inline void fixture_drop(fixture *f) {
  fixture_close(f);
  memory_device_free(f->file);
  memory_device_free(f->log);
}

static inline void begin(fixture *f) {
  if (p3l_begin(f->store, &f->error) != P3L_OK) fail_msg("%s", f->error.message);
}

static inline void commit(fixture *f) {
  if (p3l_commit(f->store, &f->error) != P3L_OK) fail_msg("%s", f->error.message);
}

static inline uint64_t logged(fixture *f) {
  p3l_statistics statistics;
  p3l_get_statistics(f->store, &statistics);
  return statistics.bytes_logged;
}

#ifndef __clang__
/* No local variable that is read afterwards changes between setjmp() and longjmp(). */
#pragma GCC diagnostic ignored "-Wclobbered"
#endif

/* Runs a statement that must call the fault handler; holds the reported code, or P3L_OK. */
typedef struct told {
  jmp_buf back;
  p3l_error error;
} told;

static inline void told_handler(void *state, const p3l_error *error) {
  told *told = state;
  told->error = *error;
  longjmp(told->back, 1);
}

#define assert_fault(expected, statement, words)                          \
  do {                                                                    \
    told told_ = {.error = {.code = P3L_OK}};                             \
    p3l_on_fault(told_handler, &told_);                                   \
    if (setjmp(told_.back) == 0) {                                        \
      statement;                                                          \
    }                                                                     \
    p3l_on_fault(NULL, NULL);                                             \
    assert_int_equal(told_.error.code, expected);                         \
    if (strstr(told_.error.message, words) == NULL)                       \
      fail_msg("\"%s\" does not say \"%s\"", told_.error.message, words); \
  } while (0)

#endif
