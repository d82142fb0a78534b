/*
 * Opening and closing a store.
 */
#include "open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "changes.h"
#include "guard_trap.h"
#include "object.h"
#include "open_stores.h"
#include "page_state.h"
#include "pager.h"
#include "pool_frames.h"
#include "scope.h"
#include "segment.h"
#include "store.h"
#include "swizzle.h"
#include "types.h"

#define LEAST_LIMIT (UINT64_C(4) << 20)
#define IMAGE_PART 4 /* of a memory limit, for pages that are to be written */

/* Frees everything except the pager. */
static void free_store(p3l_store *store) {
  while (store->oldest != NULL) p3l_segment_release(store->oldest);
  p3l_pool_close(store);
  p3l_page_states_close(store);
  p3l_changes_close(store);
  p3l_types_close(store);
  pthread_mutex_destroy(&store->slow);
  pthread_rwlock_destroy(&store->scopes);
  free(store->path);
  free(store);
}

static p3l_store *new_store(const char *path, const p3l_options *options) {
  p3l_store *store = calloc(1, sizeof(*store));
  if (store == NULL) return NULL;
  store->path = strdup(path);
  if (store->path == NULL) {
    free(store);
    return NULL;
  }
  store->options = *options;
  pthread_mutex_init(&store->slow, NULL);
  /* A thread takes this lock once, so it may prefer writers (scope.h). */
  pthread_rwlockattr_t attributes;
  pthread_rwlockattr_init(&attributes);
  pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&store->scopes, &attributes);
  pthread_rwlockattr_destroy(&attributes);
  return store;
}

p3l_code p3l_open_pager(p3l_pager *pager, const p3l_options *options, p3l_store **opened,
                        p3l_error *error) {
  p3l_code code = p3l_memory_reserve(error);
  p3l_guard_explain_traps();
  p3l_store *store = code == P3L_OK ? new_store(p3l_pager_path(pager), options) : NULL;
  if (code == P3L_OK && store == NULL)
    code = p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to open it", p3l_pager_path(pager));
  if (code == P3L_OK) {
    store->pager = pager;
    code = p3l_page_states_open(store, error);
    if (code == P3L_OK) code = p3l_pool_open(store, error);
    if (code == P3L_OK) code = p3l_types_open(store, error);
  }
  if (code != P3L_OK) {
    p3l_pager_close(pager, NULL);
    if (store != NULL) free_store(store);
    return code;
  }
  p3l_open_stores_add(store);
  *opened = store;
  return P3L_OK;
}

static p3l_code make_if_missing(const char *path, p3l_error *error) {
  if (access(path, F_OK) == 0 || errno != ENOENT) return P3L_OK; /* opening reports the error */
  p3l_code code = p3l_store_create(path, error);
  /* Another process created the store first: use it. */
  return code != P3L_OK && access(path, F_OK) == 0 ? P3L_OK : code;
}

p3l_code p3l_open(const char *path, const p3l_options *options, p3l_store **store,
                  p3l_error *error) {
  static const p3l_options defaults;
  if (options == NULL) options = &defaults;
  if (options->memory_bytes != 0 && options->memory_bytes < LEAST_LIMIT)
    return p3l_fail(error, P3L_MISUSE,
                    "%s: a memory limit of %llu bytes is less than the least, 4 MB", path,
                    (unsigned long long)options->memory_bytes);
  if (options->create && options->read_only)
    return p3l_fail(error, P3L_MISUSE, "%s: a store that is made is empty: not read_only, too",
                    path);
  p3l_code code = options->create ? make_if_missing(path, error) : P3L_OK;
  if (code != P3L_OK) return code;
  p3l_pager_options pager_options = {.read_only = options->read_only,
                                     .excludes_writers = options->excludes_writers,
                                     .checkpoint_bytes = options->checkpoint_bytes,
                                     .image_bytes = options->memory_bytes / IMAGE_PART};
  p3l_pager *pager;
  code = p3l_pager_open(path, &pager_options, &pager, NULL, error);
  return code == P3L_OK ? p3l_open_pager(pager, options, store, error) : code;
}

p3l_code p3l_close(p3l_store *store, p3l_error *error) {
  if (store->changes != NULL) p3l_abort(store);
  p3l_scope_forget(store);
  p3l_failure_forget(store);
  p3l_open_stores_remove(store);
  p3l_use_no_longer(store);
  p3l_code code = p3l_pager_close(store->pager, error);
  free_store(store);
  return code;
}
