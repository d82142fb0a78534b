/*
 * Who is in a store: the reader's scopes of this thread, and its transaction. Private to runtime/.
 *
 *   p3l_enter ... p3l_leave          shared      ─┐
 *   p3l_begin ... p3l_commit, abort  exclusive   ─┼─ `scopes` of store.h
 *   a sweep (evict_sweep.h)          exclusive   ─┘
 *
 * Invariants:
 *  1. A thread takes `scopes` of a store once, however deep its scopes nest: so the lock may prefer
 *     writers (a transaction is not starved by readers that overlap) without a thread waiting for
 *     itself. visits.h keeps what it has.
 */
#ifndef P3L_SCOPE_H
#define P3L_SCOPE_H

#include "p3l.h"

/* For p3l_begin(): waits for the other writer and all readers. P3L_MISUSE: this thread is within a
 * scope or a transaction of the store, and would wait for itself. */
p3l_code p3l_scope_begin_writing(p3l_store *store, p3l_error *error);
/* For p3l_close(): this thread is no longer within. Another store may come to lie where this one was,
 * and no thread is in that. */
void p3l_scope_forget(p3l_store *store);
/* For p3l_commit(), p3l_abort(). The caller goes on to p3l_evict_if_needed(). */
void p3l_scope_end_writing(p3l_store *store);

#endif
