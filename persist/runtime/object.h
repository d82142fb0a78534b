/*
 * The state of a transaction in which creating an object failed. Private to runtime/.
 */
#ifndef P3L_OBJECT_H
#define P3L_OBJECT_H

#include "p3l.h"

/* The transaction under way can no longer commit; p3l_failure() returns `error`. */
void p3l_poison(p3l_store *store, const p3l_error *error);
/* Clears this thread's last failure: a transaction begins. */
void p3l_failure_forget(const p3l_store *store);

#endif
