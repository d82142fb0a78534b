/*
 * What happens to a transaction in which making an object failed. Private to runtime/.
 */
#ifndef P3L_OBJECT_H
#define P3L_OBJECT_H

#include "p3l.h"

/* The transaction under way cannot commit any more; p3l_failure() has `error`. */
void p3l_poison(p3l_store *store, const p3l_error *error);
/* This thread's last failure is forgotten: a transaction begins. */
void p3l_failure_forget(const p3l_store *store);

#endif
