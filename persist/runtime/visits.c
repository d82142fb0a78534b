/*
 * The stores that this thread is within. visits.h has the invariants.
 */
#include "visits.h"

_Thread_local p3l_visit p3l_visits;

unsigned p3l_scope_depth(const p3l_store *store) {
  const p3l_visit *at = p3l_visit_find(store);
  return at == NULL ? 0 : at->depth;
}

bool p3l_scope_writing(const p3l_store *store) {
  const p3l_visit *at = p3l_visit_find(store);
  return at != NULL && at->writes;
}

bool p3l_scope_anywhere(void) { return p3l_visits.store != NULL || p3l_visits.next != NULL; }
