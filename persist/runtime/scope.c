/*
 * Entering and leaving a store. scope.h has the invariants.
 */
#include "scope.h"

#include "evict.h"
#include "fault.h"
#include "store.h"
#include "visits.h"

static _Noreturn void misuse(p3l_code code, const p3l_store *store, const char *what) {
  p3l_error error;
  p3l_fail(&error, code, "%s: %s", store->path, what);
  p3l_raise(&error);
}

void p3l_enter(p3l_store *store) {
  p3l_visit *at = p3l_visit_find(store);
  if (at != NULL && at->writes)
    misuse(P3L_MISUSE, store,
           "p3l_enter() within this thread's transaction, which sees everything already; leave the "
           "call out");
  if (at == NULL) {
    at = p3l_visit_add(store);
    if (at == NULL) misuse(P3L_NO_MEMORY, store, "no memory to enter it");
    int failed = pthread_rwlock_rdlock(&store->scopes);
    if (failed != 0) {
      p3l_visit_drop(at);
      p3l_error error;
      p3l_fail_errno(&error, failed, "%s: entering it", store->path);
      p3l_raise(&error);
    }
  }
  at->depth++;
}

void p3l_leave(p3l_store *store) {
  p3l_visit *at = p3l_visit_find(store);
  if (at == NULL || at->depth == 0)
    misuse(P3L_MISUSE, store, "p3l_leave() without a p3l_enter() of this thread");
  if (--at->depth > 0) return;
  p3l_visit_drop(at);
  pthread_rwlock_unlock(&store->scopes);
  p3l_evict_if_needed(store);
}

void p3l_scope_forget(p3l_store *store) {
  p3l_visit *at = p3l_visit_find(store);
  if (at == NULL) return;
  p3l_visit_drop(at);
  pthread_rwlock_unlock(&store->scopes);
}

p3l_code p3l_scope_begin_writing(p3l_store *store, p3l_error *error) {
  p3l_visit *at = p3l_visit_find(store);
  if (at != NULL)
    return p3l_fail(error, P3L_MISUSE,
                    at->writes ? "%s: p3l_begin() within a transaction of this thread; end that one"
                               : "%s: p3l_begin() within p3l_enter() .. p3l_leave() of this thread "
                                 "would wait for itself; leave first",
                    store->path);
  at = p3l_visit_add(store);
  if (at == NULL) return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to begin", store->path);
  pthread_rwlock_wrlock(&store->scopes);
  at->writes = true;
  return P3L_OK;
}

void p3l_scope_end_writing(p3l_store *store) {
  p3l_visit_drop(p3l_visit_find(store));
  pthread_rwlock_unlock(&store->scopes);
}
