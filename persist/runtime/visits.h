/*
 * The stores that this thread is within: its scopes and its transaction. Private to runtime/.
 *
 * Invariants:
 *  1. A thread has one visit of a store while it holds the store's `scopes` lock or waits for it.
 *  2. Visits are in thread-local memory: asking takes no lock and does not race with other threads
 *     that begin or end.
 */
#ifndef P3L_VISITS_H
#define P3L_VISITS_H

#include <stdlib.h>

#include "p3l.h"

/* A store that this thread is within. */
typedef struct p3l_visit {
  const p3l_store *store; /* NULL: the entry is free */
  unsigned depth;         /* depth of nested scopes */
  bool writes;
  struct p3l_visit *next;
} p3l_visit;

/* A thread is nearly always within one store: the first entry needs no allocation. Further
 * entries are freed when they are left. Local-exec, as a variable of one file would be: read in
 * one instruction. */
extern _Thread_local p3l_visit p3l_visits __attribute__((tls_model("local-exec")));

static inline p3l_visit *p3l_visit_find(const p3l_store *store) {
  for (p3l_visit *at = &p3l_visits; at != NULL; at = at->next)
    if (at->store == store) return at;
  return NULL;
}

/* NULL: no memory. */
static inline p3l_visit *p3l_visit_add(const p3l_store *store) {
  p3l_visit *at = &p3l_visits;
  if (at->store != NULL) {
    at = malloc(sizeof(*at));
    if (at == NULL) return NULL;
    at->next = p3l_visits.next;
    p3l_visits.next = at;
  }
  at->store = store;
  at->depth = 0;
  at->writes = false;
  return at;
}

static inline void p3l_visit_drop(p3l_visit *gone) {
  gone->store = NULL;
  for (p3l_visit *at = &p3l_visits; at->next != NULL; at = at->next)
    if (at->next == gone) {
      at->next = gone->next;
      free(gone);
      return;
    }
}

/* Nesting depth of this thread's scopes of the store; 0: it is outside. */
unsigned p3l_scope_depth(const p3l_store *store);
/* True if this thread has the store's transaction. */
bool p3l_scope_writing(const p3l_store *store);
/* True if this thread has a scope or a transaction of any store: it must then not wait for other
 * threads, which may wait for it. */
bool p3l_scope_anywhere(void);

#endif
