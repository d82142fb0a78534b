/* A store in its own folder, for tests of scopes, pins, sweeps and prefetching. */
#ifndef TEST_EVICT_FIXTURE_H
#define TEST_EVICT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "p3l.h"

typedef struct fixture {
  char directory[64], path[80], log[88];
  p3l_store *store;
  p3l_error error;
} fixture;

#define MUST(f, call)                                                    \
  do {                                                                   \
    if ((call) != P3L_OK) fail_msg("%s: %s", #call, (f)->error.message); \
  } while (0)

/* memory_bytes 0: no limit */
static inline void fixture_open(fixture *f, uint64_t memory_bytes) {
  p3l_options options = {.create = true, .memory_bytes = memory_bytes};
  MUST(f, p3l_open(f->path, &options, &f->store, &f->error));
}

static inline void fixture_make(fixture *f, uint64_t memory_bytes) {
  *f = (fixture){.directory = "/tmp/p3l_evict_XXXXXX"};
  assert_non_null(mkdtemp(f->directory));
  snprintf(f->path, sizeof(f->path), "%.60s/store", f->directory);
  snprintf(f->log, sizeof(f->log), "%.80s-log", f->path);
  fixture_open(f, memory_bytes);
}

static inline void fixture_close(fixture *f) {
  MUST(f, p3l_close(f->store, &f->error));
  f->store = NULL;
}

static inline void fixture_reopen(fixture *f, uint64_t memory_bytes) {
  fixture_close(f);
  fixture_open(f, memory_bytes);
}

static inline void fixture_drop(fixture *f) {
  fixture_close(f);
  unlink(f->path);
  unlink(f->log);
  rmdir(f->directory);
}

static inline p3l_statistics fixture_statistics(const fixture *f) {
  p3l_statistics statistics;
  p3l_get_statistics(f->store, &statistics);
  return statistics;
}

/* ---- faults: the handler returns here ---- */

typedef struct caught {
  jmp_buf back;
  p3l_error error;
} caught;

static inline void catch_fault(void *state, const p3l_error *error) {
  caught *caught = state;
  caught->error = *error;
  longjmp(caught->back, 1);
}

/* Expects `statement` to cause a fault whose message contains `text`. */
#define EXPECT_FAULT(expected, text, statement)                                             \
  do {                                                                                      \
    static caught caught_;                                                                  \
    p3l_on_fault(catch_fault, &caught_);                                                    \
    if (setjmp(caught_.back) == 0) {                                                        \
      statement;                                                                            \
      p3l_on_fault(NULL, NULL);                                                             \
      fail_msg("%s was no fault", #statement);                                              \
    }                                                                                       \
    p3l_on_fault(NULL, NULL);                                                               \
    assert_int_equal(caught_.error.code, expected);                                         \
    if (strstr(caught_.error.message, text) == NULL) fail_msg("%s", caught_.error.message); \
  } while (0)

#endif
