#include "scope.h"

#include <stdlib.h>

/* A store that this thread is in. */
typedef struct visit {
  const p3l_store *store; /* NULL: the entry is free */
  unsigned depth;         /* of scopes */
  bool writes;
  struct visit *next;
} visit;

/* Nearly always a thread is in one store: the first entry is no allocation. Further ones are freed
 * when they are left. */
static _Thread_local visit visits;

static visit *find(const p3l_store *store) {
  for (visit *at = &visits; at != NULL; at = at->next)
    if (at->store == store) return at;
  return NULL;
}

static visit *add(const p3l_store *store) {
  visit *at = &visits;
  if (at->store != NULL) {
    at = malloc(sizeof(*at));
    if (at == NULL) return NULL;
    at->next = visits.next;
    visits.next = at;
  }
  at->store = store;
  at->depth = 0;
  at->writes = false;
  return at;
}

static void drop(visit *gone) {
  gone->store = NULL;
  for (visit *at = &visits; at->next != NULL; at = at->next)
    if (at->next == gone) {
      at->next = gone->next;
      free(gone);
      return;
    }
}

unsigned p3l_scope_depth(const p3l_store *store) {
  const visit *at = find(store);
  return at == NULL ? 0 : at->depth;
}

bool p3l_scope_writing(const p3l_store *store) {
  const visit *at = find(store);
  return at != NULL && at->writes;
}

bool p3l_scope_anywhere(void) { return visits.store != NULL || visits.next != NULL; }

static _Noreturn void misuse(p3l_code code, const p3l_store *store, const char *what) {
  p3l_error error;
  p3l_fail(&error, code, "%s: %s", store->path, what);
  p3l_raise(&error);
}

void p3l_enter(p3l_store *store) {
  visit *at = find(store);
  if (at != NULL && at->writes)
    misuse(P3L_MISUSE, store,
           "p3l_enter() within this thread's transaction, which sees everything already; leave the "
           "call out");
  if (at == NULL) {
    at = add(store);
    if (at == NULL) misuse(P3L_NO_MEMORY, store, "no memory to enter it");
    int failed = pthread_rwlock_rdlock(&store->scopes);
    if (failed != 0) {
      drop(at);
      p3l_error error;
      p3l_fail_errno(&error, failed, "%s: entering it", store->path);
      p3l_raise(&error);
    }
  }
  at->depth++;
}

void p3l_leave(p3l_store *store) {
  visit *at = find(store);
  if (at == NULL || at->depth == 0)
    misuse(P3L_MISUSE, store, "p3l_leave() without a p3l_enter() of this thread");
  if (--at->depth > 0) return;
  drop(at);
  pthread_rwlock_unlock(&store->scopes);
  p3l_evict_if_needed(store);
}

void p3l_scope_forget(p3l_store *store) {
  visit *at = find(store);
  if (at == NULL) return;
  drop(at);
  pthread_rwlock_unlock(&store->scopes);
}

p3l_code p3l_scope_begin_writing(p3l_store *store, p3l_error *error) {
  visit *at = find(store);
  if (at != NULL)
    return p3l_fail(error, P3L_MISUSE,
                    at->writes ? "%s: p3l_begin() within a transaction of this thread; end that one"
                               : "%s: p3l_begin() within p3l_enter() .. p3l_leave() of this thread "
                                 "would wait for itself; leave first",
                    store->path);
  at = add(store);
  if (at == NULL) return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to begin", store->path);
  pthread_rwlock_wrlock(&store->scopes);
  at->writes = true;
  return P3L_OK;
}

void p3l_scope_end_writing(p3l_store *store) {
  drop(find(store));
  pthread_rwlock_unlock(&store->scopes);
}
