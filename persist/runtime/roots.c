/*
 * Named objects, from which a program starts.
 */
#include <string.h>

#include "changes.h"
#include "convert.h"
#include "fault.h"
#include "object.h"
#include "residency.h"
#include "store.h"
#include "visits.h"

void *p3l_root(p3l_store *store, const char *name) {
  p3l_address address;
  p3l_error error;
  void *memory = NULL;
  p3l_code code = p3l_scope_writing(store)
                      ? p3l_root_find_in(store->changes->pager, name, &address, &error)
                      : p3l_root_find(store->pager, name, &address, &error);
  if (code == P3L_OK && address.byte != 0) {
    pthread_mutex_lock(&store->slow);
    code = p3l_resolve(store, P3L_SURROGATE_BIT | address.byte, &memory, &error);
    pthread_mutex_unlock(&store->slow);
  }
  if (code != P3L_OK) p3l_raise(&error);
  return memory;
}

static p3l_code set_root(p3l_store *store, const char *name, void *object, p3l_error *error) {
  uint64_t surrogate;
  if (!p3l_scope_writing(store))
    return p3l_fail(error, P3L_MISUSE,
                    "%s: root %s set outside of a transaction of this thread; call p3l_begin() "
                    "first",
                    store->path, name);
  if (name[0] == '\0' || strlen(name) >= P3L_ROOT_NAME_BYTES)
    return p3l_fail(error, P3L_MISUSE, "%s: a root's name has 1 to %d bytes, not %zu", store->path,
                    P3L_ROOT_NAME_BYTES - 1, strlen(name));
  p3l_error why;
  if (p3l_surrogate_of(store, object, &surrogate, &why) != P3L_OK)
    return p3l_fail(error, P3L_MISUSE, "%s: root %s: %s", store->path, name, why.message);
  p3l_address address = {surrogate & ~P3L_SURROGATE_BIT};
  return p3l_root_set(store->changes->pager, name, address, error);
}

p3l_code p3l_set_root(p3l_store *store, const char *name, void *object) {
  p3l_error error;
  p3l_code code = set_root(store, name, object, &error);
  /* A program that ignores the return code must not commit without the object. */
  if (code != P3L_OK) p3l_poison(store, &error);
  return code;
}
