/*
 * The stores that this thread is in: its readers' scopes and its transaction. Private to runtime/.
 *
 * Invariants:
 *  1. A thread has one visit of a store, while it holds `scopes` of it or waits for it.
 *  2. What a thread has is noted in memory of the thread alone. To ask costs no lock, and is no race
 *     with another thread that begins or ends.
 */
#ifndef P3L_VISITS_H
#define P3L_VISITS_H

#include <stdlib.h>

#include "p3l.h"

/* A store that this thread is in. */
typedef struct p3l_visit {
  const p3l_store *store; /* NULL: the entry is free */
  unsigned depth;         /* of scopes */
  bool writes;
  struct p3l_visit *next;
} p3l_visit;

/* Nearly always a thread is in one store: the first entry is no allocation. Further ones are freed
 * when they are left. Local-exec, as a variable of one file would be: read in one instruction. */
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

/* How deep this thread's scopes of the store nest; 0: it is outside. */
unsigned p3l_scope_depth(const p3l_store *store);
/* Whether this thread has the store's transaction. */
bool p3l_scope_writing(const p3l_store *store);
/* Whether this thread has a scope or a transaction, of whatever store: then it must not wait for
 * others, who may wait for it. */
bool p3l_scope_anywhere(void);

#endif
