/*
 * Which threads are within a store: scopes of readers, and the transaction. Private to runtime/.
 *
 *   p3l_enter ... p3l_leave          shared      ─┐
 *   p3l_begin ... p3l_commit, abort  exclusive   ─┼─ `scopes` of store.h
 *   a sweep (evict_sweep.h)          exclusive   ─┘
 *
 * Invariants:
 *  1. A thread takes `scopes` of a store once, however deep its scopes nest. The lock may therefore
 *     prefer writers (readers that overlap do not starve a transaction) without a thread waiting
 *     for itself. visits.h counts the depth.
 */
#ifndef P3L_SCOPE_H
#define P3L_SCOPE_H

#include "p3l.h"

/* For p3l_begin(): waits for the other writer and all readers. P3L_MISUSE: this thread is
 * already within a scope or a transaction of the store, and would wait for itself. */
p3l_code p3l_scope_begin_writing(p3l_store *store, p3l_error *error);
/* For p3l_close(): this thread is no longer within the store. Another store may later have the
 * same address, and no thread is within that. */
void p3l_scope_forget(p3l_store *store);
/* For p3l_commit() and p3l_abort(). The caller then calls p3l_evict_if_needed(). */
void p3l_scope_end_writing(p3l_store *store);

#endif
