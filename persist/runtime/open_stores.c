/*
 * The list of open stores. open_stores.h has the invariants.
 */
#include "open_stores.h"

#include "store.h"

p3l_store *p3l_open_stores;
static pthread_mutex_t stores = PTHREAD_MUTEX_INITIALIZER;

void p3l_open_stores_add(p3l_store *store) {
  pthread_mutex_lock(&stores);
  store->next = p3l_open_stores;
  __atomic_store_n(&p3l_open_stores, store, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&stores);
}

void p3l_open_stores_remove(const p3l_store *store) {
  pthread_mutex_lock(&stores);
  p3l_store **at = &p3l_open_stores;
  while (*at != NULL && *at != store) at = &(*at)->next;
  if (*at == store) __atomic_store_n(at, store->next, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&stores);
}
