/*
 * A pager over devices in memory, for tests of the pager and of the layers above it. Include
 * after cmocka.h.
 */
#ifndef P3L_PAGER_FIXTURE_H
#define P3L_PAGER_FIXTURE_H

#include "memory_device.h"
#include "pager.h"

typedef struct fixture {
  memory_device *file, *log;
  p3l_pager *pager;
  p3l_error error;
} fixture;

static inline void must(fixture *f, p3l_code code) {
  if (code != P3L_OK) fail_msg("%s", f->error.message);
}

/* checkpoint_bytes is as in p3l_pager_options; 0: the default. */
static inline void open_again(fixture *f, uint64_t checkpoint_bytes) {
  p3l_pager_options options = {.checkpoint_bytes = checkpoint_bytes};
  must(f, p3l_pager_open_devices(&f->file->device, &f->log->device, &options, &f->pager, NULL,
                                 &f->error));
}

static inline fixture fresh(uint64_t checkpoint_bytes) {
  fixture f = {.file = memory_device_new(), .log = memory_device_new()};
  assert_int_equal(p3l_store_format(&f.file->device, &f.log->device, &f.error), P3L_OK);
  open_again(&f, checkpoint_bytes);
  return f;
}

static inline void drop(fixture *f) {
  if (f->pager != NULL) p3l_pager_close(f->pager, NULL);
  memory_device_free(f->file);
  memory_device_free(f->log);
}

static inline p3l_pager_transaction *begin(fixture *f) {
  p3l_pager_transaction *transaction;
  must(f, p3l_pager_begin(f->pager, &transaction, &f->error));
  return transaction;
}

#endif
