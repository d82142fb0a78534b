/*
 * The list of open stores. Private to runtime/.
 *
 * Invariants:
 *   1. A store is in the list from the end of p3l_open() to the beginning of its p3l_close().
 *   2. The list is changed under its own lock; its head and the first `next` are read without it.
 */
#ifndef P3L_OPEN_STORES_H
#define P3L_OPEN_STORES_H

#include "p3l.h"

extern p3l_store *p3l_open_stores; /* also for debuggers (gdb/p3l.py) */

void p3l_open_stores_add(p3l_store *store);
void p3l_open_stores_remove(const p3l_store *store);

#endif
